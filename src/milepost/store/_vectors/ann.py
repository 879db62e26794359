"""The settings of an index of pgvector: the distance, the kind of index, and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any, Final, Literal

from typing_extensions import TypedDict

from milepost.store._core.records import IndexConfig


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
