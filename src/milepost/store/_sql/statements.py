"""The statements of a store, by name, each in one piece.

`?` is a parameter. Words in percent signs are a database's own (`dialects.py`); those in at signs
are what a call makes of them: `@where@` the filter of a search, `@order@` its order, `@values@` the
rows of a put. `indexed` is -1 (`LACKING`) where an item lacks its vectors.
"""

from __future__ import annotations

from typing import Final

from milepost.store._core.records import Order

ALIVE: Final = "(i.expires IS NULL OR i.expires > ?)"

GET: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM milepost_items i"
    " WHERE i.ns = ? AND i.key = ? AND (i.expires IS NULL OR i.expires > ?)"
)
GET_MANY: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM %pairs% p JOIN"
    " milepost_items i ON i.ns = p.a AND i.key = p.b WHERE (i.expires IS NULL OR i.expires > ?)"
)
SEARCH: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM milepost_items i"
    " WHERE @where@ ORDER BY @order@ LIMIT ? OFFSET ?"
)
# The sum keeps PostgreSQL from walking through all that was updated, to find the few below a
# prefix: once it has planned so for a wide one, it may keep the plan for all.
SEARCH_BELOW: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM milepost_items i"
    " WHERE @where@ ORDER BY @sum@ LIMIT ? OFFSET ?"
)
# Many items are below the prefix, and perhaps enough of those that changed last are wanted: the
# sort and most of the rows are spared. How far to look back is bounded, for if that was not it,
# the prefix is searched as well.
SEARCH_NEWEST: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM (SELECT * FROM"
    " milepost_items ORDER BY updated DESC LIMIT ?) i WHERE @where@ ORDER BY @order@ LIMIT ?"
    " OFFSET ?"
)
# SQLite would read all of the subquery before it sorts.
SEARCH_NEWEST_LITE: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM milepost_items i"
    " INDEXED BY milepost_items_updated WHERE i.updated > ifnull((SELECT updated FROM"
    " milepost_items ORDER BY updated DESC LIMIT 1 OFFSET ?), 0) AND @where@ ORDER BY @order@"
    " LIMIT ? OFFSET ?"
)
IS_WIDE: Final = "SELECT 1 FROM milepost_items i WHERE @below@ LIMIT 1 OFFSET ?"
# SQLite sorts whole rows. Without the values they are much smaller.
SEARCH_IDS_FIRST: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM (SELECT i.id AS"
    " found FROM milepost_items i WHERE @where@ ORDER BY @order@ LIMIT ? OFFSET ?) JOIN"
    " milepost_items i ON i.id = found ORDER BY @order@"
)
# In one namespace the index has the order, so that the search ends with its page. If there are
# others below it, the last row is empty, and says that the rest is not what was asked for.
SEARCH_LEVEL: Final = (
    "SELECT * FROM (SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM"
    " milepost_items i INDEXED BY milepost_items_newest WHERE i.ns = ? AND @where@ ORDER BY"
    " @order@ LIMIT ? OFFSET ?) UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"
    " WHERE EXISTS (SELECT 1 FROM milepost_items WHERE ns > ? AND ns < ?)"
)
BY_IDS: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM %items% p JOIN"
    " milepost_items i ON i.id = %integer% WHERE (i.expires IS NULL OR i.expires > ?)"
)
# From one namespace to the next, through the index; DISTINCT would read every item.
NAMESPACES: Final = (
    "WITH RECURSIVE n(ns) AS (SELECT min(ns) FROM milepost_items WHERE ns >= ? AND ns < ? UNION"
    " ALL SELECT (SELECT min(ns) FROM milepost_items WHERE ns > n.ns AND ns < ?) FROM n WHERE n.ns"
    " IS NOT NULL) SELECT n.ns FROM n WHERE n.ns IS NOT NULL AND EXISTS (SELECT 1 FROM"
    " milepost_items i WHERE i.ns = n.ns AND (i.expires IS NULL OR i.expires > ?))"
)
VERSIONS: Final = (
    "SELECT i.ns, i.key, i.updated FROM milepost_items i WHERE i.ns = ? AND i.key = ? AND"
    " (i.expires IS NULL OR i.expires > ?) %lock%"
)

PUT: Final = (
    "INSERT INTO milepost_items"
    " (ns, key, kind, data, view, idx, created, updated, ttl, expires, indexed, reindexed)"
    " @values@ ON CONFLICT (ns, key) DO UPDATE SET"
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
"""Its values are those of one item (`ONE`, `ONE_PLAIN`), or of several (`SEVERAL`)."""
# Larger than every version that was deleted, should the clock have gone back since: a version is
# never used twice, also where an item was deleted and put again. The row is shared until the
# transaction ends, and a delete takes it before it deletes: so none comes between this look and
# the put, which may have to wait for a delete of the same item.
ONE: Final = (
    "VALUES (?, ?, ?, ?, %json%, ?, ?, %max%(?, coalesce((SELECT version + 1 FROM milepost_deleted"
    " WHERE shard = ? %share%), 0)), ?, ?, ?, ?)"
)
ONE_PLAIN: Final = (
    "VALUES (?, ?, 'msgpack', ?, %json%, NULL, ?, %max%(?, coalesce((SELECT version + 1 FROM"
    " milepost_deleted WHERE shard = ? %share%), 0)), NULL, NULL, {}, {})"
)
"""Of an item that has nothing special: what is not sent needs not be read."""
# One look at the versions that were deleted serves all rows.
_ROW: Final = (
    "(?::text, ?::text, ?::text, ?::bytea, ?::jsonb, ?::text, ?::bigint, ?::bigint, ?::integer,"
    " ?::bigint, ?::bigint, ?::integer, ?::integer)"
)
_PLAIN_ROW: Final = (
    "(?::text, ?::text, 'msgpack', ?::bytea, ?::jsonb, NULL::text, ?::bigint, ?::bigint,"
    " ?::integer, NULL::bigint, NULL::bigint, {}, {})"
)
SEVERAL: Final = (
    "SELECT ns, key, kind, data, view, idx, created, %max%(updated, coalesce((SELECT max(version)"
    " + 1 FROM milepost_deleted), 0)), ttl, expires, indexed, reindexed FROM (VALUES {}) AS p"
    " (ns, key, kind, data, view, idx, created, updated, shard, ttl, expires, indexed, reindexed)"
)


def put(rows: int = 1, plain: tuple[int, int] | None = None) -> str:
    """Store so many items, or so many plain ones with these marks; after their values comes the
    time."""
    one, row = (ONE, _ROW) if plain is None else (ONE_PLAIN, _PLAIN_ROW)
    if plain is not None:
        marks = tuple(map(int, plain))
        one, row = one.format(*marks), row.format(*marks)
    values = one if rows == 1 else SEVERAL.format(", ".join([row] * rows))
    return PUT.replace("@values@", values)


PUT_NEW: Final = PUT.replace("@values@", ONE) + " WHERE milepost_items.expires <= ?"
"""Refuses to replace an item that is there."""
DELETE: Final = "DELETE FROM milepost_items WHERE ns = ? AND key = ?"
NOTE_DELETED: Final = (
    "INSERT INTO milepost_deleted (shard, version) SELECT CAST(? AS INTEGER), updated FROM"
    " milepost_items WHERE ns = ? AND key = ? ON CONFLICT (shard) DO UPDATE SET version ="
    " excluded.version WHERE excluded.version > milepost_deleted.version"
)
"""Before an item is deleted: that its version was used."""
DELETE_ONE: Final = (
    "WITH shards AS (SELECT CAST(? AS INTEGER) AS shard), gone AS (DELETE FROM milepost_items"
    " WHERE ns = ? AND key = ? RETURNING updated) INSERT INTO milepost_deleted (shard, version)"
    " SELECT shard, updated FROM gone, shards ON CONFLICT (shard) DO UPDATE SET version ="
    " excluded.version WHERE excluded.version > milepost_deleted.version"
)
"""Both in one, where a statement can."""
SHARE_SHARDS: Final = (
    "SELECT d.shard FROM milepost_deleted d WHERE d.shard IN (SELECT %integer% FROM %items% p)"
    " ORDER BY d.shard FOR KEY SHARE OF d"
)
"""Before several items are put: no other transaction deletes one of them until this one ends."""
TAKE_SHARDS: Final = (
    "SELECT d.shard FROM milepost_deleted d WHERE d.shard IN (SELECT %integer% FROM %items% p)"
    " ORDER BY d.shard FOR UPDATE OF d"
)
"""Before items are deleted: no other transaction puts or deletes one until this one ends."""
NOTE_VERSION: Final = (
    "INSERT INTO milepost_deleted (shard, version) VALUES (?, ?) ON CONFLICT (shard) DO UPDATE"
    " SET version = excluded.version WHERE excluded.version > milepost_deleted.version"
)
RENEW: Final = (
    "UPDATE milepost_items SET expires = %max%(expires, ? + ttl)"
    " WHERE id = ? AND ttl IS NOT NULL AND expires > ?"
)
SEE_EXPIRED: Final = (
    "SELECT i.id, i.ns, i.key, i.updated FROM milepost_items i WHERE i.expires <= ?"
    " ORDER BY i.expires LIMIT ?"
)
EXPIRED: Final = (
    "SELECT i.id, i.ns, i.key, i.updated FROM milepost_items i WHERE i.expires <= ? ORDER BY"
    " i.expires LIMIT ? %lock_free%"
)
DELETE_IDS: Final = "DELETE FROM milepost_items WHERE id IN (SELECT %integer% FROM %items% p)"

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

VECTORS_OF: Final = (
    "DELETE FROM {table} WHERE item IN (SELECT i.id FROM %pairs% p"
    " JOIN milepost_items i ON i.ns = p.a AND i.key = p.b)"
)
"""Of all the places in a JSON array."""
VECTORS_OF_ONE: Final = (
    "DELETE FROM {table} WHERE item = (SELECT id FROM milepost_items WHERE ns = ? AND key = ?)"
)
VECTORS_OF_IDS: Final = "DELETE FROM {table} WHERE item IN (SELECT %integer% FROM %items% p)"
ADD_VECTOR: Final = (
    "INSERT INTO {table} (item, vector) SELECT id, %vector% FROM milepost_items"
    " WHERE ns = ? AND key = ?"
)
OTHER_VECTOR_OF: Final = (
    "DELETE FROM {table} WHERE item = (SELECT id FROM milepost_items WHERE ns = ? AND key = ?)"
    " AND vector <> %vector%"
)
ADD_ONLY_VECTOR: Final = (
    "INSERT INTO {table} (item, vector) SELECT id, %vector% FROM milepost_items WHERE ns = ? AND"
    " key = ? AND NOT EXISTS (SELECT 1 FROM {table} v WHERE v.item = milepost_items.id)"
)

COUNT_STALE: Final = "SELECT count(*) FROM milepost_items WHERE reindexed <> ?"
STALE: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.idx FROM milepost_items i"
    " WHERE i.reindexed <> ? ORDER BY i.id LIMIT ?"
)
LACKING_ITEMS: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.idx, i.id FROM milepost_items i"
    " WHERE i.indexed = -1 AND i.id > ? ORDER BY i.id LIMIT ?"
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
LOCK_ITEM: Final = "SELECT 1 FROM milepost_items i WHERE i.ns = ? AND i.key = ? %lock%"
# In one order everywhere, so that two transactions cannot wait for each other.
LOCK_ITEMS: Final = (
    "SELECT i.ns, i.key, i.updated FROM %pairs% p JOIN milepost_items i ON i.ns = p.a"
    " AND i.key = p.b ORDER BY i.ns, i.key %lock_items%"
)
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
