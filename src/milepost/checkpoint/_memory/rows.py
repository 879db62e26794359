"""The stored forms of checkpoints, values and writes in memory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.checkpoint._contract.records import PendingWrite, Place
from milepost.checkpoint._delta.encode import Typed
from milepost.checkpoint._memory.manifests import StoredCheckpoint, versions_used
from milepost.checkpoint._memory.value_log import StoredValue
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from milepost.checkpoint._contract.step_saver import Fence
    from milepost.checkpoint._delta.encode import Encoded

NULL: Typed = JsonPlusSerializer().dumps_typed(None)


StoredWrite = tuple[str, str, StoredValue, str]
"""Task id, channel, value, task path. A plain tuple, which the garbage collector can untrack."""
BlobKey = tuple[str, str, str, Any]
"""Thread, namespace, channel, version."""

Rows = list[tuple[tuple[str, int], tuple[str, str, "Typed | Encoded", str]]]
Blobs = list[tuple[BlobKey, "Typed | Encoded"]]
Pending = list[PendingWrite]  # named, since `list` is a method of the saver


class RegistryEntry:
    """The registry's entry for a thread: its head, the run that owns it, its status."""

    __slots__ = (
        "claimed",
        "created_at",
        "early_writes",
        "fence",
        "head",
        "metadata",
        "status",
        "token",
        "updated_at",
    )

    def __init__(self, head: str | None) -> None:
        self.head = head
        self.token: str | None = None
        self.fence: Fence | None = None
        """The fence of the run with that token."""
        self.early_writes: set[tuple[str, str, str]] = set()
        """Keys of writes that came before their checkpoint."""
        self.status: str | None = None
        """The status from the last run or special write; None if it follows from the head."""
        self.created_at = self.updated_at = time.time()
        self.metadata: dict[str, Any] = {}
        """The user's metadata, in its stored form."""
        self.claimed = False
        """Whether the entry exists only because of a run's claim."""

    def copy(self) -> RegistryEntry:
        """The same entry without an owner."""
        twin = RegistryEntry(self.head)
        twin.early_writes, twin.status = set(self.early_writes), self.status
        twin.created_at, twin.updated_at = self.created_at, self.updated_at
        twin.metadata, twin.claimed = dict(self.metadata), self.claimed
        return twin


class Prepared(NamedTuple):
    """A step whose values are encoded. Large values get their stored form in the commit."""

    place: Place
    writes: Rows
    blobs: Sequence[tuple[BlobKey, Typed | Encoded]]
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
