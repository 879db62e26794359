"""The statements of a store that are specific to SQLite.

It has one writer at a time, and locks no rows.
"""

from __future__ import annotations

from typing import Final

from milepost.store._sql.statements import REPLACING, OwnStatements

STATEMENTS: Final = OwnStatements(
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
    put_plain="INSERT INTO milepost_items (ns, key, kind, data, view, idx, created, updated, ttl,"
    " expires, indexed, reindexed) VALUES (?, ?, 'msgpack', ?, ?, NULL, ?, max(?, coalesce((SELECT"
    " version + 1 FROM milepost_deleted WHERE shard = ?), 0)), NULL, NULL, {indexed}, {reindexed})"
    + REPLACING,
    vectors_of="DELETE FROM {table} WHERE item IN (SELECT i.id FROM (SELECT json_extract(value,"
    " '$[0]') AS a, json_extract(value, '$[1]') AS b FROM json_each(?)) p JOIN milepost_items i ON"
    " i.ns = p.a AND i.key = p.b)",
    vectors_of_ids="DELETE FROM {table} WHERE item IN (SELECT p.a FROM (SELECT value AS a FROM"
    " json_each(?)) p)",
    add_vector="INSERT INTO {table} (item, vector) SELECT id, ? FROM milepost_items WHERE ns = ?"
    " AND key = ?",
    other_vector_of="DELETE FROM {table} WHERE item = (SELECT id FROM milepost_items WHERE ns = ?"
    " AND key = ?) AND vector <> ?",
    add_only_vector="INSERT INTO {table} (item, vector) SELECT id, ? FROM milepost_items WHERE ns"
    " = ? AND key = ? AND NOT EXISTS (SELECT 1 FROM {table} v WHERE v.item = milepost_items.id)",
)

SEARCH: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM milepost_items i"
    " WHERE {where} ORDER BY {order} LIMIT ? + 0 OFFSET ?"
)
# SQLite sorts whole rows. Without the values they are much smaller.
SEARCH_IDS_FIRST: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM (SELECT i.id AS"
    " found FROM milepost_items i WHERE {where} ORDER BY {order} LIMIT ? + 0 OFFSET ?) JOIN"
    " milepost_items i ON i.id = found ORDER BY {order}"
)
# Many items are below the prefix, and perhaps enough of those that changed last are wanted. With a
# subquery, SQLite would read all of it before it sorts.
SEARCH_NEWEST: Final = (
    "SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM milepost_items i"
    " INDEXED BY milepost_items_updated WHERE i.updated > ifnull((SELECT updated FROM"
    " milepost_items ORDER BY updated DESC LIMIT 1 OFFSET ?), 0) AND {where} ORDER BY {order}"
    " LIMIT ? + 0 OFFSET ?"
)
# In one namespace the index has the order, so that the search ends with its page. If there are
# others below it, the last row is empty, and says that the rest is not what was asked for.
SEARCH_LEVEL: Final = (
    "SELECT * FROM (SELECT i.ns, i.key, i.kind, i.data, i.created, i.updated, i.id, i.ttl FROM"
    " milepost_items i INDEXED BY milepost_items_newest WHERE i.ns = ? AND {where} ORDER BY"
    " {order} LIMIT ? + 0 OFFSET ?) UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
    " NULL WHERE EXISTS (SELECT 1 FROM milepost_items WHERE ns > ? AND ns < ?)"
)
