"""`saver.threads` of the saver in memory."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.checkpoint._contract.pruning import (
    CheckpointKey,
    Choice,
    Lineage,
    enclosing_of,
    with_ancestors,
)
from milepost.checkpoint._contract.records import SENDS_ARE_A_CHANNEL, Place, is_older
from milepost.checkpoint._contract.thread_admin import Page, Threads
from milepost.checkpoint._contract.thread_metadata import metadata_text
from milepost.checkpoint._contract.threads import (
    Removed,
    ThreadFilter,
    ThreadInfo,
    copy_refused,
    no_such_thread,
    passes_filter,
)
from milepost.checkpoint._memory import manifests
from milepost.checkpoint._memory.rows import RegistryEntry, blobs_of
from milepost.checkpoint._memory.storage import MemoryStorage
from milepost.checkpoint._memory.value_log import Slice, StoredValue, release, size_of
from milepost.constants import CHILDREN, TASKS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from milepost._db.engine import Transactions
    from milepost._db.sweeper import Sweeper
    from milepost.checkpoint._memory.manifests import StoredCheckpoint

R = TypeVar("R")


class MemoryThreads(Threads):
    """Whole threads in memory. The methods are no generators: they act when they are called."""

    def __init__(self, saver: MemoryStorage, sweeper: Sweeper) -> None:
        super().__init__(None, sweeper)
        self._saver = saver

    # -- the registry

    def _page(self, wanted: ThreadFilter) -> Transactions[Page]:
        with self._saver._lock:
            judged = self._judged(wanted)
            found = islice((info for info, verdict in judged if verdict is not False), wanted.limit)
            return _done([self._opened(info) for info in found])

    def _found(self, wanted: ThreadFilter) -> Transactions[list[str]]:
        with self._saver._lock:
            found = (info.thread_id for info, verdict in self._judged(wanted) if verdict)
            return _done(list(islice(found, wanted.limit)))

    def _unjudged(self, wanted: ThreadFilter) -> Transactions[list[str]]:
        with self._saver._lock:
            judged = self._judged(wanted)
            return _done([info.thread_id for info, verdict in judged if verdict is None])

    def _judged(self, wanted: ThreadFilter) -> Iterator[tuple[ThreadInfo, bool | None]]:
        """The threads that meet all other conditions, with their metadata as it is stored; and
        whether they meet those on metadata, None if that cannot be told."""
        wanted.check()
        if wanted.finds_none:
            return iter(())
        others = wanted._replace(metadata={})
        judge = self._saver._thread_metadata.judge
        entries = map(self._entry, sorted({*self._saver.storage, *self._saver._threads}))
        return (
            (info, judge(info.thread_id, info.metadata, wanted.metadata))
            for info in entries
            if info is not None and passes_filter(info, others)
        )

    def _info(self, thread_id: str) -> Transactions[ThreadInfo | None]:
        with self._saver._lock:
            info = self._entry(thread_id)
            if info is None:
                return _done(None)
            info = self._opened(info)
            checkpoints = size = 0
            values: list[StoredValue] = []
            for ns, saved in self._saver.storage.get(thread_id, {}).items():
                checkpoints += len(saved)
                for key in blobs_of(thread_id, ns, saved.values()):
                    if (kept := self._saver.blobs.get(key)) is not None:
                        values.append(kept)
                for stored in saved.values():
                    size += len(stored.manifest) + len(stored.metadata[1])
            written = map(self._saver.writes.get, self._saver._written(thread_id))
            writes = [row[2] for rows in written if rows for row in rows.values()]
        size += size_of([*values, *writes])
        return _done(info._replace(checkpoints=checkpoints, writes=len(writes), bytes=size))

    def _describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Transactions[None]:
        text = self._saver._thread_metadata.stored(thread_id, metadata).text
        with self._saver._lock:
            if self._entry(thread_id) is None:
                raise no_such_thread(thread_id)
            self._saver._registered(thread_id).metadata = json.loads(text)
        return _done(None)

    def _add(self, thread_id: str, metadata: Mapping[str, Any]) -> Transactions[ThreadInfo]:
        metadata_text(thread_id, metadata)
        with self._saver._lock:
            thread = self._saver._registered(thread_id)
            thread.claimed = False
            thread.metadata = self._saver._described(thread_id, thread, metadata)
            info = self._entry(thread_id)
        assert info is not None
        return _done(self._opened(info))

    def _opened(self, info: ThreadInfo) -> ThreadInfo:
        opened = self._saver._thread_metadata.opened(info.thread_id, info.metadata)
        return info._replace(metadata=opened)

    def _entry(self, thread_id: str) -> ThreadInfo | None:
        """The entry of a thread, with its metadata as it is stored."""
        thread = self._saver._threads.get(thread_id)
        if thread is None:
            if thread_id not in self._saver.storage:
                return None
            thread = RegistryEntry(self._saver.head(thread_id))
        return ThreadInfo(
            thread_id,
            self._saver._status_of(thread_id, thread),
            thread.created_at,
            thread.updated_at,
            thread.head,
            thread.metadata,
        )

    # -- copies

    def _duplicate(self, source: str, target: str) -> Transactions[None]:
        saver = self._saver
        with saver._lock:
            if target in saver._threads or target in saver.storage:
                raise copy_refused(target)
            # The copy is complete before any of it is stored: sealing a value again may fail.
            blobs, writes, graphs = saver._changed(source, target, self._moved)
            original = saver._threads.get(source)
            thread = RegistryEntry(saver.head(source)) if graphs or original is not None else None
            if thread is not None and original is not None:
                thread.early_writes = {(target, *key[1:]) for key in original.early_writes}
                status = saver._status_of(source, original)
                # No run works on the copy.
                thread.status = "interrupted" if status == "running" else status
                moved = saver._thread_metadata.moved(source, target, original.metadata)
                thread.metadata = json.loads(moved.text)
            # Each thread has logs of its own, of which the bytes are shared.
            blobs, writes = deepcopy((blobs, writes))
            saver.blobs.update(blobs)
            saver.writes.update(writes)
            if graphs:
                saver.storage[target] = graphs
            if thread is not None:
                saver._threads[target] = thread
        return _done(None)

    def _moved(self, kept: StoredValue, source: str, target: str) -> StoredValue:
        """A value for another place: sealed again if values are sealed, otherwise shared."""
        if self._saver._codes.cuts or isinstance(kept, Slice):
            return kept
        return self._saver._codes.moved(kept, source, target)

    # -- removing

    def _remove(self, thread_id: str, unused_since: float | None = None) -> Transactions[Removed]:
        with self._saver._lock:
            if unused_since is not None:
                info = self._entry(thread_id)
                if info is None or info.updated_at >= unused_since:
                    return _done(Removed())
            written = self._saver._written(thread_id)
            graphs = self._saver.storage.pop(thread_id, {})
            thread = self._saver._threads.pop(thread_id, None)
            self._saver._latest.pop(thread_id, None)
            removed = Removed([thread_id] if graphs or thread else [])
            removed.writes = sum(len(self._saver.writes.pop(key, ())) for key in written)
            for ns, saved in graphs.items():
                removed.checkpoints += len(saved)
                for stored in saved.values():
                    for channel, version in manifests.versions_named(stored):
                        gone = self._saver.blobs.pop((thread_id, ns, channel, version), None)
                        removed.values += gone is not None
        return _done(removed)

    def _keep(self, thread_id: str, choose: Choice, dry_run: bool) -> Transactions[Removed]:
        with self._saver._lock:
            history = self._history(thread_id)
            kept = with_ancestors(history, choose(history))
            kept |= self._senders(thread_id, kept)
            removed = Removed([] if kept or not history else [thread_id])
            removed.checkpoints = len(history) - len(kept)
            if not removed.checkpoints:
                return _done(removed)
            for ns, saved in self._saver.storage[thread_id].items():
                staying = {id: stored for id, stored in saved.items() if (ns, id) in kept}
                unused = blobs_of(thread_id, ns, saved.values())
                unused -= blobs_of(thread_id, ns, staying.values())
                doomed = [id for id in saved if id not in staying]
                removed.values += sum(key in self._saver.blobs for key in unused)
                removed.writes += sum(
                    len(self._saver.writes.get((thread_id, ns, id), ())) for id in doomed
                )
                if dry_run:
                    continue
                for key in unused:
                    self._saver.blobs.pop(key, None)
                for id in doomed:
                    del saved[id]
                    self._saver.writes.pop((thread_id, ns, id), None)
                for id, stored in staying.items():
                    if stored.parent_id not in staying:
                        saved[id] = manifests.first(stored)
            if not dry_run:
                self._tidy(thread_id)
            return _done(removed)

    def _senders(self, thread_id: str, kept: Iterable[CheckpointKey]) -> set[CheckpointKey]:
        """The parents that hold Sends of kept checkpoints, as in formats before 4. What they need
        themselves is not kept for that."""
        found = set()
        for ns, id in kept:
            saved = self._saver.storage[thread_id][ns]
            parent_id = saved[id].parent_id or ""
            writes = self._saver.writes.get((thread_id, ns, parent_id), {}).values()
            sends = parent_id in saved and any(channel == TASKS for _, channel, *_ in writes)
            if sends and is_older(manifests.format_of(saved[id]), SENDS_ARE_A_CHANNEL):
                found.add((ns, parent_id))
        return found

    def _history(self, thread_id: str) -> dict[CheckpointKey, Lineage]:
        inner: manifests.LookupCache = {}
        versions: dict[str, manifests.LookupCache] = {}
        return {
            (ns, id): self._lineage(Place(thread_id, ns, id), stored, inner, versions)
            for ns, saved in self._saver.storage.get(thread_id, {}).items()
            for id, stored in saved.items()
        }

    def _lineage(
        self,
        place: Place,
        stored: StoredCheckpoint,
        inner: manifests.LookupCache,
        versions: dict[str, manifests.LookupCache],
    ) -> Lineage:
        metadata = self._saver._metadata(place, stored)
        needs_parent = False
        for channel in metadata.get("counters_since_delta_snapshot") or ():
            version = manifests.version_in(stored, channel, versions.setdefault(channel, {}))
            if (*place[:2], channel, version) not in self._saver.blobs:
                needs_parent = True
                break
        run_id = metadata.get("run_id")
        return Lineage(
            stored.parent_id,
            None if run_id is None else str(run_id),
            needs_parent,
            manifests.seen_in(stored, CHILDREN, inner),
            enclosing_of(metadata),
        )

    def _threads_of_runs(self, run_ids: Collection[str]) -> Transactions[list[str]]:
        with self._saver._lock:
            found = [
                thread_id
                for thread_id in self._saver.storage
                if any(line.run_id in run_ids for line in self._history(thread_id).values())
            ]
        return _done(found)

    def _tidy(self, thread_id: str) -> None:
        """After checkpoints were removed: set the new head, and free unused bytes of logs."""
        self._saver._latest.pop(thread_id, None)
        graphs = self._saver.storage[thread_id]
        if not any(graphs.values()):
            self._remove(thread_id)
            return
        head = max(graphs.get("", {}), default=None)
        self._saver._threads.setdefault(thread_id, RegistryEntry(head)).head = head
        values: list[StoredValue | None] = []
        for ns, saved in graphs.items():
            values += map(self._saver.blobs.get, blobs_of(thread_id, ns, saved.values()))
        for key in self._saver._written(thread_id):
            values += [row[2] for row in self._saver.writes.get(key, {}).values()]
        release(one for one in values if isinstance(one, Slice))


def _done(value: R) -> Transactions[R]:
    """A generator that yields nothing and returns `value`."""
    yield from ()
    return value
