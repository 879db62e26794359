"""Reads checkpoints: operations that yield queries and return records."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.checkpoint.records import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    Place,
)
from milepost.checkpoint.sql import frames
from milepost.checkpoint.sql.memory import Frame, Known, KnownFrame, Memory
from milepost.checkpoint.sql.rows import long_kind
from milepost.checkpoint.sql.values import Resolver
from milepost.errors import BrokenChainError, SerdeError
from milepost.sql import splice
from milepost.sql.operations import Operation, Query

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from milepost.checkpoint.sql.codec import Codec
    from milepost.checkpoint.sql.queries import Queries


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


class WriteRecord(NamedTuple):
    """A row of `checkpoint_writes` without the thread and namespace."""

    checkpoint_id: str
    task_id: str
    position: int
    channel: str
    task_path: str
    base: str | None
    kind: str | None
    data: bytes


@dataclass(slots=True)
class Framed:
    """A checkpoint whose frame has been put together."""

    row: CheckpointRecord
    stamp: tuple[Any, ...]
    frame: Frame
    rows: int
    spent: int
    size: int


class Reader:
    """Reads through one dialect's queries."""

    def __init__(self, codec: Codec, memory: Memory, queries: Queries) -> None:
        self.codec = codec
        self.memory = memory
        self.q = queries

    # -- one checkpoint

    def one(self, place: Place) -> Operation[CheckpointTuple | None]:
        """The checkpoint at `place`, or the latest one there."""
        thread_id, ns, wanted = place
        rows = yield Query(self.q.thread, (thread_id,))
        head, _token, epoch = rows[0] if rows else (None, None, None)
        if wanted is None and ns == "":
            wanted = head
        if wanted is None:
            rows = yield Query(self.q.latest, (thread_id, ns))
        else:
            rows = yield Query(self.q.checkpoint, (thread_id, ns, wanted))
        if not rows:
            return None
        row = CheckpointRecord(*rows[0])
        framed = (yield from self.frames(thread_id, ns, [row]))[row.id]
        rows = yield Query(self.q.writes, (thread_id, ns, row.id))
        writes = sorted(map(WriteRecord._make, rows), key=write_order)
        resolver = yield from self.resolver(thread_id, ns, [framed.frame], writes)
        found = self.assemble(thread_id, ns, framed, writes, resolver)
        if self.codec.splices:
            self._learn(thread_id, ns, framed, resolver, epoch)
        return found

    def frame_of(self, place: Place) -> Operation[Frame | None]:
        """The frame of the checkpoint at `place`, if there is one."""
        if place.checkpoint_id is None:
            return None
        rows = yield Query(self.q.checkpoint, place)
        if not rows:
            return None
        row = CheckpointRecord(*rows[0])
        found = yield from self.frames(place.thread_id, place.checkpoint_ns, [row])
        return found[row.id].frame

    def _learn(
        self, thread_id: str, ns: str, framed: Framed, resolver: Resolver, epoch: int | None
    ) -> None:
        values = {
            channel: resolver.remember(channel, str(framed.frame.versions[channel]), epoch)
            for channel, held in framed.frame.inline.items()
            if held is False and channel in framed.frame.versions
        }
        known = KnownFrame(
            None, epoch, framed.row.id, framed.frame, framed.rows, framed.spent, framed.size
        )
        self.memory.learn(thread_id, ns, known, values)

    # -- frames

    def frames(
        self, thread_id: str, ns: str, rows: Sequence[CheckpointRecord]
    ) -> Operation[dict[str, Framed]]:
        """The frames of some checkpoints of one graph, and of those they build on."""
        found = {row.id: row for row in rows}
        bases: dict[str, KnownFrame] = {}
        missing = []
        for row in rows:
            if row.complete or row.parent_id in found or row.parent_id is None:
                continue
            known = self.memory.frame(thread_id, ns, row.parent_id, None)
            if known is not None and not known.partial:
                bases[row.parent_id] = known
            else:
                missing.append(row.parent_id)
        if missing:
            more = yield Query(self.q.ancestry, (json.dumps(missing), thread_id, ns, thread_id, ns))
            for record in more:
                found.setdefault(record[0], CheckpointRecord(*record))
        framed: dict[str, Framed] = {}
        for row in rows:
            self.put_together(thread_id, ns, row, found, bases, framed)
        return framed

    def put_together(
        self,
        thread_id: str,
        ns: str,
        row: CheckpointRecord,
        found: Mapping[str, CheckpointRecord],
        bases: Mapping[str, KnownFrame],
        framed: dict[str, Framed],
    ) -> None:
        """Add the frame of `row`, and of those it builds on, to `framed`."""
        line = [row]
        frame: Frame | None = None
        count, spent, size = 0, 0, 0
        while line[-1].id not in framed and not line[-1].complete:
            parent = line[-1].parent_id
            if parent is not None and parent in bases:
                known = bases[parent]
                frame, count, spent, size = known.frame, known.rows, known.spent, known.size
                break
            if parent is None or parent not in found or len(line) > len(found):
                raise BrokenChainError(
                    f"Checkpoint '{line[-1].id}' of thread '{thread_id}' is stored as changes to "
                    f"'{parent}', which is gone. Restore it from a backup."
                )
            line.append(found[parent])
        for record in reversed(line):
            if (done := framed.get(record.id)) is not None:
                frame, count, spent, size = done.frame, done.rows, done.spent, done.size
                continue
            try:
                data = self.codec.unseal(record.frame, "frame", thread_id, ns, record.id)
                stamp, changes = frames.unpack(data)
            except SerdeError as error:
                raise error.at(thread=thread_id, channel="(the frame)") from None
            if record.complete or frame is None:
                frame, count, spent, size = changes, 1, 0, len(data)
            else:
                frame = frames.merged(frame, changes)
                count, spent = count + 1, spent + len(data)
            framed[record.id] = Framed(record, stamp, frame, count, spent, size)

    # -- values and writes

    def resolver(
        self,
        thread_id: str,
        ns: str,
        needed: Iterable[Frame],
        writes: Iterable[WriteRecord],
    ) -> Operation[Resolver]:
        """Fetches the rows of all values that some checkpoints and writes need, in one query."""
        wanted = {
            (channel, str(frame.versions[channel]))
            for frame in needed
            for channel, held in frame.inline.items()
            if held is False and channel in frame.versions
        }
        wanted.update((write.channel, write.base) for write in writes if write.base is not None)
        return (yield from self.values(thread_id, ns, wanted))

    def values(
        self, thread_id: str, ns: str, wanted: Collection[tuple[str, str]], *, warm: bool = True
    ) -> Operation[Resolver]:
        """Fetches the rows of certain versions of channels, except those that we remember."""
        known: dict[tuple[str, str], Known] = {}
        for key in wanted if warm else ():
            if (value := self.memory.value(thread_id, ns, *key)) is not None:
                known[key] = value
        rows: Sequence[Any] = ()
        if missing := [key for key in wanted if key not in known]:
            rows = yield Query(self.q.blobs, (json.dumps(missing), thread_id, ns, thread_id, ns))
        return Resolver(self.codec, thread_id, ns, rows, known)

    def assemble(
        self,
        thread_id: str,
        ns: str,
        framed: Framed,
        writes: Sequence[WriteRecord],
        resolver: Resolver,
    ) -> CheckpointTuple:
        """The record of one checkpoint."""
        row, frame = framed.row, framed.frame
        values = {
            channel: self.channel(thread_id, ns, frame, channel, resolver)
            for channel, held in frame.inline.items()
            if held is not None and channel in frame.versions
        }
        format, time, updated = framed.stamp
        place = Place(thread_id, ns, row.id)
        return CheckpointTuple(
            place.config(),
            Checkpoint(
                v=format,
                id=row.id,
                ts=time,
                channel_values=values,
                channel_versions=dict(frame.versions),
                versions_seen={node: dict(seen) for node, seen in frame.seen.items()},
                updated_channels=updated,
            ),
            self.metadata(thread_id, ns, row),
            place._replace(checkpoint_id=row.parent_id).config() if row.parent_id else None,
            [self.write(thread_id, ns, write, resolver) for write in writes],
        )

    def channel(
        self, thread_id: str, ns: str, frame: Frame, channel: str, resolver: Resolver
    ) -> Any:
        """The value of one channel."""
        held, version = frame.inline[channel], str(frame.versions[channel])
        if held is False:
            return resolver.value(channel, version)
        try:
            return self.codec.decode(*held, "blob", thread_id, ns, channel, version)
        except SerdeError as error:
            raise error.at(thread=thread_id, channel=channel) from None

    def metadata(self, thread_id: str, ns: str, row: CheckpointRecord) -> CheckpointMetadata:
        """The metadata of one checkpoint."""
        place = ("metadata", thread_id, ns, row.id)
        try:
            data = self.codec.unseal(row.metadata, *place)
            metadata: CheckpointMetadata = self.codec.decode(
                long_kind(row.metadata_kind), data, *place
            )
        except SerdeError as error:
            raise error.at(thread=thread_id, channel="(the metadata)") from None
        return metadata

    def write(
        self, thread_id: str, ns: str, write: WriteRecord, resolver: Resolver
    ) -> PendingWrite:
        """One write of a task."""
        place = ("write", thread_id, ns, write.checkpoint_id, write.task_id, str(write.position))
        try:
            data = self.codec.unseal(write.data, *place)
            if write.base is not None:
                data = splice.apply(resolver.data(write.channel, write.base), splice.unpack(data))
            return (
                write.task_id,
                write.channel,
                self.codec.decode(long_kind(write.kind), data, *place),
            )
        except SerdeError as error:
            raise error.at(thread=thread_id, channel=write.channel) from None


def write_order(write: WriteRecord) -> tuple[str, str, int]:
    """Writes come back in the order of the tasks' paths."""
    return (write.task_path, write.task_id, write.position)
