"""Collects the rows of prepared steps, so that each table gets one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost._db.operations import ExecuteMany
from milepost.checkpoint._contract.step_saver import StoredWrites
from milepost.checkpoint._delta.diff import Buffer
from milepost.checkpoint._sql import manifest as manifests
from milepost.checkpoint._sql import metadata as metadata_cells
from milepost.checkpoint._sql.cache import Chain
from milepost.checkpoint._sql.rows import CheckpointRow, Prepared, short_kind

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import Place
    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._sql.statements import Statements

_Rows = list[tuple[Any, ...]]
_Key = tuple[str, str, str | None]
"""Thread, namespace and checkpoint: a `Place`."""


class TransactionRows:
    __slots__ = (
        "_codec",
        "_counting",
        "_q",
        "blobs",
        "checkpoints",
        "compactions",
        "counts",
        "early",
        "special",
        "writes",
    )

    def __init__(self, codec: Codec, queries: Statements) -> None:
        self._codec = codec
        self._q = queries
        self._counting: dict[_Key, tuple[StoredWrites, set[tuple[str, int]]]] = {}
        """Checkpoint → known rows of writes, and the rows that this transaction adds."""
        self.clear()

    def clear(self) -> None:
        """Drop the rows, which have been sent."""
        self.blobs: _Rows = []
        self.compactions: _Rows = []
        self.writes: _Rows = []
        self.special: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        """Special writes by their key; each replaces an earlier one."""
        self.early: _Rows = []
        self.checkpoints: _Rows = []
        self.counts: dict[tuple[str, ...], tuple[str | None, bytes]] = {}
        """Checkpoint → kind and bytes of its metadata, with a new number of rows of writes."""

    def statements(self) -> list[ExecuteMany]:
        """The statements, in this order: a row is added before it is compacted or counted."""
        q = self._q
        found = []
        if self.compactions:
            self._compact_new()
        if self.blobs:
            found.append(ExecuteMany(q.add_blob, self.blobs))
        if self.compactions:
            found.append(ExecuteMany(q.compact_blob, self.compactions))
        if self.writes:
            found.append(ExecuteMany(q.add_write, self.writes))
        if self.special:
            found.append(ExecuteMany(q.replace_write, list(self.special.values())))
        if self.early:
            found.append(ExecuteMany(q.compact_write, self.early))
        if self.counts:
            self._count_new()
        if self.checkpoints:
            found.append(ExecuteMany(q.add_checkpoint, self.checkpoints))
        if self.counts:
            found.append(
                ExecuteMany(q.count_writes, [(*cell, *key) for key, cell in self.counts.items()])
            )
        return found

    def _count_new(self) -> None:
        """Put the number of writes directly into checkpoints of this transaction."""
        for at, row in enumerate(self.checkpoints):
            counted = self.counts.pop(row[:3], None)
            if counted is not None:
                self.checkpoints[at] = (*row[:7], *counted, *row[9:])

    def _compact_new(self) -> None:
        """Put the compacted form directly into rows of this transaction.

        Otherwise the full form would take space in the database until the next vacuum.
        """
        new = {row[:4]: at for at, row in enumerate(self.blobs)}
        compactions, self.compactions = self.compactions, []
        for compaction in compactions:
            base_channel, base, data, *place = compaction
            at = new.get(tuple(place))
            if at is None:
                self.compactions.append(compaction)
            else:
                *_, kind, _ = self.blobs[at]
                self.blobs[at] = (*place, base_channel, base, 0, kind, data)

    def can_count(self, step: Prepared) -> bool:
        """Whether the rows of writes at the step's checkpoint are known."""
        return self._stored_beside(step) is not None

    def learn(self, step: Prepared, written: StoredWrites) -> None:
        """Note the rows of writes at the checkpoint that a step starts from."""
        self._counting[step.place] = (written, set())

    def _stored_beside(self, step: Prepared) -> tuple[StoredWrites, set[tuple[str, int]]] | None:
        found = self._counting.get(step.place)
        if found is None and (written := stored_writes_at(step)) is not None:
            found = self._counting[step.place] = (written, set())
        return found

    def _count(self, step: Prepared) -> int:
        """The least number of rows of writes where a step starts, with its own."""
        own = {
            (task.task_id, row.position)
            for task in step.writes
            for row in (*task.ordinary, *task.special)
        }
        step.written, step.added = None, set()
        beside = self._stored_beside(step)
        if beside is None:
            return len(own)
        written, added = beside
        step.written, step.added = written, own - written.keys
        before = len(added)
        added |= step.added
        rows = written.lost + len(written.keys) + len(added)
        if step.checkpoint is None and len(added) > before:
            self._store_count(step.place, written.checkpoint_id, *written.metadata, rows)
        return rows

    def recount(self, step: Prepared, new: CheckpointRow, rows: int) -> None:
        """Keep the number of rows of writes at a checkpoint that is put again."""
        if rows:
            cell = (new.metadata_kind, new.metadata_bytes)
            self._store_count(step.place, new.checkpoint_id, *cell, rows)

    def _store_count(
        self, place: Place, id: str, kind: str | None, data: Buffer, rows: int
    ) -> None:
        thread_id, ns, _ = place
        kind, counted = metadata_cells.counted(kind, data, rows)
        sealed = self._codec.seal(counted, ("metadata", thread_id, ns, id), (kind,))
        self.counts[thread_id, ns, id] = (kind, sealed)

    def add(self, step: Prepared, epoch: int) -> None:
        """Add the rows of a step of a thread that is in this epoch."""
        rows = self._count(step)
        if step.blobs:
            self._add_blobs(step, epoch)
        if step.writes:
            self._add_writes(step)
        if step.early:
            self._add_early(step)
        row = step.checkpoint
        if row is not None:
            self.checkpoints.append(checkpoint_row(self._codec, step, row, epoch, rows))
            if step.fence is not None and step.written is not None:
                thread_id, ns, _ = step.place
                self._counting[thread_id, ns, row.checkpoint_id] = (step.written, set())

    def _add_blobs(self, step: Prepared, epoch: int) -> None:
        thread_id, ns, _ = step.place
        for blob in step.blobs:
            base: str | None = None
            cached = blob.cached
            data = b""
            if blob.base is not None and blob.delta is not None:
                # If the base was stored in another way than planned, `base_version` may be gone.
                as_planned = blob.base.chain is blob.chain
                if as_planned and blob.base.supports(step.token, epoch):
                    base = blob.base_version or blob.base.version
                    data = blob.delta
                elif cached is not None:
                    cached.chain = Chain()
            if base is None:
                data = blob.encoded.parts.join()
            level = 0
            if cached is not None:
                cached.epoch = epoch
                level = cached.chain.compactions if base is None else int(cached.chain.is_root)
            place = (thread_id, ns, blob.channel, blob.version)
            columns = (None, base, level, short_kind(blob.encoded.kind))
            data = self._codec.seal(data, ("blob", *place), columns)
            self.blobs.append((*place, *columns, data))
            for compaction in blob.compactions:
                place = (thread_id, ns, compaction.channel or blob.channel, compaction.version)
                into = (compaction.channel and blob.channel, blob.version)
                beside = (*into, 0, short_kind(compaction.kind))
                data = self._codec.seal(compaction.delta, ("blob", *place), beside)
                self.compactions.append((*into, data, *place))

    def _add_writes(self, step: Prepared) -> None:
        for task in step.writes:
            shared = (*step.place, task.task_id)
            for position, channel, *stored in task.ordinary:
                self.writes.append((*shared, position, channel, task.task_path, *stored))
            for position, channel, *stored in task.special:
                row = (*shared, position, channel, task.task_path, *stored)
                self.special[*shared, position] = row

    def _add_early(self, step: Prepared) -> None:
        thread_id, ns, id = step.place
        for compaction in step.early:
            place = ("write", thread_id, ns, str(id), compaction.task_id, str(compaction.position))
            columns = (
                compaction.channel,
                compaction.task_path,
                compaction.base,
                short_kind(compaction.kind),
            )
            sealed = self._codec.seal(compaction.delta, place, columns)
            key = (thread_id, ns, id, compaction.task_id, compaction.position)
            self.early.append((compaction.base, sealed, *key))


def stored_writes_at(step: Prepared) -> StoredWrites | None:
    """The rows of writes where a step starts; None if its run does not know them."""
    if step.fence is None:
        return None
    written = step.fence.written.get(step.place.checkpoint_ns)
    same = written is not None and written.checkpoint_id == step.place.checkpoint_id
    return written if same else None


def checkpoint_row(
    codec: Codec, step: Prepared, row: CheckpointRow, epoch: int, rows: int
) -> tuple[Any, ...]:
    """The row of a step's checkpoint, in a thread that is in this epoch.

    `rows` is the number of rows of writes at the parent, with those of the step.
    """
    thread_id, ns, parent_id = step.place
    cached, base, packed, complete = row.cached, row.base, row.packed, row.is_complete
    if packed is None or not (complete or (base and base.supports(step.token, epoch))):
        packed, complete = manifests.pack(row.stamp, cached.manifest), True
    writes = manifests.ParentWrites(row.inline_writes is not None, rows)
    data = manifests.with_writes(packed, writes)
    if complete or base is None:
        cached.rows, cached.spent, cached.size = 1, 0, len(data)
    else:
        cached.rows, cached.spent = base.rows + 1, base.spent + len(data)
        cached.size = base.size
    cached.epoch = epoch
    id = row.checkpoint_id
    manifest = codec.seal(data, ("frame", thread_id, ns, id), (parent_id, int(complete)))
    kind = row.metadata_kind
    if step.fence is not None:
        # The run itself makes this checkpoint, so it has no rows of writes yet.
        step.written, step.added = StoredWrites(id, set(), (kind, row.metadata_bytes)), set()
    return (
        thread_id,
        ns,
        id,
        parent_id,
        int(complete),
        row.run_id,
        manifest,
        kind,
        row.metadata,
        row.inline_writes,
    )
