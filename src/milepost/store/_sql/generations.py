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
        if reading and self._store_sql.share is not None:
            # A reader has one snapshot. It must not be older than the lock.
            rows = (yield Queries([Query(self._store_sql.share), meta]))[1]
        else:
            rows = yield meta
        return self.state.known(dict(rows))

    def take(self) -> Operation[Generations]:
        """The same; other transactions cannot read the registry until this one ends."""
        if self._store_sql.take is not None:
            yield Execute(self._store_sql.take)
        return (yield from self.load())

    def is_set_up(self) -> Operation[bool]:
        """Whether there is a generation, or the store has no index and needs none."""
        found = yield from self.load()
        return found.current is not None or self.state.embedder is None

    def set_up(self) -> Operation[None]:
        """The first store with an index lays the table of the first generation."""
        is_set_up = yield from self.is_set_up()
        if self.state.embedder is not None and not is_set_up:
            first = self.state.first()
            yield from self._lay(first)
            yield from self._record("index", first.dump())
            self.state.exist = self.state.was_fitting = True

    def begin(self) -> Operation[tuple[int, bool]]:
        """Begin a generation, or go on with the one that is coming; its number, and whether it has
        to be probed."""
        found = yield from self.take()
        if found.coming is not None and found.can_resume():
            number = found.coming.number
            return number, not self.state.is_named and number not in found.probed
        coming = self.state.after(found)
        if found.coming is not None:
            yield from self._drop(found.coming)
        yield from self._lay(coming)
        yield from self._record("reindex", coming.dump())
        yield from self._record("reindex_maker", self.state.maker)
        self.state.exist = self.state.was_fitting = True
        return coming.number, not self.state.is_named

    def note_probe(self, number: int, probe: str) -> Operation[None]:
        """Remember what this store's model, which has no name, makes of the texts of a probe."""
        found = yield from self.load()
        if found.is_making(number):
            yield from self._record(f"{PROBE}{number}", probe)

    def probe_of(self, number: int) -> Operation[str | None]:
        """What the model of a generation has made of them."""
        rows = yield Query(self._store_sql.render(sql.META_OF), (f"{PROBE}{number}",))
        return None if not rows else str(rows[0][0])

    def switch(self, found: Generations) -> Operation[None]:
        """Make the coming generation the current one; what is not in it lacks vectors.

        The registry has been taken.
        """
        coming, old = found.coming, found.current
        assert coming is not None
        yield from self._record("index", coming.dump())
        for name in ("reindex", "reindex_maker"):
            yield Execute(self._store_sql.render(sql.UNSET_META), (name,))
        yield Execute(self._store_sql.render(sql.HAVE_VECTORS), (coming.number, coming.number))
        yield Execute(self._store_sql.render(sql.LACK_VECTORS), (coming.number,))
        if old is not None:
            yield from self._drop(old)

    def _drop(self, generation: Generation) -> Operation[None]:
        yield Execute(f"DROP TABLE IF EXISTS {generation.table}")
        yield Execute(self._store_sql.render(sql.UNSET_META), (f"{PROBE}{generation.number}",))

    def _lay(self, generation: Generation) -> Operation[None]:
        assert self._vectors is not None
        for statement in self._vectors.create(generation.table, generation.dims):
            yield Execute(statement)

    def _record(self, name: str, value: str) -> Operation[None]:
        yield Execute(self._store_sql.render(sql.SET_META), (name, value))
