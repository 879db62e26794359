"""Rows of checkpoints and writes as they come from the database, and frames put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost.checkpoint.sql import frames, notes
from milepost.checkpoint.sql.remembered import Frame, KnownFrame
from milepost.errors import BrokenChainError, SerdeError
from milepost.record import record

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from milepost.checkpoint.codec import Codec, Columns
    from milepost.checkpoint.records import CheckpointMetadata

UNREADABLE: Final = (BrokenChainError, SerdeError)
"""What a damaged or missing row leads to."""


class CheckpointRecord(NamedTuple):
    """A row of `checkpoints` without the thread and namespace."""

    id: str
    parent_id: str | None
    complete: int
    frame: bytes
    metadata_kind: str | None
    metadata: bytes
    run_id: str | None = None
    """Only where it was asked for."""

    @property
    def columns(self) -> Columns:
        """What `frame` is bound to, besides its place."""
        return (self.parent_id, self.complete)


class WriteRecord(NamedTuple):
    """A row of `checkpoint_writes` without the thread and namespace.

    Of the writes in a checkpoint's row (`LED`) `task_id` is the id of that checkpoint.
    """

    checkpoint_id: str
    task_id: str
    position: int
    channel: str
    task_path: str
    base: str | None
    kind: str | None
    data: bytes
    within: str = ""
    """The kind of the row that it was in with others, which has been unsealed."""

    @property
    def columns(self) -> Columns:
        """What `data` is bound to, besides its place."""
        return (self.channel, self.task_path, self.base, self.kind)


def head_gone(thread_id: str, head: str) -> BrokenChainError:
    """A thread with a history must not be taken for a new one."""
    return BrokenChainError(
        f"Checkpoint '{head}', the latest of thread '{thread_id}', is gone. Restore it from a "
        "backup, or go on from an older one: pass its checkpoint_id in the config."
    )


def write_order(write: WriteRecord) -> tuple[str, str, int]:
    """Writes come back in the order of the tasks' paths."""
    return (write.task_path, write.task_id, write.position)


@record
class Framed:
    """A checkpoint whose frame has been put together."""

    row: CheckpointRecord
    _stamp: frames.Stamp
    frame: Frame
    rows: int
    """Rows that a read must fetch."""
    spent: int
    """Bytes of the differences since the complete one."""
    size: int
    """Bytes of the complete one."""

    @property
    def stamp(self) -> tuple[Any, str, Any]:
        """What the frame has of its own: format, time, updated channels."""
        return self._stamp.read()

    @property
    def wanted(self) -> list[tuple[str, str]]:
        """The channels and versions that have rows of their own."""
        versions = self.frame.versions
        return [
            (channel, str(versions[channel]))
            for channel, held in self.frame.inline.items()
            if held is False and channel in versions
        ]


class Frames:
    """The frames of one graph of a thread, put together when they are asked for."""

    def __init__(
        self,
        codec: Codec,
        thread_id: str,
        ns: str,
        rows: Mapping[str, CheckpointRecord],
        wanted: Collection[str],
        bases: Mapping[str, KnownFrame],
    ) -> None:
        self._codec = codec
        self._place = (thread_id, ns)
        self._rows = rows
        self._wanted = wanted
        """Those that will be asked for: the others are only passed through."""
        self._bases = bases
        self._framed: dict[str, Framed] = {}
        self._opened: dict[str, tuple[frames.Stamp, Frame, int]] = {}

    def wanted(self) -> set[tuple[str, str]]:
        """The channels and versions with rows of their own that the wanted frames name.

        Without putting each of them together: one differs from its parent's in what it changed.
        """
        found: set[tuple[str, str]] = set()
        tips: dict[str | None, dict[str, Any]] = {}
        for id in sorted(self._wanted):  # parents come first
            row = self._rows[id]
            try:
                inline = None if row.complete else tips.pop(row.parent_id, None)
                if inline is None:
                    framed = self.of(id)
                    found.update(framed.wanted)
                    inline = dict(framed.frame.inline)
                else:
                    _, changes, _ = self._open(row)
                    inline.update(changes.inline)
                    for channel, version in changes.versions.items():
                        if inline.get(channel) is False:
                            found.add((channel, str(version)))
            except UNREADABLE:
                continue  # whoever looks at this one will be told
            tips[id] = inline
        return found

    def of(self, id: str) -> Framed:
        """The frame of one checkpoint; BrokenChainError, or SerdeError, if it is not to be had."""
        if (framed := self._framed.get(id)) is not None:
            return framed
        if (known := self._bases.get(id)) is not None:
            row = self._rows[id]
            stamp, _, _ = self._open(row)
            framed = Framed(row, stamp, known.frame, known.rows, known.spent, known.size)
            self._framed[id] = framed
            return framed
        line = [self._rows[id]]
        versions: dict[str, Any] = {}
        seen: dict[str, Any] = {}
        inline: dict[str, Any] = {}
        count, spent, size = 0, 0, 0
        start: Framed | KnownFrame | None = None
        while not line[-1].complete:
            parent = line[-1].parent_id
            if parent is not None:
                start = self._framed.get(parent) or self._bases.get(parent)
                if start is not None:
                    base = start.frame
                    versions, seen, inline = dict(base.versions), dict(base.seen), dict(base.inline)
                    count, spent, size = start.rows, start.spent, start.size
                    break
            if parent is None or parent not in self._rows or len(line) > len(self._rows):
                raise BrokenChainError(
                    f"Checkpoint '{line[-1].id}' of thread '{self._place[0]}' is stored as changes "
                    f"to '{parent}', which is gone. Restore it from a backup."
                )
            line.append(self._rows[parent])
        for row in reversed(line):
            stamp, changes, length = self._open(row)
            if row.complete:
                size = length
            else:
                spent += length
            count += 1
            versions.update(changes.versions)
            seen.update(changes.seen)
            inline.update(changes.inline)
            if row is line[0] or row.id in self._wanted:
                frame = Frame(versions, seen, inline)
                framed = Framed(row, stamp, frame, count, spent, size)
                self._framed[row.id] = framed
                if row is not line[0]:
                    versions, seen, inline = dict(versions), dict(seen), dict(inline)
        assert framed is not None
        return framed

    def check(self, record: CheckpointRecord) -> None:
        """Raises SerdeError if the row is not what was written, its parent's id included."""
        self._open(record)

    def _open(self, record: CheckpointRecord) -> tuple[frames.Stamp, Frame, int]:
        if (opened := self._opened.get(record.id)) is not None:
            return opened
        try:
            place = ("frame", *self._place, record.id)
            data = self._codec.unseal(record.frame, place, record.columns)
            opened = self._opened[record.id] = (*frames.unpack(data), len(data))
            return opened
        except SerdeError as error:
            raise error.at(thread=self._place[0], channel="(the frame)") from None


def metadata_of(codec: Codec, thread_id: str, ns: str, row: CheckpointRecord) -> CheckpointMetadata:
    """The metadata of one checkpoint."""
    return notes.decoded(codec, row.metadata_kind, row.metadata, thread_id, ns, row.id)
