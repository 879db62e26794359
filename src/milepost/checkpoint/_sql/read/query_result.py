"""A checkpoint as the first query of a reader returns it: its rows, and what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost._internal.dataclass_tools import record
from milepost.checkpoint._contract.threads import is_trigger
from milepost.checkpoint._sql.inline_writes import INLINE_WRITES
from milepost.checkpoint._sql.read.fetched import (
    UNREADABLE,
    CheckpointRecord,
    Manifests,
    WriteRecord,
    entry_behind,
    head_gone,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from milepost.checkpoint._contract.records import Place
    from milepost.checkpoint._sql.cache import CachedManifest

_WRITE: Final = 1


@record
class FoundCheckpoint:
    """A checkpoint, its parent, the manifests that theirs are made of, and the writes at both."""

    row: CheckpointRecord
    parent: CheckpointRecord | None
    """Comes along at little cost, and tells what made this checkpoint."""
    rows: dict[str, CheckpointRecord]
    """All manifests, by the id of their checkpoint."""
    writes: list[WriteRecord]
    epoch: int | None

    def asked(self) -> list[CheckpointRecord]:
        """Those of the rows whose manifests are wanted."""
        return [self.row] if self.parent is None else [self.row, self.parent]

    def wanted(self, manifests: Manifests) -> set[tuple[str, str]]:
        """The channels and versions that have rows of their own.

        Of the parent only what started its tasks: its state is not asked for, and mostly a part
        of the other's.
        """
        wanted = set(manifests.of(self.row.id).manifest.large())
        for write in self.writes:
            if write.base is not None:
                wanted.add((write.channel, write.base))
        try:
            if self.parent is not None:
                wanted.update(triggers(manifests.of(self.parent.id)))
        except UNREADABLE:
            return wanted  # reading the parent raises the error
        return wanted


def triggers(cached: CachedManifest) -> list[tuple[str, str]]:
    """The large values of a checkpoint by which its tasks were started, and their versions."""
    return [key for key in cached.manifest.large() if is_trigger(key[0])]


def found_at(place: Place, answer: Iterable[Sequence[Any]]) -> FoundCheckpoint | None:
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
        elif kind == INLINE_WRITES:
            if data is not None:
                writes.append(WriteRecord(id, other, 0, channel, path, base, kind, data))
            if metadata is not None:
                # The manifest of the checkpoint after it tells whether there should be more.
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
        return FoundCheckpoint(first, parent, rows, writes, epoch)
    if head is not None and latest:
        raise head_gone(place.thread_id, head)
    return None
