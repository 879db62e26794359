"""Removes threads, and parts of threads that nothing else needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.sql import frames, notes
from milepost.checkpoint.sql.fetched import CheckpointRecord, Frames, WriteRecord, metadata_of
from milepost.checkpoint.sql.locking import lock
from milepost.checkpoint.sql.reading import Reader
from milepost.checkpoint.sql.rows import short_kind
from milepost.checkpoint.sql.writes import LED, own_rows
from milepost.checkpoint.threads import Choice, Lineage, Node, Removed, with_ancestors
from milepost.constants import CHILDREN
from milepost.ids import new_epoch
from milepost.record import record
from milepost.sql.operations import Many, Operation, Query, Run

if TYPE_CHECKING:
    from milepost.checkpoint.sql.frame import Frame
    from milepost.checkpoint.sql.values import Resolver


@record
class Thread:
    """All checkpoints of a thread, oldest first."""

    rows: Mapping[Node, CheckpointRecord]
    frames: Mapping[str, Frames]
    """By their graph."""
    metadata: Mapping[Node, Mapping[str, Any]]

    def history(self) -> dict[Node, Lineage]:
        """What decides which of them can be done without."""
        return {node: self._lineage(node, row) for node, row in self.rows.items()}

    def frame(self, node: Node) -> Frame:
        """The frame of one of them."""
        ns, id = node
        return self.frames[ns].of(id).frame

    def _lineage(self, node: Node, row: CheckpointRecord) -> Lineage:
        frame = self.frame(node)
        counters = self.metadata[node].get("counters_since_delta_snapshot") or ()
        leans = any(frame.inline.get(channel) is None for channel in counters)
        return Lineage(row.parent_id, row.run_id, leans, frame.seen.get(CHILDREN, {}))


class Remover:
    """Removes through one dialect's queries."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._q = reader.q

    def thread(self, thread_id: str, unused_since: float | None = None) -> Operation[Removed]:
        """All of a thread; with a time, unless it was used since."""
        # The entry first: a run that is committing holds it, and is waited for.
        if unused_since is None:
            entry = yield from lock(self._q, thread_id)
            found = not entry.new
        else:
            found = yield Query(self._q.lock_unused_thread, (thread_id, unused_since))
            if not found:
                return Removed()
        writes = yield Run(self._q.delete_writes, (thread_id,))
        values = yield Run(self._q.delete_blobs, (thread_id,))
        checkpoints = yield Run(self._q.delete_checkpoints, (thread_id,))
        yield Run(self._q.delete_thread, (thread_id,))
        return Removed([thread_id] if found or checkpoints else [], checkpoints, writes, values)

    def threads_of_runs(self, run_ids: Sequence[str]) -> Operation[list[str]]:
        """Threads that certain runs have written to."""
        found: dict[str, None] = {}
        for run_id in run_ids:
            rows = yield Query(self._q.threads_of_run, (run_id,))
            found.update((row[0], None) for row in rows)
        return list(found)

    def keep(self, thread_id: str, choose: Choice, *, dry_run: bool) -> Operation[Removed]:
        """Remove all checkpoints but the chosen ones and those that they cannot do without."""
        if dry_run:
            return (yield from self._keep(thread_id, choose, dry_run=True))
        entry = yield from lock(self._q, thread_id)
        removed = yield from self._keep(thread_id, choose, dry_run=False)
        if entry.new or removed.threads:
            yield Run(self._q.delete_thread, (thread_id,))
        return removed

    def _keep(self, thread_id: str, choose: Choice, *, dry_run: bool) -> Operation[Removed]:
        thread = yield from self._load(thread_id)
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
            # Of what is gone, what is removed here may be the only one to tell.
            thread.frames[ns].check_writes(id, writes.get((ns, id), ()))
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
        yield from self._part_writes(thread_id, thread, kept, writes)
        yield from self._cut_values(thread_id, used)
        yield from self._cut_frames(thread_id, thread, kept)
        at = [(thread_id, *node) for node in doomed]
        yield Many(self._q.delete_writes_at, at)
        yield Many(self._q.delete_checkpoint, at)
        yield Many(self._q.delete_blob, [(thread_id, *key) for key in unused])
        # Rows are gone that a run may want to build on: a new epoch tells it not to.
        head = max((id for ns, id in kept if ns == ""), default=None)
        yield Run(self._q.new_epoch, (head, new_epoch(), thread_id))
        return removed

    def _load(self, thread_id: str) -> Operation[Thread]:
        rows = yield Query(self._q.checkpoints_of, (thread_id,))
        records = {(row[0], row[1]): CheckpointRecord(*row[1:]) for row in rows}
        found: dict[str, Frames] = {}
        for ns in dict.fromkeys(ns for ns, _ in records):
            own = [row for (other, _), row in records.items() if other == ns]
            found[ns] = yield from self._reader.frames(thread_id, ns, own)
        metadata = {
            node: metadata_of(self._reader.codec, thread_id, node[0], row)
            for node, row in records.items()
        }
        return Thread(records, found, metadata)

    def _part_writes(
        self,
        thread_id: str,
        thread: Thread,
        kept: Collection[Node],
        writes: Mapping[Node, Sequence[WriteRecord]],
    ) -> Operation[None]:
        """Writes in the row of another checkpoint stay or go with their own, and are counted."""
        rows: list[Any] = []
        cleared = []
        for (ns, id), some in writes.items():
            for write in some:
                if write.kind != LED:
                    continue
                child = (ns, write.task_id)
                if (ns, id) not in kept and child in kept:
                    cleared.append((thread_id, *child))
                elif (ns, id) in kept and child not in kept:
                    rows += own_rows(self._reader.codec, (thread_id, ns, id), child[1], write.data)
        yield Many(self._q.add_write, rows)
        yield Many(self._q.clear_ledger, cleared)
        counts = [
            self._count(thread_id, thread.rows[node], node[0], len(keys))
            for node, keys in _keys(thread, kept, writes, rows).items()
        ]
        yield Many(self._q.count_writes, counts)

    def _count(self, thread_id: str, row: CheckpointRecord, ns: str, rows: int) -> tuple[Any, ...]:
        """The metadata of a checkpoint, with the number of its rows of writes."""
        codec = self._reader.codec
        place = (thread_id, ns, row.id)
        kind, data, counted = notes.opened(codec, row.metadata_kind, row.metadata, *place)
        kind, data = notes.counted(kind, data, max(rows, counted))
        return (kind, codec.seal(data, ("metadata", *place), (kind,)), *place)

    def _cut_values(self, thread_id: str, used: Collection[tuple[str, ...]]) -> Operation[None]:
        """Store in full what was a difference from something that goes away."""
        codec = self._reader.codec
        for ns in dict.fromkeys(key[0] for key in used):
            keys = {(channel, version) for other, channel, version in used if other == ns}
            resolver: Resolver = yield from self._reader.values(thread_id, ns, keys)
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
            yield Many(self._q.cut_blob, rows)

    def _cut_frames(
        self, thread_id: str, thread: Thread, kept: Collection[Node]
    ) -> Operation[None]:
        """The oldest that are kept become the first of their line."""
        rows = []
        for ns, id in kept:
            row = thread.rows[ns, id]
            if row.parent_id is None or (ns, row.parent_id) in kept:
                continue
            data = frames.pack(thread.frames[ns].stamp(row), thread.frame((ns, id)))
            sealed = self._reader.codec.seal(data, ("frame", thread_id, ns, id), (None, 1))
            rows.append((sealed, thread_id, ns, id))
        yield Many(self._q.cut_checkpoint, rows)


def _keys(
    thread: Thread,
    kept: Collection[Node],
    writes: Mapping[Node, Sequence[WriteRecord]],
    moved: Sequence[Any],
) -> dict[Node, set[tuple[str, int]]]:
    """The rows of writes at checkpoints that lose one after them, which has counted them."""
    left = {
        (ns, row.parent_id)
        for (ns, id), row in thread.rows.items()
        if row.parent_id is not None and (ns, id) not in kept and (ns, row.parent_id) in kept
    }
    found = {
        node: {(row.task_id, row.position) for row in writes.get(node, ()) if row.kind != LED}
        for node in left
    }
    for _, ns, id, task_id, position, *_ in moved:
        found[ns, id].add((task_id, position))
    return {node: keys for node, keys in found.items() if keys}


def _used(
    thread: Thread, kept: Collection[Node], writes: Mapping[Node, Sequence[WriteRecord]]
) -> set[tuple[str, str, str]]:
    used = set()
    for node in kept:
        frame = thread.frame(node)
        for channel, held in frame.inline.items():
            if held is False and channel in frame.versions:
                used.add((node[0], channel, str(frame.versions[channel])))
        for write in writes.get(node, ()):
            if write.base is not None:
                used.add((node[0], write.channel, write.base))
    return used
