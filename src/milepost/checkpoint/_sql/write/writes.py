"""Decides where a step's writes are stored: inline in the row of the next checkpoint, in rows of
their own, or as references into a channel's version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ormsgpack import packb

from milepost.checkpoint._contract.records import WRITES_IDX_MAP
from milepost.checkpoint._delta.diff import pack
from milepost.checkpoint._delta.encode import Encoded, Value, in_parts, size_of
from milepost.checkpoint._delta.split import place_in
from milepost.checkpoint._sql.cache import EarlyWrite, ThreadCache
from milepost.checkpoint._sql.inline_writes import Entry, as_own_rows, pack_several
from milepost.checkpoint._sql.rows import (
    MSGPACK,
    BlobRow,
    CheckpointRow,
    EarlyCompaction,
    Prepared,
    TaskRows,
    WriteRow,
    short_kind,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint._contract.step_saver import StepCommit, TaskWrites
    from milepost.checkpoint._delta.encode import Codec

_MIN_EARLY_REFERENCE: Final = 1024
"""Bytes from which a write that was stored before its step ended is replaced by a reference."""
_MIN_REFERENCE: Final = 96
"""Bytes from which a write is stored as a reference, if the channel's new version contains it."""
_MAX_INLINE: Final = 512
"""Bytes up to which the writes of a task are stored inline."""
_MAX_GRAPHS: Final = 256
"""Graphs of a run whose last checkpoint is tracked."""


def place_inline(
    codec: Codec,
    step: StepCommit,
    encoded: Sequence[Sequence[Value]],
    row: CheckpointRow,
    blobs: Sequence[BlobRow],
) -> bool:
    """Store a step's writes inline, in the row of its new checkpoint; False if that cannot be.

    Readers find inline writes only if the new checkpoint comes right after its parent. So the
    parent must be the last checkpoint that the run has made, or the head that the run has loaded.
    All writes must be short and ordinary, and none may be a reference.
    """
    fence, ns = step.fence, step.checkpoint_ns
    made = fence.made
    before = made.get(ns)
    if before is None and not ns and not fence.forced:
        before = fence.head
    follows = before == step.checkpoint_id
    if len(made) >= _MAX_GRAPHS:
        made.clear()
    made[ns] = row.checkpoint_id
    if not (follows and fence.alone and step.writes):
        return False
    channels = {row.channel for row in blobs} if blobs else ()
    tasks: list[Entry] = []
    for task, values in zip(step.writes, encoded, strict=True):
        left = _MAX_INLINE
        writes = []
        for position, ((channel, _), value) in enumerate(zip(task.writes, values, strict=True)):
            kind, size = value[0], value.size if isinstance(value, Encoded) else len(value[1])
            left -= size
            if (
                left < 0
                or channel in WRITES_IDX_MAP
                or (size >= _MIN_REFERENCE and channel in channels)
            ):
                return False
            data = value.parts.join() if isinstance(value, Encoded) else value[1]
            writes.append((position, channel, None if kind == MSGPACK else kind, data))
        tasks.append((task.task_id, task.task_path, writes))
    place = ("led", step.thread_id, ns, row.checkpoint_id)
    row.inline_writes = codec.seal(packb(tasks), place, (step.checkpoint_id,))
    return True


def part_inline(codec: Codec, step: Prepared) -> None:
    """Give the inline writes of a step rows of their own, since checkpoints of others may come
    between its checkpoint and the parent."""
    row = step.checkpoint
    if row is None or row.inline_writes is None:
        return
    thread_id, ns, id = step.place
    for own in as_own_rows(codec, (thread_id, ns, str(id)), row.checkpoint_id, row.inline_writes):
        _, _, _, task_id, position, channel, path, *cells = own
        step.writes.append(TaskRows(task_id, path, [WriteRow(position, channel, *cells)]))
    row.inline_writes = None


def task_rows(task: TaskWrites, values: Sequence[Value], blobs: Sequence[BlobRow]) -> TaskRows:
    """The writes of a task as rows, before sealing. Large ones are references into `blobs`."""
    rows = {row.channel: row for row in blobs if row.cached} if blobs else {}
    made = TaskRows(task.task_id, task.task_path)
    for position, ((channel, _), value) in enumerate(zip(task.writes, values, strict=True)):
        encoded = in_parts(value)
        at = WRITES_IDX_MAP.get(channel, position)
        base, data = None, None
        if encoded.size >= _MIN_REFERENCE and channel in rows:
            data = _delta_inside(rows[channel], encoded)
            base = rows[channel].version if data is not None else None
        if data is None:
            data = encoded.parts.join()
        row = WriteRow(at, channel, base, short_kind(encoded.kind), data)
        (made.special if at < 0 else made.ordinary).append(row)
    return made


def place_writes(codec: Codec, prepared: Prepared) -> None:
    """Seal the rows of writes. Small writes of a task share a row."""
    thread_id, ns, checkpoint_id = prepared.place
    row = prepared.checkpoint
    one_row = codec.splices and prepared.fence is not None
    for task in prepared.writes:
        path = task.task_path
        place = ("write", thread_id, ns, str(checkpoint_id), task.task_id)
        if one_row and len(task.ordinary) > 1 and _fits_one_row(task, row):
            task.ordinary = [pack_several(task.ordinary)]
        task.ordinary = [_sealed(codec, place, path, write) for write in task.ordinary]
        task.special = [_sealed(codec, place, path, write) for write in task.special]


def _fits_one_row(task: TaskRows, row: CheckpointRow | None) -> bool:
    """Whether no write of a task is a reference to a channel's version, or may become one."""
    return not any(
        write.base is not None or (len(write.data) >= _MIN_EARLY_REFERENCE and row is None)
        for write in (*task.ordinary, *task.special)
    )


def _sealed(codec: Codec, place: tuple[str, ...], path: str, row: WriteRow) -> WriteRow:
    position, channel, base, kind, data = row
    data = codec.seal(data, (*place, str(position)), (channel, path, base, kind))
    return WriteRow(position, channel, base, kind, data)


def add_early_write(
    cache: ThreadCache, step: StepCommit, encoded: Sequence[Sequence[Value]]
) -> None:
    """Cache the large writes of a step that goes on, to replace them by references later."""
    assert step.checkpoint_id is not None
    for task, values in zip(step.writes, encoded, strict=True):
        for position, ((channel, _), value) in enumerate(zip(task.writes, values, strict=True)):
            at = WRITES_IDX_MAP.get(channel, position)
            if size_of(value) >= _MIN_EARLY_REFERENCE and at >= 0:
                early = EarlyWrite(
                    step.checkpoint_id,
                    task.task_id,
                    task.task_path,
                    at,
                    channel,
                    in_parts(value),
                    step.fence.token,
                )
                cache.add_early_write(step.thread_id, step.checkpoint_ns, early)


def compact_early_writes(codec: Codec, cache: ThreadCache, prepared: Prepared) -> None:
    """Replace large writes that were stored early by references into the values of the step."""
    thread_id, ns, id = prepared.place
    found = cache.take_early_writes(thread_id, ns, str(id), str(prepared.token))
    rows = {row.channel: row for row in prepared.blobs if row.cached is not None} if found else {}
    for early in found:
        if (row := rows.get(early.channel)) is None:
            continue
        delta = _delta_inside(row, early.encoded)
        if delta is not None:
            place = ("write", thread_id, ns, str(id), early.task_id, str(early.position))
            kind = short_kind(early.encoded.kind)
            columns = (early.channel, early.task_path, row.version, kind)
            sealed = codec.seal(delta, place, columns)
            key = (early.task_id, early.position)
            prepared.early.append(EarlyCompaction(*key, row.version, sealed))


def _delta_inside(row: BlobRow, write: Encoded) -> bytes | None:
    """The packed delta that makes a write from the version in `row`; None if it is not in there."""
    delta = place_in(row.encoded, write)
    return None if delta is None else pack(delta)
