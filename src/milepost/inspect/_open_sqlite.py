"""Databases in SQLite files."""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from milepost._db.addresses import sqlite_file
from milepost.inspect._database import langgraph_database, milepost_database
from milepost.inspect._errors import CannotOpenError
from milepost.inspect._stored import serde_for

if TYPE_CHECKING:
    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.inspect._database import Database


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
    try:
        with ExitStack() as stack:
            connection = _connect_sqlite(path, write)
            stack.callback(connection.close)
            columns = {row[0] for row in connection.execute(_COLUMNS)}
            langgraph = langgraph_database(
                columns, connection.execute, shown, "sqlite", connection.close, write and create
            )
            stack.pop_all()  # no error: the connection stays open
    except sqlite3.DatabaseError as error:
        raise CannotOpenError(
            f"{shown} cannot be read as a SQLite database ({error}). If it is one, it is damaged: "
            "restore it from a backup, or try `milepost salvage`."
        ) from error
    if langgraph is not None:
        return langgraph
    from milepost.checkpoint.sqlite import SqliteSaver

    saver = SqliteSaver(connection, serde=serde_for(serde))
    if write:
        saver.setup()

    def open_store(create: bool) -> Any:
        if not create and not connection.execute(_STORE_TABLE).fetchone():
            return None
        from milepost.store.sqlite import SqliteStore

        store = SqliteStore(saver.engine, serde=serde_for(serde))
        if create:
            store.setup()
        return store

    return milepost_database(saver, open_store, shown, "sqlite", write, saver.engine.close)


_COLUMNS: Final = "SELECT name FROM pragma_table_info('checkpoints')"
_STORE_TABLE: Final = "SELECT 1 FROM sqlite_master WHERE name = 'milepost_items'"


def _connect_sqlite(path: str, write: bool) -> sqlite3.Connection:
    from milepost._db.sqlite.engine import open_sqlite

    if write:
        return open_sqlite(path)
    address = f"file:{quote(FilePath(path).absolute().as_posix())}?mode=ro"
    connection = open_sqlite(address)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        is_writable = os.access(os.path.dirname(os.path.abspath(path)), os.W_OK)
        if is_writable or not isinstance(error, sqlite3.OperationalError):
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
    return connection
