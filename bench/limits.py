"""The physical limit: the least that a database takes to make something durable."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from bench.measure import Watch

ROW = b"x" * 200
"""About what a small step stores."""


def sqlite_commits(watch: Watch, path: Path, count: int) -> None:
    """Transactions of one row each, with a log and an fsync for every commit."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, data BLOB)")
    with watch.over(count):
        for number in range(count):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO rows VALUES (?, ?)", (number, ROW))
            connection.execute("COMMIT")
    connection.close()


def postgres_commits(watch: Watch, address: str, count: int) -> None:
    """Transactions of one row each, each a single round trip."""
    import psycopg

    with psycopg.connect(address, autocommit=True, prepare_threshold=0) as connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, data BYTEA)")
        with watch.over(count):
            for number in range(count):
                connection.execute("INSERT INTO rows VALUES (%s, %s)", (number, ROW))
