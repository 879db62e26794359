"""Turns a step into rows, without I/O, before the next step starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost._internal import log
from milepost.checkpoint._contract.names import NameChecker
from milepost.checkpoint._contract.records import WRITES_IDX_MAP, Place
from milepost.checkpoint._contract.step_saver import StoredWrites
from milepost.checkpoint._contract.threads import is_trigger, status_left
from milepost.checkpoint._delta.encode import Codec, Encoded, Value, in_parts
from milepost.checkpoint._delta.split import cut
from milepost.checkpoint._sql import manifest as manifests
from milepost.checkpoint._sql import metadata as metadata_cells
from milepost.checkpoint._sql.cache import CachedManifest, CachedValue, ThreadCache
from milepost.checkpoint._sql.manifest import EMPTIED, INHERITED, OWN_ROW, Inline, Manifest
from milepost.checkpoint._sql.rows import BlobRow, CheckpointRow, Compaction, Prepared
from milepost.checkpoint._sql.write.chains import blob_row, moved_delta, seal_row
from milepost.checkpoint._sql.write.writes import (
    add_early_write,
    compact_early_writes,
    place_inline,
    place_writes,
    task_rows,
)
from milepost.constants import ERROR, INTERRUPT, RESUME
from milepost.errors import SerdeError
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost._db.dialect import Bounds
    from milepost.checkpoint._contract.step_saver import NewCheckpoint, StepCommit, TaskWrites

INLINE: Final = 128
"""Bytes up to which an encoded value is stored in the manifest."""

_MAX_UNCOMPARED_INPUT: Final = 1024
"""Bytes up to which the value of a trigger channel is not compared with the version before. Mostly
the next step moves such a value to another channel, which stores it from then on."""

_EncodedOnce: TypeAlias = dict[int, Value]
"""Encoded values of a step, by the object's identity. A write is often a channel's value too."""


class Preparer:
    """Turns steps into rows, with deltas from cached rows."""

    def __init__(self, codec: Codec, cache: ThreadCache, chain: Bounds) -> None:
        self._codec = codec
        self._cache = cache
        self._chain = chain
        self._names = NameChecker()

    def step(self, step: StepCommit) -> Prepared:
        """The rows of a step of one of our own runs."""
        place = Place(step.thread_id, step.checkpoint_ns, step.checkpoint_id)
        self._names.check(place, step.writes, step.new)
        codec, new = self._codec, step.new
        prepared = Prepared(place, step.fence, step.fence.token, [], [], None, [], step.status)
        once: _EncodedOnce = {}
        # Writes are encoded first, so that an error names the node that wrote the value.
        encoded: list[list[Value]] = []
        for task in step.writes:
            encoded.append(self._encoded(place, task, once))
        inline = False
        if new is not None:
            row = self._checkpoint(prepared, new, once)
            if codec.splices:
                inline = place_inline(codec, step, encoded, row, prepared.blobs)
        if encoded and not inline:
            for task, values in zip(step.writes, encoded, strict=True):
                prepared.writes.append(task_rows(task, values, prepared.blobs))
            place_writes(codec, prepared)
        if codec.splices and place.checkpoint_id is not None:
            if new is None:
                add_early_write(self._cache, step, encoded)
            elif prepared.blobs:
                compact_early_writes(codec, self._cache, prepared)
        return prepared

    def checkpoint(self, place: Place, new: NewCheckpoint) -> Prepared:
        """The rows of a checkpoint from a foreign runtime's `put`."""
        self._names.checkpoint(place, new)
        prepared = Prepared(place, None, None, [], [], None, [])
        self._checkpoint(prepared, new, {})
        prepared.status = _status(prepared, new)
        return prepared

    def writes(self, place: Place, task: TaskWrites) -> Prepared:
        """The rows of writes from a foreign runtime's `put_writes`."""
        self._names.writes(place, task)
        prepared = Prepared(place, None, None, [], [], None, [])
        prepared.writes.append(task_rows(task, self._encoded(place, task, {}), ()))
        place_writes(self._codec, prepared)
        prepared.status = _status(prepared, None)
        return prepared

    # -- checkpoints

    def _checkpoint(
        self, prepared: Prepared, new: NewCheckpoint, once: _EncodedOnce
    ) -> CheckpointRow:
        token = prepared.token
        thread_id, ns, parent_id = prepared.place
        id, metadata, versions = new.id, new.metadata, new.versions
        base = (
            self._cache.manifest(thread_id, ns, parent_id, token) if parent_id is not None else None
        )
        held: dict[str, Inline] = {}
        for channel, value in new.changed.items():
            held[channel] = self._value(
                prepared, channel, versions[channel], value, once, again=new.again
            )
        if prepared.blobs and parent_id is not None and not new.again:
            self._log_stored_whole(prepared, base)
            if base is not None:
                self._move_emptied(prepared, base, new.changed)
        for blob in prepared.blobs:
            seal_row(self._codec, thread_id, ns, blob)
        if base is not None:
            # Read before the manifest: a commit fills the manifest in, and then clears `partial`.
            partial = base.partial
            manifest, changes = manifests.next_manifest(base, new, held, self._chain)
        else:
            # The commit fills in a partial manifest from the database.
            partial = len(held) < len(versions)
            all = {**dict.fromkeys(versions, INHERITED), **held} if partial else held
            manifest = Manifest(dict(versions), dict(new.versions_seen), all)
            changes = None
        stamp = (new.format, new.made_at, None if new.updated is None else list(new.updated))
        packed = None
        if changes is not None or not partial:
            packed = manifests.pack(stamp, changes or manifest)
        kind, data = metadata_cells.encoded(self._codec, metadata, thread_id, ns, id)
        sealed = self._codec.seal(data, ("metadata", thread_id, ns, id), (kind,))
        run_id = metadata.get("run_id")
        cached = CachedManifest(token, base.epoch if base else None, id, manifest, 1, 0, 0, partial)
        prepared.checkpoint = row = CheckpointRow(
            id,
            None if run_id is None else str(run_id),
            stamp,
            packed,
            changes is None,
            base,
            cached,
            kind,
            sealed,
            StoredWrites(id, set(), (kind, data)),
        )
        # A foreign runtime's checkpoint is cached only after it is stored.
        if self._codec.splices and token is not None:
            values: dict[str, CachedValue] = {}
            for blob in prepared.blobs:
                if blob.cached is not None:
                    values[blob.channel] = blob.cached
            self._cache.learn(thread_id, ns, cached, values)
        return row

    def _value(
        self,
        prepared: Prepared,
        channel: str,
        version: Any,
        value: Any,
        once: _EncodedOnce,
        *,
        again: bool,
    ) -> Inline:
        """The manifest's entry for a channel. A large value becomes a row.

        `again`: the version may be stored already. Then no older version is compacted into it,
        since the stored row may be a delta from that older version.
        """
        if value is MISSING:
            return EMPTIED
        thread_id, ns, _ = prepared.place
        base: CachedValue | None = None
        encoded = once.get(id(value)) or self._codec.scalar(value)
        if encoded is None:
            after: Encoded | None = None
            if not again and self._codec.shares(value):
                base = self._cache.latest(thread_id, ns, channel, prepared.token)
                if base is not None:
                    after = base.encoded = cut(base.encoded)
            try:
                encoded = self._codec.encode(
                    value, "blob", thread_id, ns, channel, str(version), after=after
                )
            except SerdeError as error:
                raise error.at(thread=thread_id, channel=channel) from None
        if isinstance(encoded, Encoded):
            if encoded.size <= INLINE:
                return [encoded.kind, encoded.parts.join()]
        elif len(encoded[1]) <= INLINE:
            return list(encoded)
        large = in_parts(encoded)
        if self._codec.splices:
            if large.size <= _MAX_UNCOMPARED_INPUT and is_trigger(channel):
                base = None
            elif base is None and not again:
                base = self._cache.latest(thread_id, ns, channel, prepared.token)
            row = blob_row(channel, str(version), large, base, prepared.token, self._chain)
        else:
            row = BlobRow(channel, str(version), large, None)
        prepared.blobs.append(row)
        return OWN_ROW

    def _log_stored_whole(self, prepared: Prepared, base: CachedManifest | None) -> None:
        """Log which values are stored in full because the version before is not cached.

        If the parent's manifest is not cached either, every large value is logged.
        """
        thread_id, ns, _ = prepared.place
        for row in prepared.blobs:
            if row.delta_from_previous is not None or row.cached is None:
                continue
            had_rows = base is None or base.manifest.inline.get(row.channel) is OWN_ROW
            if had_rows and not self._cache.latest(thread_id, ns, row.channel, prepared.token):
                whole = "Thread '%s': channel '%s' is stored whole; its last version is not cached."
                log.info(log.STORAGE, whole, thread_id, row.channel)

    def _move_emptied(
        self, prepared: Prepared, base: CachedManifest, changed: Mapping[str, Any]
    ) -> None:
        """Compact the large value of a channel that this step emptied into the value it moved to.

        Only from a trigger channel to a state channel. No value moves in the other direction, so
        two values never become deltas of each other.
        """
        thread_id, ns, _ = prepared.place
        held = base.manifest
        for channel, value in changed.items():
            if (
                value is not MISSING
                or held.inline.get(channel) is not OWN_ROW
                or not is_trigger(channel)
            ):
                continue
            cached = self._cache.latest(thread_id, ns, channel, prepared.token)
            if cached is None or cached.version != str(held.versions.get(channel)):
                continue
            for row in prepared.blobs:
                if row.cached is None or is_trigger(row.channel):
                    continue
                if (delta := moved_delta(cached, row)) is not None:
                    row.compactions.append(Compaction(cached.version, cached.kind, delta, channel))
                    break

    # -- writes

    def _encoded(self, place: Place, task: TaskWrites, once: _EncodedOnce) -> list[Value]:
        thread_id, ns, checkpoint_id = place
        codec = self._codec
        found: list[Value] = []
        encoded: Value
        for position, (channel, value) in enumerate(task.writes):
            try:
                if codec.splices:
                    encoded = codec.scalar(value) or codec.encode(value)
                    once[id(value)] = encoded
                else:
                    key = (task.task_id, str(WRITES_IDX_MAP.get(channel, position)))
                    encoded = codec.encode(value, "write", thread_id, ns, str(checkpoint_id), *key)
            except SerdeError as error:
                raise error.at(thread=thread_id, node=task.node or None, channel=channel) from None
            found.append(encoded)
        return found


def _status(prepared: Prepared, new: NewCheckpoint | None) -> str:
    """The thread's status after a step of a foreign runtime, which does not tell the status.

    Empty if the status does not change. Tasks of one step write in any order, so a task without
    special writes does not end another task's interrupt.
    """
    special = {row.channel for task in prepared.writes for row in task.special}
    if INTERRUPT in special:
        return "interrupted"
    if ERROR in special:
        return "error"
    if RESUME in special:
        return "running"
    return "" if new is None or prepared.place.checkpoint_ns else status_left(new.changed)
