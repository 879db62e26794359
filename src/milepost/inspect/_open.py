"""Databases by their addresses, opened for reading unless writing is asked for."""

from __future__ import annotations

import os
import sqlite3
import threading
import warnings
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from milepost._db.addresses import is_postgres, is_redis, sqlite_file, without_password
from milepost._db.dialect import POSTGRES, SQLITE
from milepost._db.operations import rows_of
from milepost.inspect._database import Database
from milepost.inspect._errors import CannotOpenError, told_plainly
from milepost.inspect._stored import serde_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from milepost._db.dialect import Dialect
    from milepost.checkpoint.postgres import PostgresSaver
    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.checkpoint.sqlite import SqliteSaver
    from milepost.inspect._database import Kind

VARIABLE: Final = "MILEPOST_DB"
"""The environment variable that names a database."""


def open_database(
    url: str | os.PathLike[str] | None = None,
    *,
    write: bool = False,
    create: bool = False,
    serde: SerializerProtocol | None = None,
) -> Database:
    """The database at an address.

    If MILEPOST_AES_KEY is set, values that are sealed with that key are opened.

    Args:
        url: `sqlite:///file.db`, a bare path to a file, `postgresql://…` or `redis://…` (`rediss`,
            `valkey`, `unix`; `redis+cluster` for a cluster); without one, the address in
            MILEPOST_DB.
        write: Whether it may be changed.
        create: With `write`: make a file or tables that are not there.
        serde: The serializer that it was written with, if that is not the usual one.

    Raises:
        CannotOpenError: There is no database, or none of a kind that is known.

    Examples:
        >>> with inspect.open_database("sqlite:///agent.db", write=True, create=True) as other:
        ...     inspect.threads(other).total
        0
    """
    url = os.environ.get(VARIABLE) if url is None else os.fspath(url)
    if not url:
        raise CannotOpenError(
            "Which database? Give its address (sqlite:///file.db, a path, postgresql://… or "
            f"redis://…), or set {VARIABLE}."
        )
    with told_plainly(without_password(url)):
        if is_postgres(url):
            return _open_postgres(url, write, create, serde)
        if is_redis(url):
            return _open_redis(url, write, serde)
        if "://" not in url or url.startswith(("sqlite://", "file://")):
            return _open_sqlite(url, write, create, serde)
    raise CannotOpenError(
        f"'{without_password(url)}' names no database: write sqlite:///file.db, a path to a file, "
        "postgresql://user@host/name or redis://host."
    )


def _open_sqlite(url: str, write: bool, create: bool, serde: SerializerProtocol | None) -> Database:
    named = sqlite_file(url)
    path = url.removeprefix("file://") if named is None else named
    shown = url if "://" in url else f"sqlite:///{path}"
    if not os.path.exists(path):
        if not (write and create):
            raise CannotOpenError(f"There is no file '{without_password(path)}'.")
    elif not os.path.isfile(path):
        raise CannotOpenError(f"'{path}' is not a file.")
    try:
        connection = _connect_sqlite(path, write)
        found = _columns_or_langgraph(connection, SQLITE, shown, write and create)
    except sqlite3.DatabaseError as error:
        raise CannotOpenError(
            f"{shown} cannot be read as a SQLite database ({error}). If it is one, it is damaged: "
            "restore it from a backup, or try `.recover` of SQLite's own shell."
        ) from error
    if isinstance(found, Database):
        return found
    from milepost.checkpoint.sqlite import SqliteSaver

    with _closed_on_error(connection):
        saver = SqliteSaver(connection, serde=serde_for(serde))
        if write:
            saver.setup()
    return _ours(saver, SQLITE, shown, write, serde, "milepost.store.sqlite:SqliteStore")


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


def _open_postgres(
    url: str, write: bool, create: bool, serde: SerializerProtocol | None
) -> Database:
    from milepost._db.postgres.engine import Settings, driver
    from milepost._db.postgres.errors import connecting
    from milepost._db.postgres.sync import PostgresEngine
    from milepost.checkpoint._sql.schema import TABLES
    from milepost.checkpoint.postgres import PostgresSaver

    def connect() -> Any:
        made = driver.connect(url, autocommit=True, prepare_threshold=None, connect_timeout=15)
        if not write:
            # For all that this connection does: the server refuses every change.
            made.execute("SET default_transaction_read_only = on")
        return made

    with connecting():
        connection = connect()
    shown = without_password(url)
    found = _columns_or_langgraph(connection, POSTGRES, shown, write and create)
    if isinstance(found, Database):
        return found
    with _closed_on_error(connection):
        saver = PostgresSaver(connection, serde=serde_for(serde), pooler_safe=True)
        settings = Settings(None, True, TABLES, type(saver).__name__)
        saver.engine = PostgresEngine(connection, settings, reconnect=connect)
        if not found:
            saver.setup()
    return _ours(saver, POSTGRES, shown, write, serde, "milepost.store.postgres:PostgresStore")


@contextmanager
def _closed_on_error(connection: Any) -> Iterator[None]:
    with ExitStack() as stack:
        stack.callback(connection.close)
        yield
        stack.pop_all()


def _columns_or_langgraph(
    connection: Any, dialect: Dialect, url: str, create: bool
) -> set[str] | Database:
    """The columns of milepost's table of checkpoints, none if it is still to be made; the database
    if the table is LangGraph's. An error closes the connection."""
    with _closed_on_error(connection):
        rows = connection.execute(dialect.placed(dialect.columns), ("checkpoints",)).fetchall()
        columns = {row[0] for row in rows}
        if not columns and not create:
            raise CannotOpenError(
                f"{url} holds no threads: it has no table 'checkpoints'. Is it the right database?"
            )
        is_theirs = {"checkpoint_ns", "checkpoint", "metadata"} <= columns
        if columns and "frame" not in columns and not is_theirs:
            raise CannotOpenError(
                f"{url} has a table 'checkpoints' that is neither milepost's nor LangGraph's "
                "(since 0.2)."
            )
    if not columns or "frame" in columns:
        return columns
    from milepost.inspect._langgraph import DataSerializer, LangGraphSource
    from milepost.integrations.langgraph._formats.tables import PostgresReader, SqliteReader

    lock = threading.Lock()

    def execute(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with lock, told_plainly("the database"):
            rows: list[tuple[Any, ...]] = connection.execute(dialect.placed(sql), values).fetchall()
            return rows

    kind = SqliteReader if dialect is SQLITE else PostgresReader
    reader = kind(execute, DataSerializer(unseals=True))
    return Database(
        reader,
        url=url,
        kind=cast("Kind", dialect.name),
        flavour="langgraph",
        source=LangGraphSource(reader),
        reader=reader,
        close=connection.close,
    )


def _ours(
    saver: SqliteSaver | PostgresSaver,
    dialect: Dialect,
    url: str,
    write: bool,
    serde: SerializerProtocol | None,
    store: str,
) -> Database:
    """The database of a saver. Its store, `module:Class`, is opened when it is first asked for."""
    engine = saver.engine

    def open_store(create: bool) -> Any:
        columns = partial(rows_of, dialect.placed(dialect.columns), ("milepost_items",))
        if not create and not engine.run(columns, write=False):
            return None
        module, _, name = store.partition(":")
        opened = getattr(import_module(module), name)(engine, serde=serde_for(serde))
        if create:
            opened.setup()
        return opened

    return Database(
        saver,
        url=url,
        kind=cast("Kind", dialect.name),
        writable=write,
        open_store=open_store,
        close=engine.close,
    )


def _open_redis(url: str, write: bool, serde: SerializerProtocol | None) -> Database:
    from milepost._db.redis.client import make_client
    from milepost.checkpoint.redis import RedisSaver

    client = make_client(url, is_async=False)
    # To read, it does not matter what the server does with its memory and its disk.
    saver = RedisSaver(
        redis_client=client, serde=serde_for(serde), allow_eviction=not write, wait_aof=write
    )
    with _closed_on_error(client), warnings.catch_warnings():
        if not write:
            warnings.simplefilter("ignore", RuntimeWarning)
        try:
            saver.setup()
        except TypeError as error:  # of the client, which takes every parameter for its own
            raise CannotOpenError(
                f"{without_password(url)}: a parameter of the address is unknown: {error}."
            ) from error

    def open_store(create: bool) -> Any:
        from milepost.store.redis import RedisStore

        found = RedisStore(client, serde=serde_for(serde), allow_eviction=not write)
        # There are no tables that would show whether a program keeps a store here.
        return found if create or found.list_namespaces(limit=1) else None

    return Database(
        saver,
        url=without_password(url),
        kind="redis",
        writable=write,
        open_store=open_store,
        close=client.close,
    )
