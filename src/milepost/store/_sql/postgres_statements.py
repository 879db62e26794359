"""The statements of a store that are specific to PostgreSQL.

`LIMIT (SELECT 1000000)` makes the planner expect ten rows of a JSON array instead of a hundred.
"""

from __future__ import annotations

from typing import Final

from milepost.store._sql.statements import REPLACING, OwnStatements, PutSeveral, RowLocks

STATEMENTS: Final = OwnStatements(
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
    put_plain="INSERT INTO milepost_items (ns, key, kind, data, view, idx, created, updated, ttl,"
    " expires, indexed, reindexed) VALUES (?, ?, 'msgpack', ?, ?::jsonb, NULL, ?, GREATEST(?,"
    " coalesce((SELECT version + 1 FROM milepost_deleted WHERE shard = ? FOR KEY SHARE), 0)),"
    " NULL, NULL, {indexed}, {reindexed})" + REPLACING,
    vectors_of="DELETE FROM {table} WHERE item IN (SELECT i.id FROM (SELECT (value->>0) COLLATE"
    ' "C" AS a, (value->>1) COLLATE "C" AS b FROM json_array_elements(?::json) LIMIT (SELECT'
    " 1000000)) p JOIN milepost_items i ON i.ns = p.a AND i.key = p.b)",
    vectors_of_ids="DELETE FROM {table} WHERE item IN (SELECT p.a::bigint FROM (SELECT value"
    ' COLLATE "C" AS a FROM json_array_elements_text(?::json) LIMIT (SELECT 1000000)) p)',
    add_vector="INSERT INTO {table} (item, vector) SELECT id, ?::vector FROM milepost_items WHERE"
    " ns = ? AND key = ?",
    other_vector_of="DELETE FROM {table} WHERE item = (SELECT id FROM milepost_items WHERE ns = ?"
    " AND key = ?) AND vector <> ?::vector",
    add_only_vector="INSERT INTO {table} (item, vector) SELECT id, ?::vector FROM milepost_items"
    " WHERE ns = ? AND key = ? AND NOT EXISTS (SELECT 1 FROM {table} v WHERE v.item ="
    " milepost_items.id)",
)

SEVERAL: Final = PutSeveral(
    put="INSERT INTO milepost_items (ns, key, kind, data, view, idx, created, updated, ttl,"
    " expires, indexed, reindexed) SELECT ns, key, kind, data, view, idx, created,"
    # One look at the versions that were deleted serves all rows.
    " GREATEST(updated, coalesce((SELECT max(version) + 1 FROM milepost_deleted), 0)), ttl,"
    " expires, indexed, reindexed FROM (VALUES {rows}) AS p (ns, key, kind, data, view, idx,"
    " created, updated, shard, ttl, expires, indexed, reindexed)" + REPLACING,
    row="(?::text, ?::text, ?::text, ?::bytea, ?::jsonb, ?::text, ?::bigint, ?::bigint, ?::integer,"
    " ?::bigint, ?::bigint, ?::integer, ?::integer)",
    plain_row="(?::text, ?::text, 'msgpack', ?::bytea, ?::jsonb, NULL::text, ?::bigint, ?::bigint,"
    " ?::integer, NULL::bigint, NULL::bigint, {indexed}, {reindexed})",
)
DELETE_ONE: Final = (
    "WITH shards AS (SELECT CAST(? AS INTEGER) AS shard), gone AS (DELETE FROM milepost_items"
    " WHERE ns = ? AND key = ? RETURNING updated) INSERT INTO milepost_deleted (shard, version)"
    " SELECT shard, updated FROM gone, shards ON CONFLICT (shard) DO UPDATE SET version ="
    " excluded.version WHERE excluded.version > milepost_deleted.version"
)
"""Deletes an item and notes its version."""
LOCKS: Final = RowLocks(
    share_shards="SELECT d.shard FROM milepost_deleted d WHERE d.shard IN (SELECT p.a::bigint"
    ' FROM (SELECT value COLLATE "C" AS a FROM json_array_elements_text(?::json) LIMIT'
    " (SELECT 1000000)) p) ORDER BY d.shard FOR KEY SHARE OF d",
    take_shards="SELECT d.shard FROM milepost_deleted d WHERE d.shard IN (SELECT p.a::bigint"
    ' FROM (SELECT value COLLATE "C" AS a FROM json_array_elements_text(?::json) LIMIT'
    " (SELECT 1000000)) p) ORDER BY d.shard FOR UPDATE OF d",
    see_expired="SELECT i.id, i.ns, i.key, i.updated FROM milepost_items i WHERE i.expires <= ?"
    " ORDER BY i.expires LIMIT ?",
    lock_item="SELECT 1 FROM milepost_items i WHERE i.ns = ? AND i.key = ? FOR UPDATE",
)

# The sum keeps PostgreSQL from walking through all that was updated, to find the few below a
# prefix: once it has planned so for a wide one, it may keep the plan for all.
SEARCH: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM milepost_items i"
    " WHERE {where} ORDER BY {order_of_sum} LIMIT ? OFFSET ?"
)
# Many items are below the prefix, and perhaps enough of those that changed last are wanted: the
# sort and most of the rows are spared. How far to look back is bounded, for if that was not it,
# the prefix is searched as well.
SEARCH_NEWEST: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM (SELECT * FROM"
    " milepost_items ORDER BY updated DESC LIMIT ?) i WHERE {where} ORDER BY {order} LIMIT ?"
    " OFFSET ?"
)
