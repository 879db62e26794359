"""What a store asks of a database's vector search, and what happens to vectors when items are put
or deleted.

An item's only vector stays where it is if it has not changed, as when another field of the item
has: an index needs longer to take in a vector than everything else together.

A transaction that changes an item's vectors holds the item's row. Vectors are written after the put
of their item, because the put locks the row: of two transactions that put the same item at once,
the second one finds what the first one has left.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from milepost._db.operations import Execute, ExecuteMany, Operation, Query
from milepost.store._core.tasks import Search, Write
from milepost.store._sql import statements as sql
from milepost.store._sql.dialects import StoreSql
from milepost.store._vectors.embeddings import Packed

if TYPE_CHECKING:
    from milepost.store._vectors.generations import Generation, Generations


Near: TypeAlias = tuple[float, int]
"""A score, and the item that has a vector with it."""
Place: TypeAlias = tuple[str, str]
"""The text of a namespace, and a key."""


class Wanted(NamedTuple):
    """Which vectors a search compares with which one."""

    generation: Generation
    vector: Any
    """As a parameter of a statement."""
    allowed: str
    """The condition for items that the search could return: their vectors are up to date, and
    they are alive, below the prefix and as its filter wants them."""
    parameters: tuple[Any, ...]
    wide: bool
    """Whether many items are below the prefix."""
    filtered: bool
    """Whether there is a prefix or a filter."""


class VectorIndex(ABC):
    """Keeps vectors in a table, and ranks items by them."""

    def __init__(self, store_sql: StoreSql) -> None:
        self.store_sql = store_sql

    @abstractmethod
    def create(self, table: str, dims: int) -> list[str]:
        """Statements that create the table."""

    def explain(self, error: Exception) -> Exception:
        """What to raise if the table could not be created."""
        return error

    @abstractmethod
    def pack(self, vector: Packed) -> Any:
        """A vector as a parameter of a statement."""

    @abstractmethod
    def nearest(self, wanted: Wanted, count: int) -> Operation[tuple[list[Near], bool]]:
        """At least `count` vectors, nearest first, if there are so many; whether that is all."""

    def rank(
        self, generation: Generation, search: Search, now: int, wide: bool, last: bool
    ) -> Operation[list[tuple[float | None, Any]]]:
        """The page of items that a search asks for, nearest first, with their scores.

        `last`: the transaction ends with it.
        """
        assert search.vector is not None
        clause, parameters = self.store_sql.where(search.prefix, search.conditions, now)
        wanted = Wanted(
            generation,
            self.pack(search.vector),
            f"{sql.INDEXED} AND {clause}",
            (generation.number, generation.number, *parameters),
            wide=wide,
            filtered=bool(search.prefix or search.conditions),
        )
        needed = count = search.offset + search.limit
        scores: dict[int, float] = {}
        while needed:
            found, is_all = yield from self.nearest(wanted, count)
            scores = {}
            for score, item in found:
                scores.setdefault(item, score)
            # An item may have several vectors, so the nearest ten need not be ten items.
            if is_all or len(scores) >= needed:
                break
            count *= 2
        page = list(scores)[search.offset : needed]
        if not page:
            return []
        text = self.store_sql.render(self.store_sql.own.by_ids)
        rows = yield Query(text, (json.dumps(page), now), last=last)
        by_id = {row[6]: row for row in rows}
        return [(scores[item], by_id[item]) for item in page if item in by_id]


def many(statement: str, rows: Sequence[Sequence[Any]]) -> Execute | ExecuteMany:
    """A statement for one row or several."""
    return Execute(statement, rows[0]) if len(rows) == 1 else ExecuteMany(statement, rows)


def without_vectors(
    store_sql: StoreSql, tables: Sequence[str], places: list[Place]
) -> list[Execute | ExecuteMany]:
    """Delete all vectors of these items."""
    if not places:
        return []
    known = json.dumps(places)
    return [
        Execute(store_sql.render(store_sql.own.vectors_of.format(table=table)), (known,))
        for table in tables
    ]


def with_new_vectors(
    store_sql: StoreSql,
    generations: Generations,
    index: VectorIndex | None,
    puts: Mapping[Place, Write],
) -> list[Execute | ExecuteMany]:
    """Give these items the vectors that they were put with, and no others."""
    if index is None:
        return without_vectors(store_sql, generations.tables, list(puts))
    # None for vectors of a model that others have replaced: the item is marked as lacking its own.
    target = None if generations.target is None else generations.target.table
    packed = {
        place: [index.pack(vector) for vector in write.vectors]
        for place, write in puts.items()
        if write.vectors and target is not None
    }
    only = {place: vectors[0] for place, vectors in packed.items() if len(vectors) == 1}
    several = [
        (vector, *place) for place in packed if place not in only for vector in packed[place]
    ]
    own = store_sql.own
    statements: list[Execute | ExecuteMany] = []
    for table in generations.tables:
        cleared = [place for place in puts if table != target or place not in only]
        statements += without_vectors(store_sql, [table], cleared)
    if only:
        other = store_sql.render(own.other_vector_of.format(table=target))
        statements.append(many(other, [(*place, vector) for place, vector in only.items()]))
        add = store_sql.render(own.add_only_vector.format(table=target))
        statements.append(many(add, [(vector, *place) for place, vector in only.items()]))
    if several:
        statements.append(many(store_sql.render(own.add_vector.format(table=target)), several))
    return statements
