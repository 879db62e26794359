"""What happens to vectors when items are put or deleted.

An item's only vector stays where it is if it has not changed, as when another field of the item
has: an index needs longer to take in a vector than everything else together.

A transaction that changes an item's vectors holds the item's row. Vectors are written after the put
of their item, because the put locks the row: of two transactions that put the same item at once,
the second one finds what the first one has left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost._db.operations import Execute, ExecuteMany
from milepost.store._sql import statements as sql

if TYPE_CHECKING:
    from milepost.store._core.tasks import Write
    from milepost.store._sql.dialects import StoreSql
    from milepost.store._sql.vectors import VectorIndex
    from milepost.store._vectors.generations import Generations

Place: TypeAlias = tuple[str, str]
"""The text of a namespace, and a key."""


def many(statement: str, rows: Sequence[Sequence[Any]]) -> Execute | ExecuteMany:
    """A statement for one row or several."""
    return Execute(statement, rows[0]) if len(rows) == 1 else ExecuteMany(statement, rows)


def without_vectors(
    store_sql: StoreSql, tables: Sequence[str], places: list[Place]
) -> list[Execute | ExecuteMany]:
    """Delete all vectors of these items."""
    if not places:
        return []
    if store_sql.rows == 1:
        return [many(sql.VECTORS_OF_ONE.format(table=table), places) for table in tables]
    known = json.dumps(places)
    return [
        Execute(store_sql.render(sql.VECTORS_OF.format(table=table)), (known,)) for table in tables
    ]


def without_vectors_of(
    store_sql: StoreSql, tables: Sequence[str], ids: str
) -> list[Execute | ExecuteMany]:
    """Delete all vectors of the items with these ids, given as a JSON array."""
    return [
        Execute(store_sql.render(sql.VECTORS_OF_IDS.format(table=table)), (ids,))
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
    packed = {
        place: [index.pack(vector) for vector in write.vectors]
        for place, write in puts.items()
        if write.vectors
    }
    fitting = generations.target if packed else None
    if fitting is None:
        # Vectors of a model that others have replaced: the item is marked as lacking its own.
        packed = {}
    target = None if fitting is None else fitting.table
    only = {place: vectors[0] for place, vectors in packed.items() if len(vectors) == 1}
    several = [
        (vector, *place) for place in packed if place not in only for vector in packed[place]
    ]
    statements: list[Execute | ExecuteMany] = []
    for table in generations.tables:
        cleared = [place for place in puts if table != target or place not in only]
        statements += without_vectors(store_sql, [table], cleared)
    if only:
        other = store_sql.render(sql.OTHER_VECTOR_OF.format(table=target))
        statements.append(many(other, [(*place, vector) for place, vector in only.items()]))
        add = store_sql.render(sql.ADD_ONLY_VECTOR.format(table=target))
        statements.append(many(add, [(vector, *place) for place, vector in only.items()]))
    if several:
        statements.append(many(store_sql.render(sql.ADD_VECTOR.format(table=target)), several))
    return statements
