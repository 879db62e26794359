"""A store in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from milepost._db.sqlite.engine import FilePath, SqliteEngine, open_sqlite
from milepost._internal.fork_guard import ProcessBound
from milepost._internal.lazy_imports import on_demand
from milepost._internal.left_open import lend
from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.store._core.api import CoreStore, Upkeep
from milepost.store._core.arguments import warn_of_distance
from milepost.store._core.core import Deserializer
from milepost.store._core.records import IndexConfig, TTLConfig
from milepost.store._core.ttl import Clock
from milepost.store._sql.conditions import HOLDS, sqlite_holds
from milepost.store._sql.core import SqlCore
from milepost.store._sql.dialects import LITE
from milepost.store._vectors.sqlite import LiteVectors
from milepost.store.base import BaseStore

if TYPE_CHECKING:
    from milepost.store.sqlite.aio import AsyncSqliteStore
else:
    __getattr__, __dir__ = on_demand(__name__, {"AsyncSqliteStore": "milepost.store.sqlite.aio"})

__all__ = ["AsyncSqliteStore", "SqliteStore"]


class SqliteIndexConfig(IndexConfig, total=False):
    """`IndexConfig`, for a store in SQLite.

    Examples:
        >>> from milepost.store.sqlite.base import SqliteIndexConfig
        >>> index: SqliteIndexConfig = {"dims": 1536, "embed": "openai:text-embedding-3-small"}
    """


class BaseSqliteStore(CoreStore, ProcessBound, BaseStore):
    """A store in SQLite: `isinstance` tells it from others.

    Args:
        conn: A connection of `sqlite3`; for `AsyncSqliteStore` of aiosqlite, too.
        deserializer: Makes the values of items from their JSON text.
        index: Enables search by meaning.
        ttl: How long items live.
        serde: How values are written.
        clear_fields: The fields that filters may see when `serde` encrypts.
        clock: Gives the time in seconds, for tests.
        synchronous: With "NORMAL" commits are faster, and a power cut may take back the last of
            them.

    Examples:
        >>> from milepost.store.memory import InMemoryStore
        >>> from milepost.store.sqlite.base import BaseSqliteStore
        >>> isinstance(InMemoryStore(), BaseSqliteStore)
        False
    """

    def __init__(
        self,
        conn: Any,
        *,
        deserializer: Deserializer | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        clear_fields: Sequence[str] | None = None,
        clock: Clock | None = None,
        synchronous: str = "FULL",
    ) -> None:
        self._vectors = None if index is None else LiteVectors(index.get("dims", 0))
        warn_of_distance(index, "SQLite")
        self._owns_engine = not isinstance(conn, SqliteEngine)
        self.engine: Any = self._engine_for(conn, synchronous)
        core = SqlCore(
            LITE,
            self._vectors,
            index=index,
            ttl=ttl,
            serde=serde,
            clear_fields=clear_fields,
            clock=clock,
            deserializer=deserializer,
        )
        super().__init__(core, self.engine)

    def _engine_for(self, conn: Any, synchronous: str) -> Any:
        if not isinstance(conn, (sqlite3.Connection, SqliteEngine)):
            raise TypeError(
                f"{type(self).__name__} needs a sqlite3.Connection or a saver's engine, not "
                f"{type(conn).__name__}. For a file name use from_conn_string(...)."
            )
        if isinstance(conn, sqlite3.Connection):
            conn = SqliteEngine(conn, synchronous=synchronous)
        conn.equip(self._equip)
        return conn

    @classmethod
    def _on_file(cls, conn_string: FilePath, settings: dict[str, Any]) -> Self:
        """A store on a connection of its own."""
        conn = open_sqlite(conn_string)
        try:
            store = cls(conn, **settings)
        except BaseException:
            conn.close()
            raise
        store.engine.owns(conn_string)
        return store

    @property
    def conn(self) -> Any:
        """The connection."""
        return self.engine.connection

    def _equip(self, connection: sqlite3.Connection) -> None:
        """Give a connection what the store's statements need."""
        connection.create_function(HOLDS, 2, sqlite_holds, deterministic=True)
        if self._vectors is not None:
            self._vectors.equip(connection)

    def close(self) -> None:
        """Stop what runs in the background. The connection is the caller's."""
        self._sweeper.stop()
        if self._owns_engine:
            self.engine.release()


class SqliteStore(Upkeep, BaseSqliteStore):
    """Keeps items in a SQLite database. The tables are made on first use.

    Give it a connection, or let `from_conn_string` open and close one. The connection can be a
    saver's as well: the two take turns. The async methods work too: they hand their work to a
    thread. Its arguments are those of `BaseSqliteStore`.

    Examples:
        >>> from milepost.store.sqlite import SqliteStore
        >>> with SqliteStore.from_conn_string("store.db") as store:
        ...     store.put(("users", "ada"), "city", {"name": "Paris"})
        ...     store.get(("users", "ada"), "city").value
        {'name': 'Paris'}
    """

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: FilePath, **settings: Any) -> Iterator[Self]:
        """A store on a file, or in memory; use it with `with`.

        Args:
            conn_string: The path of the file, or ":memory:".
            **settings: Those of the class.
        """
        store = cls._on_file(conn_string, settings)

        def close() -> None:
            store.close()
            store.engine.close()

        yield from lend(store, close, store.engine.close_at_exit)
