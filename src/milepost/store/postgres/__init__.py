"""A store in PostgreSQL, with pgvector for search by meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

from milepost._db.calls import make_calls
from milepost._db.postgres.aio import AsyncPostgresEngine
from milepost._db.postgres.engine import Settings
from milepost._db.postgres.opening import PoolConfig, opening
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

    def _engine_for(self, conn: Any, settings: Settings) -> Any:
        """The engine for a connection or a pool; TypeError for what is neither."""
        is_pool = callable(getattr(conn, "connection", None))
        is_async = self._engine_type is AsyncPostgresEngine
        fits = is_pool and ("Async" in type(conn).__name__) == is_async
        if not fits and not isinstance(conn, self._engine_type.connection_type):
            store, kind = type(self).__name__, "an async" if is_async else "a"
            raise TypeError(
                f"{store} needs {kind} psycopg connection, a pool of them, or a saver's engine, "
                f"not {type(conn).__name__}. For an address use {store}.from_conn_string(...)."
            )
        return self._engine_type(conn, settings)

    def reconnect_with(self, connect: Any, make_pool: Any = None) -> None:
        """Say how to replace the connection, should it die, and a pool in a forked child.

        Args:
            connect: Makes a connection.
            make_pool: Makes a pool.
        """
        self.engine.own(connect, make_pool)


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
        store = make_calls(opening(PostgresEngine, conn_string, pool_config, cls, settings))

        def close() -> None:
            store.stop_ttl_sweeper()
            store.engine.close()

        yield from lend(store, close)
