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
    """A kind as it is stored: nearly all are msgpack."""
    return None if kind == MSGPACK else kind


def long_kind(kind: str | None) -> str:
    """The kind that `short_kind` was given."""
    return MSGPACK if kind is None else kind


class Compaction(NamedTuple):
    """An older version, to be stored again as a part of a newer one."""

    version: str
    kind: str
    delta: bytes
    """What cuts it out of that one, packed."""
    channel: str | None = None
    """Whose version it is, if it is another channel's."""


@record(frozen=False)
class BlobRow:
    """A version of a channel's value."""

    channel: str
    version: str
    encoded: Encoded
    cached: CachedValue | None
    """The value as it is cached; None for a foreign serializer."""
    base: CachedValue | None = None
    """The version before it."""
    chain: Chain | None = None
    """How that one was stored, or was to be, when this was prepared."""
    base_version: str | None = None
    """The version that it is a difference from, if that is an earlier one."""
    delta: bytes | None = None
    """The difference from that version, packed."""
    compactions: list[Compaction] = field(default_factory=list)
    delta_from_previous: Delta | None = None
    """The difference from the version before it, however it is stored."""


class WriteRow(NamedTuple):
    """One write of a task."""

    position: int
    channel: str
    base: str | None
    kind: str | None
    data: bytes
    """The sealed value; with a base, the sealed delta that cuts it out of that version."""


@record(frozen=False)
class TaskRows:
    """The writes of one task."""

    task_id: str
    task_path: str
    ordinary: list[WriteRow] = field(default_factory=list)
    special: list[WriteRow] = field(default_factory=list)


class EarlyCompaction(NamedTuple):
    """A write that is stored already, to be stored again as a part of a channel's version."""

    task_id: str
    task_path: str
    position: int
    channel: str
    base: str
    kind: str
    delta: bytes


@record(frozen=False)
class CheckpointRow:
    """A checkpoint."""

    checkpoint_id: str
    run_id: str | None
    stamp: tuple[Any, ...]
    """What a manifest has of its own: format, time, updated channels."""
    packed: bytes | None
    """The manifest, or what differs from the parent's; None if only that says what it holds."""
    is_complete: bool
    """Whether it is the manifest."""
    base: CachedManifest | None
    cached: CachedManifest
    metadata_kind: str | None
    """As it is stored."""
    metadata: bytes
    metadata_bytes: bytes
    """The encoded metadata before they are sealed."""
    inline_writes: bytes | None = None
    """What the tasks at its parent wrote, if that is to be stored with it."""


@record(frozen=False)
class Prepared:
    """A step in its stored form."""

    place: Place
    fence: Fence | None
    token: str | None
    """The run's; None if a foreign runtime writes, which is not fenced."""
    writes: list[TaskRows]
    blobs: list[BlobRow]
    checkpoint: CheckpointRow | None
    early: list[EarlyCompaction]
    status: str = "running"
    """What the registry says of the thread afterwards; empty: what it says already."""
    written: StoredWrites | None = None
    """What is known of the rows at the graph's latest checkpoint, once this is stored."""
    added: set[tuple[str, int]] = field(default_factory=set)
    """Those of them that this step adds."""

    @property
    def weight(self) -> int:
        """The bytes that it holds until it is stored: whole values, differences or not."""
        values = sum(blob.encoded.size for blob in self.blobs)
        rows = (row for task in self.writes for row in (*task.ordinary, *task.special))
        inline_writes = self.checkpoint.inline_writes if self.checkpoint is not None else None
        return values + sum(len(row.data) for row in rows) + len(inline_writes or b"")
