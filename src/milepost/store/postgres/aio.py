"""A store in PostgreSQL, for programs on an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from milepost.store.postgres import _CONNECTION, PostgresStore, pool_settings
from milepost.store.postgres.engine import AsyncPgEngine, load_psycopg
from milepost.store.sql.faces import AsyncUpkeep

__all__ = ["AsyncPostgresStore"]


class AsyncPostgresStore(AsyncUpkeep, PostgresStore):
    """`PostgresStore` on an async connection or pool, whose upkeep is awaited."""

    def _engine_for(self, conn: Any) -> Any:
        return AsyncPgEngine(conn)

    @classmethod
    @asynccontextmanager
    async def from_conn_string(  # type: ignore[override]
        cls, conn_string: str, *, pool_config: Mapping[str, Any] | None = None, **settings: Any
    ) -> AsyncIterator[Self]:
        """A store on a server; use it with `async with`. `pool_config` makes a pool."""
        if pool_config is None:
            opened = await load_psycopg().AsyncConnection.connect(conn_string, **_CONNECTION)
        else:
            from psycopg_pool import AsyncConnectionPool

            opened = AsyncConnectionPool(conn_string, open=False, **pool_settings(pool_config))
        async with opened as conn:
            store = cls(conn, **settings)
            try:
                yield store
            finally:
                await store.stop_ttl_sweeper()
