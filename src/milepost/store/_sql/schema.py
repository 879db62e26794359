"""The tables of a store.

`milepost_items`       one row an item: the exact value (`data`), and what filters see (`view`)
`milepost_store_meta`  which model the vectors were made with, and in which table they are
`milepost_deleted`     the largest version that was deleted, for each of a few groups of items
`milepost_vectors_N`   the vectors of generation N; a reindex builds the next one beside it

The names are our own, so that the tables can live beside a saver's, and beside LangGraph's.
Small columns come first: a filter on a row's age need not read past its value. `indexed` and
`reindexed` are the generations in which an item's vectors are up to date, at most two during a
reindex; -1 if they are still to be made by a store that can.
"""

from __future__ import annotations

from typing import Final

from milepost._db.migrations import Schema

_ITEMS = """
CREATE TABLE IF NOT EXISTS milepost_items (
    id @identity@,
    ns {text} NOT NULL,
    key {text} NOT NULL,
    created BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    ttl BIGINT,
    expires BIGINT,
    indexed INTEGER NOT NULL,
    reindexed INTEGER NOT NULL,
    idx TEXT,
    kind TEXT NOT NULL,
    data {bytes} NOT NULL,
    view {json} NOT NULL,
    UNIQUE (ns, key)
)
"""
_EXPIRY = (
    "CREATE INDEX IF NOT EXISTS milepost_items_expires ON milepost_items (expires)"
    " WHERE expires IS NOT NULL"
)
_UPDATED = "CREATE INDEX IF NOT EXISTS milepost_items_updated ON milepost_items (updated)"
# In the order of a search. For the newest items of a namespace SQLite need not look into the table.
_NEWEST = (
    "CREATE INDEX IF NOT EXISTS milepost_items_newest"
    " ON milepost_items (ns, updated DESC, id, expires)"
)
# Mostly empty: items that others have to embed.
_LACKING = (
    "CREATE INDEX IF NOT EXISTS milepost_items_lacking ON milepost_items (id) WHERE indexed = -1"
)
# A delete must remember which version was the last. One row for all would make deletes wait for
# each other, one for each item would stay for ever: items share a few rows.
_DELETED = (
    "CREATE TABLE IF NOT EXISTS milepost_deleted"
    " (shard INTEGER PRIMARY KEY, version BIGINT NOT NULL)"
)
SHARDS: Final = 64
"""Into how many groups items are divided by their places. Stored rows depend on it."""
# All of them from the beginning: a row that is not there cannot be locked.
_ALL_DELETED = (
    "INSERT INTO milepost_deleted (shard, version) VALUES "
    + ", ".join(f"({shard}, 0)" for shard in range(SHARDS))
    + " ON CONFLICT (shard) DO NOTHING"
)
_META = """
CREATE TABLE IF NOT EXISTS milepost_store_meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
)
"""

# An id is never used twice: a vector that was left behind must not meet another item.
_IDENTITY: Final = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgres": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}


def schema(dialect: str) -> Schema:
    """The tables, in their order of invention."""
    return Schema(
        table="milepost_store_migrations",
        migrations=[
            [
                _ITEMS.replace("@identity@", _IDENTITY[dialect]),
                _EXPIRY,
                _UPDATED,
                *([_NEWEST] if dialect == "sqlite" else []),
                _META,
            ],
            [_LACKING],
            [_DELETED, _ALL_DELETED],
        ],
        landmark=("milepost_items", "view"),
        foreign="The database has a table milepost_items that is not milepost's. Use another one.",
    )
