"""Where the writes of a step's tasks are stored: with the checkpoint that they led to, in rows of
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
from milepost.checkpoint._sql.inline_writes import Entry, pack_several
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
"""A write of this size that was stored before its step ended is stored again as a reference."""
_MIN_REFERENCE: Final = 96
"""A write this large is cut out of the channel's new version, if it is found there."""
_MAX_INLINE: Final = 512
"""Writes of a task up to this size are stored in the row of the checkpoint that they led to."""
_MAX_GRAPHS: Final = 256
"""Graphs of a run whose last checkpoint is tracked."""


def place_inline(
    codec: Codec,
    step: StepCommit,
    encoded: Sequence[Sequence[Value]],
    row: CheckpointRow,
    blobs: Sequence[BlobRow],
) -> bool:
    """Seal a step's writes in the row of the checkpoint that they led to, if they can be there.

    They are found there only if the checkpoint comes right after its parent: one that the run has
    made last, or the head that it goes on from. And all have to be short and ordinary, and none
    may be a reference.
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
    if not (follows and step.writes):
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


def task_rows(task: TaskWrites, values: Sequence[Value], blobs: Sequence[BlobRow]) -> TaskRows:
    """The writes of a task, before they are sealed."""
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
    """Seal the writes in rows of their own."""
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
    """Not what is, or will be, a reference to a channel's version."""
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
    """Cache the large writes of a step that goes on: they will be found in its values."""
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


def compact_early_writes(cache: ThreadCache, prepared: Prepared) -> None:
    """Store again the large writes that are found in the values of the step that has ended."""
    thread_id, ns, id = prepared.place
    found = cache.take_early_writes(thread_id, ns, str(id), str(prepared.token))
    rows = {row.channel: row for row in prepared.blobs if row.cached is not None} if found else {}
    for early in found:
        if (row := rows.get(early.channel)) is None:
            continue
        delta = _delta_inside(row, early.encoded)
        if delta is not None:
            prepared.early.append(
                EarlyCompaction(
                    early.task_id,
                    early.task_path,
                    early.position,
                    early.channel,
                    row.version,
                    early.encoded.kind,
                    delta,
                )
            )


def _delta_inside(row: BlobRow, write: Encoded) -> bytes | None:
    """The delta that finds a write inside the version of the channel that it led to."""
    delta = place_in(row.encoded, write)
    return None if delta is None else pack(delta)
