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
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final

from milepost._db.addresses import is_postgres, is_redis, sqlite_file, without_password
from milepost._db.redis.client import make_client, without_parameters
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import MilepostError, MissingDependencyError
from milepost.integrations.langgraph._formats.decoding import StrictSerializer, UnsealingCipher
from milepost.integrations.langgraph._moving.items import (
    Execute,
    ItemDatabase,
    LangGraphPostgresItems,
    LangGraphSqliteItems,
    MilepostItems,
)
from milepost.integrations.langgraph._moving.redis_documents import Documents, RedisValues
from milepost.integrations.langgraph._moving.redis_items import OurRedisItems, RedisItems
from milepost.integrations.langgraph._moving.redis_threads import RedisThreads
from milepost.integrations.langgraph._moving.sources import (
    BadAddressError,
    Source,
    SqlSource,
)
from milepost.integrations.langgraph._requirement import needed

_DRIVERS: Final = ("psycopg", "redis")
_SQLITE_COLUMNS: Final = "SELECT name FROM pragma_table_info('checkpoints')"
_POSTGRES_COLUMNS: Final = (
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('{}') AND attnum > 0"
)
_PREFIXES: Final = {
    "checkpoint_prefix": "checkpoint",
    "checkpoint_write_prefix": "checkpoint_write",
    "store_prefix": "store",
}


@contextmanager
def plain_errors() -> Iterator[None]:
    """Errors of LangGraph's databases as errors of ours, which a command shows in one line."""
    try:
        yield
    except Exception as error:
        if isinstance(error, sqlite3.Error) or type(error).__module__.startswith(_DRIVERS):
            raise MilepostError(f"The database says: {error}") from error
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
) -> Iterator[Source]:
    """LangGraph's database at an address, for reading only."""
    strict = StrictSerializer(registry)
    serde: Any = strict
    if encrypted:
        serde = their_sealing(serde)
        serde.cipher = UnsealingCipher(serde.cipher)
    if (file := sqlite_file(address)) is not None:
        module = needed("langgraph.checkpoint.sqlite", "langgraph-checkpoint-sqlite")
        with _copied(file) as connection:
            execute = _on_sqlite(connection)
            _check_tables(execute, _SQLITE_COLUMNS)
            saver = module.SqliteSaver(connection, serde=serde)
            saver.setup()
            yield SqlSource(saver, execute, "writes")
    elif is_postgres(address):
        module = needed("langgraph.checkpoint.postgres", "langgraph-checkpoint-postgres")
        with module.PostgresSaver.from_conn_string(address) as saver:
            saver.serde = serde
            execute = _on_postgres(saver.conn)
            _check_tables(execute, _POSTGRES_COLUMNS.format("checkpoints"))
            if ("task_path",) not in execute(_POSTGRES_COLUMNS.format("checkpoint_writes"), ()):
                # The saver asks for a column that older tables lack. It sees this view instead,
                # which only this connection has: the source is not changed.
                execute(
                    "CREATE TEMPORARY VIEW checkpoint_writes AS"
                    " SELECT *, ''::text AS task_path FROM checkpoint_writes",
                    (),
                )
            yield SqlSource(saver, execute, "checkpoint_writes")
    elif is_redis(address):
        with their_redis_threads(address, strict, serde) as threads:
            yield threads
    else:
        raise bad_address(address)


@contextmanager
def their_redis_threads(
    address: str, strict: StrictSerializer, serde: Any
) -> Iterator[RedisThreads]:
    """The threads that langgraph-checkpoint-redis has stored."""
    with _their_documents(address) as (documents, prefixes):
        checkpoints, writes = prefixes["checkpoint_prefix"], prefixes["checkpoint_write_prefix"]
        threads = RedisThreads(documents, RedisValues(strict, serde), (checkpoints, writes))
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


def their_sealing(serde: Any = None) -> Any:
    """LangGraph's serializer with the key in LANGGRAPH_AES_KEY."""
    sealing = needed("langgraph.checkpoint.serde.encrypted").EncryptedSerializer
    try:
        return sealing.from_pycryptodome_aes(*([] if serde is None else [serde]))
    except ImportError as error:
        raise MissingDependencyError(str(error)) from error
    except ValueError as error:
        raise MilepostError(f"--encrypted: {error}") from error


def _check_tables(execute: Execute, columns: str) -> None:
    """Refuse a database that LangGraph's savers of today cannot read either."""
    there = {row[0] for row in execute(columns, ())}
    if there and "checkpoint_ns" not in there:
        raise BadAddressError(
            "The table 'checkpoints' has no column checkpoint_ns: it is not LangGraph's, or older"
            " than LangGraph 0.2, which no later version of it reads either."
        )
    if "frame" in there:
        raise BadAddressError("This database holds threads of milepost, not of LangGraph.")


@contextmanager
def _copied(file: str) -> Iterator[sqlite3.Connection]:
    """A copy of a SQLite file: LangGraph's saver would otherwise bring the original's tables up
    to date, and a move must not change what it reads."""
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
    if (file := sqlite_file(address)) is not None:
        module = needed("langgraph.checkpoint.sqlite", "langgraph-checkpoint-sqlite")
        opened, on, columns = module.SqliteSaver.from_conn_string(file), _on_sqlite, _SQLITE_COLUMNS
    elif is_postgres(address):
        module = needed("langgraph.checkpoint.postgres", "langgraph-checkpoint-postgres")
        opened = module.PostgresSaver.from_conn_string(address)
        on, columns = _on_postgres, _POSTGRES_COLUMNS.format("checkpoints")
    else:
        raise bad_address(address)
    with opened as saver:
        # Before its tables are made: LangGraph's have the same names.
        if ("frame",) in on(saver.conn)(columns, ()):
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
    if (file := sqlite_file(address)) is not None:
        from milepost.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(file, serde=serde) as sqlite:
            yield sqlite
    elif is_postgres(address):
        from milepost.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(address, serde=serde) as postgres:
            postgres.setup()
            yield postgres
    elif is_redis(address):
        from milepost.checkpoint.redis import RedisSaver

        with RedisSaver.from_conn_string(address, serde=serde) as redis:
            redis.setup()
            yield redis
    else:
        raise bad_address(address)


@contextmanager
def their_items(
    address: str, *, writing: bool = False
) -> Iterator[ItemDatabase | RedisItems | None]:
    """The store in LangGraph's database; None if there is none and none is to be made."""
    if is_redis(address):
        strict = StrictSerializer()
        with _their_documents(address) as (documents, prefixes):
            values = RedisValues(strict, strict)
            yield RedisItems(documents, values, prefixes["store_prefix"]) or None
        return
    file = sqlite_file(address)
    module = needed(f"langgraph.store.{'postgres' if file is None else 'sqlite'}")
    with ExitStack() as stack:
        if file is None:
            store = stack.enter_context(module.PostgresStore.from_conn_string(address))
            execute = _on_postgres(store.conn)
            there = execute("SELECT to_regclass('store')", ())[0][0]
        else:
            connection = (
                stack.enter_context(closing(sqlite3.connect(file, isolation_level=None)))
                if writing
                else stack.enter_context(_copied(file))
            )
            store = module.SqliteStore(connection)
            execute = _on_sqlite(connection)
            there = execute("SELECT name FROM sqlite_master WHERE name = 'store'", ())
        if not there and not writing:
            yield None
            return
        if writing or file is not None:  # what is read of SQLite is a copy, which may be changed
            store.setup()
        from milepost.integrations.langgraph._adapters.stores import from_langgraph_store

        database = LangGraphPostgresItems if file is None else LangGraphSqliteItems
        yield database(from_langgraph_store(store), execute)


@contextmanager
def our_items(
    address: str, *, writing: bool = False
) -> Iterator[ItemDatabase | OurRedisItems | None]:
    """The store in milepost's database; None if there is none and none is to be made."""
    if is_redis(address):
        from milepost.store.redis import RedisStore

        with RedisStore.from_conn_string(address) as redis:
            yield OurRedisItems(redis)
    elif not writing and not _has_items(address):
        yield None
    elif (file := sqlite_file(address)) is not None:
        from milepost.store.sqlite import SqliteStore

        with SqliteStore.from_conn_string(file) as sqlite:
            sqlite.setup()
            yield MilepostItems(sqlite, _on_sqlite(sqlite.conn))
    else:
        from milepost.store.postgres import PostgresStore

        with (
            PostgresStore.from_conn_string(address) as postgres,
            needed("psycopg", "milepost[postgres]").connect(address, autocommit=True) as connection,
        ):
            postgres.setup()
            yield MilepostItems(postgres, _on_postgres(connection))


def _has_items(address: str) -> bool:
    """Whether a milepost database has a store in it."""
    if (file := sqlite_file(address)) is not None:
        with closing(sqlite3.connect(file)) as connection:
            query = "SELECT name FROM sqlite_master WHERE name = 'milepost_items'"
            return connection.execute(query).fetchone() is not None
    with needed("psycopg", "milepost[postgres]").connect(address) as connection:
        return connection.execute("SELECT to_regclass('milepost_items')").fetchone()[0] is not None


def _on_sqlite(connection: sqlite3.Connection) -> Execute:
    return lambda sql, values: [tuple(row) for row in connection.execute(sql, values)]


def _on_postgres(connection: Any) -> Execute:
    def execute(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        cursor = connection.execute(sql.replace("?", "%s"), values)
        if cursor.description is None:
            return []
        rows = cursor.fetchall()
        return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]

    return execute
