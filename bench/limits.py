"""The physical limit: what it takes to make one row durable, with nothing around it.

`LIMIT` is what a program pays that stores a row with the database's own module, in a database that
has been in use: its log was full once and is written over, so that no commit makes it longer.
`AT_BEST` is what can be had on Postgres with more trouble: a call of libpq instead of a cursor. The
targets speak of the first. milepost does the second, and is measured by both.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.measure import Reading, Watch, mean

AT_BEST = "limit at best"
ROW = b"x" * 320
"""What a small step stores."""
_INSERT = "INSERT INTO rows VALUES (?, ?)"


_LOG = 5_000_000
"""Bytes of one commit that fills SQLite's log (1,000 pages) at once."""


def use_sqlite(path: Path) -> None:
    """Fill the log of a database that is open elsewhere, so that it is written over from its start.

    SQLite does that once all that is in the log is in the file too. The log of a file that is open
    nowhere else would be removed at the end of this.
    """
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
        connection.execute("CREATE TABLE bench_use (data BLOB)")
        connection.execute("INSERT INTO bench_use VALUES (?)", (bytes(_LOG),))
        connection.execute("DROP TABLE bench_use")
        connection.execute("PRAGMA wal_checkpoint(RESTART)")


def sqlite_commits(path: Path, count: int) -> Reading:
    """Transactions of one row each, with a log and an fsync for every commit."""
    watch = Watch()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, data BLOB)")
        use_sqlite(path)
        connection.execute(_INSERT, (-1, ROW))
        with watch.over(count):
            for number in range(count):
                connection.execute(_INSERT, (number, ROW))
    return mean(watch.readings)


def use_postgres(connection: Any) -> None:
    """Have the server write its log over from now on: it makes its first files as it goes."""
    connection.execute("CREATE TABLE bench_use (data BYTEA)")
    for _ in range(3):
        connection.execute(
            "INSERT INTO bench_use SELECT convert_to(repeat(md5(n::text), 40), 'UTF8')"
            " FROM generate_series(1, 20000) n"
        )
        connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
    connection.execute("DROP TABLE bench_use")


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
