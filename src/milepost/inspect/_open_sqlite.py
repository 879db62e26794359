"""Databases in SQLite files."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import ExitStack
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from milepost._db.addresses import sqlite_file
from milepost.inspect._errors import CannotOpenError, told_plainly
from milepost.inspect._opening_parts import langgraphs_or_none, ours, serde_for, store_opener

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.inspect._database import Database
    from milepost.inspect._langgraph import Execute
    from milepost.store.sqlite import SqliteStore


def open_sqlite_file(
    url: str, write: bool, create: bool, serde: SerializerProtocol | None
) -> Database:
    named = sqlite_file(url)
    path = url.removeprefix("file://") if named is None else named
    shown = url if "://" in url else f"sqlite:///{path}"
    if not os.path.exists(path):
        if not (write and create):
            raise CannotOpenError(f"There is no file '{path}'.")
    elif not os.path.isfile(path):
        raise CannotOpenError(f"'{path}' is not a file.")
    stack = ExitStack()
    try:
        connection = _connect_sqlite(path, write)
        stack.callback(connection.close)
        columns = {row[0] for row in connection.execute(_SQLITE_COLUMNS)}
        execute = _on_sqlite(connection)
        create = write and create
        theirs = langgraphs_or_none(columns, execute, shown, "sqlite", stack, create=create)
    except sqlite3.DatabaseError as error:
        stack.close()
        raise CannotOpenError(
            f"{shown} cannot be read as a SQLite database ({error}). If it is one, it is damaged: "
            "restore it from a backup, or try `milepost salvage`."
        ) from error
    except BaseException:
        stack.close()
        raise
    if theirs is not None:
        return theirs
    from milepost.checkpoint.sqlite import SqliteSaver

    saver = SqliteSaver(connection, serde=serde_for(serde))
    stack.pop_all()
    stack.callback(saver.engine.close)
    if write:
        saver.setup()

    def make() -> SqliteStore:
        from milepost.store.sqlite import SqliteStore

        return SqliteStore(saver.engine, serde=serde_for(serde))

    store = store_opener(make, lambda: bool(connection.execute(_SQLITE_STORE).fetchone()))
    return ours(saver, store, shown, "sqlite", write, stack)


_SQLITE_COLUMNS: Final = "SELECT name FROM pragma_table_info('checkpoints')"
_SQLITE_STORE: Final = "SELECT 1 FROM sqlite_master WHERE name = 'milepost_items'"


def _connect_sqlite(path: str, write: bool) -> sqlite3.Connection:
    from milepost._db.sqlite.engine import open_sqlite

    if write:
        return open_sqlite(path)
    address = f"file:{quote(FilePath(path).absolute().as_posix())}?mode=ro"
    connection = open_sqlite(address)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
            raise
        # A database in WAL mode needs a file beside it. In a folder that cannot be written to, no
        # other process can change the database either.
        if os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
            raise CannotOpenError(
                f"'{path}' has a log beside it ('{path}-wal') that SQLite cannot read in a folder "
                "that it cannot write to; without it the latest steps would be missing. Copy both "
                "to another folder, and open the copy."
            ) from None
        return open_sqlite(f"{address}&immutable=1")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _on_sqlite(connection: sqlite3.Connection) -> Execute:
    lock = threading.Lock()

    def execute(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with lock, told_plainly("the database"):
            return [tuple(row) for row in connection.execute(sql, tuple(values))]

    return execute
