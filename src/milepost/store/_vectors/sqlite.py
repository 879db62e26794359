"""Vectors in SQLite.

They are stored as float32 in an ordinary table. There are two ways to rank them:

- numpy keeps a copy of the table in memory, and one product gives all scores. Vectors are only
  ever added, under ids that grow, so the copy is brought up to date by reading what is new; those
  that have been deleted are noticed when they would be results.
- sqlite-vec computes distances inside SQLite. It needs no memory, but reads every vector from the
  file each time. It is used when numpy is missing, or when the copy would be too large.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from typing import Final

from milepost._db.operations import Operation, Query
from milepost.errors import DamagedRowError, MissingDependencyError
from milepost.store._sql.dialects import LITE
from milepost.store._sql.vectors import Near, VectorIndex, Wanted
from milepost.store._vectors.embeddings import Packed
from milepost.store._vectors.table import VectorTable, load_numpy

LARGEST_COPY: Final = 512 * 2**20
"""Bytes of vectors that are kept in memory."""
_WORTH_TRYING: Final = 2000
"""So many of the nearest are tried before a filter is asked for all that it allows."""


class LiteVectors(VectorIndex):
    """Ranks with numpy or with sqlite-vec, whichever suits."""

    def __init__(self, dims: int) -> None:
        super().__init__(LITE)
        self._dims = dims
        self._has_numpy = _has_numpy()
        self._extension = False
        self._copy: _Copy | None = None

    def equip(self, connection: sqlite3.Connection) -> None:
        """Give a connection sqlite-vec, if possible; an error if there is nothing to rank with."""
        self._extension = _load_extension(connection)
        if not self._has_numpy and not self._extension:
            raise MissingDependencyError(_neither(connection))

    def create(self, table: str, dims: int) -> list[str]:  # noqa: ARG002
        return [
            f"CREATE TABLE IF NOT EXISTS {table}"
            " (id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL, vector BLOB NOT NULL)",
            f"CREATE INDEX IF NOT EXISTS {table}_item ON {table} (item)",
        ]

    def pack(self, vector: Packed) -> bytes:
        return vector

    def nearest(self, wanted: Wanted, count: int) -> Operation[tuple[list[Near], bool]]:
        if self._has_numpy:
            copy, table = self._copy, wanted.generation.table
            if copy is None or copy.table != table or copy.is_outgrown:
                copy = _Copy(table, self._dims)
            last = copy.last or (yield Query(f"SELECT max(id) FROM {table}"))[0][0] or 0
            if last * self._dims * 4 <= LARGEST_COPY or not self._extension:
                self._copy = copy
                return (yield from self._in_numpy(wanted, count))
        return (yield from self._in_sqlite(wanted, count))

    # -- sqlite-vec

    def _in_sqlite(self, wanted: Wanted, count: int) -> Operation[tuple[list[Near], bool]]:
        rows = yield Query(
            # A vector of zeros has no angle: it is far from everything.
            "SELECT coalesce(vec_distance_cosine(v.vector, ?), 1.0) AS distance, v.item"
            f" FROM {wanted.generation.table} v"
            f" JOIN milepost_items i ON i.id = v.item WHERE {wanted.allowed}"
            " ORDER BY distance, v.item LIMIT ?",
            (wanted.vector, *wanted.parameters, count),
        )
        return [(1 - row[0], row[1]) for row in rows], len(rows) < count

    # -- numpy

    def _in_numpy(self, wanted: Wanted, count: int) -> Operation[tuple[list[Near], bool]]:
        copy = self._copy
        assert copy is not None
        yield from copy.refresh()
        if wanted.wide:
            # Most vectors are candidates: take the nearest, and see which of them are allowed.
            found: list[Near] = []
            tried = 0
            for best in copy.vectors.from_nearest(wanted.vector, 2 * count):
                found += yield from self._checked(best, wanted)
                tried += len(best)
                if len(found) >= count:
                    return found, tried >= len(copy.ids)
                if wanted.filtered and 5 * tried > _WORTH_TRYING:
                    break
            else:
                return found, True
        allowed = yield Query(
            f"SELECT v.id FROM milepost_items i CROSS JOIN {copy.table} v ON v.item = i.id"
            f" WHERE {wanted.allowed}",
            wanted.parameters,
        )
        places = [bisect_left(copy.ids, row[0]) for row in allowed]
        scored = copy.vectors.scored(wanted.vector, places)
        near = _nearest_first([(score, item) for score, (_, item) in scored])
        return near[:count], count >= len(near)

    def _checked(
        self, best: list[tuple[float, tuple[int, int]]], wanted: Wanted
    ) -> Operation[list[Near]]:
        """Those of the copy's vectors that are still there, and whose items may be returned."""
        rows = yield Query(
            f"SELECT v.id FROM json_each(?) p CROSS JOIN {wanted.generation.table} v"
            " ON v.id = p.value CROSS JOIN milepost_items i ON i.id = v.item"
            f" WHERE {wanted.allowed}",
            (json.dumps([id for _, (id, _) in best]), *wanted.parameters),
        )
        there = {id for (id,) in rows}
        return _nearest_first([(score, item) for score, (id, item) in best if id in there])


def _nearest_first(found: list[Near]) -> list[Near]:
    """Sorted by score; where two are equal, the older item comes first."""
    return sorted(found, key=lambda near: (-near[0], near[1]))


class _Copy:
    """The vectors of one table, in memory."""

    def __init__(self, table: str, dims: int) -> None:
        self.table = table
        self._dims = dims
        self.vectors: VectorTable[tuple[int, int]] = VectorTable(dims)
        """Each belongs to its id and its item."""
        self.ids: list[int] = []
        self._renew_at = 0

    @property
    def last(self) -> int:
        """The id of the newest vector that has been read."""
        return self.ids[-1] if self.ids else 0

    @property
    def is_outgrown(self) -> bool:
        """Whether probably more than half of it has been deleted by now."""
        return 0 < self._renew_at < len(self.ids)

    def refresh(self) -> Operation[None]:
        """Read what has been added since."""
        is_first = not self.ids
        rows = yield Query(
            f"SELECT id, item, vector FROM {self.table} WHERE id > ? ORDER BY id", (self.last,)
        )
        for id, item, vector in rows:
            if not isinstance(vector, bytes) or len(vector) != 4 * self._dims:
                raise DamagedRowError(
                    f"A vector in the table `{self.table}` is damaged: it is not of the type or "
                    "the length that was written. Restore the table from a backup, or call "
                    "reindex() with another `model` in the index to rebuild all vectors."
                )
            self.vectors.add([vector], (id, item))
            self.ids.append(id)
        if is_first:
            self._renew_at = 2 * len(self.ids) + 1000


def _has_numpy() -> bool:
    try:
        load_numpy()
    except MissingDependencyError:
        return False
    return True


def _load_extension(connection: sqlite3.Connection) -> bool:
    """Load sqlite-vec, if it is installed and this Python's SQLite can load it."""
    if not hasattr(connection, "enable_load_extension"):
        return False
    try:
        import sqlite_vec  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return False
    allowed = _may_load(connection)
    connection.enable_load_extension(True)
    try:
        sqlite_vec.load(connection)
    finally:
        connection.enable_load_extension(allowed)
    return True


def _may_load(connection: sqlite3.Connection) -> bool:
    """Whether the user lets this connection load extensions: a setting that cannot be read."""
    cursor = connection.cursor()
    cursor.row_factory = None
    try:
        cursor.execute("SELECT load_extension(NULL)").fetchall()  # loads nothing
    except sqlite3.Error:
        return False
    return True


def _neither(connection: sqlite3.Connection) -> str:
    text = "Search by meaning on SQLite needs numpy or sqlite-vec: pip install 'milepost[search]'"
    if not hasattr(connection, "enable_load_extension"):
        text += " (numpy is the one: this Python's sqlite3 was built without loadable extensions)"
    return text
