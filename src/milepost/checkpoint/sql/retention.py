"""Copying, pruning and erasing threads, in both colours."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.sql.copying import copy
from milepost.checkpoint.sql.names import check_name, time_of
from milepost.checkpoint.sql.registry import ThreadInfo, Wanted
from milepost.checkpoint.sql.removing import Choice, Removed, Thread, latest
from milepost.checkpoint.sql.saver import SqlSaver
from milepost.sql.engine import Program, Transaction, Vacuum, adrive, drive

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


_STRATEGIES = ("keep_latest", "delete")


class RetainingSaver(SqlSaver):
    """Keeps threads in a database as long as they are wanted."""

    # -- copies

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        drive(self.engine, self._copy(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await adrive(self.engine, self._copy(source_thread_id, target_thread_id))

    def _copy(self, source: str, target: str) -> Program[None]:
        source, target = thread_id_of(source), thread_id_of(target)
        yield Transaction(lambda: copy(self._codec, self._queries, source, target))

    # -- retention

    def prune(  # type: ignore[override]
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep: int = 1,
        older_than: float | None = None,
        dry_run: bool = False,
    ) -> Removed:
        """Drop history: all but the last `keep` checkpoints of each graph, or whole threads.

        With `older_than`, in seconds, younger checkpoints stay too. What the kept ones need stays
        in any case: ancestors of delta channels, pending writes and interrupts, inner graphs.
        `dry_run` only counts. Returns what was removed.
        """
        return drive(self.engine, self._prune(thread_ids, strategy, keep, older_than, dry_run))

    async def aprune(  # type: ignore[override]
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep: int = 1,
        older_than: float | None = None,
        dry_run: bool = False,
    ) -> Removed:
        """`prune`, for use on an event loop."""
        program = self._prune(thread_ids, strategy, keep, older_than, dry_run)
        return await adrive(self.engine, program)

    def _prune(
        self,
        thread_ids: Sequence[str],
        strategy: str,
        keep: int,
        older_than: float | None,
        dry_run: bool,
    ) -> Program[Removed]:
        if strategy not in _STRATEGIES:
            raise ValueError(f"Unknown strategy '{strategy}': use 'keep_latest' or 'delete'.")
        if keep < 1:
            raise ValueError("keep must be at least 1; to remove a thread use strategy='delete'.")
        if isinstance(thread_ids, str):
            raise TypeError("thread_ids must be a list of ids, not one id.")
        before = None
        if older_than is not None:
            cutoff = time.time() - older_than
            before = lambda id: time_of(id) < cutoff  # noqa: E731
        removed = Removed()

        def chosen(thread: Thread) -> Collection[tuple[str, str]]:
            return latest(thread, keep, before) if strategy == "keep_latest" else ()

        for thread_id in map(thread_id_of, thread_ids):
            if strategy == "delete" and not dry_run:
                removed.add((yield from self._remove(thread_id)))
            else:
                removed.add((yield from self._keep(thread_id, chosen, dry_run)))
        return removed

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        drive(self.engine, self._delete_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await adrive(self.engine, self._delete_runs(run_ids))

    def _delete_runs(self, run_ids: Sequence[str]) -> Program[None]:
        runs = {check_name("run_id", str(run_id)) for run_id in run_ids}

        def of_others(thread: Thread) -> list[tuple[str, str]]:
            return [node for node, row in thread.rows.items() if row.run_id not in runs]

        threads = yield Transaction(
            lambda: self._remover.threads_of_runs(sorted(runs)), write=False
        )
        for thread_id in threads:
            yield from self._keep(thread_id, of_others, dry_run=False)

    def _remove(self, thread_id: str) -> Program[Removed]:
        removed: Removed = yield Transaction(lambda: self._remover.thread(thread_id))
        self._memory.forget(thread_id)
        return removed

    def _keep(self, thread_id: str, choose: Choice, dry_run: bool) -> Program[Removed]:
        removed: Removed = yield Transaction(
            lambda: self._remover.keep(thread_id, choose, dry_run=dry_run), write=not dry_run
        )
        if not dry_run:
            self._memory.forget(thread_id)
        return removed

    def erase(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        prefix: str | None = None,
        vacuum: bool = True,
    ) -> Removed:
        """Remove threads for good, by their ids or by what the registry says of them.

        Then the space is given back, so that the files hold none of it any more; with
        `vacuum=False` that is left to a later call of `vacuum`. Returns what was removed.
        """
        return drive(self.engine, self._erase(thread_ids, metadata, prefix, vacuum))

    async def aerase(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        prefix: str | None = None,
        vacuum: bool = True,
    ) -> Removed:
        """`erase`, for use on an event loop."""
        return await adrive(self.engine, self._erase(thread_ids, metadata, prefix, vacuum))

    def _erase(
        self,
        thread_ids: Sequence[str] | None,
        metadata: Mapping[str, Any] | None,
        prefix: str | None,
        vacuum: bool,
    ) -> Program[Removed]:
        if thread_ids is None and not metadata and not prefix:
            raise ValueError("Say which threads to erase: by thread_ids, metadata or prefix.")
        removed = Removed()
        if thread_ids is not None:
            for thread_id in map(thread_id_of, thread_ids):
                removed.add((yield from self._remove(thread_id)))
        if metadata or prefix:
            wanted = Wanted(metadata or {}, prefix=prefix)
            while True:
                page: list[ThreadInfo]
                page = yield Transaction(lambda: self._registry.page(wanted), write=False)
                for info in page:
                    removed.add((yield from self._remove(info.thread_id)))
                if len(page) < wanted.limit:
                    break
        if vacuum:
            yield Vacuum()
        return removed

    def vacuum(self) -> None:
        """Give the space of removed rows back to the system; takes a while on a large database."""
        self.engine.vacuum()

    async def avacuum(self) -> None:
        """`vacuum`, for use on an event loop."""
        await self.engine.avacuum()

    def sweep(self, *, ttl: float, dry_run: bool = False) -> Removed:
        """Remove threads that nothing was saved to for `ttl` seconds; call it now and then."""
        return drive(self.engine, self._sweep(ttl, dry_run))

    async def asweep(self, *, ttl: float, dry_run: bool = False) -> Removed:
        """`sweep`, for use on an event loop."""
        return await adrive(self.engine, self._sweep(ttl, dry_run))

    def _sweep(self, ttl: float, dry_run: bool) -> Program[Removed]:
        removed = Removed()
        wanted = Wanted(updated_before=time.time() - ttl)
        while True:
            page: list[ThreadInfo] = yield Transaction(
                partial(self._registry.page, wanted), write=False
            )
            for info in page:
                if dry_run:
                    removed.add((yield from self._keep(info.thread_id, _nothing, dry_run=True)))
                else:
                    removed.add((yield from self._remove(info.thread_id)))
            if len(page) < wanted.limit:
                return removed
            wanted = wanted._replace(after=page[-1].thread_id)


def _nothing(_thread: Thread) -> Collection[tuple[str, str]]:
    return ()


def thread_id_of(thread_id: Any) -> str:
    """A thread's id as it is stored; numbers and UUIDs as their text."""
    return check_name("thread_id", str(thread_id))
