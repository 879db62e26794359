"""Databases by their addresses, opened for reading unless writing is asked for."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import warnings
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import quote

from milepost.errors import (
    BrokenChainError,
    ConnectionUnusableError,
    DatabaseBusyError,
    ForeignDatabaseError,
    MilepostError,
    MissingDependencyError,
    NotSetUpError,
    SaverError,
    SerdeError,
)
from milepost.inspect._errors import CannotOpenError, DamagedError, InspectError, ReadOnlyError
from milepost.inspect._sources import PlainSource, Source, SqlSource
from milepost.inspect._stored import data_saver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.inspect._langgraph import Execute, LangGraphReader

Kind = Literal["sqlite", "postgres", "redis", "memory"]
Flavour = Literal["milepost", "langgraph"]

VARIABLE: Final = "MILEPOST_DB"
"""The environment variable that names a database."""


class Database:
    """An open database: what is stored in it, and how it may be used."""

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any],
        *,
        url: str,
        kind: Kind,
        flavour: Flavour = "milepost",
        writable: bool = False,
        store: Any = None,
        source: Source,
        reader: BaseCheckpointSaver[Any] | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.saver = saver
        """The saver, with a program's own types: for graphs that go on with a thread."""
        self.reader: Any = data_saver(saver) if reader is None else reader
        """The same storage, read as data: no class of a program is needed."""
        self.source = source
        self.url = url
        """The address, without a password."""
        self.kind: Kind = kind
        self.flavour: Flavour = flavour
        self.writable = writable
        self.store = store
        """The store in the same database; None if there is none."""
        self._close = close

    @classmethod
    def of(
        cls, saver: BaseCheckpointSaver[Any], store: Any = None, *, writable: bool = True
    ) -> Database:
        """A database that is open already, such as a saver in memory."""
        from milepost.checkpoint._sql.saver import SqlSaver

        if isinstance(saver, SqlSaver):
            kind: Kind = "sqlite" if saver.dialect.name == "sqlite" else "postgres"
            reader: Any = data_saver(saver)
            source: Source = SqlSource(reader)
        else:
            in_redis = type(saver).__name__.endswith("RedisSaver")
            kind, reader = "redis" if in_redis else "memory", data_saver(saver)
            source = PlainSource(reader)
        return cls(
            saver,
            url=f"{kind}:",
            kind=kind,
            writable=writable,
            store=store,
            source=source,
            reader=reader,
        )

    def close(self) -> None:
        """Close what was opened for this database."""
        close, self._close = self._close, None
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Database {self.url} ({self.flavour}, {'write' if self.writable else 'read'})>"

    def check_writable(self, what: str) -> None:
        """Raise ReadOnlyError unless the database may be changed."""
        if self.flavour == "langgraph":
            raise ReadOnlyError(
                f"{what} would change {self.url}, which is LangGraph's: such databases are only "
                "read. Copy its threads with `milepost import --from-langgraph`."
            )
        if not self.writable:
            raise ReadOnlyError(
                f"{what} would change {self.url}, which was opened for reading. Open it with "
                "write=True (the page: --write)."
            )


def open_database(
    url: str | None = None,
    *,
    write: bool = False,
    create: bool = False,
    serde: SerializerProtocol | None = None,
) -> Database:
    """The database at an address; without one, at the address in MILEPOST_DB.

    An address is `sqlite:///file.db`, a bare path to a file, or `postgresql://…`. Without `write`
    nothing in it can be changed. With `create` (and `write`) a file or tables that are not there
    are made. `serde` is the serializer that it was written with, if that is not the usual one; if
    MILEPOST_AES_KEY is set, values that are sealed with that key are opened.
    """
    if url is None:
        url = os.environ.get(VARIABLE)
    if not url:
        raise CannotOpenError(
            "Which database? Give its address (sqlite:///file.db, a path, or postgresql://…), or "
            f"set {VARIABLE}."
        )
    scheme = url.partition("://")[0] if "://" in url else "sqlite"
    with told_plainly(hidden(url)):
        if scheme in ("postgres", "postgresql"):
            return _open_postgres(url, write, create, serde)
        if scheme in ("redis", "rediss", "valkey"):
            return _open_redis(url, write, create, serde)
        if scheme in ("sqlite", "file"):
            return _open_sqlite(url, write, create, serde)
    raise CannotOpenError(
        f"'{hidden(url)}' names no database: write sqlite:///file.db, a path to a file, or "
        "postgresql://user@host/name."
    )


def hidden(url: str) -> str:
    """An address without its password."""
    url = re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", url)
    return re.sub(r"(?i)(password=)[^&\s]*", r"\1***", url)


_UNREACHABLE: Final = (
    ConnectionUnusableError,
    DatabaseBusyError,
    ForeignDatabaseError,
    NotSetUpError,
)


@contextmanager
def told_plainly(what: str) -> Iterator[None]:
    """Errors of databases as errors that say what to do."""
    try:
        yield
    except InspectError:
        raise
    except (SerdeError, BrokenChainError) as error:
        raise DamagedError(f"{what}: {error}") from error
    except _UNREACHABLE as error:
        raise CannotOpenError(f"{what}: {error}") from error
    except SaverError as error:
        # Of what is read, only the files themselves can be the cause.
        raise DamagedError(f"{what}: {error}") from error
    except MissingDependencyError:
        raise
    except MilepostError as error:
        raise InspectError(str(error)) from error
    except sqlite3.Error as error:
        raise CannotOpenError(f"{what}: SQLite says: {error}.") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("psycopg", "redis", "valkey"):
            said = str(error).strip() or type(error).__name__
            raise CannotOpenError(f"{what}: the database says: {said}") from error
        raise


# -- SQLite


def sqlite_path(url: str) -> str:
    """The file that an address means: sqlite:///relative.db, sqlite:////absolute.db, or a path."""
    if url.startswith("sqlite://"):
        rest = url.removeprefix("sqlite://")
        return rest.removeprefix("/") if rest.startswith("/") else rest
    return url.removeprefix("file://")


def _open_sqlite(url: str, write: bool, create: bool, serde: SerializerProtocol | None) -> Database:
    path = sqlite_path(url)
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
        if columns and "frame" not in columns:
            _check_langgraph(shown, columns)
            return _langgraph(_on_sqlite(connection), shown, "sqlite", stack)
        if not columns and not (write and create):
            raise _no_tables(shown)
    except sqlite3.DatabaseError as error:
        stack.close()
        raise CannotOpenError(
            f"{shown} cannot be read as a SQLite database ({error}). If it is one, it is damaged: "
            "restore it from a backup, or try `milepost salvage`."
        ) from error
    except BaseException:
        stack.close()
        raise
    from milepost.checkpoint.sqlite import SqliteSaver

    saver = SqliteSaver(connection, serde=serde_for(serde))
    stack.pop_all()
    stack.callback(saver.engine.close)
    store = None
    if connection.execute(_SQLITE_STORE).fetchone():
        from milepost.store.sqlite import SqliteStore

        store = SqliteStore(saver.engine, serde=_sealed_or_none(serde))
    if write:
        saver.setup()
    return _ours(saver, store, shown, "sqlite", write, stack)


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
    except sqlite3.DatabaseError as error:
        connection.close()
        if not isinstance(error, sqlite3.OperationalError) or os.access(
            os.path.dirname(os.path.abspath(path)), os.W_OK
        ):
            raise
        # A database in WAL mode needs a file beside it. In a folder that cannot be written to, no
        # other process can change the database either.
        return open_sqlite(f"{address}&immutable=1")
    return connection


def _on_sqlite(connection: sqlite3.Connection) -> Execute:
    lock = threading.Lock()

    def execute(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with lock, told_plainly("the database"):
            return [tuple(row) for row in connection.execute(sql, tuple(values))]

    return execute


# -- PostgreSQL


def _open_postgres(
    url: str, write: bool, create: bool, serde: SerializerProtocol | None
) -> Database:
    try:
        from milepost._db.postgres.engine import Settings, connecting, driver
        from milepost._db.postgres.sync import PostgresEngine
        from milepost.checkpoint._sql.schema import TABLES
        from milepost.checkpoint.postgres import PostgresSaver
    except ImportError as error:
        raise MissingDependencyError(
            "PostgreSQL needs a driver: pip install 'milepost[postgres]'"
        ) from error

    def connect() -> Any:
        made = driver.connect(url, autocommit=True, prepare_threshold=None, connect_timeout=15)
        if not write:
            # For all that this connection does: the server refuses every change.
            made.execute("SET default_transaction_read_only = on")
        return made

    with connecting():
        connection = connect()
    shown = hidden(url)
    stack = ExitStack()
    stack.callback(connection.close)
    try:
        columns = {row[0] for row in connection.execute(_POSTGRES_COLUMNS).fetchall()}
        if columns and "frame" not in columns:
            _check_langgraph(shown, columns)
            return _langgraph(_on_postgres(connection), shown, "postgres", stack)
        if not columns and not (write and create):
            raise _no_tables(shown)
        has_store = connection.execute("SELECT to_regclass('milepost_items')").fetchone()[0]
    except BaseException:
        stack.close()
        raise
    saver = PostgresSaver(connection, serde=serde_for(serde), pooler_safe=True)
    saver.engine = PostgresEngine(connection, Settings(None, True, TABLES), reconnect=connect)
    stack.pop_all()
    stack.callback(saver.engine.close)
    if not columns:
        saver.setup()
    store = None
    if has_store is not None:
        from milepost.store.postgres import PostgresStore

        store = PostgresStore(saver.engine, serde=_sealed_or_none(serde))
    return _ours(saver, store, shown, "postgres", write, stack)


_POSTGRES_COLUMNS: Final = (
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('checkpoints') AND attnum > 0"
    " AND NOT attisdropped"
)


def _on_postgres(connection: Any) -> Execute:
    lock = threading.Lock()

    def execute(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with lock, told_plainly("the database"):
            rows: list[tuple[Any, ...]] = connection.execute(
                sql.replace("%", "%%").replace("?", "%s"), tuple(values)
            ).fetchall()
            return rows

    return execute


# -- Redis


def _open_redis(url: str, write: bool, create: bool, serde: SerializerProtocol | None) -> Database:
    del create  # there are no tables to be made
    try:
        saver_class: Any = import_module("milepost.checkpoint.redis").RedisSaver
    except ImportError as error:
        raise MissingDependencyError(
            "Redis needs a client: pip install 'milepost[redis]'"
        ) from error
    stack = ExitStack()
    saver = stack.enter_context(saver_class.from_conn_string(url, serde=serde_for(serde)))
    try:
        with warnings.catch_warnings():
            if not write:  # how durable a step would be is of no interest
                warnings.simplefilter("ignore", RuntimeWarning)
            saver.setup()
    except BaseException:
        stack.close()
        raise
    reader = data_saver(saver)
    return Database(
        saver,
        url=hidden(url),
        kind="redis",
        writable=write,
        source=PlainSource(reader),
        reader=reader,
        close=stack.close,
    )


# -- parts


def serde_for(serde: SerializerProtocol | None) -> SerializerProtocol | None:
    """The serializer to read with: the given one, or one with the key in MILEPOST_AES_KEY.

    With a key, what is stored in clear is read too: the key may be meant for another database.
    """
    if serde is not None or not os.environ.get("MILEPOST_AES_KEY"):
        return serde
    from milepost.checkpoint.serde.encrypted import EncryptedSerializer

    return EncryptedSerializer.from_pycryptodome_aes(allow_plaintext=True)


def _sealed_or_none(serde: SerializerProtocol | None) -> SerializerProtocol | None:
    return serde_for(serde)


def _ours(saver: Any, store: Any, url: str, kind: Kind, write: bool, stack: ExitStack) -> Database:
    reader = data_saver(saver)
    return Database(
        saver,
        url=url,
        kind=kind,
        writable=write,
        store=store,
        source=SqlSource(reader),  # type: ignore[arg-type]
        reader=reader,
        close=stack.close,
    )


def _langgraph(execute: Execute, url: str, kind: Kind, stack: ExitStack) -> Database:
    from milepost.inspect._langgraph import LangGraphSource, PostgresReader, SqliteReader

    reader: LangGraphReader
    reader = SqliteReader(execute) if kind == "sqlite" else PostgresReader(execute)
    return Database(
        reader,
        url=url,
        kind=kind,
        flavour="langgraph",
        source=LangGraphSource(reader),
        reader=reader,
        close=stack.close,
    )


def _check_langgraph(url: str, columns: set[str]) -> None:
    if not {"checkpoint_ns", "checkpoint", "metadata"} <= columns:
        raise CannotOpenError(
            f"{url} has a table 'checkpoints' that is neither milepost's nor LangGraph's (since "
            "0.2)."
        )


def _no_tables(url: str) -> CannotOpenError:
    return CannotOpenError(
        f"{url} holds no threads: it has no table 'checkpoints'. Is it the right database?"
    )
