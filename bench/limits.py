"""The physical limit: what it takes to make one row durable, with nothing around it.

`LIMIT` is what anybody pays who stores a row with the database's own module. `AT_BEST` is what can
be had with more trouble: on SQLite a log that was full once, so that it need not become longer, on
Postgres a call of libpq instead of a cursor. The targets speak of the first. milepost does the
second on Postgres, and is measured by both.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from bench.measure import Reading, Watch, mean

AT_BEST = "limit at best"
ROW = b"x" * 320
"""What a small step stores."""
_INSERT = "INSERT INTO rows VALUES (?, ?)"


def sqlite_commits(path: Path, count: int, *, room: bool = False) -> Reading:
    """Transactions of one row each, with a log and an fsync for every commit."""
    watch = Watch()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, data BLOB)")
        if room:
            # A log is written over from its start once all that is in it is in the file too.
            connection.execute("PRAGMA wal_autocheckpoint=0")
            connection.execute(_INSERT, (-1, bytes(5000 * count)))
            connection.execute("PRAGMA wal_checkpoint(RESTART)")
            connection.execute(_INSERT, (-2, ROW))
        with watch.over(count):
            for number in range(count):
                connection.execute(_INSERT, (number, ROW))
    return mean(watch.readings)


def postgres_commits(address: str, count: int, *, cursor: bool = True) -> Reading:
    """Transactions of one row each, each a single round trip."""
    import psycopg

    watch = Watch()
    with psycopg.connect(address, autocommit=True, prepare_threshold=0) as connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, data BYTEA)")
        connection.pgconn.prepare(b"add", b"INSERT INTO rows VALUES ($1, $2)", [23, 17])
        with watch.over(count):
            for number in range(count):
                if cursor:
                    connection.execute("INSERT INTO rows VALUES (%s, %s)", (number, ROW))
                else:
                    connection.pgconn.exec_prepared(b"add", [b"%d" % number, ROW], [0, 1])
    return mean(watch.readings)
