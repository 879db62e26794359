"""The assembler: makes records from the fetched rows of one graph's checkpoints.

The rows are fetched together. A field of a record is decoded when a caller looks at it. So a
listing decodes nothing, and its records stay readable even after the rows are removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from milepost._internal.lazy_tuple import LazyTuple
from milepost.checkpoint._contract.records import (
    SENDS_ARE_A_CHANNEL,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    is_older,
    with_sends,
)
from milepost.checkpoint._delta.diff import Buffer, unpack
from milepost.checkpoint._sql.inline_writes import (
    INLINE_WRITES,
    SEVERAL_WRITES,
    unpack_inline,
    unpack_several,
)
from milepost.checkpoint._sql.manifest import EMPTIED, OWN_ROW
from milepost.checkpoint._sql.read.fetched import (
    CheckpointRecord,
    GraphKey,
    Manifests,
    WriteRecord,
    metadata_of,
    put_in_order,
)
from milepost.checkpoint._sql.rows import long_kind
from milepost.constants import TASKS
from milepost.errors import SerdeError
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._sql.manifest import Manifest
    from milepost.checkpoint._sql.read.values import Resolver
    from milepost.types import RunnableConfig

    _Read: TypeAlias = Callable[[Manifest, str], Any]
    """Gives the value of a channel, or MISSING."""


class Record(LazyTuple, plain=CheckpointTuple):
    """A checkpoint as a saver returns it, whose fields are decoded on access."""

    parent: CheckpointTuple | None = None
    """The parent checkpoint, if it was fetched too."""
    unfetched: Collection[str] = ()
    """Channels whose values were not fetched."""

    def outline(self, channels: Collection[str]) -> Checkpoint:
        """The checkpoint with the values of these channels only, unless it is decoded already."""
        fields: Any = self._maker  # read first: it is replaced once all fields are decoded
        made: Checkpoint | None = self._made.get("checkpoint")
        return fields.outline(channels) if made is None else made

    def has(self, channels: Container[str]) -> bool:
        """Whether the values of these channels were fetched."""
        return not any(map(channels.__contains__, self.unfetched))

    def pending_of(self, owners: str) -> Sequence[PendingWrite]:
        """The pending writes of tasks whose ids begin with `owners`, and perhaps others."""
        fields: Any = self._maker
        made: Sequence[PendingWrite] | None = self._made.get("pending_writes")
        return fields.pending_of(owners) if made is None else made


class _Fields:
    __slots__ = ("_assembler", "_row")

    def __init__(self, assembler: CheckpointAssembler, row: CheckpointRecord) -> None:
        self._assembler = assembler
        self._row = row

    def __call__(self, name: str) -> Any:
        assembler, row = self._assembler, self._row
        if name == "checkpoint":
            return assembler.checkpoint(row)
        if name == "pending_writes":
            return assembler.pending_writes(row.id)
        if name == "metadata":
            return assembler.metadata(row)
        if name == "config":
            return assembler.config(row.id)
        return assembler.parent_config(row)

    def outline(self, channels: Collection[str]) -> Checkpoint:
        assembler = self._assembler

        def read(manifest: Manifest, channel: str) -> Any:
            return assembler.channel(manifest, channel) if channel in channels else MISSING

        return assembler.checkpoint(self._row, read)

    def pending_of(self, owners: str) -> list[PendingWrite]:
        return self._assembler.pending_of(self._row.id, owners)


class LoadedCheckpoint(CheckpointTuple):
    """A checkpoint with all fields decoded. Copies and prints as a plain CheckpointTuple."""

    parent: CheckpointTuple | None = None

    def __reduce__(self) -> Any:
        return CheckpointTuple, tuple(self)

    def __repr__(self) -> str:
        return repr(CheckpointTuple(*self))


class CheckpointAssembler:
    """Some checkpoints of one graph of a thread."""

    def __init__(
        self,
        codec: Codec,
        at: GraphKey,
        manifests: Manifests,
        writes: Mapping[str, Sequence[WriteRecord]],
        resolver: Resolver,
    ) -> None:
        self._codec = codec
        self._place = at
        self._manifests = manifests
        self._writes = writes
        self._resolver = resolver

    def record(self, row: CheckpointRecord, unfetched: Collection[str] = ()) -> CheckpointTuple:
        """A record whose fields are decoded on access. It has no values of `unfetched` channels."""
        record: Any = Record({}, _Fields(self, row))
        if unfetched:
            record.unfetched = unfetched
        found: CheckpointTuple = record
        return found

    def whole(self, row: CheckpointRecord) -> LoadedCheckpoint:
        """A record with all fields decoded."""
        checkpoint = self.checkpoint(row)  # unseals the row, which proves its parent's id
        parent_config = self.config(row.parent_id) if row.parent_id else None
        metadata, writes = self.metadata(row), self.pending_writes(row.id)
        return LoadedCheckpoint(self.config(row.id), checkpoint, metadata, parent_config, writes)

    def metadata(self, row: CheckpointRecord) -> CheckpointMetadata:
        return metadata_of(self._codec, *self._place, row)

    def parent_config(self, row: CheckpointRecord) -> RunnableConfig | None:
        self._manifests.check(row)
        return self.config(row.parent_id) if row.parent_id else None

    def config(self, id: str) -> RunnableConfig:
        thread_id, ns = self._place
        return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id}}

    def checkpoint(
        self, row: CheckpointRecord, read: _Read | None = None, *, with_older_sends: bool = True
    ) -> Checkpoint:
        """The checkpoint, with the values for which `read` does not return MISSING."""
        read = read or self.channel
        manifest = self._manifests.of(row.id).manifest
        versions = manifest.versions
        values = {}
        for channel, held in manifest.inline.items():
            if held is not EMPTIED and channel in versions:
                value = read(manifest, channel)
                if value is not MISSING:
                    values[channel] = value
        format, time, updated = self._manifests.stamp(row)
        checkpoint = Checkpoint(
            v=format,
            id=row.id,
            ts=time,
            channel_values=values,
            channel_versions=dict(versions),
            versions_seen={node: dict(seen) for node, seen in manifest.seen.items()},
            updated_channels=updated,
        )
        if is_older(format, SENDS_ARE_A_CHANNEL) and row.parent_id and with_older_sends:
            sends = self.pending_writes(row.parent_id, lambda write: write.channel == TASKS)
            return with_sends(checkpoint, sends)
        return checkpoint

    def channel(self, manifest: Manifest, channel: str) -> Any:
        held, version = manifest.inline[channel], str(manifest.versions[channel])
        if held is OWN_ROW:
            return self._resolver.value(channel, version)
        kind, data = held
        try:
            return self._codec.decode(kind, [data], "blob", *self._place, channel, version)
        except SerdeError as error:
            raise error.at(thread=self._place[0], channel=channel) from None

    def pending_writes(
        self, id: str, is_wanted: Callable[[WriteRecord], bool] | None = None
    ) -> list[PendingWrite]:
        """The pending writes at a checkpoint, all or the wanted ones."""
        rows = self._writes.get(id, ())
        self._manifests.check_writes(id, rows)
        if not rows:
            return []
        found = []
        for write in first_of_each([w for row in rows for w in self.writes_in(row)]):
            if is_wanted is None or is_wanted(write):
                found.append(self.write(write))
            else:
                self._opened(write)  # unsealing proves the columns that `is_wanted` relied on
        return found

    def pending_of(self, id: str, owners: str) -> list[PendingWrite]:
        """The pending writes of tasks whose ids begin with `owners`, of which mostly none exist."""
        rows = self._writes.get(id, ())
        self._manifests.check_writes(id, rows)
        if any(self._may_hold(row, owners) for row in rows):
            return self.pending_writes(id, lambda write: _belongs_to(write, owners))
        return []

    def _may_hold(self, row: WriteRecord, owners: str) -> bool:
        """Whether a row may hold writes of tasks whose ids begin with `owners`."""
        try:
            opened = self._opened(row)  # unsealing proves the task id of the row
        except SerdeError as error:
            raise error.at(thread=self._place[0]) from None
        if row.kind == INLINE_WRITES:
            return owners.encode() in bytes(opened)
        return _belongs_to(row, owners)

    def check_writes(self, id: str) -> None:
        """Raises BrokenChainError if some writes at a checkpoint are gone."""
        self._manifests.check_writes(id, self.rows_at(id))

    def rows_at(self, id: str) -> Sequence[WriteRecord]:
        return self._writes.get(id, ())

    def writes_in(self, row: WriteRecord) -> list[WriteRecord]:
        """The writes in a row, each as a record of its own."""
        id, task_id, _, parent_id, path, _, kind, _, _ = row
        if kind not in (SEVERAL_WRITES, INLINE_WRITES):
            return [row]
        try:
            opened = self._opened(row)
            tasks = (
                unpack_inline(opened)
                if kind == INLINE_WRITES
                else [(task_id, path, unpack_several(opened))]
            )
        except SerdeError as error:
            raise error.at(thread=self._place[0]) from None
        if kind == INLINE_WRITES and parent_id != id:
            return []
        return [
            WriteRecord(id, task_id, position, channel, path, base, stored, data, kind)
            for task_id, path, writes in tasks
            for position, channel, base, stored, data in writes
        ]

    def write(self, write: WriteRecord) -> PendingWrite:
        try:
            data = self._opened(write)
            pieces: Sequence[Buffer] = [data]
            if write.base is not None:
                base = self._resolver.rope(write.channel, write.base)
                pieces = base.apply(unpack(data)).buffers()
            value = self._codec.decode(long_kind(write.kind), pieces, *self._place_of(write))
        except SerdeError as error:
            raise error.at(thread=self._place[0], channel=write.channel) from None
        return (write.task_id, write.channel, value)

    def _opened(self, write: WriteRecord) -> Buffer:
        """The unsealed bytes of a write, or of a row of several writes."""
        if write.within:
            return write.data
        if write.kind == INLINE_WRITES:
            place = ("led", *self._place, write.task_id)
            return self._codec.unseal(write.data, place, (write.channel,))
        return self._codec.unseal(write.data, self._place_of(write), write.columns)

    def _place_of(self, write: WriteRecord) -> tuple[str, ...]:
        task = (write.checkpoint_id, write.task_id, str(write.position))
        return ("write", *self._place, *task)


def _belongs_to(write: WriteRecord, owners: str) -> bool:
    """Whether the id of a write's task begins with `owners`."""
    return isinstance(write.task_id, str) and write.task_id.startswith(owners)


_PRECEDENCE = {"": 0, SEVERAL_WRITES: 1, INLINE_WRITES: 2}


def first_of_each(writes: list[WriteRecord]) -> list[WriteRecord]:
    """The writes without those of later attempts, in the order of `write_order`.

    Writes of a task in a shared row are the first attempt. Ordinary writes of the same task in
    other rows came later.
    """
    if not any(write.within for write in writes):
        return writes
    first: dict[str, int] = {}
    for write in writes:
        if not _is_special(write):
            first[write.task_id] = max(first.get(write.task_id, 0), _PRECEDENCE[write.within])
    kept = [w for w in writes if _is_special(w) or _PRECEDENCE[w.within] == first[w.task_id]]
    put_in_order(kept)
    return kept


def _is_special(write: WriteRecord) -> bool:
    """Whether a write is special: an error, an interrupt, an answer. False for a damaged row, which
    raises when it is decoded."""
    return isinstance(write.position, int) and write.position < 0


def by_checkpoint(rows: Iterable[WriteRecord]) -> dict[str, list[WriteRecord]]:
    """Checkpoint → its writes, in the order of `write_order`."""
    found: dict[str, list[WriteRecord]] = {}
    for write in rows:
        found.setdefault(write.checkpoint_id, []).append(write)
    for some in found.values():
        if len(some) > 1:
            put_in_order(some)
    return found
