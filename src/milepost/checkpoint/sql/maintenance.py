"""The optional methods of a saver, and those that go beyond the contract, in both colours."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.records import DeltaChannelHistory, place_of
from milepost.checkpoint.sql.copying import copy
from milepost.checkpoint.sql.delta import history
from milepost.checkpoint.sql.names import check_name, check_place, time_of
from milepost.checkpoint.sql.registry import ThreadInfo, Wanted
from milepost.checkpoint.sql.removing import Choice, Removed, Thread, latest
from milepost.checkpoint.sql.saver import SqlSaver
from milepost.sql.engine import Program, Transaction, Vacuum, adrive, drive

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from milepost.types import RunnableConfig

_STRATEGIES = ("keep_latest", "delete")


class MaintainedSaver(SqlSaver):
    """Keeps threads in a database, and helps to keep house there."""

    # -- copies

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        drive(self.engine, self._copy(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await adrive(self.engine, self._copy(source_thread_id, target_thread_id))

    def _copy(self, source: str, target: str) -> Program[None]:
        source, target = _thread_id(source), _thread_id(target)
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

        for thread_id in map(_thread_id, thread_ids):
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
            for thread_id in map(_thread_id, thread_ids):
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

    # -- the registry

    def list_threads(
        self,
        *,
        metadata: Mapping[str, Any] | None = None,
        status: str | None = None,
        prefix: str | None = None,
        updated_after: float | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[ThreadInfo]:
        """A page of threads in the order of their ids; `after` is the last id of the page before.

        `metadata` is compared with what `set_thread_metadata` has stored; of `tags` it must have
        those that are given. The status is idle, interrupted, error, running or stale.
        """
        wanted = Wanted(metadata or {}, status, prefix, updated_after, updated_before, after, limit)
        return self.engine.run(lambda: self._registry.page(wanted), write=False)

    async def alist_threads(
        self,
        *,
        metadata: Mapping[str, Any] | None = None,
        status: str | None = None,
        prefix: str | None = None,
        updated_after: float | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[ThreadInfo]:
        """`list_threads`, for use on an event loop."""
        wanted = Wanted(metadata or {}, status, prefix, updated_after, updated_before, after, limit)
        return await self.engine.arun(lambda: self._registry.page(wanted), write=False)

    def get_thread(self, thread_id: str) -> ThreadInfo | None:
        """What the registry knows of a thread, with counts and bytes."""
        thread_id = _thread_id(thread_id)
        return self.engine.run(lambda: self._registry.one(thread_id), write=False)

    async def aget_thread(self, thread_id: str) -> ThreadInfo | None:
        """`get_thread`, for use on an event loop."""
        thread_id = _thread_id(thread_id)
        return await self.engine.arun(lambda: self._registry.one(thread_id), write=False)

    def set_thread_metadata(self, thread_id: str, metadata: Mapping[str, Any]) -> None:
        """Say what a thread is about: `owner`, `tags`, and anything else that is plain JSON."""
        thread_id = _thread_id(thread_id)
        self.engine.run(lambda: self._registry.describe(thread_id, metadata), write=True)

    async def aset_thread_metadata(self, thread_id: str, metadata: Mapping[str, Any]) -> None:
        """`set_thread_metadata`, for use on an event loop."""
        thread_id = _thread_id(thread_id)
        await self.engine.arun(lambda: self._registry.describe(thread_id, metadata), write=True)

    # -- delta channels

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        place = check_place(place_of(config))
        return self.engine.run(lambda: history(self._reader, place, channels), write=False)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        place = check_place(place_of(config))
        return await self.engine.arun(lambda: history(self._reader, place, channels), write=False)


def _thread_id(thread_id: Any) -> str:
    return check_name("thread_id", str(thread_id))
