"""What can be done with whole threads, the same on all our savers.

Each method is written once, as a program of a few steps that a saver offers: a page of the
registry, one entry of it, removing a thread, keeping a part of one. The sync and async methods
differ in nothing but how they wait.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.names import check_name, time_of
from milepost.checkpoint.threads import Choice, History, Node, Removed, ThreadInfo, Wanted, latest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from concurrent.futures import Future

    from milepost.sql.engine import Program
    from milepost.sql.sweeper import Sweeper

R = TypeVar("R")

_STRATEGIES = ("keep_latest", "delete")


class Housekeeping(BaseCheckpointSaver[str]):
    """A saver that knows its threads, and keeps them as long as they are wanted."""

    _sweeper: Sweeper | None = None

    # -- what a saver offers

    @abstractmethod
    def _drive(self, program: Program[R]) -> R:
        """Carry out a program."""

    @abstractmethod
    async def _adrive(self, program: Program[R]) -> R:
        """`_drive`, for use on an event loop."""

    @abstractmethod
    def _page(self, wanted: Wanted) -> Program[list[ThreadInfo]]:
        """Threads in the order of their ids."""

    @abstractmethod
    def _info(self, thread_id: str) -> Program[ThreadInfo | None]:
        """One thread, with counts."""

    @abstractmethod
    def _describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Program[None]:
        """Replace what is stored about a thread."""

    @abstractmethod
    def _copy(self, source: str, target: str) -> Program[None]:
        """Everything of a thread under another id. The copy belongs to no run."""

    @abstractmethod
    def _remove(self, thread_id: str, unused_since: float | None = None) -> Program[Removed]:
        """Remove a thread; with a time, unless something was saved to it since."""

    @abstractmethod
    def _keep(self, thread_id: str, choose: Choice, dry_run: bool) -> Program[Removed]:
        """Remove all checkpoints but the chosen ones and those that they cannot do without."""

    @abstractmethod
    def _threads_of_runs(self, run_ids: Collection[str]) -> Program[list[str]]:
        """Threads that certain runs have written to."""

    @abstractmethod
    def _vacuum(self) -> Program[None]:
        """Give space back to the system."""

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
        return self._drive(self._page(wanted))

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
        return await self._adrive(self._page(wanted))

    def get_thread(self, thread_id: str) -> ThreadInfo | None:
        """What the registry knows of a thread, with counts and bytes."""
        return self._drive(self._info(thread_id_of(thread_id)))

    async def aget_thread(self, thread_id: str) -> ThreadInfo | None:
        """`get_thread`, for use on an event loop."""
        return await self._adrive(self._info(thread_id_of(thread_id)))

    def set_thread_metadata(self, thread_id: str, metadata: Mapping[str, Any]) -> None:
        """Say what a thread is about: `owner`, `tags`, and anything else that is plain JSON."""
        self._drive(self._describe(thread_id_of(thread_id), metadata))

    async def aset_thread_metadata(self, thread_id: str, metadata: Mapping[str, Any]) -> None:
        """`set_thread_metadata`, for use on an event loop."""
        await self._adrive(self._describe(thread_id_of(thread_id), metadata))

    def _thread_ids(self, wanted: Sequence[str] | None) -> Program[list[str]]:
        if wanted is not None:
            return thread_ids_of(wanted)
        found: list[str] = []
        while True:
            page = yield from self._page(Wanted(after=found[-1] if found else None))
            found += [info.thread_id for info in page]
            if len(page) < Wanted().limit:
                return found

    # -- copies

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._drive(self._copying(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._adrive(self._copying(source_thread_id, target_thread_id))

    def _copying(self, source: str, target: str) -> Program[None]:
        yield from self._copy(thread_id_of(source), thread_id_of(target))

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
        return self._drive(self._prune(thread_ids, strategy, keep, older_than, dry_run))

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
        return await self._adrive(program)

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
        ids = thread_ids_of(thread_ids)
        before = None
        if older_than is not None:
            cutoff = time.time() - older_than
            before = lambda id: time_of(id) < cutoff  # noqa: E731
        removed = Removed()

        def chosen(history: History) -> Collection[Node]:
            return latest(history, keep, before) if strategy == "keep_latest" else ()

        for thread_id in ids:
            if strategy == "delete" and not dry_run:
                removed.add((yield from self._remove(thread_id)))
            else:
                removed.add((yield from self._keep(thread_id, chosen, dry_run)))
        return removed

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._drive(self._delete_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._adrive(self._delete_runs(run_ids))

    def _delete_runs(self, run_ids: Sequence[str]) -> Program[None]:
        _check_list("run_ids", run_ids)
        runs = {check_name("run_id", str(run_id)) for run_id in run_ids}

        def of_others(history: History) -> list[Node]:
            return [node for node, line in history.items() if line.run_id not in runs]

        for thread_id in (yield from self._threads_of_runs(runs)):
            yield from self._keep(thread_id, of_others, dry_run=False)

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
        `vacuum=False` that is left to a later call of `vacuum`. Returns what was removed, or
        raises NotErasedError if the rows are gone but the files still hold their bytes.
        """
        return self._drive(self._erase(thread_ids, metadata, prefix, vacuum))

    async def aerase(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        prefix: str | None = None,
        vacuum: bool = True,
    ) -> Removed:
        """`erase`, for use on an event loop."""
        return await self._adrive(self._erase(thread_ids, metadata, prefix, vacuum))

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
            for thread_id in thread_ids_of(thread_ids):
                removed.add((yield from self._remove(thread_id)))
        if metadata or prefix:
            wanted = Wanted(metadata or {}, prefix=prefix)
            while True:
                page = yield from self._page(wanted)
                for info in page:
                    removed.add((yield from self._remove(info.thread_id)))
                if len(page) < wanted.limit:
                    break
        if vacuum:
            yield from self._vacuum()
        return removed

    def vacuum(self) -> None:
        """Give the space of removed rows back to the system; takes a while on a large database."""
        self._drive(self._vacuum())

    async def avacuum(self) -> None:
        """`vacuum`, for use on an event loop."""
        await self._adrive(self._vacuum())

    def sweep(self, *, ttl: float, dry_run: bool = False) -> Removed:
        """Remove threads that nothing was saved to for `ttl` seconds; call it now and then."""
        return self._drive(self._sweep(ttl, dry_run))

    async def asweep(self, *, ttl: float, dry_run: bool = False) -> Removed:
        """`sweep`, for use on an event loop."""
        return await self._adrive(self._sweep(ttl, dry_run))

    def _sweep(self, ttl: float, dry_run: bool) -> Program[Removed]:
        removed = Removed()
        limit = time.time() - ttl
        wanted = Wanted(updated_before=limit)
        while True:
            page = yield from self._page(wanted)
            for info in page:
                if dry_run:
                    removed.add((yield from self._keep(info.thread_id, _nothing, dry_run=True)))
                else:
                    removed.add((yield from self._remove(info.thread_id, limit)))
            if len(page) < wanted.limit:
                return removed
            wanted = wanted._replace(after=page[-1].thread_id)

    def start_sweeper(self, *, ttl: float, every: float = 3600.0) -> Future[None]:
        """`sweep` every so many seconds, in a thread of its own, unless that is going on already.

        The future ends when the sweeper does, with the error if a sweep has failed.
        """
        sweep = partial(self.sweep, ttl=ttl)
        if self._sweeper is None:
            from milepost.sql.sweeper import Sweeper

            self._sweeper = Sweeper(sweep)
        return self._sweeper.start(every, sweep)

    def stop_sweeper(self) -> None:
        """End it; a sweep that is under way comes to its end, which the future tells."""
        if self._sweeper is not None:
            self._sweeper.stop(timeout=0)
            self._sweeper = None


def _nothing(_history: History) -> Collection[Node]:
    return ()


def thread_ids_of(thread_ids: Sequence[Any]) -> list[str]:
    """The ids as they are stored, all of them checked before anything is done with one."""
    _check_list("thread_ids", thread_ids)
    return [thread_id_of(id) for id in thread_ids]


def _check_list(what: str, given: object) -> None:
    """Text is a sequence too, and its letters may well be somebody's ids."""
    if isinstance(given, (str, bytes)):
        raise TypeError(f"{what} must be a list of ids, not one id: [{given!r}].")


def thread_id_of(thread_id: Any) -> str:
    """A thread's id as it is stored; numbers and UUIDs as their text."""
    return check_name("thread_id", str(thread_id))
