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
from typing import Any, Final

from milepost._db.operations import Operation, Query
from milepost.errors import DamagedRowError, MissingDependencyError
from milepost.store._sql.dialects import LITE
from milepost.store._sql.vectors import Near, VectorIndex, Wanted
from milepost.store._vectors.embeddings import Packed
from milepost.store._vectors.table import places_of_best, unit_vector, unit_vectors

LARGEST_COPY: Final = 512 * 2**20
"""Bytes of vectors that are kept in memory."""
_WORTH_TRYING: Final = 2000
"""So many of the nearest are tried before a filter is asked for all that it allows."""


class LiteVectors(VectorIndex):
    """Ranks with numpy or with sqlite-vec, whichever suits."""

    def __init__(self, dims: int) -> None:
        super().__init__(LITE)
        self._dims = dims
        self._np = _numpy()
        self._extension = False
        self._copy: _Copy | None = None

    def equip(self, connection: sqlite3.Connection) -> None:
        """Give a connection sqlite-vec, if possible; an error if there is nothing to rank with."""
        self._extension = _load_extension(connection)
        if self._np is None and not self._extension:
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
        if self._np is not None:
            copy, table = self._copy, wanted.generation.table
            if copy is not None and copy.table == table:
                last = copy.last
            else:
                last = (yield Query(f"SELECT max(id) FROM {table}"))[0][0] or 0
            if last * self._dims * 4 <= LARGEST_COPY or not self._extension:
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
        copy, table = self._copy, wanted.generation.table
        if copy is None or copy.table != table:
            copy = self._copy = _Copy(self._np, table, self._dims)
        yield from copy.refresh()
        if wanted.wide:
            # Most vectors are candidates: take the nearest, and see which of them are allowed.
            scores = copy.scores(wanted.vector)
            candidates = 2 * count
            while candidates < _WORTH_TRYING or not wanted.filtered:
                best = copy.best(scores, copy.everywhere(), candidates)
                found = yield from self._checked(copy, best, wanted)
                is_all = len(best) >= len(scores)
                if len(found) >= count or is_all:
                    return found, is_all
                candidates = 4 * candidates + 16
        allowed = yield Query(
            f"SELECT v.id FROM milepost_items i CROSS JOIN {table} v ON v.item = i.id"
            f" WHERE {wanted.allowed}",
            wanted.parameters,
        )
        places = copy.places_of([row[0] for row in allowed])
        best = copy.best(copy.scores(wanted.vector, places), places, count)
        found = list(zip([score for score, _ in best], copy.items_at(best), strict=True))
        return found, len(best) >= len(places)

    def _checked(
        self, copy: _Copy, best: list[tuple[float, int]], wanted: Wanted
    ) -> Operation[list[Near]]:
        """Those of the copy's vectors that are still there, and whose items may be returned."""
        ids = copy.ids_at(best)
        rows = yield Query(
            f"SELECT v.id, i.id FROM json_each(?) p CROSS JOIN {wanted.generation.table} v"
            " ON v.id = p.value CROSS JOIN milepost_items i ON i.id = v.item"
            f" WHERE {wanted.allowed}",
            (json.dumps(ids), *wanted.parameters),
        )
        items = dict(rows)
        return [
            (score, item)
            for (score, _), id in zip(best, ids, strict=True)
            if (item := items.get(id)) is not None
        ]


class _Copy:
    """The vectors of one table, in memory."""

    def __init__(self, np: Any, table: str, dims: int) -> None:
        self._np = np
        self.table = table
        self._dims = dims
        self._clear()

    def _clear(self) -> None:
        self._ids: Any = self._np.zeros(0, self._np.int64)
        self._items: Any = self._np.zeros(0, self._np.int64)
        self._matrix: Any = self._np.zeros((0, self._dims), self._np.float32)
        self._used = 0
        self._renew_at = 0

    @property
    def last(self) -> int:
        """The id of the newest vector that has been read."""
        return int(self._ids[self._used - 1]) if self._used else 0

    def refresh(self) -> Operation[None]:
        """Read what has been added since."""
        if self._renew_at and self._used > self._renew_at:
            # Probably more than half of it has been deleted by now.
            self._clear()
        is_first = not self._used
        rows = yield Query(
            f"SELECT id, item, vector FROM {self.table} WHERE id > ? ORDER BY id", (self.last,)
        )
        if rows:
            try:
                self._add(rows)
            except (TypeError, ValueError) as error:
                raise DamagedRowError(
                    f"A vector in the table `{self.table}` is damaged: it is not of the type or "
                    "the length that was written. Restore the table from a backup, or call "
                    "reindex() with another `model` in the index to rebuild all vectors."
                ) from error
        if is_first:
            self._renew_at = 2 * self._used + 1000

    def _add(self, rows: list[Any]) -> None:
        np = self._np
        used, grown = self._used, self._used + len(rows)
        if grown > len(self._matrix):
            room = max(grown, 2 * used)
            self._matrix = _with_room(np.zeros((room, self._dims), np.float32), self._matrix[:used])
            self._items = _with_room(np.zeros(room, np.int64), self._items[:used])
            self._ids = _with_room(np.zeros(room, np.int64), self._ids[:used])
        packed = np.frombuffer(b"".join([row[2] for row in rows]), "<f4")
        self._matrix[used:grown] = unit_vectors(np, packed.reshape(len(rows), self._dims))
        self._items[used:grown] = [row[1] for row in rows]
        self._ids[used:grown] = [row[0] for row in rows]
        self._used = grown

    def everywhere(self) -> Any:
        """The places of all vectors."""
        return self._np.arange(self._used)

    def places_of(self, ids: list[int]) -> Any:
        """Where the vectors with these ids are."""
        return self._np.searchsorted(self._ids[: self._used], ids)

    def ids_at(self, found: list[tuple[float, int]]) -> list[int]:
        ids: list[int] = self._ids[[at for _, at in found]].tolist()
        return ids

    def items_at(self, found: list[tuple[float, int]]) -> list[int]:
        """The items that they belong to."""
        items: list[int] = self._items[[at for _, at in found]].tolist()
        return items

    def scores(self, vector: bytes, places: Any = None) -> Any:
        """The scores of all vectors, or of those at some places."""
        matrix = self._matrix[: self._used] if places is None else self._matrix[places]
        return matrix @ unit_vector(self._np, vector)

    def best(self, scores: Any, places: Any, count: int) -> list[tuple[float, int]]:
        """The `count` best, and those as good as the last of them."""
        chosen = places_of_best(self._np, scores, count)
        # Where two are equal, the older item comes first.
        order = self._np.lexsort((self._items[places[chosen]], -scores[chosen]))
        chosen = chosen[order]
        return list(zip(scores[chosen].tolist(), places[chosen].tolist(), strict=True))


def _with_room(larger: Any, smaller: Any) -> Any:
    larger[: len(smaller)] = smaller
    return larger


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


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
