"""Rows of checkpoints and writes as the database returns them, and manifests made from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from milepost.checkpoint._contract.records import SENDS_ARE_A_CHANNEL, is_older
from milepost.checkpoint._sql import manifest as manifests
from milepost.checkpoint._sql import metadata as metadata_cells
from milepost.checkpoint._sql.cache import CachedManifest
from milepost.checkpoint._sql.inline_writes import INLINE_WRITES
from milepost.checkpoint._sql.manifest import OWN_ROW, Manifest
from milepost.errors import BrokenChainError, DamagedRowError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from milepost.checkpoint._contract.records import CheckpointMetadata
    from milepost.checkpoint._delta.encode import Codec, Columns

GraphKey: TypeAlias = tuple[str, str]
"""One graph of a thread: the thread's id and the namespace."""
UNREADABLE: Final = (BrokenChainError, SerdeError)
"""The errors that a damaged or missing row raises."""


class CheckpointRecord(NamedTuple):
    """A row of `checkpoints` without the thread and namespace."""

    id: str
    parent_id: str | None
    complete: int
    manifest: bytes
    metadata_kind: str | None
    metadata: bytes
    run_id: str | None = None
    """Set only if the query has selected it."""


class WriteRecord(NamedTuple):
    """A row of `checkpoint_writes` without the thread and namespace.

    For INLINE_WRITES, `task_id` is the id of the checkpoint in whose row they are, and `channel`
    is what that row says is its parent. A reader of the parent looks at the next row whatever it
    says: only the seal tells whether writes of another checkpoint are in there, or damage is.
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
    """The kind of the shared row that the write was unpacked from, unsealed; "" without one."""

    @property
    def columns(self) -> Columns:
        """The columns that `data` is sealed with, besides its place."""
        return (self.channel, self.task_path, self.base, self.kind)


def head_gone(thread_id: str, head: str) -> BrokenChainError:
    """The error for a missing head. Without it, the thread would be taken for a new one."""
    return BrokenChainError(
        f"Checkpoint '{head}', the latest of thread '{thread_id}', is gone. Restore it from a "
        "backup, or go on from an older one: pass its checkpoint_id in the config."
    )


def writes_gone(thread_id: str, ns: str, id: str, why: str) -> BrokenChainError:
    """The error for missing writes. Without it, finished tasks would be run again."""
    where = f"thread '{thread_id}'" + (f", graph '{ns}'" if ns else "")
    return BrokenChainError(
        f"Writes at checkpoint '{id}' of {where} are gone: {why}. Restore them from a backup, "
        "or go on from another checkpoint: pass its checkpoint_id in the config."
    )


def entry_behind(thread_id: str, head: str | None, newer: str) -> DamagedRowError:
    """The error for an outdated registry entry. Without it, an old state would be the latest."""
    return DamagedRowError(
        f"The registry's entry of thread '{thread_id}' is older than the thread: it says that "
        f"checkpoint '{head}' is the latest, but there is '{newer}'. Restore the row of `threads` "
        f"from a backup, or go on from a checkpoint by its id, which brings the entry up to date: "
        "pass its checkpoint_id in the config."
    )


def write_order(write: WriteRecord) -> tuple[str, str, int]:
    """The key by which writes are sorted: the task's path first."""
    return (write.task_path, write.task_id, write.position)


def put_in_order(writes: list[WriteRecord]) -> None:
    try:
        writes.sort(key=write_order)
    except TypeError:  # a cell has a wrong type, and raises when it is decoded
        writes.sort(key=lambda write: tuple(map(repr, write_order(write))))


class Manifests:
    """The manifests of one graph of a thread, each made from its rows on demand."""

    def __init__(
        self,
        codec: Codec,
        at: GraphKey,
        rows: Mapping[str, CheckpointRecord],
        wanted: Collection[str],
        cached: dict[str, CachedManifest],
        epoch: int | None = None,
    ) -> None:
        self._codec = codec
        self._place = at
        self._rows = rows
        self._wanted = wanted
        """Checkpoints whose manifests will be asked for. Other rows are only links of chains."""
        self._cached = cached
        """Manifests that are complete already, from here or from the saver's cache."""
        self._epoch = epoch
        self._opened: dict[str, tuple[manifests.Unpacked, int]] = {}
        self._after: dict[str, list[CheckpointRecord]] | None = None

    def wanted(self) -> set[tuple[str, str]]:
        """The channels and versions with rows of their own in the wanted manifests.

        Most manifests are not put together here: each adds only the channels that it changed.
        """
        found: set[tuple[str, str]] = set()
        tips: dict[str | None, dict[str, Any]] = {}
        for id in sorted(self._wanted):  # parents come first
            row = self._rows[id]
            try:
                inline = None if row.complete else tips.pop(row.parent_id, None)
                if inline is None:
                    manifest = self.of(id).manifest
                    found.update(manifest.large())
                    inline = dict(manifest.inline)
                else:
                    (*_, versions, _, changed), _ = self._open(row)
                    inline.update(changed)
                    for channel, version in versions.items():
                        if inline.get(channel) is OWN_ROW:
                            found.add((channel, str(version)))
            except UNREADABLE:
                continue  # reading this checkpoint raises the error
            tips[id] = inline
        return found

    def of(self, id: str) -> CachedManifest:
        """The manifest of one checkpoint; BrokenChainError or SerdeError if it cannot be read."""
        if (cached := self._cached.get(id)) is not None:
            return cached
        line = [self._rows[id]]
        if line[0].complete:
            (_, _, _, _, versions, seen, inline), size = self._open(line[0])
            manifest = Manifest(versions, seen, inline)
            cached = CachedManifest(None, self._epoch, id, manifest, 1, 0, size)
            self._cached[id] = cached
            return cached
        versions, seen, inline = {}, {}, {}
        count, spent, size = 0, 0, 0
        while not line[-1].complete:
            parent = line[-1].parent_id
            if parent is not None and (start := self._cached.get(parent)) is not None:
                base = start.manifest
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
            (*_, changed, changed_seen, held), length = self._open(row)
            if row.complete:
                size = length
            else:
                spent += length
            count += 1
            versions.update(changed)
            seen.update(changed_seen)
            inline.update(held)
            if row is line[0] or row.id in self._wanted:
                manifest = Manifest(versions, seen, inline)
                cached = CachedManifest(None, self._epoch, row.id, manifest, count, spent, size)
                self._cached[row.id] = cached
                if row is not line[0]:
                    versions, seen, inline = dict(versions), dict(seen), dict(inline)
        assert cached is not None
        return cached

    def parents_with_sends(self, rows: Sequence[CheckpointRecord]) -> list[str]:
        """Parents outside `rows` whose writes hold the Sends of a checkpoint in an older format."""
        found: list[str] = []
        here = {row.id for row in rows}
        for row in rows:
            if row.parent_id is not None and row.parent_id not in here:
                try:
                    older = is_older(self.stamp(row)[0], SENDS_ARE_A_CHANNEL)
                except UNREADABLE:
                    continue  # reading this checkpoint raises the error
                found += [row.parent_id] * older
        return found

    def stamp(self, row: CheckpointRecord) -> tuple[Any, str, Any]:
        """Format, time and updated channels: the part of a manifest that is never inherited."""
        return manifests.stamp(self._open(row)[0])

    def check_writes(self, id: str, rows: Sequence[WriteRecord]) -> None:
        """Raises BrokenChainError if a checkpoint has fewer rows of writes than were counted.

        The number is in the checkpoint's metadata and in the manifests of fetched children.
        """
        row = self._rows.get(id)
        wanted = 0
        if row is not None and row.metadata_kind != metadata_cells.SOURCE_AND_STEP:
            wanted = counted_rows(self._codec, *self._place, row)
        inline = ""
        for later in self.after(id):
            try:
                writes = self.parent_writes(later)
            except SerdeError:
                continue  # reading that checkpoint raises the error
            wanted = max(wanted, writes.rows)
            inline = later.id if writes.inline else inline
        kinds = [row.kind for row in rows]
        if inline and not any(row.kind == INLINE_WRITES and row.task_id == inline for row in rows):
            why = f"they were in the row of checkpoint '{inline}'"
            raise writes_gone(*self._place, id, why)
        if (there := len(kinds) - kinds.count(INLINE_WRITES)) < wanted:
            why = f"of {wanted} rows in `checkpoint_writes` {there} are left"
            raise writes_gone(*self._place, id, why)

    def after(self, id: str) -> Sequence[CheckpointRecord]:
        """The fetched rows with this parent."""
        if self._after is None:
            self._after = {}
            for row in self._rows.values():
                if row.parent_id is not None:
                    self._after.setdefault(row.parent_id, []).append(row)
        return self._after.get(id, ())

    def parent_writes(self, row: CheckpointRecord) -> manifests.ParentWrites:
        """What a manifest says of the writes at its parent."""
        return self._open(row)[0][3]

    def check(self, row: CheckpointRecord) -> None:
        """Raises SerdeError if the row, or its parent's id, is not as it was written."""
        self._open(row)

    def _open(self, row: CheckpointRecord) -> tuple[manifests.Unpacked, int]:
        opened = self._opened.get(row[0])
        if opened is not None:
            return opened
        id, parent_id, complete, manifest, *_ = row
        try:
            data = self._codec.unseal(manifest, ("frame", *self._place, id), (parent_id, complete))
            opened = self._opened[id] = (manifests.unpack(data), len(data))
            return opened
        except SerdeError as error:
            raise error.at(thread=self._place[0], channel="(the manifest)") from None


def without_inline_writes(codec: Codec, thread_id: str, ns: str, row: CheckpointRecord) -> bytes:
    """The sealed manifest of a checkpoint, after its inline writes got rows of their own."""
    place, columns = ("frame", thread_id, ns, row.id), (row.parent_id, row.complete)
    unpacked = manifests.unpack(codec.unseal(row.manifest, place, columns))
    *_, writes, versions, seen, inline = unpacked
    manifest = Manifest(versions, seen, inline)
    data = manifests.pack(manifests.stamp(unpacked), manifest, writes._replace(inline=False))
    return codec.seal(data, place, columns)


def counted_rows(codec: Codec, thread_id: str, ns: str, row: CheckpointRecord) -> int:
    """The least number of rows of writes at a checkpoint, according to its own metadata."""
    if not metadata_cells.is_counted(row.metadata_kind):
        return 0
    return metadata_cells.opened(codec, row.metadata_kind, row.metadata, thread_id, ns, row.id)[2]


def metadata_of(codec: Codec, thread_id: str, ns: str, row: CheckpointRecord) -> CheckpointMetadata:
    return metadata_cells.decoded(codec, row.metadata_kind, row.metadata, thread_id, ns, row.id)
