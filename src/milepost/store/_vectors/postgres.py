"""Vectors in PostgreSQL: pgvector, and the settings of its index."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from math import isnan, isqrt
from typing import Any, Final, Literal

from typing_extensions import TypedDict

from milepost._db.operations import Operation, Queries, Query, Raw
from milepost.errors import MissingDependencyError
from milepost.store._core.records import IndexConfig
from milepost.store._sql.dialects import PG
from milepost.store._sql.vectors import Near, VectorIndex, Wanted
from milepost.store._vectors.embeddings import Packed


class ANNIndexConfig(TypedDict, total=False):
    """How near vectors are found without comparing all of them.

    Examples:
        >>> from milepost.store.postgres.base import ANNIndexConfig
        >>> exact: ANNIndexConfig = {"kind": "flat"}
    """

    kind: Literal["hnsw", "ivfflat", "flat"]
    """"flat" has no index: all vectors below the prefix are compared."""
    vector_type: Literal["vector", "halfvec"]
    """How the index holds numbers: "halfvec" in 16 bits, for half the memory and up to 4000
    dimensions. The table keeps them in 32 bits."""


class HNSWConfig(ANNIndexConfig, total=False):
    """An index of kind "hnsw": exact enough for most uses, slow to build.

    Examples:
        >>> from milepost.store.postgres.base import HNSWConfig
        >>> near: HNSWConfig = {"kind": "hnsw", "m": 16, "ef_construction": 64}
    """

    m: int
    """Links of a vector in each layer; 16 unless it says otherwise."""
    ef_construction: int
    """Candidates that are looked at while it is built; 64 unless it says otherwise."""


class IVFFlatConfig(ANNIndexConfig, total=False):
    """An index of kind "ivfflat": quick to build, for a table that has its vectors already.

    Examples:
        >>> from milepost.store.postgres.base import IVFFlatConfig
        >>> near: IVFFlatConfig = {"kind": "ivfflat", "nlist": 100}
    """

    nlist: int
    """Lists that vectors are divided into."""


class PostgresIndexConfig(IndexConfig, total=False):
    """`IndexConfig`, with the settings of pgvector.

    Examples:
        >>> from milepost.store.postgres import PostgresIndexConfig
        >>> index: PostgresIndexConfig = {
        ...     "dims": 1536, "embed": "openai:text-embedding-3-small", "distance_type": "cosine"
        ... }
    """

    ann_index_config: ANNIndexConfig
    """The index over the vectors; "hnsw" by default."""
    distance_type: Literal["l2", "inner_product", "cosine"]
    """What near means. A score is larger for what is nearer: 1 - distance for "cosine", the
    product for "inner_product", the negative distance for "l2"."""


_METRICS: Final = {
    "cosine": ("<=>", "cosine_ops", "1 - {}"),
    "l2": ("<->", "l2_ops", "-({})"),
    "inner_product": ("<#>", "ip_ops", "-({})"),
}
"""Of each distance, in pgvector's words: the operator, the class of operators, and the score."""
_LARGEST: Final = {"vector": 2000, "halfvec": 4000}
"""pgvector indexes no longer vectors than these; longer ones are compared one by one."""
_PARAMETERS: Final = {
    "hnsw": {"m": "m", "ef_construction": "ef_construction"},
    "ivfflat": {"nlist": "lists"},
    "flat": dict[str, str](),
}


class AnnIndex:
    """The index of a table of vectors, as a store's `index` says; ValueError if pgvector does not
    know it."""

    def __init__(self, index: Mapping[str, Any]) -> None:
        self._distance = _one_of("distance_type", index.get("distance_type", "cosine"), _METRICS)
        self._operator, self._ops, self.score = _METRICS[self._distance]
        config = dict(index.get("ann_index_config") or {})
        self._kind = _one_of("kind", config.pop("kind", "hnsw"), _PARAMETERS)
        self._vector_type = _one_of("vector_type", config.pop("vector_type", "vector"), _LARGEST)
        known = _PARAMETERS[self._kind]
        if unknown := set(config) - set(known):
            raise ValueError(
                f"ann_index_config has settings that an index of kind {self._kind!r} does not "
                f"have: {sorted(unknown)}. There are {', '.join(('kind', 'vector_type', *known))}."
            )
        self._parameters = {known[name]: int(value) for name, value in config.items()}

    @property
    def probes(self) -> int:
        """Lists of an index of kind "ivfflat" that a search looks at first."""
        return max(1, isqrt(self._parameters.get("lists", 100)))

    def distance(self, dims: int) -> str:
        """The distance of a row from the vector that is the next parameter.

        The same words as in the index: otherwise the planner would not use it.
        """
        if self._vector_type == "vector" or dims > _LARGEST[self._vector_type]:
            return f"v.vector {self._operator} ?::vector"
        return (
            f"(v.vector::halfvec({int(dims)})) {self._operator} (?::vector)::halfvec({int(dims)})"
        )

    def create(self, table: str, dims: int) -> list[str]:
        """Statements that create the index."""
        if self._kind == "flat" or dims > _LARGEST[self._vector_type]:
            return []
        column = "vector"
        if self._vector_type == "halfvec":
            column = f"(vector::halfvec({int(dims)}))"
        ops = f"{self._vector_type}_{self._ops}"
        options = ", ".join(f"{name} = {value}" for name, value in self._parameters.items())
        # One for each way to search: several programs may share the table.
        default = (self._distance, self._vector_type) == ("cosine", "vector")
        name = f"{table}_{self._kind}" + ("" if default else f"_{ops}")
        return [
            f"CREATE INDEX IF NOT EXISTS {name} ON {table} USING {self._kind} ({column} {ops})"
            + (f" WITH ({options})" if options else "")
        ]


def _one_of(name: str, given: Any, known: Mapping[str, Any]) -> str:
    if given not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {given!r}.")
    return str(given)


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
