"""What happens to vectors when items are put or deleted.

An item's only vector stays where it is if it has not changed, as when another field of the item
has: an index needs longer to take in a vector than everything else together.

Whoever changes an item's vectors holds its row. For an item that is put, this comes after the put,
which locks it: of two that put the same item at once, the second finds what the first has left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost.sql.operations import Many, Run
from milepost.store.sql import statements as sql

if TYPE_CHECKING:
    from milepost.store.sql.generations import Generations
    from milepost.store.sql.statements import Speech
    from milepost.store.sql.vectors import VectorIndex
    from milepost.store.tasks import Write

Place: TypeAlias = tuple[str, str]
"""The text of a namespace, and a key."""


def many(statement: str, rows: Sequence[Sequence[Any]]) -> Run | Many:
    """A statement for one row or several."""
    return Run(statement, rows[0]) if len(rows) == 1 else Many(statement, rows)


def without_vectors(speech: Speech, tables: Sequence[str], places: list[Place]) -> list[Run | Many]:
    """Delete all vectors of these items."""
    if not places:
        return []
    if speech.rows == 1:
        return [many(sql.VECTORS_OF_ONE.format(table=table), places) for table in tables]
    known = json.dumps(places)
    return [Run(speech.dress(sql.VECTORS_OF.format(table=table)), (known,)) for table in tables]


def without_vectors_of(speech: Speech, tables: Sequence[str], ids: str) -> list[Run | Many]:
    """Delete all vectors of the items with these ids, given as a JSON array."""
    return [Run(speech.dress(sql.VECTORS_OF_IDS.format(table=table)), (ids,)) for table in tables]


def with_new_vectors(
    speech: Speech, generations: Generations, index: VectorIndex | None, puts: Mapping[Place, Write]
) -> list[Run | Many]:
    """Give these items the vectors that they were put with, and no others."""
    if index is None:
        return without_vectors(speech, generations.tables, list(puts))
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
    statements: list[Run | Many] = []
    for table in generations.tables:
        cleared = [place for place in puts if table != target or place not in only]
        statements += without_vectors(speech, [table], cleared)
    if only:
        other = speech.dress(sql.OTHER_VECTOR_OF.format(table=target))
        statements.append(many(other, [(*place, vector) for place, vector in only.items()]))
        add = speech.dress(sql.ADD_ONLY_VECTOR.format(table=target))
        statements.append(many(add, [(vector, *place) for place, vector in only.items()]))
    if several:
        statements.append(many(speech.dress(sql.ADD_VECTOR.format(table=target)), several))
    return statements
