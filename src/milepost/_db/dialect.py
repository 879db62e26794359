"""Where SQLite and PostgreSQL differ.

What both databases can say in the same words is written once, with `?` for parameters and these
names in braces.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple


class Bounds(NamedTuple):
    """How many rows a value, or a frame, is put together from at most.

    What a row replaces is reused at once in SQLite. In PostgreSQL it takes room until the table is
    vacuumed, so that longer chains pay there, though a read has more rows to fetch.
    """

    small: int
    """Of a value that grows: rows that add a little each, before one adds all that at once."""
    large: int
    """How many of those there are before a full row; of a large value a few more (`chains.py`)."""
    frames: int
    """Rows of a chain of frames that ends with a complete one, unless that would be costly."""
    short: int = 0
    """Bytes up to which a value that grows is soon stored in full again."""
    short_rows: int = 0
    """Rows that add to such a value before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What savers ask of a database besides its words."""

    name: str
    remote: bool
    """Whether each query is a round trip, so that what may be needed is asked for at once."""
    settled: tuple[str, ...]
    """Lets a transaction use plans that were made for any parameters. PostgreSQL makes a new one
    each of the first five times, which takes longer than to carry it out."""
    chain: Bounds

    def placed(self, query: str) -> str:
        """`query`, with the sign for a parameter that the driver wants."""
        return query.replace("?", "%s") if self.name == "postgres" else query


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(Traits):
    """The SQL of one database for what both databases can do."""

    bytes: str
    """The type of a column of bytes."""
    real: str
    text: str
    """The type of a column of text that sorts by code point."""
    json: str
    compact: str
    """Ends a CREATE TABLE whose rows are small and lie in the order of their key."""
    packed: str
    """Follows a PRIMARY KEY whose entries are mostly added at the end: no room is left between."""
    pairs: str
    """A relation (a, b) made from a JSON array of pairs of text, passed as one parameter."""
    items: str
    """A relation (a) made from a JSON array of text, passed as one parameter."""
    int: str
    """The type of a column of 64-bit integers."""
    lock: str
    """Ends a SELECT that locks its row; SQLite has one writer at a time and needs no lock."""

    def sql(self, query: str) -> str:
        return self.placed(query.format(**asdict(self)))


SQLITE = Dialect(
    name="sqlite",
    bytes="BLOB",
    real="REAL",
    text="TEXT",
    json="TEXT",
    compact="WITHOUT ROWID",
    packed="",
    pairs="(SELECT json_extract(value, '$[0]') AS a, json_extract(value, '$[1]') AS b"
    " FROM json_each(?))",
    items="(SELECT value AS a FROM json_each(?))",
    int="INTEGER",
    lock="",
    remote=False,
    settled=(),
    chain=Bounds(8, 16, 8, short=8192, short_rows=2),
)

_FEW = " LIMIT (SELECT 1000000)"
"""Makes the planner expect ten, not a hundred: else it thinks of a chain of differences as so much
work that it compiles the query to machine code, which takes longer than all the rest."""

POSTGRES = Dialect(
    name="postgres",
    bytes="BYTEA",
    real="DOUBLE PRECISION",
    text='TEXT COLLATE "C"',
    json="JSONB",
    compact="",
    packed=" WITH (fillfactor = 100)",
    pairs='(SELECT (value->>0) COLLATE "C" AS a, (value->>1) COLLATE "C" AS b'
    f" FROM json_array_elements(?::json){_FEW})",
    items=f'(SELECT value COLLATE "C" AS a FROM json_array_elements_text(?::json){_FEW})',
    int="BIGINT",
    lock=" FOR UPDATE",
    remote=True,
    settled=("SET LOCAL plan_cache_mode TO force_generic_plan",),
    chain=Bounds(64, 32, 16, short=8192, short_rows=2),
)
