"""Copies a thread with its whole history: row by row in the database, unless rows are sealed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.sql import frames
from milepost.checkpoint.sql.memory import Frame
from milepost.checkpoint.sql.rows import long_kind, short_kind
from milepost.checkpoint.sql.writes import sealed_as
from milepost.checkpoint.threads import copy_refused
from milepost.ids import getrandbits
from milepost.sql.operations import Many, Operation, Query, Run

if TYPE_CHECKING:
    from milepost.checkpoint.sql.codec import Codec
    from milepost.checkpoint.sql.queries import Queries
    from milepost.sql.splice import Buffer


def copy(codec: Codec, q: Queries, source: str, target: str) -> Operation[None]:
    """Everything of `source`, under another id. The copy belongs to no run."""
    rows = yield Query(q.thread, (target,))
    if rows:
        raise copy_refused(target)
    now = time.time()
    copied = yield Run(q.copy_entry, (target, getrandbits(53), now, now, source))
    if not copied:
        return
    if codec.seals or not codec.splices:
        yield from _resealed(codec, q, source, target)
        return
    for sql in (q.copy_checkpoints, q.copy_blobs, q.copy_writes):
        yield Run(sql, (target, source))


def _resealed(codec: Codec, q: Queries, source: str, target: str) -> Operation[None]:
    """What is bound to its place has to be opened there and sealed for the new one."""

    def move(kind: str | None, data: bytes, *place: str) -> tuple[str | None, bytes]:
        what, *rest = place
        opened = codec.unseal(data, what, source, *rest)
        kind, opened = anew(kind, opened, *place)
        return kind, codec.seal(bytes(opened), what, target, *rest)

    def anew(kind: str | None, data: Buffer, *place: str) -> tuple[str | None, Buffer]:
        """A foreign serializer may have bound the value itself to its place."""
        if codec.splices:
            return kind, data
        what, *rest = place
        value = codec.decode(long_kind(kind), [data], what, source, *rest)
        encoded = codec.encode(value, what, target, *rest)
        return encoded.kind, encoded.parts.join()

    rows: list[tuple[Any, ...]] = []
    found = yield Query(q.checkpoints_of, (source,))
    for ns, id, parent, complete, frame, kind, metadata, run_id in found:
        opened = codec.unseal(frame, "frame", source, ns, id)
        if not codec.splices:
            stamp, held = frames.unpack(opened)
            inline = {
                channel: [*anew(*small, "blob", ns, channel, str(held.versions[channel]))]
                if isinstance(small, list) and channel in held.versions
                else small
                for channel, small in held.inline.items()
            }
            opened = frames.pack(stamp.read(), Frame(held.versions, held.seen, inline))
        frame = codec.seal(bytes(opened), "frame", target, ns, id)
        kind, metadata = move(kind, metadata, "metadata", ns, id)
        rows.append((target, ns, id, parent, complete, run_id, frame, _kind(kind), metadata))
    yield Many(q.add_checkpoint, rows)
    rows = []
    found = yield Query(q.blobs_of, (source,))
    for ns, channel, version, base_channel, base, level, kind, data in found:
        kind, data = move(kind, data, "blob", ns, channel, version)
        rows.append((target, ns, channel, version, base_channel, base, level, _kind(kind), data))
    yield Many(q.add_blob, rows)
    rows = []
    found = yield Query(q.all_writes_of, (source,))
    for ns, id, task_id, at, channel, path, base, kind, data in found:
        kind, data = move(kind, data, "write", ns, id, task_id, sealed_as(kind, at))
        rows.append((target, ns, id, task_id, at, channel, path, base, _kind(kind), data))
    yield Many(q.add_write, rows)


def _kind(kind: str | None) -> str | None:
    return None if kind is None else short_kind(kind)
