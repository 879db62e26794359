"""Savers that keep only the latest checkpoint of each graph. Kept for older programs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from milepost.checkpoint._sql.saver import SqlSaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._db.group_commit import Outcome
    from milepost.checkpoint._sql.rows import Prepared

__all__ = ["AsyncShallowPostgresSaver", "ShallowPostgresSaver"]


class _Shallow(SqlSaver):
    """Prunes a thread whenever it has a new checkpoint."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self).__name__} is deprecated. Use {type(self).__name__.replace('Shallow', '')}"
            " and pass durability='exit' to invoke and stream: that stores one checkpoint for each"
            " run.",
            DeprecationWarning,
            stacklevel=2,
        )
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


class ShallowPostgresSaver(_Shallow, PostgresSaver):  # type: ignore[misc]
    """Keeps the latest checkpoint only: no history, no forks, no time travel.

    Deprecated: use `PostgresSaver` with `durability="exit"`.
    """


class AsyncShallowPostgresSaver(_Shallow, AsyncPostgresSaver):  # type: ignore[misc]
    """Keeps the latest checkpoint only: no history, no forks, no time travel.

    Deprecated: use `AsyncPostgresSaver` with `durability="exit"`.
    """


def _grown(steps: Sequence[Prepared]) -> list[str]:
    """Threads that have a new checkpoint."""
    return list({step.place.thread_id: None for step in steps if step.checkpoint is not None})
