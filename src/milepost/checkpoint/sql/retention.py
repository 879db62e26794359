"""Whole threads in a database: what the shared housekeeping is made of here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.checkpoint.housekeeping import Housekeeping
from milepost.checkpoint.sql.copying import copy
from milepost.checkpoint.sql.saver import SqlSaver
from milepost.checkpoint.threads import Wanted
from milepost.sql.engine import Program, Transaction, Vacuum, adrive, drive

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from milepost.checkpoint.threads import Choice, Removed, ThreadInfo

R = TypeVar("R")


class RetainingSaver(Housekeeping, SqlSaver):
    """Keeps threads in a database as long as they are wanted."""

    def _drive(self, program: Program[R]) -> R:
        return drive(self.engine, program)

    async def _adrive(self, program: Program[R]) -> R:
        return await adrive(self.engine, program)

    def _page(self, wanted: Wanted) -> Program[list[ThreadInfo]]:
        page: list[ThreadInfo]
        page = yield Transaction(partial(self._registry.page, wanted), write=False)
        return page

    def _thread_ids(self, wanted: Sequence[str] | None) -> Program[list[str]]:
        if wanted is not None:
            return (yield from super()._thread_ids(wanted))
        found: list[str] = []
        limit = Wanted().limit
        while True:
            after = found[-1] if found else None
            page = yield Transaction(partial(self._registry.ids, after, limit), write=False)
            found += page
            if len(page) < limit:
                return found

    def _info(self, thread_id: str) -> Program[ThreadInfo | None]:
        info: ThreadInfo | None
        info = yield Transaction(partial(self._registry.one, thread_id), write=False)
        return info

    def _describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Program[None]:
        yield Transaction(partial(self._registry.describe, thread_id, metadata))

    def _copy(self, source: str, target: str) -> Program[None]:
        yield Transaction(partial(copy, self._codec, self._queries, source, target))

    def _remove(self, thread_id: str, unused_since: float | None = None) -> Program[Removed]:
        work = partial(self._remover.thread, thread_id, unused_since)
        removed: Removed = yield Transaction(work)
        self._memory.forget(thread_id)
        return removed

    def _keep(self, thread_id: str, choose: Choice, dry_run: bool) -> Program[Removed]:
        work = partial(self._remover.keep, thread_id, choose, dry_run=dry_run)
        removed: Removed = yield Transaction(work, write=not dry_run)
        if not dry_run:
            self._memory.forget(thread_id)
        return removed

    def _threads_of_runs(self, run_ids: Collection[str]) -> Program[list[str]]:
        work = partial(self._remover.threads_of_runs, sorted(run_ids))
        threads: list[str] = yield Transaction(work, write=False)
        return threads

    def _vacuum(self) -> Program[None]:
        yield Vacuum()
