"""`saver.threads` on a database: finds, copies, prunes and removes threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from milepost._db.engine import Transactions, transaction
from milepost._db.operations import Execute, ExecuteMany, Operation, Query
from milepost._internal.ids import new_epoch
from milepost.checkpoint._contract.pruning import (
    CheckpointKey,
    Choice,
    Lineage,
    enclosing_of,
    with_ancestors,
)
from milepost.checkpoint._contract.records import SENDS_ARE_A_CHANNEL, is_older
from milepost.checkpoint._contract.thread_admin import Ids, Page, Threads, thread_ids_of
from milepost.checkpoint._contract.threads import Removed, ThreadFilter, ThreadInfo
from milepost.checkpoint._sql import manifest as manifests
from milepost.checkpoint._sql import metadata as metadata_cells
from milepost.checkpoint._sql.inline_writes import INLINE_WRITES, as_own_rows
from milepost.checkpoint._sql.manifest import EMPTIED
from milepost.checkpoint._sql.read.fetched import (
    CheckpointRecord,
    Manifests,
    WriteRecord,
    metadata_of,
)
from milepost.checkpoint._sql.read.reader import CheckpointReader
from milepost.checkpoint._sql.rows import short_kind
from milepost.checkpoint._sql.statements import just_after
from milepost.checkpoint._sql.threads.copy import copy
from milepost.checkpoint._sql.threads.lock import lock
from milepost.constants import CHILDREN, TASKS

if TYPE_CHECKING:
    from milepost._db.engine import Engine
    from milepost._db.sweeper import Sweeper
    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._sql.cache import ThreadCache
    from milepost.checkpoint._sql.manifest import Manifest
    from milepost.checkpoint._sql.read.values import Resolver
    from milepost.checkpoint._sql.threads.registry import Registry

_PAGE: Final = 100
"""Ids of threads that one query reads."""


class ThreadRows:
    """All checkpoints of a thread, oldest first, and what becomes of those that are kept."""

    def __init__(self, codec: Codec, thread_id: str, rows: Iterable[Sequence[Any]]) -> None:
        self._codec = codec
        self._thread_id = thread_id
        self.rows: dict[CheckpointKey, CheckpointRecord] = {}
        graphs: dict[str, dict[str, CheckpointRecord]] = {}
        for ns, *cells in rows:
            row = CheckpointRecord(*cells)
            self.rows[ns, row.id] = graphs.setdefault(ns, {})[row.id] = row
        self.manifests = {
            ns: Manifests(codec, (thread_id, ns), own, own, {}) for ns, own in graphs.items()
        }
        """Namespace → the manifests of that graph."""
        self.kept: Collection[CheckpointKey] = ()
        self.writes: dict[CheckpointKey, list[WriteRecord]] = {}

    def history(self) -> dict[CheckpointKey, Lineage]:
        """The lineage of each checkpoint, which decides what can be removed."""
        found: dict[CheckpointKey, Lineage] = {}
        for key, row in self.rows.items():
            manifest = self.manifest(key)
            metadata: Mapping[str, Any] = metadata_of(self._codec, self._thread_id, key[0], row)
            counters = metadata.get("counters_since_delta_snapshot") or ()
            needs_parent = any(manifest.inline.get(c, EMPTIED) is EMPTIED for c in counters)
            around, children = enclosing_of(metadata), manifest.seen.get(CHILDREN, {})
            found[key] = Lineage(row.parent_id, row.run_id, needs_parent, children, around)
        return found

    def manifest(self, checkpoint: CheckpointKey) -> Manifest:
        ns, id = checkpoint
        return self.manifests[ns].of(id).manifest

    def add_writes(self, rows: Iterable[Sequence[Any]]) -> None:
        for ns, *cells in rows:
            write = WriteRecord(*cells)
            self.writes.setdefault((ns, write.checkpoint_id), []).append(write)

    def senders(self, kept: Iterable[CheckpointKey]) -> set[CheckpointKey]:
        """The parents that hold Sends of kept checkpoints, as in formats before 4. What they need
        themselves is not kept for that."""
        found = set()
        for ns, id in kept:
            row = self.rows[ns, id]
            parent = (ns, row.parent_id or "")
            writes = self.writes.get(parent, ())
            sends = parent in self.rows and any(write.channel == TASKS for write in writes)
            if sends and is_older(self.manifests[ns].stamp(row)[0], SENDS_ARE_A_CHANNEL):
                found.add(parent)
        return found

    def check_writes(self) -> None:
        """Raises BrokenChainError if writes at a kept checkpoint are gone."""
        for ns, id in self.kept:
            self.manifests[ns].check_writes(id, self.writes.get((ns, id), ()))

    def used_values(self) -> set[tuple[str, str, str]]:
        """Namespace, channel and version of the values that kept checkpoints and writes need."""
        used: set[tuple[str, str, str]] = set()
        for checkpoint in self.kept:
            used.update((checkpoint[0], *key) for key in self.manifest(checkpoint).large())
            for write in self.writes.get(checkpoint, ()):
                if write.base is not None:
                    used.add((checkpoint[0], write.channel, write.base))
        return used

    def split_inline_writes(self) -> tuple[list[Any], list[Any]]:
        """Keep or remove inline writes with the checkpoint that they belong to, the parent of the
        row that holds them: new rows of kept writes that lose their row, and the keys of kept rows
        that lose their inline writes."""
        rows: list[Any] = []
        cleared = []
        for (ns, id), some in self.writes.items():
            for write in some:
                if write.kind != INLINE_WRITES:
                    continue
                child = (ns, write.task_id)
                if (ns, id) not in self.kept and child in self.kept:
                    cleared.append((self._thread_id, *child))
                elif (ns, id) in self.kept and child not in self.kept:
                    place = (self._thread_id, ns, id)
                    rows += as_own_rows(self._codec, place, child[1], write.data)
        return rows, cleared

    def counts(self, moved: Sequence[Any]) -> list[tuple[Any, ...]]:
        """New metadata of kept checkpoints with a removed child, which counted their writes: their
        number, with the `moved` rows of inline writes."""
        found: dict[CheckpointKey, set[tuple[str, int]]] = {}
        for (ns, id), row in self.rows.items():
            if row.parent_id is None or (ns, id) in self.kept:
                continue
            parent = (ns, row.parent_id)
            if parent in self.kept:
                found[parent] = {
                    (write.task_id, write.position)
                    for write in self.writes.get(parent, ())
                    if write.kind != INLINE_WRITES
                }
        for _, ns, id, task_id, position, *_ in moved:
            found[ns, id].add((task_id, position))
        return [self._counted(checkpoint, len(keys)) for checkpoint, keys in found.items() if keys]

    def _counted(self, checkpoint: CheckpointKey, rows: int) -> tuple[Any, ...]:
        """The metadata of a checkpoint, with the number of its rows of writes."""
        row, place = self.rows[checkpoint], (self._thread_id, *checkpoint)
        cell = (row.metadata_kind, row.metadata)
        kind, data, counted = metadata_cells.opened(self._codec, *cell, *place)
        kind, data = metadata_cells.counted(kind, data, max(rows, counted))
        return (kind, self._codec.seal(data, ("metadata", *place), (kind,)), *place)

    def cut_manifests(self) -> list[tuple[Any, ...]]:
        """The manifests of kept checkpoints whose parent is removed, complete."""
        rows = []
        for ns, id in self.kept:
            row, place = self.rows[ns, id], (self._thread_id, ns, id)
            if row.parent_id is not None and (ns, row.parent_id) not in self.kept:
                data = manifests.pack(self.manifests[ns].stamp(row), self.manifest((ns, id)))
                rows.append((self._codec.seal(data, ("frame", *place), (None, 1)), *place))
        return rows


class Remover:
    def __init__(self, reader: CheckpointReader) -> None:
        self._reader = reader
        self._q = reader.q

    def thread(self, thread_id: str, unused_since: float | None = None) -> Operation[Removed]:
        """Remove a thread; with `unused_since`, unless something was saved to it since then."""
        # The lock comes first, and waits for a run that is committing.
        if unused_since is None:
            entry = yield from lock(self._q, thread_id)
            found = not entry.new
        else:
            rows = yield Query(self._q.lock_thread, (thread_id,))
            found = bool(rows) and rows[0][-1] < unused_since
            if not found:
                return Removed()
        writes = yield Execute(self._q.delete_writes, (thread_id,))
        values = yield Execute(self._q.delete_blobs, (thread_id,))
        checkpoints = yield Execute(self._q.delete_checkpoints, (thread_id,))
        yield Execute(self._q.delete_thread, (thread_id,))
        return Removed([thread_id] if found or checkpoints else [], checkpoints, writes, values)

    def threads_of_runs(self, run_ids: Sequence[str]) -> Operation[list[str]]:
        found: dict[str, None] = {}
        for run_id in run_ids:
            rows = yield Query(self._q.threads_of_run, (run_id,))
            found.update((row[0], None) for row in rows)
        return list(found)

    def keep(self, thread_id: str, choose: Choice, *, dry_run: bool) -> Operation[Removed]:
        """Remove all checkpoints except the chosen ones and those that the chosen ones need."""
        if dry_run:
            return (yield from self._keep(thread_id, choose, dry_run=True))
        entry = yield from lock(self._q, thread_id)
        removed = yield from self._keep(thread_id, choose, dry_run=False)
        if entry.new or removed.threads:
            yield Execute(self._q.delete_thread, (thread_id,))
        return removed

    def _keep(self, thread_id: str, choose: Choice, *, dry_run: bool) -> Operation[Removed]:
        rows = yield Query(self._q.checkpoints_of, (thread_id,))
        thread = ThreadRows(self._reader.codec, thread_id, rows)
        if not thread.rows:
            return Removed()
        history = thread.history()
        kept = with_ancestors(history, choose(history))
        if len(kept) == len(thread.rows):
            return Removed()
        thread.add_writes((yield Query(self._q.all_writes_of, (thread_id, thread_id))))
        kept |= thread.senders(kept)
        thread.kept = kept
        doomed = [checkpoint for checkpoint in thread.rows if checkpoint not in kept]
        if not doomed:
            return Removed()
        # Checked now, since a removed child may be the only row that counts missing writes.
        thread.check_writes()
        used = thread.used_values()
        rows = yield Query(self._q.blob_keys, (thread_id,))
        unused = [key for key in map(tuple, rows) if key not in used]
        removed = Removed(
            [] if kept else [thread_id],
            len(doomed),
            sum(len(thread.writes.get(checkpoint, ())) for checkpoint in doomed),
            len(unused),
        )
        if dry_run:
            return removed
        own_rows, cleared = thread.split_inline_writes()
        yield ExecuteMany(self._q.add_write, own_rows)
        yield ExecuteMany(self._q.clear_inline_writes, cleared)
        yield ExecuteMany(self._q.count_writes, thread.counts(own_rows))
        yield from self._cut_values(thread_id, used)
        yield ExecuteMany(self._q.cut_checkpoint, thread.cut_manifests())
        at = [(thread_id, *checkpoint) for checkpoint in doomed]
        yield ExecuteMany(self._q.delete_writes_at, at)
        yield ExecuteMany(self._q.delete_checkpoint, at)
        yield ExecuteMany(self._q.delete_blob, [(thread_id, *key) for key in unused])
        # A new epoch keeps runs from building on the removed rows.
        head = max((id for ns, id in kept if ns == ""), default=None)
        yield Execute(self._q.new_epoch, (head, new_epoch(), thread_id))
        return removed

    def _cut_values(self, thread_id: str, used: Collection[tuple[str, ...]]) -> Operation[None]:
        """Store values in full that were deltas from values that are removed."""
        codec = self._reader.codec
        for ns in dict.fromkeys(key[0] for key in used):
            keys = {(channel, version) for other, channel, version in used if other == ns}
            resolver: Resolver = yield from self._reader.values((thread_id, ns), keys)
            rows = []
            for key in keys:
                base, place = resolver.base(*key), (thread_id, ns, *key)
                if base is not None and base not in keys:
                    columns = (None, None, 0, short_kind(resolver.kind(*key)))
                    sealed = codec.seal(resolver.rope(*key).read(), ("blob", *place), columns)
                    rows.append((sealed, *place))
            yield ExecuteMany(self._q.cut_blob, rows)


class SqlThreads(Threads):
    def __init__(
        self,
        engine: Engine,
        sweeper: Sweeper,
        registry: Registry,
        reader: CheckpointReader,
        cache: ThreadCache,
    ) -> None:
        super().__init__(engine, sweeper)
        self._registry = registry
        self._reader = reader
        self._cache = cache
        self._remover = Remover(reader)

    def _page(self, wanted: ThreadFilter) -> Transactions[Page]:
        return transaction(partial(self._registry.page, wanted), write=False)

    def _found(self, wanted: ThreadFilter) -> Transactions[Ids]:
        return transaction(partial(self._registry.found, wanted), write=False)

    def _unjudged(self, wanted: ThreadFilter) -> Transactions[Ids]:
        return transaction(partial(self._registry.unjudged, wanted), write=False)

    def thread_ids(self, wanted: Sequence[str] | None) -> Transactions[Ids]:
        """The given threads, or all that the registry knows."""
        if wanted is not None:
            return thread_ids_of(wanted)
        found: Ids = []
        start = ""
        while True:
            ids = partial(self._registry.ids, start, _PAGE)
            page = yield from transaction(ids, write=False)
            found += page
            if len(page) < _PAGE:
                return found
            start = just_after(page[-1])

    def _info(self, thread_id: str) -> Transactions[ThreadInfo | None]:
        return transaction(partial(self._registry.one, thread_id), write=False)

    def _describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Transactions[None]:
        return transaction(partial(self._registry.describe, thread_id, metadata))

    def _add(self, thread_id: str, metadata: Mapping[str, Any]) -> Transactions[ThreadInfo]:
        return transaction(partial(self._registry.create, thread_id, metadata))

    def _duplicate(self, source: str, target: str) -> Transactions[None]:
        codec, q = self._reader.codec, self._reader.q
        return transaction(partial(copy, codec, q, self._registry, source, target))

    def _remove(self, thread_id: str, unused_since: float | None = None) -> Transactions[Removed]:
        removed = yield from transaction(partial(self._remover.thread, thread_id, unused_since))
        self._cache.forget(thread_id)
        return removed

    def _keep(self, thread_id: str, choose: Choice, dry_run: bool) -> Transactions[Removed]:
        work = partial(self._remover.keep, thread_id, choose, dry_run=dry_run)
        removed = yield from transaction(work, write=not dry_run)
        if not dry_run:
            self._cache.forget(thread_id)
        return removed

    def _threads_of_runs(self, run_ids: Collection[str]) -> Transactions[Ids]:
        return transaction(partial(self._remover.threads_of_runs, sorted(run_ids)), write=False)
