"""Which vectors belong to which model.

Vectors of two models cannot be compared, so the database remembers the model and its dims, and the
table that holds its vectors: a generation. A reindex fills a table for the next generation and then
switches over; until then searches go on with the old one.

A transaction that uses vectors reads the registry first (`load`), and thereby locks the registry
until the transaction ends. A reindex locks the registry exclusively when it begins a generation and
when it switches (`take`), which waits for all of those transactions: so no table is dropped while
it is used, and nothing is written to the old generation after the last look at it. SQLite has one
writer at a time, and a reader sees one state of the file.

A store whose model did not make the current generation cannot embed for it. What it puts is marked
as lacking vectors (`LACKING`), and is embedded by the next search of a store that can. Vectors are
stored only for items that are still what was read: their rows are locked, and their versions
compared, first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from milepost._db.operations import Execute, ExecuteMany, Operation, Queries, Query, rows_of
from milepost.store._core import namespaces
from milepost.store._core.tasks import Index, Row
from milepost.store._sql import statements as sql
from milepost.store._sql.dialects import StoreSql
from milepost.store._sql.read import to_row
from milepost.store._sql.vectors import VectorIndex
from milepost.store._vectors.embeddings import Embedder
from milepost.store._vectors.generations import PROBE, Generation, Generations, RegistryState
from milepost.store._vectors.reindex import FEW, Read, Reindexer, Vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.store._sql.core import SqlCore


class VectorRegistry:
    """Reads and writes what the database knows about its vectors."""

    def __init__(
        self, store_sql: StoreSql, embedder: Embedder | None, vectors: VectorIndex | None
    ) -> None:
        self._store_sql = store_sql
        self._vectors = vectors
        self.state = RegistryState(embedder)

    def load(self, *, reading: bool = False) -> Operation[Generations]:
        """Read the registry of generations. It stays as it is until the transaction ends."""
        meta = Query(self._store_sql.render(sql.META))
        if reading and self._store_sql.own.share is not None:
            # A reader has one snapshot. It must not be older than the lock.
            rows = (yield Queries([Query(self._store_sql.own.share), meta]))[1]
        else:
            rows = yield meta
        return self.state.known(dict(rows))

    def take(self) -> Operation[Generations]:
        """`load`, and keep other transactions from reading the registry until this one ends."""
        if self._store_sql.own.take is not None:
            yield Execute(self._store_sql.own.take)
        return (yield from self.load())

    def is_set_up(self) -> Operation[bool]:
        """Whether there is a generation, or the store has no index and needs none."""
        found = yield from self.load()
        return found.current is not None or self.state.embedder is None

    def set_up(self) -> Operation[None]:
        """The first store with an index creates the table of the first generation."""
        is_set_up = yield from self.is_set_up()
        if self.state.embedder is not None and not is_set_up:
            first = self.state.first()
            yield from self.create(first)
            yield from self.record("index", first.dump())
            self.state.has_vectors = self.state.was_fitting = True

    def drop(self, generation: Generation) -> Operation[None]:
        """Delete a generation's vectors."""
        yield Execute(f"DROP TABLE IF EXISTS {generation.table}")
        yield Execute(self._store_sql.render(sql.UNSET_META), (f"{PROBE}{generation.number}",))

    def create(self, generation: Generation) -> Operation[None]:
        """Create the table of a generation's vectors."""
        assert self._vectors is not None
        for statement in self._vectors.create(generation.table, generation.dims):
            yield Execute(statement)

    def record(self, name: str, value: str) -> Operation[None]:
        yield Execute(self._store_sql.render(sql.SET_META), (name, value))


class SqlReindexer(Reindexer):
    """Makes vectors for items that are stored already. A place is a row of the table of items."""

    core: SqlCore

    def __init__(self, core: SqlCore) -> None:
        self.core = core
        self.state = core.registry.state
        self._registry = core.registry
        self._render = core.store_sql.render
        self._own = core.store_sql.own

    def begin(self) -> Operation[tuple[int, bool, int | None]]:
        known = yield from self._registry.take()
        coming = known.coming
        if coming is None or not known.can_resume():
            if coming is not None:
                yield from self._registry.drop(coming)
            coming = self.state.after(known)
            yield from self._registry.create(coming)
            yield from self._registry.record("reindex", coming.dump())
            yield from self._registry.record("reindex_maker", self.state.maker)
            self.state.has_vectors = self.state.was_fitting = True
        [(left,)] = yield from self._rows(sql.COUNT_STALE, (coming.number,))
        return coming.number, known.needs_probe(coming.number), int(left)

    def note_probe(self, number: int, probe: str) -> Operation[None]:
        known = yield from self._registry.load()
        if known.is_making(number):
            yield from self._registry.record(f"{PROBE}{number}", probe)

    def probe_of(self, number: int) -> Operation[str | None]:
        rows = yield from self._rows(sql.META_OF, (f"{PROBE}{number}",))
        return None if not rows else str(rows[0][0])

    def stale(self, number: int, size: int) -> Operation[list[Any]]:
        return self._rows(sql.STALE, (number, size))

    def lacking(self, after: Any) -> Operation[tuple[list[Any], Any]]:
        rows = yield from self._rows(sql.LACKING_ITEMS, (after or 0, FEW))
        # What is put while this goes on is for the next one.
        return rows, rows[-1][7] if len(rows) == FEW else None

    def read(self, places: list[Any]) -> Operation[list[tuple[Row, Index]]]:
        yield from ()
        return [(to_row(row), None if row[6] is None else json.loads(row[6])) for row in places]

    def store(
        self, number: int | None, found: list[Read], vectors: Vectors
    ) -> Operation[int | None]:
        known = yield from self._registry.load()
        generation = known.to_fill(number)
        if generation is None:
            return None
        same = yield from self._unchanged(found)
        yield from self._replace(generation, same, vectors)
        if number is None:
            marks = [(generation.number, *_place(one)) for one in same]
            yield ExecuteMany(self._render(sql.SET_INDEXED), marks)
        else:
            now = 0 if known.current is None else known.current.number
            both = [(number, now, *_place(one)) for one in same]
            yield ExecuteMany(self._render(sql.SET_REINDEXED), both)
        return len(same)

    def finish(self, number: int, found: int, size: int) -> Operation[bool]:
        if found == size:
            return False
        # From here on no other transaction writes vectors.
        known = yield from self._registry.take()
        if not known.is_making(number):
            return True
        [(left,)] = yield from self._rows(sql.COUNT_STALE, (number,))
        if left > FEW:
            return False
        # The few that were put since the last look are embedded after the switch: a store that is
        # written to all the time would have some at each attempt.
        yield from self._switch(known)
        return True

    def _switch(self, known: Generations) -> Operation[None]:
        """Make the coming generation the current one; what is not in it lacks vectors."""
        coming = known.coming
        assert coming is not None
        yield from self._registry.record("index", coming.dump())
        for name in ("reindex", "reindex_maker"):
            yield Execute(self._render(sql.UNSET_META), (name,))
        yield Execute(self._render(sql.HAVE_VECTORS), (coming.number, coming.number))
        yield Execute(self._render(sql.LACK_VECTORS), (coming.number,))
        if known.current is not None:
            yield from self._registry.drop(known.current)

    def _rows(self, statement: str, parameters: Sequence[Any]) -> Operation[list[Any]]:
        return rows_of(self._render(statement), parameters)

    def _unchanged(self, found: list[Read]) -> Operation[list[Read]]:
        """Lock items, and return those that have not changed since they were read."""
        places = json.dumps([_place(one) for one in found])
        rows = yield from self._rows(self._own.lock_items, (places,))
        versions = {(ns, key): updated for ns, key, updated in rows}
        return [one for one in found if versions.get(_place(one)) == one.row.updated]

    def _replace(
        self, generation: Generation, found: list[Read], vectors: Vectors
    ) -> Operation[None]:
        assert self.core.vectors is not None
        pack, table = self.core.vectors.pack, generation.table
        places = json.dumps([_place(one) for one in found])
        yield Execute(self._render(self._own.vectors_of.format(table=table)), (places,))
        rows = [(pack(vectors[text]), *_place(one)) for one in found for text in one.texts]
        yield ExecuteMany(self._render(self._own.add_vector.format(table=table)), rows)


def _place(one: Read) -> tuple[str, str]:
    return namespaces.to_text(one.row.namespace), one.row.key
