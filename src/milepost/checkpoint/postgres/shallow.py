"""Savers that keep only the latest checkpoint of each graph. Kept for older programs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint.sql.committing import Outcome
    from milepost.checkpoint.sql.rows import Prepared

__all__ = ["AsyncShallowPostgresSaver", "ShallowPostgresSaver"]

_INSTEAD = (
    "{name} is deprecated. Use {other} and pass durability='exit' to invoke and stream: that "
    "stores one checkpoint for each run."
)


class ShallowPostgresSaver(PostgresSaver):
    """Keeps the latest checkpoint only: no history, no forks, no time travel.

    Deprecated: use `PostgresSaver` with `durability="exit"`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _warn(self, "PostgresSaver")
        super().__init__(*args, **kwargs)

    def commit(self, steps: Sequence[Prepared]) -> Outcome:
        outcome = super().commit(steps)
        if threads := _grown(steps):
            self.prune(threads)
        return outcome

    async def acommit(self, steps: Sequence[Prepared]) -> Outcome:
        outcome = await super().acommit(steps)
        if threads := _grown(steps):
            await self.aprune(threads)
        return outcome


class AsyncShallowPostgresSaver(AsyncPostgresSaver):
    """Keeps the latest checkpoint only: no history, no forks, no time travel.

    Deprecated: use `AsyncPostgresSaver` with `durability="exit"`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _warn(self, "AsyncPostgresSaver")
        super().__init__(*args, **kwargs)

    def commit(self, steps: Sequence[Prepared]) -> Outcome:
        outcome = super().commit(steps)
        if threads := _grown(steps):
            self.prune(threads)
        return outcome

    async def acommit(self, steps: Sequence[Prepared]) -> Outcome:
        outcome = await super().acommit(steps)
        if threads := _grown(steps):
            await self.aprune(threads)
        return outcome


def _warn(saver: Any, other: str) -> None:
    text = _INSTEAD.format(name=type(saver).__name__, other=other)
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def _grown(steps: Sequence[Prepared]) -> list[str]:
    """Threads that have a new checkpoint."""
    return list({step.place.thread_id: None for step in steps if step.checkpoint is not None})
