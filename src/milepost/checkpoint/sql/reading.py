"""Reads checkpoints: operations that yield queries and return records.

A checkpoint is read with two queries: one for it, its writes and the frames that its own is made
of; one for the rows of its values. What the saver remembers is not fetched again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.records import CheckpointTuple, Place
from milepost.checkpoint.sql.fetched import (
    UNREADABLE,
    CheckpointRecord,
    Framed,
    Frames,
    WriteRecord,
    head_gone,
)
from milepost.checkpoint.sql.lots import Lot, by_checkpoint
from milepost.checkpoint.sql.remembered import Frame, Known, KnownFrame, Memory
from milepost.checkpoint.sql.values import Resolver
from milepost.sql.operations import Operation, Query

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from milepost.checkpoint.codec import Codec
    from milepost.checkpoint.sql.queries import Queries

_FAR: Final = 256
"""Frames that the first query may return: more than a chain of them ever has."""
_WRITE: Final = 1


class Reader:
    """Reads through one dialect's queries."""

    def __init__(self, codec: Codec, memory: Memory, queries: Queries) -> None:
        self.codec = codec
        self.memory = memory
        self.q = queries

    # -- one checkpoint

    def one(self, place: Place) -> Operation[CheckpointTuple | None]:
        """The checkpoint at `place`, or the latest one there."""
        thread_id, ns, id = place
        far = 1 if self.memory.holds(thread_id, ns) else _FAR
        at = (thread_id, ns)
        found = yield Query(
            self.q.found,
            (id, thread_id, ns, *at, *at, far, *at, *at, *at, *at, thread_id),
        )
        rows: dict[str, CheckpointRecord] = {}
        writes = []
        epoch: int | None = None
        head: str | None = None
        first: CheckpointRecord | None = None
        for tag, id, other, number, kind, data, metadata, channel, path, base in found:
            if tag <= 0:
                rows[id] = CheckpointRecord(id, other, number, data, kind, metadata)
                first = rows[id] if tag == 0 else first
            elif tag == _WRITE:
                writes.append(WriteRecord(id, other, number, channel, path, base, kind, data))
            else:
                head, epoch = id, number
        if first is None:
            if head is not None and place.checkpoint_id is None and ns == "":
                raise head_gone(thread_id, head)
            return None
        # The parent comes along at little cost, and tells what made this checkpoint.
        row = first
        parent = rows.get(row.parent_id) if row.parent_id is not None else None
        asked = [row] if parent is None else [row, parent]
        frames = yield from self._frames(thread_id, ns, asked, rows, epoch)
        wanted = {(write.channel, write.base) for write in writes if write.base is not None}
        wanted.update(frames.wanted())
        resolver = yield from self.values(thread_id, ns, wanted, last=True)
        lot = Lot(self.codec, thread_id, ns, frames, by_checkpoint(writes), resolver)
        record = lot.record(row)
        for name in record._fields:
            getattr(record, name)
        if parent is not None:
            record.parent = lot.record(parent)
        if self.codec.splices:
            if parent is not None:
                with suppress(*UNREADABLE):
                    self._learn(thread_id, ns, frames.of(parent.id), resolver, epoch)
            self._learn(thread_id, ns, frames.of(row.id), resolver, epoch)
        return record

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
        self,
        thread_id: str,
        ns: str,
        framed: Framed,
        resolver: Resolver,
        epoch: int | None,
    ) -> None:
        values = {
            channel: resolver.remember(channel, version, epoch)
            for channel, version in framed.wanted
        }
        known = KnownFrame(
            None, epoch, framed.row.id, framed.frame, framed.rows, framed.spent, framed.size
        )
        self.memory.learn(thread_id, ns, known, values)

    # -- frames

    def frames(
        self, thread_id: str, ns: str, rows: Sequence[CheckpointRecord]
    ) -> Operation[dict[str, Framed]]:
        """The frames of some checkpoints of one graph."""
        found = yield from self._frames(thread_id, ns, rows, {row.id: row for row in rows})
        return {row.id: found.of(row.id) for row in rows}

    def _frames(
        self,
        thread_id: str,
        ns: str,
        rows: Sequence[CheckpointRecord],
        found: dict[str, CheckpointRecord],
        epoch: int | None = None,
    ) -> Operation[Frames]:
        """Fetches those that the frames of `rows` build on, if they are not among `found`.

        With the thread's epoch, also the rows themselves may be remembered: nobody has put
        another checkpoint in their place since.
        """
        bases: dict[str, KnownFrame] = {}
        missing: dict[str, None] = {}
        passed: set[str] = set()
        for row in rows:
            if epoch is not None:
                known = self.memory.frame(thread_id, ns, row.id, None)
                if known is not None and not known.partial and known.epoch == epoch:
                    bases[row.id] = known
                    continue
            while not row.complete and row.id not in passed:
                passed.add(row.id)
                parent = row.parent_id
                if parent is None:
                    break
                known = self.memory.frame(thread_id, ns, parent, None)
                if known is not None and not known.partial:
                    bases[parent] = known
                    break
                if parent not in found:
                    missing[parent] = None
                    break
                row = found[parent]
        if missing:
            more = yield Query(
                self.q.ancestry, (json.dumps(list(missing)), thread_id, ns, thread_id, ns)
            )
            for record in more:
                found.setdefault(record[0], CheckpointRecord(*record))
        return Frames(self.codec, thread_id, ns, found, {row.id for row in rows}, bases)

    # -- values and writes

    def lot(self, thread_id: str, ns: str, rows: Sequence[CheckpointRecord]) -> Operation[Lot]:
        """All rows that some checkpoints of one graph are put together from."""
        frames = yield from self._frames(thread_id, ns, rows, {row.id: row for row in rows})
        ids = [row.id for row in rows]
        return (yield from self.rows_of(thread_id, ns, frames, ids, frames.wanted()))

    def rows_of(
        self,
        thread_id: str,
        ns: str,
        frames: Frames,
        ids: Sequence[str],
        wanted: Collection[tuple[str, str]],
        channels: Sequence[str] | None = None,
    ) -> Operation[Lot]:
        """The writes at some checkpoints, and values, at once.

        With `channels`, what writes to others refer to is left out: those are not to be read.
        """
        known = self._known(thread_id, ns, wanted)
        at = (thread_id, ns)
        some = () if channels is None else (json.dumps(list(channels)),)
        pairs = json.dumps([key for key in wanted if key not in known])
        found = yield Query(
            self.q.rows_of if channels is None else self.q.rows_of_channels,
            (json.dumps(list(ids)), *at, *at, *at, pairs, *some, *at, *at),
        )
        blobs, writes = [], []
        for tag, a, b, c, base, number, path, kind, data in found:
            if tag:
                writes.append(WriteRecord(a, b, number, c, path, base, kind, data))
            else:
                blobs.append((a, b, c, base, number, kind, data))
        shares = len(ids) > 1
        resolver = Resolver(self.codec, thread_id, ns, blobs, known, shares=shares)
        return Lot(self.codec, thread_id, ns, frames, by_checkpoint(writes), resolver)

    def values(
        self,
        thread_id: str,
        ns: str,
        wanted: Collection[tuple[str, str]],
        *,
        warm: bool = True,
        last: bool = False,
    ) -> Operation[Resolver]:
        """Fetches the rows of certain versions of channels, except those that we remember."""
        known = self._known(thread_id, ns, wanted) if warm else {}
        rows: Sequence[Any] = ()
        if missing := [key for key in wanted if key not in known]:
            place = (thread_id, ns)
            rows = yield Query(self.q.blobs, (json.dumps(missing), *place, *place), last)
        return Resolver(self.codec, thread_id, ns, rows, known)

    def _known(
        self, thread_id: str, ns: str, wanted: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], Known]:
        found = ((key, self.memory.value(thread_id, ns, *key)) for key in wanted)
        return {key: value for key, value in found if value is not None}
