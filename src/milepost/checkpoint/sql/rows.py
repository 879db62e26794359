"""The rows of a step, ready to be stored."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.record import record

if TYPE_CHECKING:
    from milepost.checkpoint.codec import Encoded
    from milepost.checkpoint.commit import Fence, Written
    from milepost.checkpoint.records import Place
    from milepost.checkpoint.splice import Program
    from milepost.checkpoint.sql.frame import Frame
    from milepost.checkpoint.sql.remembered import Chain, Known, KnownFrame


def short_kind(kind: str) -> str | None:
    """A kind as it is stored: nearly all are msgpack."""
    return None if kind == "msgpack" else kind


def long_kind(kind: str | None) -> str:
    """The kind that `short_kind` was given."""
    return "msgpack" if kind is None else kind


class Fold(NamedTuple):
    """An older version, to be stored anew as a part of a newer one."""

    version: str
    kind: str
    program: Program
    channel: str | None = None
    """Whose version it is, if it is another channel's."""


@record(frozen=False)
class BlobRow:
    """A version of a channel's value."""

    channel: str
    version: str
    encoded: Encoded
    known: Known | None
    """What is remembered of it; None for a foreign serializer."""
    base: Known | None = None
    """The version before it."""
    chain: Chain | None = None
    """How that one was stored, or was to be, when this was prepared."""
    base_version: str | None = None
    """The version that it is a difference from, if that is an earlier one."""
    program: Program | None = None
    folds: list[Fold] = field(default_factory=list)
    fresh: Program | None = None
    """The difference from the version before it, however it is stored."""


class WriteRow(NamedTuple):
    """One write of a task."""

    position: int
    channel: str
    base: str | None
    kind: str | None
    data: bytes
    """The sealed value; with a base, the sealed program that cuts it out of that version."""


@record(frozen=False)
class TaskRows:
    """The writes of one task."""

    task_id: str
    task_path: str
    ordinary: list[WriteRow] = field(default_factory=list)
    special: list[WriteRow] = field(default_factory=list)


class EarlyFold(NamedTuple):
    """A write that is stored already, to be stored anew as a part of a channel's version."""

    task_id: str
    task_path: str
    position: int
    channel: str
    base: str
    kind: str
    program: bytes


@record(frozen=False)
class CheckpointRow:
    """A checkpoint."""

    checkpoint_id: str
    run_id: str | None
    stamp: tuple[Any, ...]
    """What a frame has of its own: format, time, updated channels."""
    changes: Frame | None
    """What differs from the parent's frame; None if it is to be stored complete."""
    base: KnownFrame | None
    known: KnownFrame
    metadata_kind: str
    metadata: bytes
    notes: bytes
    """The metadata before they were sealed."""
    led: bytes | None = None
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
    early: list[EarlyFold]
    status: str = "running"
    """What the registry says of the thread afterwards."""
    written: Written | None = None
    """What is known of the rows at the graph's latest checkpoint, once this is stored."""
    added: set[tuple[str, int]] = field(default_factory=set)
    """Those of them that this step adds."""

    @property
    def weight(self) -> int:
        """The bytes that it holds until it is stored: whole values, differences or not."""
        values = sum(blob.encoded.size for blob in self.blobs)
        rows = (row for task in self.writes for row in (*task.ordinary, *task.special))
        led = self.checkpoint.led if self.checkpoint is not None else None
        return values + sum(len(row.data) for row in rows) + len(led or b"")
