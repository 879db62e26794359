"""Writes that a node makes before it ends, besides what it returns."""

from __future__ import annotations

from typing import Any

from milepost._engine.context.task_context import current_context
from milepost.errors import InvalidUpdateError


class Pushing:
    """A key of the state that the running node writes to.

    Nothing is written with the key None, and inside a task or an entrypoint, which have no keys.
    """

    def __init__(self, function: str, key: str | None) -> None:
        self.context = current_context(function)
        keys = self.context.run.program.keys
        self._key = key if keys and not self.context.task.called else None
        if self._key is not None and self._key not in keys:
            raise InvalidUpdateError(
                f"{function} wrote to {key!r}, which is not in the state. It has: "
                f"{', '.join(keys)}. Pass state_key=None to only stream the message."
            )

    def write(self, value: Any) -> None:
        """Write it when the node ends, before what the node returns."""
        if self._key is not None:
            self.context.pushed = [*self.context.pushed, (self._key, value)]
