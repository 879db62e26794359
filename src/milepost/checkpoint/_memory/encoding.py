"""Encodes a step, before the next one starts.

Small values are encoded whole. Large values stay cut into their elements until the commit, which
knows the version before. A value that is sealed, or encoded by a foreign serializer, cannot be cut
and is stored whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint._contract.records import WRITES_IDX_MAP, Place
from milepost.checkpoint._delta.encode import Codec, Encoded, Typed, in_parts
from milepost.checkpoint._memory.manifests import StoredCheckpoint, stored
from milepost.checkpoint._memory.rows import (
    NULL,
    Blobs,
    Prepared,
    Rows,
    blob_place,
    metadata_place,
    write_place,
)
from milepost.checkpoint._memory.value_log import SMALL, whole
from milepost.checkpoint.serde.base import SerializerProtocol, dumps_at, loads_at
from milepost.errors import SerdeError
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint._contract.step_saver import Fence, NewCheckpoint, TaskWrites

_FEW_ELEMENTS: Final = 8
"""A container with at most this many elements is encoded whole first, since most are small."""


class Encoder:
    """Turns steps into rows, and rows into values."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde
        self._codec = Codec(serde)
        self.cuts = self._codec.splices and not self._codec.seals
        """Whether values can be cut and shared; if not, each is sealed whole for its place."""

    def step(
        self,
        place: Place,
        tasks: Sequence[TaskWrites],
        new: NewCheckpoint | None,
        base: StoredCheckpoint | None,
        fence: Fence | None,
        status: str | None,
    ) -> Prepared:
        """The rows of a step that starts from `base`."""
        once: dict[int, Typed | Encoded] = {}
        writes: Rows = []
        for task in tasks:
            self._writes(place, task, writes, once)
        if new is None:
            return Prepared(place, writes, (), None, fence, status)
        blobs = self._blobs(place, new, once)
        checkpoint = self._checkpoint(place, new, base)
        return Prepared(place, writes, blobs, checkpoint, fence, status)

    def _value(self, value: Any) -> Typed | Encoded:
        typed = self._codec.scalar(value)
        has_elements = typed is None and type(value) in (list, dict)
        if has_elements and len(value) > _FEW_ELEMENTS:
            encoded = self._codec.encode(value)
            return encoded if encoded.size >= SMALL else whole(encoded)
        if typed is None:
            typed = self.serde.dumps_typed(value)
        if len(typed[1]) < SMALL:
            return typed
        return self._codec.encode(value) if has_elements else in_parts(typed)

    def _writes(
        self, place: Place, task: TaskWrites, rows: Rows, once: dict[int, Typed | Encoded]
    ) -> None:
        """Encode a task's writes; `once` keeps each by identity, as it may be a channel's value."""
        task_id, task_path = task.task_id, task.task_path
        cuts, encode, special = self.cuts, self._value, WRITES_IDX_MAP
        channel = ""
        try:
            for position, (channel, value) in enumerate(task.writes):
                at = (task_id, special.get(channel, position))
                if cuts:
                    data = once[id(value)] = NULL if value is None else encode(value)
                else:
                    data = dumps_at(self.serde, value, write_place(place, *at))
                rows.append((at, (task_id, channel, data, task_path)))
        except SerdeError as error:
            raise error.at(thread=place[0], node=task.node, channel=channel) from None

    def _blobs(self, place: Place, new: NewCheckpoint, once: dict[int, Typed | Encoded]) -> Blobs:
        thread_id, ns, _ = place
        versions = new.checkpoint["channel_versions"]
        rows: Blobs = []
        channel = ""
        try:
            for channel, value in new.changed.items():
                if value is MISSING:
                    continue  # a channel without a value is read as empty
                key = (thread_id, ns, channel, versions[channel])
                if self.cuts:
                    # The writes are still alive, so no other object can have their ids.
                    data = once.get(id(value)) or self._value(value)
                else:
                    data = dumps_at(self.serde, value, blob_place(key))
                rows.append((key, data))
        except SerdeError as error:
            raise error.at(thread=thread_id, channel=channel) from None
        return rows

    def _checkpoint(
        self, place: Place, new: NewCheckpoint, base: StoredCheckpoint | None
    ) -> StoredCheckpoint:
        given = new.checkpoint
        if self.cuts:
            metadata = self.serde.dumps_typed(new.metadata)
        else:
            metadata = dumps_at(self.serde, new.metadata, metadata_place(place, given["id"]))
        return stored(given, place.checkpoint_id, metadata, base, new.changed, new.seen)

    def value(self, typed: Typed, place: str) -> Any:
        """Decode a value. `place` matters only if values are bound to their places."""
        if self.cuts:
            return self.serde.loads_typed(typed)
        return loads_at(self.serde, typed, place)

    def moved(self, typed: Typed, source: str, target: str) -> Typed:
        """A value that is sealed for one place, sealed again for another."""
        return dumps_at(self.serde, loads_at(self.serde, typed, source), target)
