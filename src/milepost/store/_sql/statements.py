"""The statements of a store, by name, each in one piece, so that a server's log is found here.

A parameter is `?` here; the driver's placeholder replaces it. A call adds what it alone knows:
`{where}` is the filter of a search, `{order}` its order, `{table}` the table of a generation of
vectors. Statements that differ between the databases are at the end. `indexed` is -1 (`LACKING`)
where an item lacks its vectors.

`LIMIT ? + 0`: since 3.48, SQLite compiles a statement with a bare parameter there again each time,
to see the number. An empty search took 46 µs instead of 7. `LIMIT (SELECT 1000000)` makes
PostgreSQL's planner expect ten rows of a JSON array instead of a hundred.
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

ORDER: Final[dict[Order, str]] = {
    # Equal stamps are possible only if two processes have made them.
    "updated_at": "i.updated, i.id",
    "-updated_at": "i.updated DESC, i.id",
    "created_at": "i.created, i.id",
    "-created_at": "i.created DESC, i.id",
    "key": "i.key, i.ns",
    "-key": "i.key DESC, i.ns DESC",
}


class RowLocks(NamedTuple):
    """Locks on rows, for a database with several writers at a time."""

    share_shards: str
    """Before several items are put: no other transaction deletes one of them until this one
    ends."""
    take_shards: str
    """Before items are deleted: no other transaction puts or deletes one until this one ends."""
    see_expired: str
    """What has expired, before its shards are taken."""


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

    vectors_of: str
    """Deletes the vectors of all the places in a JSON array."""
    add_vector: str
    other_vector_of: str
    add_only_vector: str

    search: str
    newest: str
    """Searches what has changed last."""
    below: str
    """A namespace's text begins with this, or lies between this and that."""
    level: str | None = None
    """Searches one namespace, where there is an index for it."""
    share: str | None = None
    """Keeps the registry of vectors as it is until the transaction ends; None where a transaction
    does that by itself."""
    take: str | None = None
    """Waits for all transactions that use the registry, and blocks new ones until this one ends."""
    put_several: str | None = None
    """So many items as `ROWS` says. It locks no shards: `RowLocks` does before."""
    locks: RowLocks | None = None
    """SQLite has one writer at a time, and needs no locks."""


SQLITE: Final = OwnStatements(
    get_many="SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM (SELECT"
    " json_extract(value, '$[0]') AS a, json_extract(value, '$[1]') AS b FROM json_each(?)) p JOIN"
    " milepost_items i ON i.ns = p.a AND i.key = p.b WHERE (i.expires IS NULL OR i.expires > ?)",
    by_ids="SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM (SELECT"
    " value AS a FROM json_each(?)) p JOIN milepost_items i ON i.id = p.a WHERE (i.expires IS NULL"
    " OR i.expires > ?)",
    versions="SELECT i.ns, i.key, i.updated FROM milepost_items i WHERE i.ns = ? AND i.key = ? AND"
    " (i.expires IS NULL OR i.expires > ?)",
    lock_items="SELECT i.ns, i.key, i.updated FROM (SELECT json_extract(value, '$[0]') AS a,"
    " json_extract(value, '$[1]') AS b FROM json_each(?)) p JOIN milepost_items i ON i.ns = p.a"
    " AND i.key = p.b ORDER BY i.ns, i.key",
    expired="SELECT i.id, i.ns, i.key, i.updated FROM milepost_items i WHERE i.expires <= ? ORDER"
    " BY i.expires LIMIT ? + 0",
    renew="UPDATE milepost_items SET expires = max(expires, ? + ttl) WHERE id = ? AND ttl IS NOT"
    " NULL AND expires > ?",
    delete_ids="DELETE FROM milepost_items WHERE id IN (SELECT p.a FROM (SELECT value AS a FROM"
    " json_each(?)) p)",
    put="INSERT INTO milepost_items (ns, key, kind, data, view, idx, created, updated, ttl,"
    " expires, indexed, reindexed) VALUES (?, ?, ?, ?, ?, ?, ?, max(?, coalesce((SELECT version +"
    " 1 FROM milepost_deleted WHERE shard = ?), 0)), ?, ?, ?, ?)" + REPLACING,
    vectors_of="DELETE FROM {table} WHERE item IN (SELECT i.id FROM (SELECT json_extract(value,"
    " '$[0]') AS a, json_extract(value, '$[1]') AS b FROM json_each(?)) p JOIN milepost_items i ON"
    " i.ns = p.a AND i.key = p.b)",
    add_vector="INSERT INTO {table} (item, vector) SELECT id, ? FROM milepost_items WHERE ns = ?"
    " AND key = ?",
    other_vector_of="DELETE FROM {table} WHERE item = (SELECT id FROM milepost_items WHERE ns = ?"
    " AND key = ?) AND vector <> ?",
    add_only_vector="INSERT INTO {table} (item, vector) SELECT id, ? FROM milepost_items WHERE ns"
    " = ? AND key = ? AND NOT EXISTS (SELECT 1 FROM {table} v WHERE v.item = milepost_items.id)",
    # SQLite sorts whole rows. Without the values they are much smaller.
    search="SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM (SELECT i.id"
    " AS found FROM milepost_items i WHERE {where} ORDER BY {order} LIMIT ? + 0 OFFSET ?) JOIN"
    " milepost_items i ON i.id = found ORDER BY {order}",
    # Many items are below the prefix, and perhaps enough of those that changed last are wanted.
    # With a subquery, SQLite would read all of it before it sorts.
    newest="SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM"
    " milepost_items i INDEXED BY milepost_items_updated WHERE i.updated > ifnull((SELECT updated"
    " FROM milepost_items ORDER BY updated DESC LIMIT 1 OFFSET ?), 0) AND {where} ORDER BY {order}"
    " LIMIT ? + 0 OFFSET ?",
    # In one namespace the index has the order, so that the search ends with its page. If there are
    # others below it, the last row is empty, and says that the rest is not what was asked for.
    level="SELECT * FROM (SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl"
    " FROM milepost_items i INDEXED BY milepost_items_newest WHERE i.ns = ? AND {where} ORDER BY"
    " {order} LIMIT ? + 0 OFFSET ?) UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
    " NULL WHERE EXISTS (SELECT 1 FROM milepost_items WHERE ns > ? AND ns < ?)",
    below="i.ns >= ? AND i.ns < ?",
)

ROWS: Final = 100
"""How many items one statement stores where there is one for several."""
_ROW: Final = (
    "(?::text, ?::text, ?::text, ?::bytea, ?::jsonb, ?::text, ?::bigint, ?::bigint,"
    " ?::integer, ?::bigint, ?::bigint, ?::integer, ?::integer)"
)

POSTGRES: Final = OwnStatements(
    get_many="SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM (SELECT"
    ' (value->>0) COLLATE "C" AS a, (value->>1) COLLATE "C" AS b FROM json_array_elements(?::json)'
    " LIMIT (SELECT 1000000)) p JOIN milepost_items i ON i.ns = p.a AND i.key = p.b WHERE"
    " (i.expires IS NULL OR i.expires > ?)",
    by_ids="SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM (SELECT"
    ' value COLLATE "C" AS a FROM json_array_elements_text(?::json) LIMIT (SELECT 1000000)) p JOIN'
    " milepost_items i ON i.id = p.a::bigint WHERE (i.expires IS NULL OR i.expires > ?)",
    versions="SELECT i.ns, i.key, i.updated FROM milepost_items i WHERE i.ns = ? AND i.key = ? AND"
    " (i.expires IS NULL OR i.expires > ?) FOR UPDATE",
    lock_items='SELECT i.ns, i.key, i.updated FROM (SELECT (value->>0) COLLATE "C" AS a,'
    ' (value->>1) COLLATE "C" AS b FROM json_array_elements(?::json) LIMIT (SELECT 1000000)) p'
    " JOIN milepost_items i ON i.ns = p.a AND i.key = p.b ORDER BY i.ns, i.key FOR UPDATE OF i",
    expired="SELECT i.id, i.ns, i.key, i.updated FROM milepost_items i WHERE i.expires <= ? ORDER"
    " BY i.expires LIMIT ? FOR UPDATE SKIP LOCKED",
    renew="UPDATE milepost_items SET expires = GREATEST(expires, ? + ttl) WHERE id = ? AND ttl IS"
    " NOT NULL AND expires > ?",
    delete_ids="DELETE FROM milepost_items WHERE id IN (SELECT p.a::bigint FROM (SELECT value"
    ' COLLATE "C" AS a FROM json_array_elements_text(?::json) LIMIT (SELECT 1000000)) p)',
    # The row of a shard is shared until the transaction ends, and a delete takes it before it
    # deletes: so none comes between this look and the put, which may have to wait for a delete of
    # the same item.
    put="INSERT INTO milepost_items (ns, key, kind, data, view, idx, created, updated, ttl,"
    " expires, indexed, reindexed) VALUES (?, ?, ?, ?, ?::jsonb, ?, ?, GREATEST(?,"
    " coalesce((SELECT version + 1 FROM milepost_deleted WHERE shard = ? FOR KEY SHARE), 0)), ?,"
    " ?, ?, ?)" + REPLACING,
    vectors_of="DELETE FROM {table} WHERE item IN (SELECT i.id FROM (SELECT (value->>0) COLLATE"
    ' "C" AS a, (value->>1) COLLATE "C" AS b FROM json_array_elements(?::json) LIMIT (SELECT'
    " 1000000)) p JOIN milepost_items i ON i.ns = p.a AND i.key = p.b)",
    add_vector="INSERT INTO {table} (item, vector) SELECT id, ?::vector FROM milepost_items WHERE"
    " ns = ? AND key = ?",
    other_vector_of="DELETE FROM {table} WHERE item = (SELECT id FROM milepost_items WHERE ns = ?"
    " AND key = ?) AND vector <> ?::vector",
    add_only_vector="INSERT INTO {table} (item, vector) SELECT id, ?::vector FROM milepost_items"
    " WHERE ns = ? AND key = ? AND NOT EXISTS (SELECT 1 FROM {table} v WHERE v.item ="
    " milepost_items.id)",
    # The sum keeps PostgreSQL from walking through all that was updated, to find the few below a
    # prefix: once it has planned so for a wide one, it may keep the plan for all.
    search="SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM"
    " milepost_items i WHERE {where} ORDER BY {order_of_sum} LIMIT ? OFFSET ?",
    # Many items are below the prefix, and perhaps enough of those that changed last are wanted: the
    # sort and most of the rows are spared. How far to look back is bounded, for if that was not it,
    # the prefix is searched as well.
    newest="SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM (SELECT *"
    " FROM milepost_items ORDER BY updated DESC LIMIT ?) i WHERE {where} ORDER BY {order} LIMIT ?"
    " OFFSET ?",
    # "Starts with". For a range, PostgreSQL makes one plan for all prefixes, good for short ones
    # only; for this it looks at the prefix, and uses the index where that pays.
    below="i.ns ^@ ?::text",
    share="LOCK TABLE milepost_store_meta IN ACCESS SHARE MODE",
    take="LOCK TABLE milepost_store_meta IN ACCESS EXCLUSIVE MODE",
    put_several="INSERT INTO milepost_items (ns, key, kind, data, view, idx, created, updated, ttl,"
    " expires, indexed, reindexed) SELECT ns, key, kind, data, view, idx, created,"
    # One look at the versions that were deleted serves all rows.
    " GREATEST(updated, coalesce((SELECT max(version) + 1 FROM milepost_deleted), 0)), ttl,"
    " expires, indexed, reindexed FROM (VALUES {rows}) AS p (ns, key, kind, data, view, idx,"
    " created, updated, shard, ttl, expires, indexed, reindexed)".replace(
        "{rows}", ", ".join([_ROW] * ROWS)
    )
    + REPLACING,
    locks=RowLocks(
        share_shards="SELECT d.shard FROM milepost_deleted d WHERE d.shard IN (SELECT p.a::bigint"
        ' FROM (SELECT value COLLATE "C" AS a FROM json_array_elements_text(?::json) LIMIT'
        " (SELECT 1000000)) p) ORDER BY d.shard FOR KEY SHARE OF d",
        take_shards="SELECT d.shard FROM milepost_deleted d WHERE d.shard IN (SELECT p.a::bigint"
        ' FROM (SELECT value COLLATE "C" AS a FROM json_array_elements_text(?::json) LIMIT'
        " (SELECT 1000000)) p) ORDER BY d.shard FOR UPDATE OF d",
        see_expired="SELECT i.id, i.ns, i.key, i.updated FROM milepost_items i WHERE i.expires <= ?"
        " ORDER BY i.expires LIMIT ?",
    ),
)
