"""`saver.threads` on a database: finds, copies, prunes and removes threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from milepost._db.engine import Program, transaction
from milepost._db.operations import Execute, ExecuteMany, Operation, Query
from milepost._internal.ids import new_epoch
from milepost.checkpoint._contract.pruning import Choice, Lineage, Node, with_ancestors
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
from milepost.constants import CHILDREN

if TYPE_CHECKING:
    from milepost._db.engine import Engine
    from milepost.checkpoint._contract.thread_admin import Sweeping
    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._sql.cache import ThreadCache
    from milepost.checkpoint._sql.manifest import Manifest
    from milepost.checkpoint._sql.read.values import Resolver
    from milepost.checkpoint._sql.threads.registry import Registry

_PAGE: Final = 100
"""Ids of threads that one query reads."""


class ThreadRows:
    """All checkpoints of a thread, oldest first."""

    def __init__(self, codec: Codec, thread_id: str, rows: Iterable[Sequence[Any]]) -> None:
        self._codec = codec
        self._thread_id = thread_id
        self.rows: dict[Node, CheckpointRecord] = {}
        graphs: dict[str, dict[str, CheckpointRecord]] = {}
        for ns, *cells in rows:
            row = CheckpointRecord(*cells)
            self.rows[ns, row.id] = graphs.setdefault(ns, {})[row.id] = row
        self.manifests = {
            ns: Manifests(codec, (thread_id, ns), own, own, {}) for ns, own in graphs.items()
        }
        """Namespace → the manifests of that graph."""

    def history(self) -> dict[Node, Lineage]:
        """The lineage of each checkpoint, which decides what can be removed."""
        return {node: self._lineage(node, row) for node, row in self.rows.items()}

    def manifest(self, node: Node) -> Manifest:
        ns, id = node
        return self.manifests[ns].of(id).manifest

    def _lineage(self, node: Node, row: CheckpointRecord) -> Lineage:
        manifest = self.manifest(node)
        metadata: Mapping[str, Any] = metadata_of(self._codec, self._thread_id, node[0], row)
        counters = metadata.get("counters_since_delta_snapshot") or ()
        needs_parent = any(manifest.inline.get(channel, EMPTIED) is EMPTIED for channel in counters)
        return Lineage(row.parent_id, row.run_id, needs_parent, manifest.seen.get(CHILDREN, {}))


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
            found = yield Query(self._q.lock_unused_thread, (thread_id, unused_since))
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
        doomed = [node for node in thread.rows if node not in kept]
        if not doomed:
            return Removed()
        rows = yield Query(self._q.all_writes_of, (thread_id, thread_id))
        writes: dict[Node, list[WriteRecord]] = {}
        for ns, *row in rows:
            write = WriteRecord(*row)
            writes.setdefault((ns, write.checkpoint_id), []).append(write)
        for ns, id in kept:
            # Checked now, since a removed child may be the only row that counts missing writes.
            thread.manifests[ns].check_writes(id, writes.get((ns, id), ()))
        used = _used(thread, kept, writes)
        rows = yield Query(self._q.blob_keys, (thread_id,))
        unused = [key for key in map(tuple, rows) if key not in used]
        removed = Removed(
            [] if kept else [thread_id],
            len(doomed),
            sum(len(writes.get(node, ())) for node in doomed),
            len(unused),
        )
        if dry_run:
            return removed
        yield from self._give_own_rows(thread_id, thread, kept, writes)
        yield from self._cut_values(thread_id, used)
        yield from self._cut_manifests(thread_id, thread, kept)
        at = [(thread_id, *node) for node in doomed]
        yield ExecuteMany(self._q.delete_writes_at, at)
        yield ExecuteMany(self._q.delete_checkpoint, at)
        yield ExecuteMany(self._q.delete_blob, [(thread_id, *key) for key in unused])
        # A new epoch keeps runs from building on the removed rows.
        head = max((id for ns, id in kept if ns == ""), default=None)
        yield Execute(self._q.new_epoch, (head, new_epoch(), thread_id))
        return removed

    def _give_own_rows(
        self,
        thread_id: str,
        thread: ThreadRows,
        kept: Collection[Node],
        writes: Mapping[Node, Sequence[WriteRecord]],
    ) -> Operation[None]:
        """Keep or remove inline writes with the checkpoint that they belong to, the parent of the
        row that holds them. Kept writes that lose their row get rows of their own."""
        rows: list[Any] = []
        cleared = []
        for (ns, id), some in writes.items():
            for write in some:
                if write.kind != INLINE_WRITES:
                    continue
                child = (ns, write.task_id)
                if (ns, id) not in kept and child in kept:
                    cleared.append((thread_id, *child))
                elif (ns, id) in kept and child not in kept:
                    rows += as_own_rows(
                        self._reader.codec, (thread_id, ns, id), child[1], write.data
                    )
        yield ExecuteMany(self._q.add_write, rows)
        yield ExecuteMany(self._q.clear_inline_writes, cleared)
        counts = [
            self._count(thread_id, thread.rows[node], node[0], len(keys))
            for node, keys in _keys(thread, kept, writes, rows).items()
        ]
        yield ExecuteMany(self._q.count_writes, counts)

    def _count(self, thread_id: str, row: CheckpointRecord, ns: str, rows: int) -> tuple[Any, ...]:
        """The metadata of a checkpoint, with the number of its rows of writes."""
        codec = self._reader.codec
        place = (thread_id, ns, row.id)
        kind, data, counted = metadata_cells.opened(codec, row.metadata_kind, row.metadata, *place)
        kind, data = metadata_cells.counted(kind, data, max(rows, counted))
        return (kind, codec.seal(data, ("metadata", *place), (kind,)), *place)

    def _cut_values(self, thread_id: str, used: Collection[tuple[str, ...]]) -> Operation[None]:
        """Store values in full that were deltas from values that are removed."""
        codec = self._reader.codec
        for ns in dict.fromkeys(key[0] for key in used):
            keys = {(channel, version) for other, channel, version in used if other == ns}
            resolver: Resolver = yield from self._reader.values((thread_id, ns), keys)
            rows = [
                (
                    codec.seal(
                        resolver.data(*key),
                        ("blob", thread_id, ns, *key),
                        (None, None, 0, short_kind(resolver.kind(*key))),
                    ),
                    thread_id,
                    ns,
                    *key,
                )
                for key in keys
                if (base := resolver.base(*key)) is not None and base not in keys
            ]
            yield ExecuteMany(self._q.cut_blob, rows)

    def _cut_manifests(
        self, thread_id: str, thread: ThreadRows, kept: Collection[Node]
    ) -> Operation[None]:
        """Store the manifest of each kept checkpoint whose parent is removed complete."""
        rows = []
        for ns, id in kept:
            row = thread.rows[ns, id]
            if row.parent_id is None or (ns, row.parent_id) in kept:
                continue
            data = manifests.pack(thread.manifests[ns].stamp(row), thread.manifest((ns, id)))
            sealed = self._reader.codec.seal(data, ("frame", thread_id, ns, id), (None, 1))
            rows.append((sealed, thread_id, ns, id))
        yield ExecuteMany(self._q.cut_checkpoint, rows)


class SqlThreads(Threads):
    def __init__(
        self,
        engine: Engine,
        sweeping: Sweeping,
        registry: Registry,
        reader: CheckpointReader,
        cache: ThreadCache,
    ) -> None:
        super().__init__(engine, sweeping)
        self._registry = registry
        self._reader = reader
        self._cache = cache
        self._remover = Remover(reader)

    def _page(self, wanted: ThreadFilter) -> Program[Page]:
        return transaction(partial(self._registry.page, wanted), write=False)

    def thread_ids(self, wanted: Sequence[str] | None) -> Program[Ids]:
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

    def _info(self, thread_id: str) -> Program[ThreadInfo | None]:
        return transaction(partial(self._registry.one, thread_id), write=False)

    def _describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Program[None]:
        return transaction(partial(self._registry.describe, thread_id, metadata))

    def _add(self, thread_id: str, metadata: Mapping[str, Any]) -> Program[ThreadInfo]:
        return transaction(partial(self._registry.create, thread_id, metadata))

    def _duplicate(self, source: str, target: str) -> Program[None]:
        codec, q = self._reader.codec, self._reader.q
        return transaction(partial(copy, codec, q, self._registry, source, target))

    def _remove(self, thread_id: str, unused_since: float | None = None) -> Program[Removed]:
        removed = yield from transaction(partial(self._remover.thread, thread_id, unused_since))
        self._cache.forget(thread_id)
        return removed

    def _keep(self, thread_id: str, choose: Choice, dry_run: bool) -> Program[Removed]:
        work = partial(self._remover.keep, thread_id, choose, dry_run=dry_run)
        removed = yield from transaction(work, write=not dry_run)
        if not dry_run:
            self._cache.forget(thread_id)
        return removed

    def _threads_of_runs(self, run_ids: Collection[str]) -> Program[Ids]:
        return transaction(partial(self._remover.threads_of_runs, sorted(run_ids)), write=False)


def _keys(
    thread: ThreadRows,
    kept: Collection[Node],
    writes: Mapping[Node, Sequence[WriteRecord]],
    moved: Sequence[Any],
) -> dict[Node, set[tuple[str, int]]]:
    """Kept checkpoint with a removed child, which counted its writes → keys of those writes."""
    left = {
        (ns, row.parent_id)
        for (ns, id), row in thread.rows.items()
        if row.parent_id is not None and (ns, id) not in kept and (ns, row.parent_id) in kept
    }
    found = {
        node: {
            (row.task_id, row.position) for row in writes.get(node, ()) if row.kind != INLINE_WRITES
        }
        for node in left
    }
    for _, ns, id, task_id, position, *_ in moved:
        found[ns, id].add((task_id, position))
    return {node: keys for node, keys in found.items() if keys}


def _used(
    thread: ThreadRows, kept: Collection[Node], writes: Mapping[Node, Sequence[WriteRecord]]
) -> set[tuple[str, str, str]]:
    used: set[tuple[str, str, str]] = set()
    for node in kept:
        used.update((node[0], *key) for key in thread.manifest(node).large())
        for write in writes.get(node, ()):
            if write.base is not None:
                used.add((node[0], write.channel, write.base))
    return used
