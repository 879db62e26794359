"""The number of rows of writes at a checkpoint, which is stored so that a reader notices lost rows.

The manifest of a checkpoint has the number for its parent. Before a checkpoint has a child, the
number is in its own metadata cell, which is stored again whenever rows are added.

A run knows the rows that it has stored at the latest checkpoint of each graph (`Fence.written`). So
it can count without a lookup: a row that replaces another one is not counted twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import ExecuteMany, Operation, Query
from milepost.checkpoint._contract.step_saver import StoredWrites
from milepost.checkpoint._sql import metadata as metadata_cells
from milepost.errors import SerdeError

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import Place
    from milepost.checkpoint._contract.step_saver import Fence
    from milepost.checkpoint._delta.diff import Buffer
    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._sql.cache import CachedManifest, ThreadCache
    from milepost.checkpoint._sql.rows import CheckpointRow, Prepared
    from milepost.checkpoint._sql.statements import Statements

_MAX_GRAPHS: Final = 256
"""Graphs of a run whose rows of writes are tracked."""
_MAX_CACHED_WRITES: Final = 64
"""Rows of writes at a checkpoint that are cached with its manifest."""


class WriteCounts:
    """Counts the rows of writes at the checkpoints that one transaction touches."""

    __slots__ = ("_cells", "_codec", "_known")

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._known: dict[Place, tuple[StoredWrites, set[tuple[str, int]]]] = {}
        """Checkpoint → its stored rows, and the rows that this transaction adds."""
        self._cells: dict[tuple[str, ...], tuple[str | None, bytes]] = {}
        """Checkpoint → kind and bytes of its metadata, with a new number of rows."""

    def knows(self, step: Prepared) -> bool:
        """Whether the rows at the checkpoint where a step starts are known."""
        return self._rows_at(step) is not None

    def learn(self, place: Place, written: StoredWrites) -> None:
        """Note the rows at a checkpoint."""
        self._known[place] = (written, set())

    def _rows_at(self, step: Prepared) -> tuple[StoredWrites, set[tuple[str, int]]] | None:
        found = self._known.get(step.place)
        if found is None and (written := known_writes(step)) is not None:
            found = self._known[step.place] = (written, set())
        return found

    def add(self, step: Prepared) -> int:
        """Count the rows of a step; return the least number of rows where the step starts."""
        own = {
            (task.task_id, row.position)
            for task in step.writes
            for row in (*task.ordinary, *task.special)
        }
        step.written, step.added = None, set()
        found = self._rows_at(step)
        if found is None:
            return len(own)
        written, added = found
        step.written, step.added = written, own - written.keys
        before = len(added)
        added |= step.added
        rows = written.lost + len(written.keys) + len(added)
        if step.checkpoint is None and len(added) > before:
            self._store(step.place, written.checkpoint_id, *written.metadata, rows)
        return rows

    def begin(self, step: Prepared, row: CheckpointRow) -> None:
        """Begin to count at the checkpoint that a step makes."""
        step.written, step.added = row.written, set()
        self.learn(step.place._replace(checkpoint_id=row.checkpoint_id), step.written)

    def keep(self, place: Place, new: CheckpointRow, written: StoredWrites) -> None:
        """Keep the number at a checkpoint that is put again."""
        if rows := written.lost + len(written.keys):
            self._store(place, new.checkpoint_id, *new.written.metadata, rows)

    def _store(self, place: Place, id: str, kind: str | None, data: Buffer, rows: int) -> None:
        thread_id, ns, _ = place
        kind, counted = metadata_cells.counted(kind, data, rows)
        sealed = self._codec.seal(counted, ("metadata", thread_id, ns, id), (kind,))
        self._cells[thread_id, ns, id] = (kind, sealed)

    def take(self, checkpoints: list[tuple[Any, ...]], queries: Statements) -> list[ExecuteMany]:
        """The statements that store new numbers.

        The number of a checkpoint that is stored by the same transaction goes into its row.
        """
        cells, self._cells = self._cells, {}
        for at, row in enumerate(checkpoints if cells else ()):
            if (counted := cells.pop(row[:3], None)) is not None:
                checkpoints[at] = (*row[:7], *counted, *row[9:])
        rows = [(*cell, *key) for key, cell in cells.items()]
        return [ExecuteMany(queries.count_writes, rows)] if rows else []


def known_writes(step: Prepared) -> StoredWrites | None:
    """The rows of writes where a step starts; None if its run does not know them."""
    if step.fence is None:
        return None
    written = step.fence.written.get(step.place.checkpoint_ns)
    same = written is not None and written.checkpoint_id == step.place.checkpoint_id
    return written if same else None


def stored_writes(
    codec: Codec, queries: Statements, place: Place
) -> Operation[StoredWrites | None]:
    """Read which rows of writes are at a checkpoint; None if they cannot be counted."""
    thread_id, ns, id = place
    rows = yield Query(queries.written, place)
    if not rows or id is None:
        return None  # a foreign runtime may put writes before their checkpoint
    kind, metadata, *_ = rows[0]
    try:
        kind, data, counted = metadata_cells.opened(codec, kind, metadata, thread_id, ns, id)
    except SerdeError:
        return None  # not counted: a new cell would hide the damage
    keys = {(task_id, at) for *_, task_id, at in rows if task_id is not None}
    return StoredWrites(id, keys, (kind, data), max(0, counted - len(keys)))


def note_stored(step: Prepared, fence: Fence, cache: ThreadCache) -> None:
    """Note which rows of writes are at the latest checkpoint of a graph, for the run's next step.

    They are also cached with the manifest of the checkpoint, for the run that resumes the thread
    after an interrupt.
    """
    thread_id, ns, _ = step.place
    written, row = step.written, step.checkpoint
    manifest: CachedManifest | None
    if row is not None:
        if written is None or written.checkpoint_id != row.checkpoint_id:
            written = row.written
        manifest = row.cached
    elif written is not None:
        written.keys.update(step.added)
        manifest = cache.manifest(thread_id, ns, written.checkpoint_id, None)
    else:
        return
    if len(fence.written) >= _MAX_GRAPHS:
        fence.written.clear()
    fence.written[ns] = written
    if manifest is not None:
        manifest.written = written if len(written.keys) <= _MAX_CACHED_WRITES else None
