"""The stored forms of checkpoints, values and writes in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.checkpoint.records import ChannelVersions, CheckpointTuple, PendingWrite, Place
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

if TYPE_CHECKING:
    from milepost.checkpoint.commit import Fence

Typed = tuple[str, bytes]
EMPTY: Typed = ("empty", b"")
NULL: Typed = JsonPlusSerializer().dumps_typed(None)


class Stored(NamedTuple):
    """One checkpoint. The mappings inside are never changed, so they can be shared."""

    id: str
    v: int
    ts: str
    versions: ChannelVersions
    seen: Mapping[str, ChannelVersions]
    updated: Sequence[str] | None
    metadata: Typed
    parent_id: str | None


StoredWrite = tuple[str, str, Typed, str]
"""Task id, channel, value, task path. A plain tuple: the garbage collector stops looking at it."""

Rows = list[tuple[tuple[str, int], StoredWrite]]
Blobs = list[tuple[tuple[str, str, str, Any], Typed]]
Pending = list[PendingWrite]  # named, since `list` is a method of the saver


class Thread:
    """The registry's entry for a thread: its head, and the run that owns it."""

    __slots__ = ("early_writes", "fence", "head", "token")

    def __init__(self, head: str | None) -> None:
        self.head = head
        self.token: str | None = None
        self.fence: Fence | None = None
        """Of the run with that token."""
        self.early_writes: set[tuple[str, str, str]] = set()
        """Where writes are whose checkpoint was not there when they came."""


class Prepared(NamedTuple):
    """A step in its stored form."""

    place: Place
    writes: Rows
    blobs: Blobs
    stored: Stored | None
    fence: Fence | None


def blobs_of(
    thread_id: str, ns: str, saved: Mapping[str, Stored]
) -> set[tuple[str, str, str, Any]]:
    """Where the values of some checkpoints are."""
    return {
        (thread_id, ns, channel, version)
        for stored in saved.values()
        for channel, version in stored.versions.items()
    }


def leans_on_ancestors(found: CheckpointTuple) -> bool:
    """Whether a delta channel of this checkpoint has no stored value of its own."""
    return any(
        channel not in found.checkpoint["channel_values"]
        for channel in found.metadata.get("counters_since_delta_snapshot") or ()
    )


def blob_place(key: tuple[str, str, str, Any]) -> str:
    thread_id, ns, channel, version = key
    return f"blob\0{thread_id}\0{ns}\0{channel}\0{version}"


def write_place(place: Place, task_id: str, position: int) -> str:
    return (
        f"write\0{place.thread_id}\0{place.checkpoint_ns}\0{place.checkpoint_id}"
        f"\0{task_id}\0{position}"
    )


def metadata_place(place: Place, checkpoint_id: str) -> str:
    return f"metadata\0{place.thread_id}\0{place.checkpoint_ns}\0{checkpoint_id}"
