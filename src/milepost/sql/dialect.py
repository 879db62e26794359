"""Where SQLite and PostgreSQL differ.

Queries are written once, with `?` for parameters and these names in braces.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """The words that one database has for what both can do."""

    name: str
    bytes: str
    """The type of a column of bytes."""
    real: str
    text: str
    """The type of a column of text that sorts by code point."""
    json: str
    compact: str
    """Ends a CREATE TABLE whose rows are small and lie in the order of their key."""
    pairs: str
    """A relation (a, b) made from a JSON array of pairs of text, passed as one parameter."""
    items: str
    """A relation (a) made from a JSON array of text, passed as one parameter."""
    int: str
    """The type of a column of 64-bit integers."""
    lock: str
    """Ends a SELECT that keeps others from changing the row; SQLite's writers are alone anyway."""

    def sql(self, query: str) -> str:
        """`query` in this dialect."""
        text = query.format(
            bytes=self.bytes,
            real=self.real,
            text=self.text,
            json=self.json,
            compact=self.compact,
            pairs=self.pairs,
            items=self.items,
            int=self.int,
            lock=self.lock,
        )
        return text if self.name == "sqlite" else text.replace("?", "%s")


SQLITE = Dialect(
    name="sqlite",
    bytes="BLOB",
    real="REAL",
    text="TEXT",
    json="TEXT",
    compact="WITHOUT ROWID",
    pairs="(SELECT json_extract(value, '$[0]') AS a, json_extract(value, '$[1]') AS b"
    " FROM json_each(?))",
    items="(SELECT value AS a FROM json_each(?))",
    int="INTEGER",
    lock="",
)

POSTGRES = Dialect(
    name="postgres",
    bytes="BYTEA",
    real="DOUBLE PRECISION",
    text='TEXT COLLATE "C"',
    json="JSONB",
    compact="",
    pairs='(SELECT (value->>0) COLLATE "C" AS a, (value->>1) COLLATE "C" AS b'
    " FROM json_array_elements(?::json))",
    items='(SELECT value COLLATE "C" AS a FROM json_array_elements_text(?::json))',
    int="BIGINT",
    lock=" FOR UPDATE",
)
