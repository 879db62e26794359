"""Prepared steps as rows of the tables, gathered so that each table is written to once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.checkpoint.commit import Written
from milepost.checkpoint.splice import Buffer, pack
from milepost.checkpoint.sql import frames, notes
from milepost.checkpoint.sql.remembered import Chain
from milepost.checkpoint.sql.rows import CheckpointRow, Prepared, short_kind
from milepost.sql.operations import Many

if TYPE_CHECKING:
    from milepost.checkpoint.codec import Codec
    from milepost.checkpoint.records import Place
    from milepost.checkpoint.sql.queries import Queries

_Rows = list[tuple[Any, ...]]


class Tables:
    """The rows of one transaction."""

    __slots__ = (
        "_codec",
        "_counting",
        "_q",
        "blobs",
        "checkpoints",
        "counts",
        "early",
        "folds",
        "special",
        "writes",
    )

    def __init__(self, codec: Codec, queries: Queries) -> None:
        self._codec = codec
        self._q = queries
        self._counting: dict[Place, tuple[Written, set[tuple[str, int]]]] = {}
        """What is known of the rows at checkpoints, and what this transaction adds to them."""
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
        self.counts: dict[tuple[str, ...], tuple[str | None, bytes]] = {}
        """The metadata of checkpoints, with a new number of writes, by their key."""

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
        if self.counts:
            self._count_new()
        if self.checkpoints:
            found.append(Many(q.add_checkpoint, self.checkpoints))
        if self.counts:
            found.append(Many(q.count_writes, [(*cell, *key) for key, cell in self.counts.items()]))
        return found

    def _count_new(self) -> None:
        """Store a checkpoint with its number of writes, if this transaction stores it."""
        for at, row in enumerate(self.checkpoints):
            counted = self.counts.pop(row[:3], None)
            if counted is not None:
                self.checkpoints[at] = (*row[:7], *counted, *row[9:])

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

    def knows(self, step: Prepared) -> bool:
        """Whether the writes of a step can be counted: what is stored beside them is known."""
        return self._beside(step) is not None

    def learn(self, step: Prepared, written: Written) -> None:
        """Take note of what is stored where a step starts from."""
        self._counting[step.place] = (written, set())

    def _beside(self, step: Prepared) -> tuple[Written, set[tuple[str, int]]] | None:
        found = self._counting.get(step.place)
        if found is None and (written := written_at(step)) is not None:
            found = self._counting[step.place] = (written, set())
        return found

    def _count(self, step: Prepared) -> int:
        """How many rows of writes there are at least where a step starts from, with its own."""
        own = {
            (task.task_id, row.position)
            for task in step.writes
            for row in (*task.ordinary, *task.special)
        }
        step.written, step.added = None, set()
        known = self._beside(step)
        if known is None:
            return len(own)
        written, added = known
        step.written, step.added = written, own - written.keys
        before = len(added)
        added |= step.added
        rows = written.lost + len(written.keys) + len(added)
        if step.checkpoint is None and len(added) > before:
            self._store_count(step.place, written.checkpoint_id, *written.metadata, rows)
        return rows

    def recount(self, step: Prepared, new: CheckpointRow, rows: int) -> None:
        """The checkpoint of a step has so many rows of writes already: it is put again."""
        if rows:
            kind = short_kind(new.metadata_kind)
            self._store_count(step.place, new.checkpoint_id, kind, new.notes, rows)

    def _store_count(
        self, place: Place, id: str, kind: str | None, data: Buffer, rows: int
    ) -> None:
        thread_id, ns, _ = place
        kind, counted = notes.counted(kind, data, rows)
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
                place = step.place._replace(checkpoint_id=row.checkpoint_id)
                self._counting[place] = (step.written, set())

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


def written_at(step: Prepared) -> Written | None:
    """What the run of a step knows of the rows of writes where the step starts from."""
    if step.fence is None:
        return None
    written = step.fence.written.get(step.place.checkpoint_ns)
    same = written is not None and written.checkpoint_id == step.place.checkpoint_id
    return written if same else None


def checkpoint_row(
    codec: Codec, step: Prepared, row: CheckpointRow, epoch: int, rows: int
) -> tuple[Any, ...]:
    """The row of a step's checkpoint, in a thread that is in this epoch.

    Its parent has so many rows of writes, with those of the step.
    """
    thread_id, ns, parent_id = step.place
    known, base, changes = row.known, row.base, row.changes
    writes = frames.ParentWrites(row.led is not None, rows)
    if changes is not None and base is not None and base.supports(step.token, epoch):
        complete = 0
        data = frames.pack(row.stamp, changes, writes)
        known.rows, known.spent = base.rows + 1, base.spent + len(data)
        known.size = base.size
    else:
        complete = 1
        data = frames.pack(row.stamp, known.frame, writes)
        known.rows, known.spent, known.size = 1, 0, len(data)
    known.epoch = epoch
    id = row.checkpoint_id
    frame = codec.seal(data, ("frame", thread_id, ns, id), (parent_id, complete))
    kind = short_kind(row.metadata_kind)
    if step.fence is not None:
        # Made by this run, it has no rows of writes yet that the run does not know.
        step.written, step.added = Written(id, set(), (kind, row.notes)), set()
    return thread_id, ns, id, parent_id, complete, row.run_id, frame, kind, row.metadata, row.led
