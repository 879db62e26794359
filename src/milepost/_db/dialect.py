"""Where databases differ.

Tables are written once for all databases: names of `Dialect` fields in braces stand for the parts
that differ. Statements are written for each database where they differ. A parameter is `?`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple


class Bounds(NamedTuple):
    """How many rows a value, or a manifest, is put together from at most.

    SQLite reuses the space of a replaced row at once, PostgreSQL only after a vacuum. So longer
    chains, which replace rows less often, pay on PostgreSQL, though a read fetches more rows.
    """

    small: int
    """Small rows of a growing value, before one large row takes their additions together."""
    large: int
    """Large rows of a growing value before a full row; a large value has more (`chains.py`)."""
    frames: int
    """Rows in a chain of manifests, after which a complete one is stored if that costs little."""
    short: int = 0
    """Bytes up to which a growing value counts as short, and is soon stored in full again."""
    short_rows: int = 0
    """Small rows of a short value before the next full row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a saver needs to know about a database besides its SQL."""

    name: str
    """Migrations for one database alone are marked with it."""
    remote: bool
    """Whether each query is a round trip. If so, a reader asks early for what it may need."""
    settled: tuple[str, ...]
    """Statements that let a transaction use generic query plans. PostgreSQL otherwise plans a query
    again for each of its first five runs, which takes longer than running the query."""
    chain: Bounds
    placeholder: str = "?"
    """The placeholder of every parameter. Where a driver wants numbers or names, the backend's
    engine writes them."""

    def placed(self, query: str) -> str:
        """`query` with the driver's placeholders for parameters."""
        return query if self.placeholder == "?" else query.replace("?", self.placeholder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(Traits):
    """The parts of SQL that differ between the databases, as one database writes them."""

    bytes: str
    """The type of a column of bytes."""
    real: str
    text: str
    """The type of a column of text that sorts by code point."""
    json: str
    compact: str
    """Ends a CREATE TABLE whose rows are small and stored in key order."""
    packed: str
    """Follows a PRIMARY KEY that mostly grows at its end: its pages are filled completely."""
    int: str
    """The type of a column of 64-bit integers."""
    columns: str
    """A query for the names of a table's columns: no rows if there is no such table."""

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
    int="INTEGER",
    columns="SELECT name FROM pragma_table_info(?)",
    remote=False,
    settled=(),
    chain=Bounds(8, 16, 8, short=8192, short_rows=2),
)

POSTGRES = Dialect(
    name="postgres",
    bytes="BYTEA",
    real="DOUBLE PRECISION",
    text='TEXT COLLATE "C"',
    json="JSONB",
    compact="",
    packed=" WITH (fillfactor = 100)",
    int="BIGINT",
    columns="SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(?)"
    " AND attnum > 0 AND NOT attisdropped",
    placeholder="%s",
    remote=True,
    settled=("SET LOCAL plan_cache_mode TO force_generic_plan",),
    chain=Bounds(64, 32, 16, short=8192, short_rows=2),
)
