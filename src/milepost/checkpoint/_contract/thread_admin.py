"""`saver.threads`: operations on whole threads, the same on all our savers.

Each operation is a generator of a few steps, which each kind of storage implements: a page of the
registry, one entry, removing a thread, removing a part of a thread.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost._db.engine import Vacuum
from milepost._internal.ids import time_of
from milepost._internal.progress import report
from milepost.checkpoint._contract.facets import TransactionDriver, sync_and_async
from milepost.checkpoint._contract.names import check_name
from milepost.checkpoint._contract.pruning import CheckpointKey, Choice, History, latest
from milepost.checkpoint._contract.thread_metadata import metadata_text
from milepost.checkpoint._contract.threads import Removed, ThreadFilter, ThreadInfo, not_judged
from milepost.errors import MissingThreadError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from concurrent.futures import Future

    from milepost._db.engine import Engine, Transactions
    from milepost._db.sweeper import Sweeper
    from milepost._internal.progress import Progress

Page: TypeAlias = list[ThreadInfo]
Ids: TypeAlias = list[str]
"""Named, since `list` is a method of the facet."""

_STRATEGIES = ("keep_latest", "delete")


class Threads:
    """The threads of a saver: the registry, and retention."""

    def __init__(self, engine: Engine | None, sweeper: Sweeper) -> None:
        self.driver = TransactionDriver(engine)
        self._sweeper = sweeper

    # -- what each kind of storage implements

    @abstractmethod
    def _page(self, wanted: ThreadFilter) -> Transactions[Page]:
        """Threads in the order of their ids."""

    @abstractmethod
    def _found(self, wanted: ThreadFilter) -> Transactions[Ids]:
        """The ids of a page. Metadata that does not open does not matter here."""

    @abstractmethod
    def _unjudged(self, wanted: ThreadFilter) -> Transactions[Ids]:
        """All threads of which it cannot be told whether they meet the conditions, since their
        metadata does not open."""

    @abstractmethod
    def _info(self, thread_id: str) -> Transactions[ThreadInfo | None]:
        """One thread, with counts."""

    @abstractmethod
    def _describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Transactions[None]:
        """Replace the metadata of a thread."""

    @abstractmethod
    def _add(self, thread_id: str, metadata: Mapping[str, Any]) -> Transactions[ThreadInfo]:
        """Add a thread, or add metadata to an existing one."""

    @abstractmethod
    def _duplicate(self, source: str, target: str) -> Transactions[None]:
        """Copy everything of a thread to another id. No run owns the copy."""

    @abstractmethod
    def _remove(self, thread_id: str, unused_since: float | None = None) -> Transactions[Removed]:
        """Remove a thread; with `unused_since`, unless something was saved to it since then."""

    @abstractmethod
    def _keep(self, thread_id: str, choose: Choice, dry_run: bool) -> Transactions[Removed]:
        """Remove all checkpoints except the chosen ones and those that the chosen ones need."""

    @abstractmethod
    def _threads_of_runs(self, run_ids: Collection[str]) -> Transactions[Ids]:
        """The threads that these runs have written to."""

    # -- the registry

    def _list(
        self,
        *,
        metadata: Mapping[str, Any] | None = None,
        status: str | None = None,
        prefix: str | None = None,
        updated_after: float | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Transactions[Page]:
        """A page of threads in the order of their ids.

        Args:
            metadata: What is stored about threads must have these pairs. Values must be equal;
                `owner` is compared as text; of `tags` a thread must have all that are given, as one
                text or as a list. An empty list of tags finds no thread.
            status: idle, interrupted, error, running or stale.
            prefix: What their ids begin with.
            updated_after: Seconds since 1970; something was saved to them later.
            updated_before: Seconds since 1970; nothing was saved to them later.
            after: The last id of the page before.
            limit: How many at most.

        Examples:
            >>> [thread.thread_id for thread in saver.list_threads(status="idle")]
            ['1']
        """
        wanted = ThreadFilter(
            metadata or {}, status, prefix, updated_after, updated_before, after, limit
        )
        return (yield from self._page(wanted))

    def matching(self, wanted: ThreadFilter) -> Transactions[Ids]:
        """All threads that meet the conditions; raises if that cannot be told of one."""
        found = yield from self._all(wanted)
        if unjudged := (yield from self._unjudged(wanted)):
            raise not_judged(unjudged)
        return found

    def _all(self, wanted: ThreadFilter) -> Transactions[Ids]:
        """The ids of all pages of a search."""
        found: Ids = []
        while True:
            page = yield from self._found(wanted)
            found += page
            if len(page) < wanted.limit:
                return found
            wanted = wanted._replace(after=page[-1])

    def _get(self, thread_id: str) -> Transactions[ThreadInfo | None]:
        """What the registry knows of a thread, with counts and bytes.

        Args:
            thread_id: The thread.

        Examples:
            >>> thread = saver.get_thread("1")
            >>> thread.status, thread.checkpoints
            ('idle', 3)
        """
        return (yield from self._info(thread_id_of(thread_id)))

    def _create(
        self, thread_id: str, metadata: Mapping[str, Any] | None = None
    ) -> Transactions[ThreadInfo]:
        """Create a thread before anything is run in it; return its registry entry.

        If the thread exists already, only its metadata changes, and a run in progress is not
        disturbed. For a later run, a thread without a checkpoint is a new thread.

        Args:
            thread_id: The thread.
            metadata: Keys that are added to those of the thread, or replace them.

        Examples:
            >>> saver.create_thread("2", {"owner": "ada"}).metadata
            {'owner': 'ada'}
        """
        described = {} if metadata is None else metadata
        return (yield from self._add(thread_id_of(thread_id), described))

    def _set_metadata(self, thread_id: str, metadata: Mapping[str, Any]) -> Transactions[None]:
        """Say what a thread is about: `owner`, `tags`, and anything else that is plain JSON.

        Args:
            thread_id: The thread.
            metadata: Replaces what was said before; `create_thread` adds to it. `{}` removes all.

        Examples:
            >>> saver.set_thread_metadata("1", {"owner": "ada", "tags": ["billing"]})
            >>> [thread.thread_id for thread in saver.list_threads(metadata={"owner": "ada"})]
            ['1']
        """
        thread_id = thread_id_of(thread_id)
        metadata_text(thread_id, metadata)
        yield from self._describe(thread_id, metadata)

    def _copy(self, source_thread_id: str, target_thread_id: str) -> Transactions[None]:
        """Copy a thread with its whole history to a new id.

        Args:
            source_thread_id: The thread.
            target_thread_id: The id of the copy.

        Examples:
            >>> saver.copy_thread("1", "copy of 1")
            >>> graph.get_state({"configurable": {"thread_id": "copy of 1"}}).values
            {'n': 1}
        """
        source, target = thread_id_of(source_thread_id), thread_id_of(target_thread_id)
        yield from self._duplicate(source, target)

    # -- retention

    def _prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep: int = 1,
        older_than: float | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Transactions[Removed]:
        """Drop history: all but the last checkpoints of each graph, or whole threads.

        What the kept checkpoints need stays in any case: ancestors for delta channels, pending
        writes and interrupts, inner graphs.

        Args:
            thread_ids: The threads.
            strategy: "keep_latest", or "delete" for whole threads.
            keep: How many checkpoints of each graph stay.
            older_than: Seconds; younger checkpoints stay too.
            dry_run: Only count.
            progress: Called after each thread with how many are done, and how many there are.

        Returns:
            What was removed.

        Raises:
            ValueError: The strategy is not known, or `keep` is less than 1.

        Examples:
            >>> saver.prune(["1"], keep=1).checkpoints
            2
        """
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

        def chosen(history: History) -> Collection[CheckpointKey]:
            return latest(history, keep, before) if strategy == "keep_latest" else ()

        for done, thread_id in enumerate(ids, 1):
            if strategy == "delete" and not dry_run:
                removed.add((yield from self._remove(thread_id)))
            else:
                removed.add((yield from self._keep(thread_id, chosen, dry_run)))
            report(progress, done, len(ids))
        return removed

    def _delete(self, thread_id: str) -> Transactions[None]:
        """Remove all checkpoints and writes of a thread, in every namespace.

        Args:
            thread_id: The thread.

        Examples:
            >>> saver.delete_thread("1")
            >>> saver.get_thread("1") is None
            True
        """
        yield from self._remove(thread_id_of(thread_id))

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Transactions[None]:
        """Remove the checkpoints that certain runs made, and their writes.

        Args:
            run_ids: The runs.

        Examples:
            >>> other = {"configurable": {"thread_id": "2"}, "metadata": {"run_id": "a"}}
            >>> _ = graph.invoke({}, other)
            >>> saver.delete_for_runs(["a"])
            >>> saver.get_tuple(other) is None
            True
        """
        _check_list("run_ids", run_ids)
        runs = {check_name("run_id", str(run_id)) for run_id in run_ids}

        def of_others(history: History) -> Collection[CheckpointKey]:
            return [checkpoint for checkpoint, line in history.items() if line.run_id not in runs]

        for thread_id in (yield from self._threads_of_runs(runs)):
            yield from self._keep(thread_id, of_others, dry_run=False)

    def _erase(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        prefix: str | None = None,
        vacuum: bool = True,
        progress: Progress | None = None,
    ) -> Transactions[Removed]:
        """Remove threads for good, by their ids or by what the registry says of them.

        Args:
            thread_ids: The threads.
            metadata: Threads whose metadata has these pairs, as for `list_threads`.
            prefix: Threads whose ids begin like this.
            vacuum: Give the space back then, so that the files hold none of it any more; with
                `False` that is left to a later call of `vacuum`.
            progress: Called after each thread with how many are done, and `None`.

        Returns:
            What was removed.

        Raises:
            NotErasedError: The rows are gone, but the files still hold their bytes.
            DecryptionError: The metadata of some threads is sealed with a key that this saver does
                not have, so that it cannot be told whether they are meant. The others were removed.
            ValueError: Nothing says which threads, or the list of tags is empty.

        Examples:
            >>> saver.erase(prefix="1").threads
            ['1']
        """
        if thread_ids is None and not metadata and not prefix:
            raise ValueError("Say which threads to erase: by thread_ids, metadata or prefix.")
        wanted = ThreadFilter(metadata or {}, prefix=prefix)
        wanted.check_removal()
        removed, done = Removed(), count(1)
        for thread_id in [] if thread_ids is None else thread_ids_of(thread_ids):
            removed.add((yield from self._remove(thread_id)))
            report(progress, next(done), None)
        while metadata or prefix:
            # Searched again after each page: others may have given a thread away meanwhile, or
            # begun one that is meant.
            page = yield from self._found(wanted)
            for thread_id in page:
                removed.add((yield from self._remove(thread_id)))
                report(progress, next(done), None)
            if len(page) < wanted.limit:
                break
        unjudged = (yield from self._unjudged(wanted)) if metadata else []
        if vacuum:
            yield Vacuum()
        if unjudged:
            raise not_judged(unjudged, removed)
        return removed

    def _sweep(
        self, *, ttl: float, dry_run: bool = False, progress: Progress | None = None
    ) -> Transactions[Removed]:
        """Remove threads that nothing was saved to for a while; call it now and then.

        Their times decide; metadata that does not open keeps no thread.

        Args:
            ttl: Seconds.
            dry_run: Only count.
            progress: Called after each thread with how many are done, and `None`.

        Examples:
            >>> saver.sweep(ttl=30 * 24 * 3600).threads
            []
        """
        removed = Removed()
        limit = time.time() - ttl
        unused = yield from self._all(ThreadFilter(updated_before=limit))
        for done, thread_id in enumerate(unused, 1):
            if dry_run:
                removed.add((yield from self._keep(thread_id, _nothing, dry_run=True)))
            else:
                removed.add((yield from self._remove(thread_id, limit)))
            report(progress, done, None)
        return removed

    list, alist = sync_and_async(_list)
    get, aget = sync_and_async(_get)
    create, acreate = sync_and_async(_create)
    set_metadata, aset_metadata = sync_and_async(_set_metadata)
    copy, acopy = sync_and_async(_copy)
    prune, aprune = sync_and_async(_prune)
    delete, adelete = sync_and_async(_delete)
    delete_for_runs, adelete_for_runs = sync_and_async(_delete_for_runs)
    erase, aerase = sync_and_async(_erase)
    sweep, asweep = sync_and_async(_sweep)

    def start_sweeper(self, *, ttl: float, every: float = 3600.0) -> Future[None]:
        """Call `sweep` at intervals in a background thread, unless one is running already.

        The future ends when the sweeper does, with the error if a sweep has failed.

        Args:
            ttl: As for `sweep`.
            every: Seconds between two sweeps.

        Examples:
            >>> future = saver.start_sweeper(ttl=30 * 24 * 3600)
            >>> saver.stop_sweeper()
        """
        return self._sweeper.start(every, partial(self.sweep, ttl=ttl))

    def stop_sweeper(self) -> None:
        """Stop the sweeper. A sweep in progress is finished first; then the future ends."""
        self._sweeper.stop(timeout=0)


def _nothing(_history: History) -> Collection[CheckpointKey]:
    return ()


def thread_ids_of(thread_ids: Sequence[Any]) -> list[str]:
    """The ids as they are stored. All are checked before any of them is used."""
    _check_list("thread_ids", thread_ids)
    return [thread_id_of(id) for id in thread_ids]


def _check_list(what: str, given: object) -> None:
    """Refuse a single text, which is a sequence too: its letters would be taken for ids."""
    if isinstance(given, (str, bytes)):
        raise TypeError(f"{what} must be a list of ids, not one id: [{given!r}].")


def thread_id_of(thread_id: Any) -> str:
    """A thread's id as it is stored; a number or UUID becomes text."""
    if thread_id is None:
        raise MissingThreadError("A thread needs an id: thread_id is None.")
    return check_name("thread_id", str(thread_id))
