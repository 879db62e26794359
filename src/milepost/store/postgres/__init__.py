"""A store in PostgreSQL, with pgvector for search by meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.store.postgres.engine import PgEngine, load_psycopg
from milepost.store.postgres.vectors import PgVectors
from milepost.store.records import IndexConfig, TTLConfig
from milepost.store.sql.core import SqlCore
from milepost.store.sql.faces import SqlStore
from milepost.store.sql.statements import PG
from milepost.store.ttl import Clock

__all__ = ["PostgresStore"]


class PostgresStore(SqlStore):
    """Keeps items in PostgreSQL. The tables are made on first use.

    Give it a psycopg connection or a pool, which may be a saver's as well, or let
    `from_conn_string` open and close one. Best with `autocommit=True`: then a get is one round
    trip.
    """

    def __init__(
        self,
        conn: Any,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        clear_fields: Sequence[str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.conn = conn
        core = SqlCore(
            PG,
            None if index is None else PgVectors(),
            index=index,
            ttl=ttl,
            serde=serde,
            clear_fields=clear_fields,
            clock=clock,
        )
        super().__init__(self._engine_for(conn), core)

    def _engine_for(self, conn: Any) -> Any:
        return PgEngine(conn)

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, conn_string: str, *, pool_config: Mapping[str, Any] | None = None, **settings: Any
    ) -> Iterator[Self]:
        """A store on a server; use it with `with`. `pool_config` (`min_size`, `max_size`, …) makes
        a pool of connections instead of one."""
        if pool_config is None:
            with load_psycopg().Connection.connect(conn_string, **_CONNECTION) as conn:
                store = cls(conn, **settings)
                try:
                    yield store
                finally:
                    store.stop_ttl_sweeper()
            return
        from psycopg_pool import ConnectionPool

        with ConnectionPool(conn_string, **pool_settings(pool_config)) as pool:
            store = cls(pool, **settings)
            try:
                yield store
            finally:
                store.stop_ttl_sweeper()


_CONNECTION: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0}


def pool_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a pool is opened with."""
    settings = dict(config)
    settings["kwargs"] = {**_CONNECTION, **settings.get("kwargs", {})}
    return settings
