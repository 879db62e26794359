"""The stored forms of checkpoints, values and writes in memory, and the encoding of a step into
them, before the next step starts.

Small values are encoded whole. Large values stay cut into their elements until the commit, which
knows the version before. A value that is sealed, or encoded by a foreign serializer, cannot be cut
and is stored whole.
"""

from __future__ import annotations

import time
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from milepost._internal.dataclass_tools import record
from milepost.checkpoint._contract.records import WRITES_IDX_MAP, PendingWrite, Place
from milepost.checkpoint._delta.encode import Codec, Typed, Value
from milepost.checkpoint._memory.manifests import StoredCheckpoint, stored, versions_used
from milepost.checkpoint._memory.value_log import SMALL, Slice, StoredValue, whole
from milepost.checkpoint.serde.base import SerializerProtocol, dumps_at, loads_at
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import SerdeError
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from milepost.checkpoint._contract.step_saver import Fence, NewCheckpoint, TaskWrites

NULL: Typed = JsonPlusSerializer().dumps_typed(None)
_FEW_ELEMENTS: Final = 8
"""A container with at most this many elements is encoded whole first, since most are small."""


StoredWrite = tuple[str, str, StoredValue, str]
"""Task id, channel, value, task path. A plain tuple, which the garbage collector can untrack."""
BlobKey = tuple[str, str, str, Any]
"""Thread, namespace, channel, version."""

Rows = list[tuple[tuple[str, int], tuple[str, str, Value, str]]]
Blobs = list[tuple[BlobKey, Value]]
Pending = list[PendingWrite]  # named, since `list` is a method of the saver
EncodedOnce: TypeAlias = dict[int, Value]
"""The writes of a step by identity, since a write may be the new value of its channel."""
ValuesBefore: TypeAlias = "Callable[[str], StoredValue | None]"
"""The value of a channel in the checkpoint that a step starts from."""


@record(frozen=False)
class RegistryEntry:
    """The registry's entry for a thread: its head, the run that owns it, its status."""

    head: str | None
    token: str | None = None
    fence: Fence | None = None
    """The fence of the run with that token."""
    early_writes: set[tuple[str, str, str]] = field(default_factory=set)
    """Keys of writes that came before their checkpoint."""
    status: str | None = None
    """The status from the last run or special write; None if it follows from the head."""
    created_at: float = field(default_factory=time.time)
    updated_at: float = 0.0
    metadata: dict[str, Any] = field(default_factory=dict)
    """The user's metadata, in its stored form."""
    claimed: bool = False
    """Whether the entry exists only because of a run's claim."""

    def __post_init__(self) -> None:
        self.updated_at = self.updated_at or self.created_at

    def copy(self) -> RegistryEntry:
        """The same entry without an owner."""
        early, metadata = set(self.early_writes), dict(self.metadata)
        return replace(self, token=None, fence=None, early_writes=early, metadata=metadata)


class Prepared(NamedTuple):
    """A step whose values are encoded. Large values get their stored form in the commit."""

    place: Place
    writes: Rows
    blobs: Sequence[tuple[BlobKey, Value]]
    stored: StoredCheckpoint | None
    fence: Fence | None
    status: str | None
    """The thread's status afterwards; None if a foreign runtime does not tell."""


def blobs_of(thread_id: str, ns: str, checkpoints: Iterable[StoredCheckpoint]) -> set[BlobKey]:
    """The keys of all values that some checkpoints use."""
    return {(thread_id, ns, *used) for used in versions_used(checkpoints)}


def blob_place(key: BlobKey) -> str:
    thread_id, ns, channel, version = key
    return f"blob\0{thread_id}\0{ns}\0{channel}\0{version}"


def write_place(place: Place, task_id: str, position: int) -> str:
    return (
        f"write\0{place.thread_id}\0{place.checkpoint_ns}\0{place.checkpoint_id}"
        f"\0{task_id}\0{position}"
    )


def metadata_place(place: Place, checkpoint_id: str) -> str:
    return f"metadata\0{place.thread_id}\0{place.checkpoint_ns}\0{checkpoint_id}"


class Encoder:
    """Turns steps into rows, and rows into values."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde
        self._codec = Codec(serde)
        self.cuts = self._codec.splices and not self._codec.seals
        """Whether values can be cut and shared; if not, each is sealed whole for its place."""

    def _value(self, value: Any, channel: str = "", before: ValuesBefore | None = None) -> Value:
        """Encode a value. Elements that the channel had before are not made again."""
        typed = self._codec.scalar(value)
        if typed is None and type(value) in (list, dict) and len(value) <= _FEW_ELEMENTS:
            typed = self.serde.dumps_typed(value)
        if typed is not None and len(typed[1]) < SMALL:
            return typed
        after = None
        if before is not None and self._codec.shares(value):
            base = before(channel)
            after = base.encoded if isinstance(base, Slice) else None
        encoded = self._codec.encode(value, after=after)
        return encoded if encoded.size >= SMALL else whole(encoded)

    def writes(self, place: Place, tasks: Sequence[TaskWrites], once: EncodedOnce) -> Rows:
        """The rows of what tasks wrote, which are added to `once`."""
        cuts, encode, special = self.cuts, self._value, WRITES_IDX_MAP
        rows: Rows = []
        for task in tasks:
            task_id, task_path = task.task_id, task.task_path
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
        return rows

    def blobs(
        self, place: Place, new: NewCheckpoint, once: EncodedOnce, before: ValuesBefore
    ) -> Blobs:
        """The rows of the channels that a step has changed."""
        thread_id, ns, _ = place
        versions = new.versions
        rows: Blobs = []
        channel = ""
        try:
            for channel, value in new.changed.items():
                if value is MISSING:
                    continue  # a channel without a value is read as empty
                key = (thread_id, ns, channel, versions[channel])
                if self.cuts:
                    # The writes are still alive, so no other object can have their ids.
                    data = once.get(id(value)) or self._value(value, channel, before)
                else:
                    data = dumps_at(self.serde, value, blob_place(key))
                rows.append((key, data))
        except SerdeError as error:
            raise error.at(thread=thread_id, channel=channel) from None
        return rows

    def checkpoint(
        self, place: Place, new: NewCheckpoint, base: StoredCheckpoint | None
    ) -> StoredCheckpoint:
        """A new checkpoint that starts from `base`."""
        if self.cuts:
            metadata = self.serde.dumps_typed(new.metadata)
        else:
            metadata = dumps_at(self.serde, new.metadata, metadata_place(place, new.id))
        return stored(new, place.checkpoint_id, metadata, base)

    def value(self, typed: Typed, place: str) -> Any:
        """Decode a value. `place` matters only if values are bound to their places."""
        if self.cuts:
            return self.serde.loads_typed(typed)
        return loads_at(self.serde, typed, place)

    def moved(self, typed: Typed, source: str, target: str) -> Typed:
        """A value that is sealed for one place, sealed again for another."""
        return dumps_at(self.serde, loads_at(self.serde, typed, source), target)
