"""The commit of savers whose database stores steps of many threads in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost._db.group_commit import Committer, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._db.engine import GroupEngine
    from milepost.checkpoint._sql.rows import Prepared
    from milepost.checkpoint._sql.write.store import Storer


class GroupCommits:
    """Stores the steps of many callers together. Comes before `SqlSaver` among the bases."""

    engine: GroupEngine
    _storer: Storer
    _committer: Committer[Prepared]

    def _assemble(self) -> None:
        super()._assemble()  # type: ignore[misc]
        self._committer = Committer(self._storer)

    def commit(self, steps: Sequence[Prepared]) -> Outcome:
        """Store prepared steps; for each None, or why it was not stored."""
        return self.engine.commit(self._committer, self._committer.add(steps))

    async def acommit(self, steps: Sequence[Prepared]) -> Outcome:
        return await self.engine.acommit(self._committer, self._committer.add(steps))
