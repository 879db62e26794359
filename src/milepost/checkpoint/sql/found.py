"""A checkpoint as the first query of a reader returns it: its rows, and what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.sql.fetched import (
    UNREADABLE,
    CheckpointRecord,
    Frames,
    WriteRecord,
    entry_behind,
    head_gone,
)
from milepost.checkpoint.sql.writes import LED
from milepost.record import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from milepost.checkpoint.records import Place

_WRITE: Final = 1


@record
class Found:
    """A checkpoint, its parent, the frames that theirs are made of, and the writes at both."""

    row: CheckpointRecord
    parent: CheckpointRecord | None
    """Comes along at little cost, and tells what made this checkpoint."""
    rows: dict[str, CheckpointRecord]
    """All frames, by the id of their checkpoint."""
    writes: list[WriteRecord]
    epoch: int | None

    def asked(self) -> list[CheckpointRecord]:
        """Those of the rows whose frames are wanted."""
        return [self.row] if self.parent is None else [self.row, self.parent]

    def wanted(self, frames: Frames) -> set[tuple[str, str]]:
        """The channels and versions that have rows of their own."""
        wanted = set(frames.of(self.row.id).frame.large())
        for write in self.writes:
            if write.base is not None:
                wanted.add((write.channel, write.base))
        try:
            if self.parent is not None:
                wanted.update(frames.of(self.parent.id).frame.large())
        except UNREADABLE:
            return wanted  # whoever looks at the parent will be told
        return wanted


def found_at(place: Place, answer: Iterable[Sequence[Any]]) -> Found | None:
    """What `Queries.found` has found; BrokenChainError if there should be more, and
    DamagedRowError if the registry says that an older checkpoint is the latest."""
    rows: dict[str, CheckpointRecord] = {}
    writes = []
    epoch: int | None = None
    head: str | None = None
    newer: str | None = None
    first: CheckpointRecord | None = None
    for tag, id, other, number, kind, data, metadata, channel, path, base in answer:
        if tag <= 0:
            rows[id] = CheckpointRecord(id, other, number, data, kind, metadata)
            first = rows[id] if tag == 0 else first
        elif kind == LED:
            if data is not None:
                writes.append(WriteRecord(id, other, 0, channel, path, base, kind, data))
            if metadata is not None:
                # The frame of the checkpoint after it, which tells whether there should be more.
                rows[other] = CheckpointRecord(other, id, number, metadata, None, b"")
        elif tag == _WRITE:
            writes.append(WriteRecord(id, other, number, channel, path, base, kind, data))
        else:
            head, newer, epoch = id, other, number
    latest = place.checkpoint_id is None and place.checkpoint_ns == ""
    if latest and newer is not None:
        raise entry_behind(place.thread_id, head, newer)
    if first is not None:
        parent = None if first.parent_id is None else rows.get(first.parent_id)
        return Found(first, parent, rows, writes, epoch)
    if head is not None and latest:
        raise head_gone(place.thread_id, head)
    return None
