"""Collects the rows of prepared steps, so that each table gets one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost._db.operations import Batch, ExecuteMany, Operation
from milepost.checkpoint._sql import manifest as manifests
from milepost.checkpoint._sql.cache import Chain
from milepost.checkpoint._sql.rows import CheckpointRow, Prepared
from milepost.checkpoint._sql.write.chains import full_cells
from milepost.checkpoint._sql.write.counts import WriteCounts

if TYPE_CHECKING:
    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._sql.statements import Statements

_Rows = list[tuple[Any, ...]]


class TransactionRows:
    def __init__(self, codec: Codec, queries: Statements) -> None:
        self._codec = codec
        self._q = queries
        self.counts = WriteCounts(codec)
        self._clear()

    def send(self) -> Operation[None]:
        """Send the rows, so that later queries of the transaction see them."""
        yield Batch(self.statements())
        self._clear()

    def _clear(self) -> None:
        self.blobs: _Rows = []
        self.compactions: _Rows = []
        self.writes: _Rows = []
        self.special: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        """Special writes by their key; each replaces an earlier one."""
        self.early: _Rows = []
        self.checkpoints: _Rows = []

    def statements(self) -> list[ExecuteMany]:
        """The statements, in this order: a row is added before it is compacted or counted."""
        q = self._q
        if self.compactions:
            self._compact_new()
        counts = self.counts.take(self.checkpoints, q)
        tables = (
            (q.add_blob, self.blobs),
            (q.compact_blob, self.compactions),
            (q.add_write, self.writes),
            (q.replace_write, list(self.special.values())),
            (q.compact_write, self.early),
            (q.add_checkpoint, self.checkpoints),
        )
        return [ExecuteMany(sql, rows) for sql, rows in tables if rows] + counts

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

    def add(self, step: Prepared, epoch: int) -> None:
        """Add the rows of a step of a thread that is in this epoch."""
        rows = self.counts.add(step)
        self._add_blobs(step, epoch)
        self._add_writes(step)
        row = step.checkpoint
        if row is not None:
            self.checkpoints.append(checkpoint_row(self._codec, step, row, epoch, rows))
            if step.fence is not None:
                self.counts.begin(step, row)

    def _add_blobs(self, step: Prepared, epoch: int) -> None:
        thread_id, ns, _ = step.place
        for blob in step.blobs:
            place = (thread_id, ns, blob.channel, blob.version)
            cached, base, cells = blob.cached, blob.base, blob.cells
            # A base that was stored in another way than planned does not lead to `base_version`.
            if base is not None and not (
                base.chain is blob.chain and base.supports(step.token, epoch)
            ):
                cells = None
                if cached is not None:
                    cached.chain = Chain()
            if cached is not None:
                cached.epoch = epoch
            self.blobs.append((*place, *(cells or full_cells(self._codec, place, blob))))
            for compaction in blob.compactions:
                older = (thread_id, ns, compaction.channel or blob.channel, compaction.version)
                into = (compaction.channel and blob.channel, blob.version)
                self.compactions.append((*into, compaction.delta, *older))

    def _add_writes(self, step: Prepared) -> None:
        for task in step.writes:
            shared = (*step.place, task.task_id)
            for position, channel, *stored in task.ordinary:
                self.writes.append((*shared, position, channel, task.task_path, *stored))
            for position, channel, *stored in task.special:
                row = (*shared, position, channel, task.task_path, *stored)
                self.special[*shared, position] = row
        for compaction in step.early:
            key = (*step.place, compaction.task_id, compaction.position)
            self.early.append((compaction.base, compaction.delta, *key))


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
    return (
        thread_id,
        ns,
        id,
        parent_id,
        int(complete),
        row.run_id,
        manifest,
        row.metadata_kind,
        row.metadata,
        row.inline_writes,
    )
