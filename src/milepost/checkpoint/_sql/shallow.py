"""What makes a saver shallow: a thread is pruned whenever it has a new checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.checkpoint._sql.saver import SqlSaver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._db.group_commit import Outcome
    from milepost.checkpoint._sql.rows import Prepared


class Shallow(SqlSaver):
    """Prunes a thread whenever it has a new checkpoint."""

    def commit(self, steps: Sequence[Prepared]) -> Outcome:
        outcome = super().commit(steps)
        if threads := grown(steps):
            self.prune(threads)
        return outcome

    async def acommit(self, steps: Sequence[Prepared]) -> Outcome:
        outcome = await super().acommit(steps)
        if threads := grown(steps):
            await self.aprune(threads)
        return outcome


def grown(steps: Sequence[Prepared]) -> list[str]:
    """Threads that have a new checkpoint."""
    return list({step.place.thread_id: None for step in steps if step.checkpoint is not None})
