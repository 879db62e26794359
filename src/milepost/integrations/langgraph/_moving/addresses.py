"""Opens the databases that a move reads and writes, by their addresses.

The address of a database of langgraph-checkpoint-redis, which is only read, may say under which
prefixes a program has kept its keys, if they are not the usual ones:
`?checkpoint_prefix=…&checkpoint_write_prefix=…&store_prefix=…`.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Any, Final

from milepost._db.addresses import is_postgres, is_redis, sqlite_file, without_password
from milepost._db.dialect import POSTGRES, SQLITE
from milepost._db.redis.client import make_client, without_parameters
from milepost._internal.supported import needed
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import MilepostError, MissingDependencyError
from milepost.integrations.langgraph._formats.decoding import StrictSerializer
from milepost.integrations.langgraph._formats.tables import (
    Execute,
    PostgresReader,
    SqliteReader,
)
from milepost.integrations.langgraph._moving.items import (
    ItemDatabase,
    LangGraphPostgresItems,
    LangGraphSqliteItems,
    MilepostItems,
)
from milepost.integrations.langgraph._moving.redis_documents import Documents, RedisValues
from milepost.integrations.langgraph._moving.redis_items import OurRedisItems, RedisItems
from milepost.integrations.langgraph._moving.redis_threads import RedisThreads
from milepost.integrations.langgraph._moving.sources import BadAddressError, Tables

_DRIVERS: Final = ("psycopg", "redis")
_PREFIXES: Final = {
    "checkpoint_prefix": "checkpoint",
    "checkpoint_write_prefix": "checkpoint_write",
    "store_prefix": "store",
}


@contextmanager
def plain_errors(kind: type[MilepostError] = MilepostError) -> Iterator[None]:
    """Errors of LangGraph's databases as errors of ours, which a command shows in one line."""
    try:
        yield
    except Exception as error:
        if isinstance(error, sqlite3.Error) or type(error).__module__.startswith(_DRIVERS):
            raise kind(f"The database says: {error}") from error
        raise


def check_exists(address: str) -> None:
    """Refuse a file that is not there, which SQLite would make."""
    file = sqlite_file(address)
    if file is not None and not os.path.exists(file):
        raise BadAddressError(f"There is no file '{file}'.")


def bad_address(address: str) -> BadAddressError:
    """The error for an address of another kind."""
    return BadAddressError(
        f"'{without_password(address)}' names no database that this can use: write "
        "sqlite:///file.db or postgresql://user@host/name; an import can also read and write redis://host:6379/0."
    )


@contextmanager
def open_theirs(
    address: str, registry: TypeRegistry | None = None, *, encrypted: bool = False
) -> Iterator[Tables | RedisThreads]:
    """LangGraph's database at an address, for reading only."""
    if encrypted:
        their_sealing()  # a key that is missing is named before anything is read
    serde = StrictSerializer(registry, unseals=encrypted)
    if is_redis(address):
        with their_redis_threads(address, serde) as threads:
            yield threads
        return
    with _connection(address, to_read=True) as connection:
        _check_tables(connection)
        kind = PostgresReader if sqlite_file(address) is None else SqliteReader
        reader = kind(_on(connection), serde)
        yield Tables(reader, reader.execute, reader.paths)


@contextmanager
def their_redis_threads(address: str, serde: StrictSerializer) -> Iterator[RedisThreads]:
    """The threads that langgraph-checkpoint-redis has stored."""
    with _their_documents(address) as (documents, prefixes):
        checkpoints, writes = prefixes["checkpoint_prefix"], prefixes["checkpoint_write_prefix"]
        threads = RedisThreads(documents, RedisValues(serde), (checkpoints, writes))
        is_there = threads.size() or threads.damaged()
        if not is_there and not any(documents.keys(prefixes["store_prefix"])):
            raise BadAddressError(
                f"No key begins with '{checkpoints}:', so langgraph-checkpoint-redis has stored no "
                "thread in this database. See that the address names the right server and the "
                "right number, as in redis://host:6379/0. If the program has chosen a "
                "checkpoint_prefix and a checkpoint_write_prefix, add them to the address: "
                "?checkpoint_prefix=…&checkpoint_write_prefix=…"
            )
        yield threads


@contextmanager
def _their_documents(address: str) -> Iterator[tuple[Documents, dict[str, str]]]:
    """The documents of langgraph-checkpoint-redis, and the prefixes of their keys."""
    url, given = without_parameters(address, _PREFIXES)
    # With the older protocol JSON.GET answers the same whatever the module's version is.
    with closing(make_client(url, is_async=False, protocol=2)) as client:
        yield Documents(client), _PREFIXES | given


def their_sealing() -> Any:
    """LangGraph's serializer with the key in LANGGRAPH_AES_KEY."""
    sealing = needed("langgraph.checkpoint.serde.encrypted").EncryptedSerializer
    try:
        return sealing.from_pycryptodome_aes()
    except ImportError as error:
        raise MissingDependencyError(str(error)) from error
    except ValueError as error:
        raise MilepostError(f"--encrypted: {error}") from error


def _check_tables(connection: Any) -> None:
    """Refuse a database that LangGraph's savers of today cannot read either."""
    there = _columns(connection, "checkpoints")
    if not there and not _columns(connection, "store"):
        raise BadAddressError(
            "The source holds no threads and no store of LangGraph's: it has neither a table "
            "'checkpoints' nor a table 'store'. Is it the right database?"
        )
    if not there:
        # A store alone. Only this connection has what is made here: the source is not changed.
        columns = "thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT"
        _on(connection)(f"CREATE TEMPORARY TABLE checkpoints ({columns})", ())
    elif "checkpoint_ns" not in there:
        raise BadAddressError(
            "The table 'checkpoints' has no column checkpoint_ns: it is not LangGraph's, or older"
            " than LangGraph 0.2, which no later version of it reads either."
        )
    if "frame" in there:
        raise BadAddressError("This database holds threads of milepost, not of LangGraph.")


@contextmanager
def _copied(file: str) -> Iterator[sqlite3.Connection]:
    """A copy of a SQLite file, which stays as it is while programs write to the original."""
    check_exists(f"sqlite:///{file}")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="milepost-import-"))
        copy = sqlite3.connect(os.path.join(folder, "copy.db"), check_same_thread=False)
        stack.enter_context(closing(copy))
        with closing(sqlite3.connect(file)) as original:
            original.backup(copy)
        yield copy


@contextmanager
def their_saver(address: str, *, encrypted: bool = False) -> Iterator[Any]:
    """LangGraph's own saver at an address, for writing."""
    serde = their_sealing() if encrypted else None
    if is_redis(address):
        raise bad_address(address)
    with _opened("langgraph", "checkpoint", address) as saver:
        # Before its tables are made: LangGraph's have the same names.
        if "frame" in _columns(saver.conn, "checkpoints"):
            raise BadAddressError(
                "The target holds threads of milepost, and LangGraph's tables have the same names. "
                "Nothing in it was touched. Export to another database."
            )
        saver.serde = serde or saver.serde
        saver.setup()
        yield saver


@contextmanager
def our_saver(address: str, *, encrypted: bool = False) -> Iterator[BaseCheckpointSaver[Any]]:
    """milepost's saver at an address."""
    # With the key in MILEPOST_AES_KEY, or else with LangGraph's.
    serde = EncryptedSerializer.from_pycryptodome_aes() if encrypted else None
    with _opened("milepost", "checkpoint", address, serde=serde) as saver:
        saver.setup()
        yield saver


@contextmanager
def their_items(
    address: str, *, writing: bool = False
) -> Iterator[ItemDatabase | RedisItems | None]:
    """The store in LangGraph's database; None if there is none and none is to be made."""
    if is_redis(address):
        with _their_documents(address) as (documents, prefixes):
            values = RedisValues(StrictSerializer())
            yield RedisItems(documents, values, prefixes["store_prefix"]) or None
        return
    file = sqlite_file(address)
    database = LangGraphPostgresItems if file is None else LangGraphSqliteItems
    with ExitStack() as stack:
        connection = stack.enter_context(_connection(address, to_read=not writing))
        if not writing:
            there = _columns(connection, "store")
            yield database(None, _on(connection), there) if there else None
            return
        if file is None:
            store = stack.enter_context(_opened("langgraph", "store", address))
        else:
            store = _class("langgraph", "store", "sqlite")(connection)
        store.setup()
        from milepost.integrations.langgraph._adapters.stores import from_langgraph_store

        yield database(from_langgraph_store(store), _on(connection))


@contextmanager
def our_items(
    address: str, *, writing: bool = False
) -> Iterator[ItemDatabase | OurRedisItems | None]:
    """The store in milepost's database; None if there is none and none is to be made."""
    with ExitStack() as stack:
        if is_redis(address):
            yield OurRedisItems(stack.enter_context(_opened("milepost", "store", address)))
            return
        file = sqlite_file(address)
        connection = stack.enter_context(_connection(address, to_read=False))
        if not writing and not _columns(connection, "milepost_items"):
            yield None
            return
        store = stack.enter_context(_opened("milepost", "store", address))
        store.setup()
        yield MilepostItems(store, _on(connection if file is None else store.conn))


# -- either library's savers and stores, and their tables


def _class(library: str, room: str, kind: str) -> Any:
    """The class of a saver or store: SqliteSaver, PostgresStore. Both libraries name them alike."""
    ours = library == "milepost"
    package = f"milepost[{kind}]" if ours else f"langgraph-checkpoint-{kind}"
    module = needed(f"{library}.{room}.{kind}", package)
    return getattr(module, f"{kind.capitalize()}{'Saver' if room == 'checkpoint' else 'Store'}")


def _opened(library: str, room: str, address: str, **options: Any) -> AbstractContextManager[Any]:
    """A library's saver or store at an address."""
    file = sqlite_file(address)
    if file is not None:
        kind = "sqlite"
    elif is_postgres(address):
        kind = "postgres"
    elif is_redis(address):
        kind = "redis"
    else:
        raise bad_address(address)
    opened: AbstractContextManager[Any] = _class(library, room, kind).from_conn_string(
        address if file is None else file, **options
    )
    return opened


def _connection(address: str, *, to_read: bool) -> AbstractContextManager[Any]:
    """A connection to a database; to a copy of a SQLite file that is to be read."""
    if (file := sqlite_file(address)) is not None:
        return _copied(file) if to_read else closing(sqlite3.connect(file, isolation_level=None))
    if not is_postgres(address):
        raise bad_address(address)
    return closing(needed("psycopg", "milepost[postgres]").connect(address, autocommit=True))


def _columns(connection: Any, table: str) -> set[str]:
    """The columns of a table; none if there is no such table."""
    dialect = SQLITE if isinstance(connection, sqlite3.Connection) else POSTGRES
    return {name for (name,) in _on(connection)(dialect.columns, (table,))}


def _on(connection: Any) -> Execute:
    """What runs statements on a connection of either database."""
    if isinstance(connection, sqlite3.Connection):
        return lambda sql, values: [tuple(row) for row in connection.execute(sql, values)]

    def execute(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        cursor = connection.execute(sql.replace("?", "%s"), values)
        if cursor.description is None:
            return []
        rows = cursor.fetchall()
        return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]

    return execute
