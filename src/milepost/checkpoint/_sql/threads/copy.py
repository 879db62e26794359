"""Copies a thread: inside the database, or through the codec if rows are bound to their thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost._db.operations import Execute, ExecuteMany, Operation, Query
from milepost._internal.ids import new_epoch
from milepost.checkpoint._contract.threads import copy_refused
from milepost.checkpoint._sql import manifest as manifests
from milepost.checkpoint._sql import metadata as metadata_cells
from milepost.checkpoint._sql.manifest import Manifest
from milepost.checkpoint._sql.rows import long_kind, short_kind

if TYPE_CHECKING:
    from milepost.checkpoint._delta.diff import Buffer
    from milepost.checkpoint._delta.encode import Codec, Columns
    from milepost.checkpoint._sql.statements import Statements
    from milepost.checkpoint._sql.threads.registry import Registry

Row: TypeAlias = tuple[Any, ...]


def copy(
    codec: Codec, q: Statements, registry: Registry, source: str, target: str
) -> Operation[None]:
    """Copy everything of `source` to `target`. No run owns the copy."""
    # Under the lock no run changes the source, so all rows are of one moment. A source that does
    # not exist is not copied, even if a run creates it meanwhile.
    found = yield Query(q.lock_thread, (source,))
    if not found:
        if (yield Query(q.thread_info, (target,))):
            raise copy_refused(target)
        return
    now = time.time()
    copied = yield Execute(q.copy_entry, (target, new_epoch(), now, now, source))
    if not copied:
        raise copy_refused(target)
    yield from registry.move_metadata(source, target)
    if not is_bound(codec):
        for sql in (q.copy_checkpoints, q.copy_blobs, q.copy_writes):
            yield Execute(sql, (target, source))
        return
    move = Move(codec, source, target)
    for read, change, store in (
        (q.dump_checkpoints, move.checkpoint, q.add_checkpoint),
        (q.dump_blobs, move.blob, q.add_blob),
        (q.dump_writes, move.write, q.add_write),
    ):
        rows = yield Query(read, (source,))
        yield ExecuteMany(store, [change(row) for row in rows])


def is_bound(codec: Codec) -> bool:
    """Whether stored bytes can be read only in their own thread."""
    return codec.seals or not codec.splices


class Move:
    """Opens rows that are bound to one thread, and seals them for another."""

    def __init__(self, codec: Codec, source: str, target: str) -> None:
        self._codec = codec
        self._source = source
        self._target = target

    def checkpoint(self, row: Row) -> Row:
        """A row of `checkpoints`."""
        _, ns, id, parent, complete, run_id, manifest, kind, metadata, inline_writes = row
        columns = (parent, complete)
        opened = self._codec.unseal(manifest, ("frame", self._source, ns, id), columns)
        if not self._codec.splices:
            unpacked = manifests.unpack(opened)
            *_, writes, versions, seen, held = unpacked
            inline = {
                channel: [*self._reencoded(*small, "blob", ns, channel, str(versions[channel]))]
                if isinstance(small, list) and channel in versions
                else small
                for channel, small in held.items()
            }
            opened = manifests.pack(
                manifests.stamp(unpacked), Manifest(versions, seen, inline), writes
            )
        manifest = self._codec.seal(bytes(opened), ("frame", self._target, ns, id), columns)
        described = self._metadata(metadata, kind, ns, id)
        if inline_writes is not None:
            opened = self._codec.unseal(inline_writes, ("led", self._source, ns, id), (parent,))
            inline_writes = self._codec.seal(
                bytes(opened), ("led", self._target, ns, id), (parent,)
            )
        return (self._target, ns, id, parent, complete, run_id, manifest, *described, inline_writes)

    def _metadata(
        self, data: bytes, kind: str | None, ns: str, id: str
    ) -> tuple[str | None, bytes]:
        is_counted = metadata_cells.is_counted(kind)
        kind, opened, rows = metadata_cells.opened(self._codec, kind, data, self._source, ns, id)
        kind, opened = self._reencoded(kind, opened, "metadata", ns, id)
        kind = None if kind is None else short_kind(kind)
        if is_counted:
            kind, opened = metadata_cells.counted(kind, opened, rows)
        place = ("metadata", self._target, ns, id)
        return kind, self._codec.seal(bytes(opened), place, (kind,))

    def blob(self, row: Row) -> Row:
        """A row of `checkpoint_blobs`."""
        _, ns, channel, version, base_channel, base, level, kind, data = row
        columns = (base_channel, base, level)
        value = self._value(data, columns, kind, "blob", ns, channel, version)
        return (self._target, ns, channel, version, *columns, *value)

    def write(self, row: Row) -> Row:
        """A row of `checkpoint_writes`."""
        _, ns, id, task_id, at, channel, path, base, kind, data = row
        columns = (channel, path, base)
        value = self._value(data, columns, kind, "write", ns, id, task_id, str(at))
        return (self._target, ns, id, task_id, at, *columns, *value)

    def _value(
        self, data: bytes, columns: Columns, kind: str | None, *place: str
    ) -> tuple[str | None, bytes]:
        what, *rest = place
        opened = self._codec.unseal(data, (what, self._source, *rest), (*columns, kind))
        kind, opened = self._reencoded(kind, opened, *place)
        kind = None if kind is None else short_kind(kind)
        sealed = self._codec.seal(bytes(opened), (what, self._target, *rest), (*columns, kind))
        return kind, sealed

    def _reencoded(self, kind: str | None, data: Buffer, *place: str) -> tuple[str | None, Buffer]:
        """Decode and encode a value again, since a foreign serializer may bind it to its place."""
        if self._codec.splices:
            return kind, data
        what, *rest = place
        value = self._codec.decode(long_kind(kind), [data], what, self._source, *rest)
        encoded = self._codec.encode(value, what, self._target, *rest)
        return encoded.kind, encoded.parts.join()
