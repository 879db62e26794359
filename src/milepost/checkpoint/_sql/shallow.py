"""The mixin of shallow savers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._db.group_commit import Outcome
    from milepost.checkpoint._sql.rows import Prepared


class Shallow:
    """Prunes a thread after each new checkpoint. Comes before the saver among the bases."""

    if TYPE_CHECKING:
        prune: Any
        aprune: Any

    def commit(self, steps: Sequence[Prepared]) -> Outcome:
        outcome: Outcome = super().commit(steps)  # type: ignore[misc]
        if threads := threads_with_new_checkpoint(steps):
            self.prune(threads)
        return outcome

    async def acommit(self, steps: Sequence[Prepared]) -> Outcome:
        outcome: Outcome = await super().acommit(steps)  # type: ignore[misc]
        if threads := threads_with_new_checkpoint(steps):
            await self.aprune(threads)
        return outcome


def threads_with_new_checkpoint(steps: Sequence[Prepared]) -> list[str]:
    """Threads that have a new checkpoint."""
    return list({step.place.thread_id: None for step in steps if step.checkpoint is not None})
