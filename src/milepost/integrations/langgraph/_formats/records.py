"""The records that both libraries have, turned from one's classes into the other's.

For savers that encode with LangGraph's serializer, which knows only LangGraph's classes. Looks
into lists, tuples and dicts, and leaves everything else alone; what holds no record comes back as
the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from langgraph.checkpoint.serde.types import _DeltaSnapshot as TheirDeltaSnapshot
from langgraph.types import Command as TheirCommand
from langgraph.types import Interrupt as TheirInterrupt
from langgraph.types import Overwrite as TheirOverwrite
from langgraph.types import Send as TheirSend
from langgraph.types import TimeoutPolicy as TheirTimeoutPolicy

from milepost.types import (
    Command,
    Interrupt,
    Overwrite,
    Send,
    TimeoutPolicy,
    _Answered,
    _DeltaSnapshot,
)

_Turn = Callable[[Any], Any]
_Table = dict[type, Callable[[Any, _Turn], Any]]

_ANSWERED: Final = "milepost:answered"
"""Marks an interrupt that was answered, which LangGraph has no record for."""


def to_theirs(value: Any) -> Any:
    """`value` with LangGraph's records in place of ours."""
    return _turned(value, _TO_THEIRS, to_theirs)


def to_ours(value: Any) -> Any:
    """`value` with our records in place of LangGraph's."""
    return _turned(value, _TO_OURS, to_ours)


def _turned(value: Any, table: _Table, turn: _Turn) -> Any:
    cls = type(value)
    if (convert := table.get(cls)) is not None:
        return convert(value, turn)
    if cls is dict:
        if len(value) == 1 and _ANSWERED in value and turn is to_ours:
            return _Answered(turn(value[_ANSWERED]))
        pairs = {key: turn(member) for key, member in value.items()}
        return pairs if any(pairs[key] is not value[key] for key in value) else value
    if cls is list or cls is tuple:
        members = [turn(member) for member in value]
        changed = any(new is not old for new, old in zip(members, value, strict=True))
        return cls(members) if changed else value
    return value


def _send(cls: Any) -> Callable[[Any, _Turn], Any]:
    return lambda send, turn: cls(send.node, turn(send.arg), timeout=turn(send.timeout))


def _interrupt(cls: Any) -> Callable[[Any, _Turn], Any]:
    return lambda interrupt, turn: cls(
        value=turn(interrupt.value),
        id=interrupt.id,
        response_schema=interrupt.response_schema,
    )


def _command(cls: Any) -> Callable[[Any, _Turn], Any]:
    return lambda command, turn: cls(
        graph=command.graph,
        update=turn(command.update),
        resume=turn(command.resume),
        goto=turn(command.goto),
    )


def _value(cls: Any) -> Callable[[Any, _Turn], Any]:
    return lambda record, turn: cls(turn(record.value))


def _timeout(cls: Any) -> Callable[[Any, _Turn], Any]:
    return lambda policy, _: cls(
        run_timeout=policy.run_timeout,
        idle_timeout=policy.idle_timeout,
        refresh_on=policy.refresh_on,
    )


_TO_THEIRS: Final[_Table] = {
    Send: _send(TheirSend),
    Interrupt: _interrupt(TheirInterrupt),
    Command: _command(TheirCommand),
    Overwrite: _value(TheirOverwrite),
    _DeltaSnapshot: _value(TheirDeltaSnapshot),
    TimeoutPolicy: _timeout(TheirTimeoutPolicy),
    _Answered: lambda answered, turn: {_ANSWERED: turn(answered.interrupt)},
}
_TO_OURS: Final[_Table] = {
    TheirSend: _send(Send),
    TheirInterrupt: _interrupt(Interrupt),
    TheirCommand: _command(Command),
    TheirOverwrite: _value(Overwrite),
    TheirDeltaSnapshot: _value(_DeltaSnapshot),
    TheirTimeoutPolicy: _timeout(TimeoutPolicy),
}
