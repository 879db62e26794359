"""Writes that a node makes before it ends, besides what it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.errors import InvalidUpdateError

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext


def push(context: TaskContext, function: str, key: str | None, value: Any) -> None:
    """Write to a key of the state when the running node ends, before what the node returns.

    Nothing is written with the key None, and inside a task or an entrypoint, which have no keys.
    """
    keys = context.run.program.keys
    if key is None or not keys or context.task.called:
        return
    if key not in keys:
        raise InvalidUpdateError(
            f"{function} wrote to {key!r}, which is not in the state. It has: "
            f"{', '.join(keys)}. Pass state_key=None to only stream the message."
        )
    context.pushed = [*context.pushed, (key, value)]
