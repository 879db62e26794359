"""Prepared steps as rows of the tables, gathered so that each table is written to once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.checkpoint.splice import pack
from milepost.checkpoint.sql import frames
from milepost.checkpoint.sql.remembered import Chain
from milepost.checkpoint.sql.rows import CheckpointRow, Prepared, short_kind
from milepost.sql.operations import Many

if TYPE_CHECKING:
    from milepost.checkpoint.codec import Codec
    from milepost.checkpoint.sql.queries import Queries

_Rows = list[tuple[Any, ...]]


class Tables:
    """The rows of one transaction."""

    __slots__ = ("_codec", "_q", "blobs", "checkpoints", "early", "folds", "special", "writes")

    def __init__(self, codec: Codec, queries: Queries) -> None:
        self._codec = codec
        self._q = queries
        self.clear()

    def clear(self) -> None:
        """Forget the rows: they have been stored."""
        self.blobs: _Rows = []
        self.folds: _Rows = []
        self.writes: _Rows = []
        self.special: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        """Writes that replace those of an earlier attempt, by their key."""
        self.early: _Rows = []
        self.checkpoints: _Rows = []

    def statements(self) -> list[Many]:
        """In this order: what is folded must be there first."""
        q = self._q
        found = []
        if self.folds:
            self._fold_new()
        if self.blobs:
            found.append(Many(q.add_blob, self.blobs))
        if self.folds:
            found.append(Many(q.fold_blob, self.folds))
        if self.writes:
            found.append(Many(q.add_write, self.writes))
        if self.special:
            found.append(Many(q.replace_write, list(self.special.values())))
        if self.early:
            found.append(Many(q.fold_write, self.early))
        if self.checkpoints:
            found.append(Many(q.add_checkpoint, self.checkpoints))
        return found

    def _fold_new(self) -> None:
        """Store a row folded to begin with, if this transaction stores it.

        Otherwise its full form takes room in the database until that is vacuumed.
        """
        new = {row[:4]: at for at, row in enumerate(self.blobs)}
        folds, self.folds = self.folds, []
        for fold in folds:
            base_channel, base, data, *place = fold
            at = new.get(tuple(place))
            if at is None:
                self.folds.append(fold)
            else:
                *_, kind, _ = self.blobs[at]
                self.blobs[at] = (*place, base_channel, base, 0, kind, data)

    def add(self, step: Prepared, epoch: int) -> None:
        """Add the rows of a step of a thread that is in this epoch."""
        if step.blobs:
            self._add_blobs(step, epoch)
        if step.writes:
            self._add_writes(step)
        if step.early:
            self._add_early(step)
        if step.checkpoint is not None:
            self.checkpoints.append(checkpoint_row(self._codec, step, step.checkpoint, epoch))

    def _add_blobs(self, step: Prepared, epoch: int) -> None:
        thread_id, ns, _ = step.place
        for blob in step.blobs:
            base: str | None = None
            known = blob.known
            data = b""
            if blob.base is not None and blob.program is not None:
                # If that one had to be stored in another way, what it stood on may be gone.
                as_planned = blob.base.chain is blob.chain
                if as_planned and blob.base.supports(step.token, epoch):
                    base = blob.base_version or blob.base.version
                    data = pack(blob.program)
                elif known is not None:
                    known.chain = Chain()
            if base is None:
                data = blob.encoded.parts.join()
            level = 0
            if known is not None:
                known.epoch = epoch
                level = known.chain.folds if base is None else int(known.chain.is_root)
            place = (thread_id, ns, blob.channel, blob.version)
            columns = (None, base, level, short_kind(blob.encoded.kind))
            data = self._codec.seal(data, ("blob", *place), columns)
            self.blobs.append((*place, *columns, data))
            for fold in blob.folds:
                place = (thread_id, ns, fold.channel or blob.channel, fold.version)
                into = (fold.channel and blob.channel, blob.version)
                data = pack(fold.program)
                data = self._codec.seal(data, ("blob", *place), (*into, 0, short_kind(fold.kind)))
                self.folds.append((*into, data, *place))

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
        for fold in step.early:
            place = ("write", thread_id, ns, str(id), fold.task_id, str(fold.position))
            columns = (fold.channel, fold.task_path, fold.base, short_kind(fold.kind))
            sealed = self._codec.seal(fold.program, place, columns)
            key = (thread_id, ns, id, fold.task_id, fold.position)
            self.early.append((fold.base, sealed, *key))


def checkpoint_row(codec: Codec, step: Prepared, row: CheckpointRow, epoch: int) -> tuple[Any, ...]:
    """The row of a step's checkpoint, in a thread that is in this epoch."""
    thread_id, ns, parent_id = step.place
    known, base, changes = row.known, row.base, row.changes
    if changes is not None and base is not None and base.supports(step.token, epoch):
        complete = 0
        data = frames.pack(row.stamp, changes)
        known.rows, known.spent = base.rows + 1, base.spent + len(data)
        known.size = base.size
    else:
        complete = 1
        data = frames.pack(row.stamp, known.frame)
        known.rows, known.spent, known.size = 1, 0, len(data)
    known.epoch = epoch
    id = row.checkpoint_id
    frame = codec.seal(data, ("frame", thread_id, ns, id), (parent_id, complete))
    kind = short_kind(row.metadata_kind)
    return thread_id, ns, id, parent_id, complete, row.run_id, frame, kind, row.metadata, row.led
