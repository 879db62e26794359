"""The statements of a store, by name, each in one piece, so that a server's log is found here.

A parameter is `?` here; the driver's placeholder replaces it. A call adds what it alone knows:
`{where}` is the filter of a search, `{order}` its order, `{table}` the table of a generation of
vectors. Statements that differ between the databases are in `sqlite_statements.py` and
`postgres_statements.py`. `indexed` is -1 (`LACKING`) where an item lacks its vectors.

`LIMIT ? + 0`: since 3.48, SQLite compiles a statement with a bare parameter there again each time,
to see the number. An empty search took 46 µs instead of 7.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from milepost.store._core.records import Order

ALIVE: Final = "(i.expires IS NULL OR i.expires > ?)"

GET: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM milepost_items i"
    " WHERE i.ns = ? AND i.key = ? AND (i.expires IS NULL OR i.expires > ?)"
)
IS_WIDE: Final = "SELECT 1 FROM milepost_items i WHERE {where} LIMIT 1 OFFSET ?"
# From one namespace to the next, through the index; DISTINCT would read every item.
NAMESPACES: Final = (
    "WITH RECURSIVE n(ns) AS (SELECT min(ns) FROM milepost_items WHERE ns >= ? AND ns < ? UNION"
    " ALL SELECT (SELECT min(ns) FROM milepost_items WHERE ns > n.ns AND ns < ?) FROM n WHERE n.ns"
    " IS NOT NULL) SELECT n.ns FROM n WHERE n.ns IS NOT NULL AND EXISTS (SELECT 1 FROM"
    " milepost_items i WHERE i.ns = n.ns AND (i.expires IS NULL OR i.expires > ?))"
)

REPLACING: Final = (
    " ON CONFLICT (ns, key) DO UPDATE SET"
    " kind = excluded.kind, data = excluded.data, view = excluded.view, idx = excluded.idx,"
    " ttl = excluded.ttl, expires = excluded.expires, indexed = excluded.indexed,"
    " reindexed = excluded.reindexed,"
    # What has expired is gone, and its successor is a new item.
    " created = CASE WHEN milepost_items.expires <= ? THEN excluded.created"
    " ELSE milepost_items.created END,"
    # Also larger if another process's clock is ahead of ours: it is the version.
    " updated = CASE WHEN milepost_items.updated >= excluded.updated"
    " THEN milepost_items.updated + 1 ELSE excluded.updated END"
)
"""Ends every put; its parameter is the time."""
IF_EXPIRED: Final = " WHERE milepost_items.expires <= ?"
"""Ends a put that refuses to replace an item that is there."""
DELETE: Final = "DELETE FROM milepost_items WHERE ns = ? AND key = ?"
NOTE_DELETED: Final = (
    "INSERT INTO milepost_deleted (shard, version) SELECT CAST(? AS INTEGER), updated FROM"
    " milepost_items WHERE ns = ? AND key = ? ON CONFLICT (shard) DO UPDATE SET version ="
    " excluded.version WHERE excluded.version > milepost_deleted.version"
)
"""Before an item is deleted: that its version was used."""
NOTE_VERSION: Final = (
    "INSERT INTO milepost_deleted (shard, version) VALUES (?, ?) ON CONFLICT (shard) DO UPDATE"
    " SET version = excluded.version WHERE excluded.version > milepost_deleted.version"
)

META: Final = (
    "SELECT name, CASE WHEN substr(name, 1, 6) = 'probe_' THEN '' ELSE value END FROM"
    " milepost_store_meta UNION ALL SELECT 'lacking', '' WHERE EXISTS (SELECT 1 FROM"
    " milepost_items WHERE indexed = -1)"
)
SET_META: Final = (
    "INSERT INTO milepost_store_meta (name, value) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
META_OF: Final = "SELECT value FROM milepost_store_meta WHERE name = ?"
UNSET_META: Final = "DELETE FROM milepost_store_meta WHERE name = ?"

VECTORS_OF_ONE: Final = (
    "DELETE FROM {table} WHERE item = (SELECT id FROM milepost_items WHERE ns = ? AND key = ?)"
)

COUNT_STALE: Final = "SELECT count(*) FROM milepost_items WHERE reindexed <> ?"
STALE: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.idx FROM milepost_items i"
    " WHERE i.reindexed <> ? ORDER BY i.id LIMIT ? + 0"
)
LACKING_ITEMS: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.idx, i.id FROM milepost_items i"
    " WHERE i.indexed = -1 AND i.id > ? ORDER BY i.id LIMIT ? + 0"
)
SET_REINDEXED: Final = (
    "UPDATE milepost_items SET reindexed = ?,"
    " indexed = CASE WHEN reindexed = ? THEN reindexed ELSE indexed END"
    " WHERE ns = ? AND key = ?"
)
SET_INDEXED: Final = (
    "UPDATE milepost_items SET indexed = ? WHERE ns = ? AND key = ? AND indexed = -1"
)
HAVE_VECTORS: Final = "UPDATE milepost_items SET indexed = ? WHERE indexed = -1 AND reindexed = ?"
LACK_VECTORS: Final = "UPDATE milepost_items SET indexed = -1 WHERE reindexed <> ?"
INDEXED: Final = "(i.indexed = ? OR i.reindexed = ?)"
"""Whether the vectors of this generation are those of the item as it is."""

ORDER: Final[dict[Order | None, str]] = {
    # Equal stamps are possible only if two processes have made them.
    None: "i.updated DESC, i.id",
    "updated_at": "i.updated, i.id",
    "-updated_at": "i.updated DESC, i.id",
    "created_at": "i.created, i.id",
    "-created_at": "i.created DESC, i.id",
    "key": "i.key, i.ns",
    "-key": "i.key DESC, i.ns DESC",
}
ORDER_OF_SUM: Final[dict[Order | None, str]] = {
    **ORDER,
    None: "(i.updated + 0) DESC, i.id",
    "updated_at": "(i.updated + 0), i.id",
    "-updated_at": "(i.updated + 0) DESC, i.id",
}
"""The same; an index on the column is of no use for the sum."""


class OwnStatements(NamedTuple):
    """The statements that differ between the databases."""

    get_many: str
    by_ids: str
    versions: str
    """The version of an item, which is locked."""
    lock_items: str
    """Several items, in one order everywhere, so that two transactions cannot wait for each
    other."""
    expired: str
    """What has expired, locked; without what other transactions have locked."""
    renew: str
    delete_ids: str

    put: str
    """One item. Its version is larger than every version that was deleted, should the clock have
    gone back since: a version is never used twice, also where an item was deleted and put again."""
    put_plain: str
    """One item that has nothing special: what is not sent needs not be read."""

    vectors_of: str
    """Deletes the vectors of all the places in a JSON array."""
    vectors_of_ids: str
    add_vector: str
    other_vector_of: str
    add_only_vector: str


class PutSeveral(NamedTuple):
    """Stores several items with one statement, which locks no shards: `RowLocks` does before."""

    put: str
    """With `{rows}`, many of one of these."""
    row: str
    plain_row: str


class RowLocks(NamedTuple):
    """Locks on rows, for a database with several writers at a time."""

    share_shards: str
    """Before several items are put: no other transaction deletes one of them until this one
    ends."""
    take_shards: str
    """Before items are deleted: no other transaction puts or deletes one until this one ends."""
    see_expired: str
    """What has expired, before its shards are taken."""
    lock_item: str
