"""Vectors in PostgreSQL: pgvector."""

from __future__ import annotations

import struct
from array import array
from math import isnan
from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import Operation, Queries, Query, Raw
from milepost.errors import MissingDependencyError
from milepost.store._sql.dialects import PG
from milepost.store._sql.vectors import Near, VectorIndex, Wanted
from milepost.store._vectors.ann import AnnIndex
from milepost.store._vectors.embeddings import Packed

if TYPE_CHECKING:
    from collections.abc import Mapping


# The index finds neighbours first and filters then; with these settings it goes on until it has as
# many as were asked for. `true`: for this transaction only.
_GO_ON: Final = (
    "SELECT set_config('hnsw.iterative_scan', 'strict_order', true),"
    " set_config('hnsw.max_scan_tuples', '2147483647', true),"
    " set_config('hnsw.ef_search', ?, true),"
    " set_config('ivfflat.iterative_scan', 'relaxed_order', true),"
    " set_config('ivfflat.probes', ?, true)"
)
_NEAR: Final = (
    "SELECT {score}, near.item FROM"
    " (SELECT v.item, {distance} AS distance FROM {table} v"
    " ORDER BY {distance} LIMIT ?) near"
    # Each by its key, whatever the planner thinks of how many there are.
    " JOIN LATERAL (SELECT * FROM milepost_items WHERE id = near.item OFFSET 0) i ON TRUE"
    " WHERE {allowed}"
    " ORDER BY near.distance, near.item LIMIT ?"
)
_BELOW: Final = (
    "SELECT {score}, near.item FROM"
    " (SELECT v.item, {distance} AS distance FROM {table} v"
    " JOIN milepost_items i ON i.id = v.item WHERE {allowed}"
    " ORDER BY {distance}, v.item LIMIT ?) near"
)
_EXACT: Final = "SELECT set_config('enable_indexscan', ?, true)"


class PgVectors(VectorIndex):
    """Ranks with pgvector."""

    def __init__(self, index: Mapping[str, Any] | None = None) -> None:
        super().__init__(PG)
        self._ann = AnnIndex(index or {})

    def create(self, table: str, dims: int) -> list[str]:
        statements = [
            "CREATE EXTENSION IF NOT EXISTS vector",
            f"CREATE TABLE IF NOT EXISTS {table}"
            " (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item BIGINT NOT NULL,"
            f" vector vector({int(dims)}) NOT NULL)",
            f"CREATE INDEX IF NOT EXISTS {table}_item ON {table} (item)",
        ]
        return [*statements, *self._ann.create(table, dims)]

    def explain(self, error: Exception) -> Exception:
        text = str(error)
        if '"vector"' not in text:
            return error
        return MissingDependencyError(
            f"Search by meaning on PostgreSQL needs the extension pgvector on the server. {text} "
            "Install it there (apt install postgresql-NN-pgvector, or an image that has it), and "
            "let an administrator run: CREATE EXTENSION vector"
        )

    def pack(self, vector: Packed) -> Raw:
        # As pgvector sends and receives it, the highest byte first. Text takes the client 50 times
        # as long.
        numbers = array("f", vector)
        numbers.byteswap()
        return Raw(struct.pack("!HH", len(numbers), 0) + numbers.tobytes())

    def nearest(self, wanted: Wanted, count: int) -> Operation[tuple[list[Near], bool]]:
        vector = wanted.vector
        if wanted.wide:
            # Without statistics, and often with them, the planner would compare all that is below
            # the prefix. Most of what is near should be there: ask the index first.
            tried = 2 * count + 20
            near = Query(
                self._text(_NEAR, wanted),
                (vector, vector, tried, *wanted.parameters, count),
            )
            rows = (yield Queries([self._going_on(tried), near]))[1]
            if len(rows) >= count:
                return _ranked(rows), False
        query = Query(
            self._text(_BELOW, wanted),
            (vector, *wanted.parameters, vector, count),
        )
        rows = (yield Queries([self._going_on(count), query]))[1]
        if len(rows) < count:
            # Perhaps that is all there is, perhaps the index has missed some: make sure.
            yield Query(PG.render(_EXACT), ("off",))
            rows = yield query
            yield Query(PG.render(_EXACT), ("on",))
        return _ranked(rows), len(rows) < count

    def _text(self, template: str, wanted: Wanted) -> str:
        ann, generation = self._ann, wanted.generation
        return PG.render(
            template.format(
                table=generation.table,
                allowed=wanted.allowed,
                distance=ann.distance(generation.dims),
                score=ann.score.format("near.distance"),
            )
        )

    def _going_on(self, count: int) -> Query:
        parameters = (str(min(max(count, 40), 1000)), str(self._ann.probes))
        return Query(PG.render(_GO_ON), parameters)


def _ranked(rows: list[Any]) -> list[Near]:
    # A vector of zeros has no angle.
    found = [(0.0 if isnan(score) else score, item) for score, item in rows]
    found.sort(key=lambda near: (-near[0], near[1]))
    return found
