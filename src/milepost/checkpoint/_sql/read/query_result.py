"""The result of a reader's first query: the rows of a checkpoint, and the values to fetch next."""

from __future__ import annotations

from dataclasses import field
from types import NoneType
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

_WRITE, _VALUE = 1, 3
_RUNNING: Final = "running"
_record: Final = tuple.__new__


@record(frozen=False)
class FoundCheckpoint:
    """A checkpoint and its parent: the rows of their manifests, and the writes at both."""

    row: CheckpointRecord
    parent: CheckpointRecord | None
    """Fetched too, since it costs little and tells which tasks made this checkpoint."""
    rows: dict[str, CheckpointRecord]
    """All manifests, by the id of their checkpoint."""
    writes: list[WriteRecord]
    epoch: int | None
    values: Sequence[tuple[Any, ...]] = ()
    """Rows of values in the same result, which may be the wanted ones."""
    large: Sequence[tuple[str, str]] = ()
    """Set by `wanted`: channels and versions of the checkpoint with rows of their own."""
    parent_triggers: list[tuple[str, str]] = field(default_factory=list)
    """Set by `wanted`: the same for the trigger channels of the parent."""
    unfetched: list[str] = field(default_factory=list)
    """Set by `wanted`: channels of the parent whose values are not fetched."""

    def wanted(self, manifests: Manifests) -> set[tuple[str, str]]:
        """The channels and versions whose rows are to be fetched.

        Of the parent only trigger channels, which started its tasks. The parent's state is not
        needed.
        """
        self.large = manifests.of(self.row.id).manifest.large()
        wanted = set(self.large)
        for write in self.writes:
            if write.base is not None:
                wanted.add((write.channel, write.base))
        if self.parent is not None:
            try:
                large = manifests.of(self.parent.id).manifest.large()
            except UNREADABLE:
                return wanted  # reading the parent raises the error
            for key in large:
                if is_trigger(key[0]):
                    self.parent_triggers.append(key)
                    wanted.add(key)
                elif key not in wanted:
                    self.unfetched.append(key[0])
        return wanted


def latest_at(place: Place, answer: Iterable[Sequence[Any]]) -> FoundCheckpoint | Place | None:
    """The latest checkpoint, from the rows of `Statements.latest` or `Statements.newest`.

    Returns the place to read with `Statements.found`, if the checkpoint right before it is not its
    parent. Raises the same errors as `found_at`.
    """
    rows: dict[str, CheckpointRecord] = {}
    writes: list[WriteRecord] = []
    values: list[tuple[Any, ...]] = []
    inline: dict[str, bytes | None] = {}
    head: str | None = None
    status: str | None = None
    epoch: int | None = None
    for row in answer:
        if row[0] == 0:
            id = row[1]
            rows[id] = _record(CheckpointRecord, (*row[1:7], None))
            inline[id] = row[7]
        elif row[0] == _WRITE:
            _, id, task_id, position, _, kind, data, _, *about = row
            writes.append(_record(WriteRecord, (id, task_id, position, *about, kind, data, "")))
        elif row[0] == _VALUE:
            _, channel, version, level, _, kind, data, _, base_channel, base, _ = row
            values.append((channel, version, base_channel, base, level, kind, data))
        else:
            _, head, status, epoch, *_ = row
    if {*map(type, rows), type(head)} - {str, NoneType}:
        return place  # a damaged cell: `found_at` will report it
    newest = sorted(rows, reverse=True)
    if place.checkpoint_ns == "" and status is not None:
        top = newest[0] if newest else ""
        if status != _RUNNING and top > (head or ""):
            raise entry_behind(place.thread_id, head, top)
        if head is not None and top < head:
            raise head_gone(place.thread_id, head)
    if not newest:
        return None
    first = rows[newest[0]]
    parent_id = first.parent_id
    if parent_id is None or len(newest) == 1:  # the parent was removed
        here = [write for write in writes if write.checkpoint_id == first.id]
        return FoundCheckpoint(first, None, rows, here, epoch, values)
    if newest[1] != parent_id:
        return place._replace(checkpoint_id=first.id)
    led = inline[first.id]
    if led is not None:
        given = (parent_id, first.id, 0, parent_id, "", None, INLINE_WRITES, led, "")
        writes.append(_record(WriteRecord, given))
    return FoundCheckpoint(first, rows[parent_id], rows, writes, epoch, values)


def found_at(place: Place, answer: Iterable[Sequence[Any]]) -> FoundCheckpoint | None:
    """The checkpoint from the rows of `Statements.found`. Raises BrokenChainError if the head is
    gone, and DamagedRowError if the registry names an older checkpoint as the head."""
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
                # The child's manifest tells how many writes there must be.
                rows[other] = CheckpointRecord(other, channel, number, metadata, None, b"")
        elif tag == _WRITE:
            writes.append(WriteRecord(id, other, number, channel, path, base, kind, data))
        else:
            head, newer, epoch = id, other, number
    latest = place.checkpoint_id is None and place.checkpoint_ns == ""
    if latest and newer is not None:
        raise entry_behind(place.thread_id, head, newer)
    if first is not None:
        parent = None if first.parent_id is None else rows.get(first.parent_id)
        if first.parent_id == first.id:  # put again by an older version: found twice
            writes = list(dict.fromkeys(writes))
        return FoundCheckpoint(first, parent, rows, writes, epoch)
    if head is not None and latest:
        raise head_gone(place.thread_id, head)
    return None
