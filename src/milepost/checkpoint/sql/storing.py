"""Stores prepared steps: one operation, one transaction, however many steps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.sql import frames
from milepost.checkpoint.sql.memory import LOST, Chain, Frame, Known, KnownFrame, Memory
from milepost.checkpoint.sql.reading import CheckpointRecord
from milepost.checkpoint.sql.rows import CheckpointRow, Prepared, short_kind
from milepost.errors import ThreadConflict
from milepost.ids import getrandbits
from milepost.sql import splice
from milepost.sql.operations import Batch, Many, Operation, Query, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint.sql.codec import Codec
    from milepost.checkpoint.sql.queries import Queries
    from milepost.checkpoint.sql.reading import Reader


@dataclass(slots=True)
class _Row:
    """The registry's entry for a thread, as this transaction has it."""

    head: str | None
    token: str | None
    epoch: int
    new: bool


class Storer:
    """Stores steps through one dialect's queries."""

    def __init__(self, codec: Codec, memory: Memory, queries: Queries, reader: Reader) -> None:
        self._codec = codec
        self._memory = memory
        self._q = queries
        self._reader = reader

    def steps(self, steps: Sequence[Prepared]) -> Operation[list[Exception | None]]:
        """For each step None, or the conflict because of which it was left out."""
        threads: dict[str, _Row] = {}
        lost: dict[str, ThreadConflict] = {}
        outcome: list[Exception | None] = []
        batch: list[Run | Many] = []
        for step in steps:
            token = step.token
            if token is not None and token in lost:
                outcome.append(lost[token])
                continue
            row = threads.get(step.place.thread_id)
            if row is None:
                row = threads[step.place.thread_id] = yield from self._thread(step.place.thread_id)
            try:
                if step.fence is not None:
                    step.fence.check(step.place.thread_id, row.head, row.token)
            except ThreadConflict as conflict:
                assert token is not None
                lost[token] = conflict
                outcome.append(conflict)
                continue
            yield from self._step(step, row, batch)
            outcome.append(None)
        if batch:
            yield Batch(batch)
        return outcome

    def settle(self, steps: Sequence[Prepared], outcome: Sequence[Exception | None]) -> None:
        """Remember what a transaction has done, after it was committed or rolled back."""
        for step, error in zip(steps, outcome, strict=True):
            owner = None if error is None else LOST
            row = step.checkpoint
            values: dict[str, Known] = {}
            for blob in step.blobs:
                if blob.known is not None:
                    blob.known.owner = owner
                    values[blob.channel] = blob.known
            if row is not None:
                row.known.owner = owner
            if error is not None:
                self._memory.forget(step.place.thread_id)
                continue
            if step.fence is not None:
                step.fence.taken = True
            elif row is not None and self._codec.splices:
                self._memory.learn(
                    step.place.thread_id, step.place.checkpoint_ns, row.known, values
                )

    # -- one step

    def _thread(self, thread_id: str) -> Operation[_Row]:
        rows = yield Query(self._q.lock_thread, (thread_id,))
        if not rows:
            # At random, so that nobody mistakes a thread for an earlier one of the same name.
            return _Row(None, None, getrandbits(53), True)
        head, token, epoch = rows[0]
        return _Row(head, token, epoch, False)

    def _step(self, step: Prepared, row: _Row, batch: list[Run | Many]) -> Operation[None]:
        thread_id, ns, parent_id = step.place
        token = step.token
        checkpoint = step.checkpoint
        if checkpoint is not None and step.fence is None and not row.new:
            yield from self._replaced(step, checkpoint, row)
        if step.blobs:
            self._blobs(step, row.epoch, batch)
        if step.writes:
            ordinary: list[tuple[Any, ...]] = []
            special: list[tuple[Any, ...]] = []
            for write in step.writes:
                (special if write.position < 0 else ordinary).append(
                    (
                        thread_id,
                        ns,
                        parent_id,
                        write.task_id,
                        write.position,
                        write.channel,
                        write.task_path,
                        write.base,
                        short_kind(write.kind),
                        write.data,
                    )
                )
            if ordinary:
                batch.append(Many(self._q.add_write, ordinary))
            if special:
                batch.append(Many(self._q.replace_write, special))
        if step.early:
            batch.append(Many(self._q.fold_write, self._early(step)))
        if checkpoint is not None:
            yield from self._checkpoint(step, checkpoint, row.epoch, batch)
            if ns == "" and (
                token is not None or row.head is None or checkpoint.checkpoint_id > row.head
            ):
                row.head = checkpoint.checkpoint_id
        row.token = token if token is not None else row.token
        now = time.time()
        status = step.status or "running"
        if row.new:
            row.new = False
            values = (thread_id, row.head, row.token, row.epoch, status, now, now)
            batch.append(Run(self._q.add_thread, values))
        else:
            values_now = (row.head, row.token, status, now, thread_id)
            batch.append(Run(self._q.touch_thread, values_now))

    def _early(self, step: Prepared) -> list[tuple[Any, ...]]:
        thread_id, ns, id = step.place
        return [
            (
                fold.base,
                self._codec.seal(
                    fold.program, "write", thread_id, ns, str(id), fold.task_id, str(fold.position)
                ),
                thread_id,
                ns,
                id,
                fold.task_id,
                fold.position,
            )
            for fold in step.early
        ]

    def _replaced(self, step: Prepared, new: CheckpointRow, thread: _Row) -> Operation[None]:
        """A foreign runtime may put a checkpoint again: what builds on the old one is to stay."""
        thread_id, ns, _ = step.place
        found = yield Query(self._q.checkpoint, (thread_id, ns, new.checkpoint_id))
        if not found:
            return
        rows = yield Query(self._q.children, (thread_id, ns, new.checkpoint_id))
        records = [CheckpointRecord(*record) for record in rows]
        framed = yield from self._reader.frames(thread_id, ns, records)
        for record in records:
            one = framed[record.id]
            data = frames.pack(one.stamp, one.frame)
            sealed = self._codec.seal(data, "frame", thread_id, ns, record.id)
            yield Run(self._q.complete_checkpoint, (sealed, thread_id, ns, record.id))
        # Others may remember the old one: a new epoch tells them not to build on it.
        thread.epoch = getrandbits(53)
        yield Run(self._q.new_epoch, (thread.head, thread.epoch, thread_id))

    def _blobs(self, step: Prepared, epoch: int, batch: list[Run | Many]) -> None:
        thread_id, ns, _ = step.place
        rows, folded = [], []
        for blob in step.blobs:
            base: str | None = None
            known = blob.known
            data = b""
            if blob.base is not None and blob.program is not None:
                if blob.base.supports(step.token, epoch):
                    base = blob.base_version or blob.base.version
                    data = splice.pack(blob.program)
                elif known is not None:
                    known.chain = Chain()
            if base is None:
                data = blob.encoded.parts.join()
            level = 0
            if known is not None:
                known.epoch = epoch
                level = known.chain.folds if base is None else int(known.chain.is_root)
            place = (thread_id, ns, blob.channel, blob.version)
            data = self._codec.seal(data, "blob", *place)
            rows.append((*place, None, base, level, short_kind(blob.encoded.kind), data))
            for fold in blob.folds:
                place = (thread_id, ns, fold.channel or blob.channel, fold.version)
                data = self._codec.seal(splice.pack(fold.program), "blob", *place)
                folded.append((fold.channel and blob.channel, blob.version, data, *place))
        batch.append(Many(self._q.add_blob, rows))
        if folded:
            batch.append(Many(self._q.fold_blob, folded))

    def _checkpoint(
        self, step: Prepared, row: CheckpointRow, epoch: int, batch: list[Run | Many]
    ) -> Operation[None]:
        thread_id, ns, parent_id = step.place
        known, base, changes = row.known, row.base, row.changes
        supported = base is not None and base.supports(step.token, epoch)
        if known.partial:
            yield from self._complete(step, known, base if supported else None)
        if changes is not None and supported:
            assert base is not None
            data = frames.pack(row.stamp, changes)
            known.rows, known.spent = base.rows + 1, base.spent + len(data)
            known.size = base.size
        else:
            changes = None
            data = frames.pack(row.stamp, known.frame)
            known.rows, known.spent, known.size = 1, 0, len(data)
        known.epoch = epoch
        values = (
            thread_id,
            ns,
            row.checkpoint_id,
            parent_id,
            1 if changes is None else 0,
            row.run_id,
            self._codec.seal(data, "frame", thread_id, ns, row.checkpoint_id),
            short_kind(row.metadata_kind),
            row.metadata,
        )
        batch.append(Run(self._q.add_checkpoint, values))

    def _complete(
        self, step: Prepared, known: KnownFrame, base: KnownFrame | None
    ) -> Operation[None]:
        """Fill in what only the parent's frame knows."""
        parent: Frame | None
        if base is not None and not base.partial:
            parent = base.frame
        else:
            parent = yield from self._reader.frame_of(step.place)
        inherited = parent.inline if parent is not None else {}
        frame = known.frame
        known.frame = Frame(
            frame.versions,
            frame.seen,
            {
                channel: inherited.get(channel) if held is True else held
                for channel, held in frame.inline.items()
            },
        )
        known.partial = False
