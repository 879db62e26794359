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
as lacking vectors (`LACKING`), and is embedded by the next search of a store that can
(`reindex.py`).
"""

from __future__ import annotations

from milepost._db.operations import Execute, Operation, Queries, Query
from milepost.store._sql import statements as sql
from milepost.store._sql.dialects import StoreSql
from milepost.store._sql.vectors import VectorIndex
from milepost.store._vectors.embeddings import Embedder
from milepost.store._vectors.generations import PROBE, Generation, Generations, RegistryState


class VectorRegistry:
    """Reads and writes what the database knows about its vectors."""

    def __init__(
        self, store_sql: StoreSql, embedder: Embedder | None, vectors: VectorIndex | None
    ) -> None:
        self._store_sql = store_sql
        self._vectors = vectors
        self.state = RegistryState(embedder)

    def load(self, *, reading: bool = False) -> Operation[Generations]:
        """What the database knows, and will know until the transaction ends."""
        meta = Query(self._store_sql.render(sql.META))
        if reading and self._store_sql.own.share is not None:
            # A reader has one snapshot. It must not be older than the lock.
            rows = (yield Queries([Query(self._store_sql.own.share), meta]))[1]
        else:
            rows = yield meta
        return self.state.known(dict(rows))

    def take(self) -> Operation[Generations]:
        """The same; other transactions cannot read the registry until this one ends."""
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
