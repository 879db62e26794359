"""The records that both libraries have, turned from one's classes into the other's.

For savers that encode with LangGraph's serializer, which knows only LangGraph's classes. Looks
into lists, tuples and dicts, and leaves everything else alone; what holds no record comes back as
the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, cast

from langgraph.checkpoint.serde.types import _DeltaSnapshot as TheirDeltaSnapshot
from langgraph.types import Command as TheirCommand
from langgraph.types import Interrupt as TheirInterrupt
from langgraph.types import Overwrite as TheirOverwrite
from langgraph.types import Send as TheirSend
from langgraph.types import TimeoutPolicy as TheirTimeoutPolicy

from milepost.checkpoint._contract.records import Checkpoint, CheckpointMetadata, CheckpointTuple
from milepost.types import (
    Command,
    Interrupt,
    Overwrite,
    Send,
    TimeoutPolicy,
    _Answered,
    _DeltaSnapshot,
)

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple as TheirTuple

    from milepost.types import RunnableConfig

_Turn = Callable[[Any], Any]
_Table = dict[type, Callable[[Any, _Turn], Any]]


def shared(ours: type, theirs: type, *names: str) -> tuple[type, type, tuple[str, ...]]:
    """Two records, and the fields of ours that theirs has: LangGraph 1.2.0 lacks some."""
    known = signature(theirs).parameters
    return ours, theirs, tuple(name for name in names if name in known)


SHARED: Final = (
    shared(Send, TheirSend, "node", "arg", "timeout"),
    shared(Interrupt, TheirInterrupt, "value", "id", "response_schema"),
    shared(Command, TheirCommand, "graph", "update", "resume", "goto"),
    shared(Overwrite, TheirOverwrite, "value"),
    shared(TimeoutPolicy, TheirTimeoutPolicy, "run_timeout", "idle_timeout", "refresh_on"),
    shared(_DeltaSnapshot, TheirDeltaSnapshot, "value"),
)
"""Our record, theirs, and the fields of both."""

_ANSWERED: Final = "milepost:answered"
"""Marks an interrupt that was answered, which LangGraph has no record for."""


def to_theirs(value: Any) -> Any:
    """`value` with LangGraph's records in place of ours."""
    return _turned(value, _TO_THEIRS, to_theirs)


def to_ours(value: Any) -> Any:
    """`value` with our records in place of LangGraph's."""
    return _turned(value, _TO_OURS, to_ours)


def tuple_to_ours(found: TheirTuple) -> CheckpointTuple:
    """A checkpoint of LangGraph's with our records."""
    checkpoint = cast("Checkpoint", found.checkpoint)
    return CheckpointTuple(
        cast("RunnableConfig", found.config),
        {**checkpoint, "channel_values": to_ours(checkpoint["channel_values"])},
        cast("CheckpointMetadata", found.metadata),
        cast("RunnableConfig | None", found.parent_config),
        # Some savers give tuples, others lists.
        [(task, channel, to_ours(value)) for task, channel, value in found.pending_writes or ()],
    )


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


def _to(cls: Any, names: Iterable[str]) -> Callable[[Any, _Turn], Any]:
    return lambda record, turn: cls(**{name: turn(getattr(record, name)) for name in names})


_TO_THEIRS: Final[_Table] = {
    **{ours: _to(theirs, names) for ours, theirs, names in SHARED},
    _Answered: lambda answered, turn: {_ANSWERED: turn(answered.interrupt)},
}
_TO_OURS: Final[_Table] = {theirs: _to(ours, names) for ours, theirs, names in SHARED}
