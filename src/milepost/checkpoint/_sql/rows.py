"""The rows of a step, ready to be stored."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._internal.dataclass_tools import record

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import Place
    from milepost.checkpoint._contract.step_saver import Fence, StoredWrites
    from milepost.checkpoint._delta.diff import Delta
    from milepost.checkpoint._delta.encode import Encoded
    from milepost.checkpoint._sql.cache import CachedManifest, CachedValue, Chain


MSGPACK: Final = "msgpack"


def short_kind(kind: str) -> str | None:
    """A kind as it is stored: None for msgpack, the kind of nearly all values."""
    return None if kind == MSGPACK else kind


def long_kind(kind: str | None) -> str:
    """The kind, from its stored form."""
    return MSGPACK if kind is None else kind


class Compaction(NamedTuple):
    """An older version, to be stored again as a part of a newer one."""

    version: str
    kind: str
    delta: bytes
    """The packed delta that makes the older version from the newer one; sealed once the step is
    prepared."""
    channel: str | None = None
    """The channel of the older version, if it is not the newer version's channel."""


class BlobCells(NamedTuple):
    """What is stored of a version, beside its key."""

    base_channel: str | None
    base: str | None
    level: int
    kind: str | None
    data: bytes
    """Sealed: a delta from `base`, or the value."""


@record(frozen=False)
class BlobRow:
    """A version of a channel's value."""

    channel: str
    version: str
    encoded: Encoded
    cached: CachedValue | None
    """The value's entry in the cache; None for a foreign serializer."""
    base: CachedValue | None = None
    """The version before, if this row is a delta."""
    chain: Chain | None = None
    """How `base` was stored, or was to be stored, when this row was prepared."""
    base_version: str | None = None
    """The version that `delta` builds on, if it is an older one than `base`."""
    delta: bytes | None = None
    """The packed delta; None if the row is stored in full."""
    compactions: list[Compaction] = field(default_factory=list)
    delta_from_previous: Delta | None = None
    """The delta from the version before, even if the row is stored in another way."""
    cells: BlobCells | None = None
    """The row as planned. A delta is stored in full instead if its base may be gone by then."""


class WriteRow(NamedTuple):
    position: int
    channel: str
    base: str | None
    kind: str | None
    data: bytes
    """The value; with a `base`, the delta that makes the value from that version."""


@record(frozen=False)
class TaskRows:
    task_id: str
    task_path: str
    ordinary: list[WriteRow] = field(default_factory=list)
    special: list[WriteRow] = field(default_factory=list)


class EarlyCompaction(NamedTuple):
    """A write that is stored already, to be stored again as a part of a channel's version."""

    task_id: str
    position: int
    base: str
    delta: bytes
    """Sealed."""


@record(frozen=False)
class CheckpointRow:
    checkpoint_id: str
    run_id: str | None
    stamp: tuple[Any, ...]
    """Format, time, updated channels: the part of a manifest that is never inherited."""
    packed: bytes | None
    """The packed manifest, or the changes to the parent's; None if the manifest still has INHERITED
    entries."""
    is_complete: bool
    """Whether `packed` is the complete manifest."""
    base: CachedManifest | None
    cached: CachedManifest
    metadata_kind: str | None
    """In its stored form (`short_kind`)."""
    metadata: bytes
    written: StoredWrites
    """The rows of writes at this checkpoint: none yet."""
    inline_writes: bytes | None = None
    """The sealed writes of the parent's tasks, if they are stored in this row."""


@record(frozen=False)
class Prepared:
    """A step in its stored form."""

    place: Place
    fence: Fence | None
    token: str | None
    """The run's token; None for a foreign runtime, which has no fence."""
    writes: list[TaskRows]
    blobs: list[BlobRow]
    checkpoint: CheckpointRow | None
    early: list[EarlyCompaction]
    status: str = "running"
    """The thread's status afterwards; empty to leave the status as it is."""
    written: StoredWrites | None = None
    """The known rows of writes at the graph's latest checkpoint, which may be this step's own."""
    added: set[tuple[str, int]] = field(default_factory=set)
    """The rows that this step adds to `written` once it is stored."""

    @property
    def weight(self) -> int:
        """About how many bytes the step takes in memory, where values are whole."""
        values = sum(
            blob.encoded.size + (len(blob.cells.data) if blob.cells is not None else 0)
            for blob in self.blobs
        )
        rows = (row for task in self.writes for row in (*task.ordinary, *task.special))
        inline_writes = self.checkpoint.inline_writes if self.checkpoint is not None else None
        return values + sum(len(row.data) for row in rows) + len(inline_writes or b"")
