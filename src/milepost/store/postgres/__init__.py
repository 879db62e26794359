"""A store in PostgreSQL, with pgvector for search by meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from typing_extensions import TypedDict

from milepost._db.calls import Calls, make_calls
from milepost._db.postgres.aio import AsyncPostgresEngine
from milepost._db.postgres.engine import Settings, driver
from milepost._db.postgres.errors import connecting
from milepost._db.postgres.sync import PostgresEngine
from milepost._internal.fork_guard import ProcessBound
from milepost._internal.lazy_imports import on_demand
from milepost._internal.left_open import lend
from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.store._core.api import CoreStore, Upkeep
from milepost.store._core.core import Deserializer
from milepost.store._core.records import IndexConfig, TTLConfig
from milepost.store._core.ttl import Clock
from milepost.store._sql.core import SqlCore
from milepost.store._sql.dialects import PG
from milepost.store._vectors.postgres import PgVectors, PostgresIndexConfig
from milepost.store.base import BaseStore

if TYPE_CHECKING:
    from milepost.store.postgres.aio import AsyncPostgresStore
else:
    __getattr__, __dir__ = on_demand(
        __name__, {"AsyncPostgresStore": "milepost.store.postgres.aio"}
    )

__all__ = ["AsyncPostgresStore", "PoolConfig", "PostgresIndexConfig", "PostgresStore"]


_CONNECTION: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0}


class PoolConfig(TypedDict, total=False):
    """Settings of a pool of connections; others of `psycopg_pool.ConnectionPool` work too.

    Examples:
        >>> from milepost.store.postgres import PoolConfig
        >>> pool: PoolConfig = {"min_size": 1, "max_size": 10}
    """

    min_size: int
    """How many connections are always open."""
    max_size: int | None
    """How many connections there are at most."""
    kwargs: dict[str, Any]
    """How each connection is opened."""


class BasePostgresStore(CoreStore, ProcessBound, BaseStore):
    """A store in PostgreSQL: `isinstance` tells it from others.

    Args:
        conn: A psycopg connection or pool, async for `AsyncPostgresStore`.
        pipe: The pipeline that is open on the connection.
        deserializer: Makes the values of items from their JSON text.
        index: Enables search by meaning; see `PostgresIndexConfig`.
        ttl: How long items live.
        serde: How values are written.
        clear_fields: The fields that filters may see when `serde` encrypts.
        clock: Gives the time in seconds, for tests.
        schema: Where the tables are; by default where the role's search path says.
        pooler_safe: Prepare nothing on the server, as PgBouncer wants it.

    Examples:
        >>> from milepost.store.memory import InMemoryStore
        >>> from milepost.store.postgres.base import BasePostgresStore
        >>> isinstance(InMemoryStore(), BasePostgresStore)
        False
    """

    _engine_type: ClassVar[Any]
    _connection_type: ClassVar[Any]
    _pool_type: ClassVar[str]
    """The name of a class in psycopg_pool."""

    def __init__(
        self,
        conn: Any,
        *,
        pipe: Any = None,
        deserializer: Deserializer | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        clear_fields: Sequence[str] | None = None,
        clock: Clock | None = None,
        schema: str | None = None,
        pooler_safe: bool = False,
    ) -> None:
        core = SqlCore(
            PG,
            None if index is None else PgVectors(index),
            index=index,
            ttl=ttl,
            serde=serde,
            clear_fields=clear_fields,
            clock=clock,
            deserializer=deserializer,
        )
        if isinstance(conn, (PostgresEngine, AsyncPostgresEngine)):
            self.engine: Any = conn
        else:
            settings = Settings(schema, pooler_safe, owner=type(self).__name__)
            self.engine = self._engine_for(conn, settings)
        self.conn = conn
        self.pipe = pipe
        super().__init__(core, self.engine)

    def _engine_for(
        self, conn: Any, settings: Settings, reconnect: Any = None, repool: Any = None
    ) -> Any:
        """The engine for a connection or a pool; TypeError for what is neither."""
        is_pool = callable(getattr(conn, "connection", None))
        is_async = self._engine_type is AsyncPostgresEngine
        fits = is_pool and ("Async" in type(conn).__name__) == is_async
        if not fits and not isinstance(conn, self._connection_type):
            store, kind = type(self).__name__, "an async" if is_async else "a"
            raise TypeError(
                f"{store} needs {kind} psycopg connection, a pool of them, or a saver's engine, "
                f"not {type(conn).__name__}. For an address use {store}.from_conn_string(...)."
            )
        return self._engine_type(conn, settings, reconnect, repool)

    @classmethod
    def _opening(
        cls, conn_string: str, pool_config: Mapping[str, Any] | None, settings: dict[str, Any]
    ) -> Calls[Self]:
        """A store on a connection or a pool of its own, which is open."""
        connect: Any = partial(cls._connection_type.connect, conn_string, **_CONNECTION)
        make_pool: Any = None
        if pool_config is not None:
            import psycopg_pool

            options = {**pool_config, "kwargs": {**_CONNECTION, **pool_config.get("kwargs", {})}}
            pool_type = getattr(psycopg_pool, cls._pool_type)
            connect, make_pool = None, partial(pool_type, conn_string, open=False, **options)
        with connecting():
            source = make_pool() if connect is None else (yield connect)
        try:
            store = cls(source, **settings)
        except BaseException:
            yield source.close
            raise
        store.reconnect_with(connect, make_pool)
        try:
            yield from store.engine.opening()
        except BaseException:
            yield from store.engine.closing()
            raise
        return store

    def reconnect_with(self, connect: Any, make_pool: Any = None) -> None:
        """Say how to replace the connection, should it die, and a pool in a forked child.

        Args:
            connect: Makes a connection.
            make_pool: Makes a pool.
        """
        self.engine = self._engine_for(self.conn, self.engine.settings, connect, make_pool)
        self.use(self.engine)


class PostgresStore(Upkeep, BasePostgresStore):
    """Keeps items in PostgreSQL. The tables are made on first use.

    Give it a psycopg connection or a pool, or let `from_conn_string` open and close one. Either
    can be a saver's as well; on one connection the two take turns. A pipeline that is open on the
    connection is used. Its arguments are those of `BasePostgresStore`.

    Examples:
        >>> import os
        >>> from milepost.store.postgres import PostgresStore
        >>> with PostgresStore.from_conn_string(os.environ["DB_URI"]) as store:
        ...     store.put(("users", "ada"), "city", {"name": "Paris"})
        ...     store.get(("users", "ada"), "city").value
        {'name': 'Paris'}
    """

    _engine_type = PostgresEngine
    _connection_type = driver.Connection
    _pool_type = "ConnectionPool"

    @classmethod
    @contextmanager
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,  # noqa: ARG003
        pool_config: PoolConfig | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Iterator[Self]:
        """A store on a server; use it with `with`.

        Args:
            conn_string: The address, such as `postgresql://user:password@host:5432/database`.
            pipeline: Changes nothing: statements that belong together are always sent together.
            pool_config: Makes a pool of connections instead of one: `min_size`, `max_size`, …
            **settings: Those of the class.
        """
        store = make_calls(cls._opening(conn_string, pool_config, settings))

        def close() -> None:
            store.stop_ttl_sweeper()
            store.engine.close()

        yield from lend(store, close)
