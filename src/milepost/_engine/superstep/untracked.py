"""Keeps the values of untracked keys out of what is stored.

Such values belong to this process. They are left out of writes, inputs and arguments of `Send` on
the way to a saver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from milepost.constants import NO_WRITES, RETURN, START, TASKS
from milepost.types import Command, Send

if TYPE_CHECKING:
    from milepost.checkpoint._contract.step_saver import TaskWrites

Keys = frozenset[str]


def tracked_writes(
    stored: Sequence[TaskWrites], untracked: Keys, *, step_ends: bool
) -> list[TaskWrites]:
    """The writes of tasks without untracked values.

    A task that wrote only untracked values, and no edge, is not stored before its step has ended:
    if the step is resumed, the task runs again and makes its values again.
    """
    found = []
    for task in stored:
        kept = [
            (name, tracked_value(name, value, untracked))
            for name, value in task.writes
            if name not in untracked and not (name == RETURN and _returns_some(value, untracked))
        ]
        if kept or step_ends:
            found.append(replace(task, writes=kept or [(NO_WRITES, None)]))
    return found


def _returns_some(result: Any, untracked: Keys) -> bool:
    """Whether a called task has returned a Command that writes untracked values."""
    results = result if isinstance(result, list) else (result,)
    return any(
        isinstance(one, Command)
        and isinstance(one.update, dict)
        and not untracked.isdisjoint(one.update)
        for one in results
    )


def tracked_value(channel: str, value: Any, untracked: Keys) -> Any:
    """The value of a channel, or of a write to it, without untracked values."""
    if channel == START:
        return _without(value, untracked)
    if channel == TASKS:
        if isinstance(value, list | tuple):
            return [_argument(send, untracked) for send in value]
        return _argument(value, untracked)
    return value


def _argument(send: Any, untracked: Keys) -> Any:
    if not isinstance(send, Send):
        return send
    kept = _without(send.arg, untracked)
    return send if kept is send.arg else Send(send.node, kept, timeout=send.timeout)


def _without(value: Any, untracked: Keys) -> Any:
    if isinstance(value, dict) and not untracked.isdisjoint(value):
        return {key: one for key, one in value.items() if key not in untracked}
    return value
