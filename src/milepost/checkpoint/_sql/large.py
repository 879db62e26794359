"""Where SQLite keeps large values.

SQLite stores the rows of `checkpoint_blobs` in key order, and a search reads each row that it
compares as a whole. With rows of a megabyte, searching takes longer than all the rest. So a large
value is stored in `checkpoint_large`, and the column `blob` has its number. Statements read and add
values through the view `checkpoint_values`, which shows each value in its row. Statements that
delete rows, or compact them, use the table itself. Readers fetch the largest values by their
numbers, from the view `checkpoint_held`: a query would copy these values twice.

PostgreSQL itself moves large values out of its tables.
"""

from __future__ import annotations

from typing import Final

_LARGE: Final = 750
"""Bytes up to which a value stays in its row. Such a row with its key fits into its page."""

_LARGEST: Final = 128 * 1024
"""Bytes from which memory is taken from the system, and given back, for each copy."""
DATA: Final = ("checkpoint_large", "data")
"""The table and the column."""

_KEY = "thread_id = {0}.thread_id AND checkpoint_ns = {0}.checkpoint_ns"
_ROW = f"{_KEY} AND channel = {{0}}.channel AND version = {{0}}.version"
_NEW, _OLD = _ROW.format("new"), _ROW.format("old")
_STORED = f"CASE WHEN LENGTH(new.blob) > {_LARGE} THEN LAST_INSERT_ROWID() ELSE new.blob END"
_IS_NUMBER = "TYPEOF(old.blob) = 'integer'"


def _view(name: str, case: str) -> str:
    # A number without a value reads as no bytes, which then fail to unseal. A subquery instead of
    # the join would copy the value once more.
    return f"""CREATE VIEW IF NOT EXISTS {name} AS
        SELECT thread_id, checkpoint_ns, channel, version, base_channel, base, level, type,
            CASE {case}WHEN large.id IS NOT NULL THEN large.data
                WHEN TYPEOF(blob) = 'integer' THEN x'' ELSE blob END AS blob
        FROM checkpoint_blobs LEFT JOIN checkpoint_large AS large ON large.id = blob"""


_STATEMENTS: Final = (
    "CREATE TABLE IF NOT EXISTS checkpoint_large (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    _view("checkpoint_values", ""),
    _view("checkpoint_held", f"WHEN LENGTH(large.data) > {_LARGEST} THEN large.id "),
    f"""CREATE TRIGGER IF NOT EXISTS checkpoint_values_add INSTEAD OF INSERT ON checkpoint_values
        BEGIN
            INSERT INTO checkpoint_large (data) SELECT new.blob WHERE LENGTH(new.blob) > {_LARGE}
                AND NOT EXISTS (SELECT 1 FROM checkpoint_blobs WHERE {_NEW});
            INSERT INTO checkpoint_blobs
                SELECT new.thread_id, new.checkpoint_ns, new.channel, new.version,
                    new.base_channel, new.base, new.level, new.type, {_STORED}
                WHERE TRUE ON CONFLICT DO NOTHING;
        END""",
    f"""CREATE TRIGGER IF NOT EXISTS checkpoint_values_change
        INSTEAD OF UPDATE ON checkpoint_values
        BEGIN
            INSERT INTO checkpoint_large (data) SELECT new.blob WHERE LENGTH(new.blob) > {_LARGE};
            UPDATE checkpoint_blobs SET base_channel = new.base_channel, base = new.base,
                level = new.level, type = new.type, blob = {_STORED} WHERE {_OLD};
        END""",
    f"""CREATE TRIGGER IF NOT EXISTS checkpoint_blobs_changed
        AFTER UPDATE OF blob ON checkpoint_blobs WHEN {_IS_NUMBER} AND new.blob IS NOT old.blob
        BEGIN DELETE FROM checkpoint_large WHERE id = old.blob; END""",
    f"""CREATE TRIGGER IF NOT EXISTS checkpoint_blobs_deleted
        AFTER DELETE ON checkpoint_blobs WHEN {_IS_NUMBER}
        BEGIN DELETE FROM checkpoint_large WHERE id = old.blob; END""",
)

LARGE: Final = tuple(("sqlite", statement) for statement in _STATEMENTS)
"""Migrations for SQLite alone, after the tables."""
