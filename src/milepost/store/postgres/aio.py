"""A store in PostgreSQL, for programs on an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self

from milepost._db.postgres.aio import AsyncPostgresEngine
from milepost._db.postgres.engine import Settings, connecting, driver
from milepost.store._core.api import AsyncUpkeep
from milepost.store.postgres import (
    CONNECTION,
    BasePostgresStore,
    PoolConfig,
    check_source,
    pool_settings,
)

__all__ = ["AsyncPostgresStore"]


class AsyncPostgresStore(AsyncUpkeep, BasePostgresStore):
    """`PostgresStore` on an async connection or pool, whose upkeep is awaited.

    The sync methods work from threads other than the loop's, while it runs.

    Examples:
        >>> import asyncio, os
        >>> from milepost.store.postgres import AsyncPostgresStore
        >>> async def main():
        ...     async with AsyncPostgresStore.from_conn_string(os.environ["DB_URI"]) as store:
        ...         await store.aput(("users", "ada"), "city", {"name": "Paris"})
        ...         return (await store.aget(("users", "ada"), "city")).value
        >>> asyncio.run(main())
        {'name': 'Paris'}
    """

    def _engine_for(
        self, conn: Any, settings: Settings, reconnect: Any = None, repool: Any = None
    ) -> Any:
        check_source(type(self).__name__, conn, driver.AsyncConnection, is_async=True)
        return AsyncPostgresEngine(conn, settings, reconnect, repool)

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,  # noqa: ARG003
        pool_config: PoolConfig | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> AsyncIterator[Self]:
        """A store on a server; use it with `async with`.

        Args:
            conn_string: The address, such as `postgresql://user:password@host:5432/database`.
            pipeline: Changes nothing: statements that belong together are always sent together.
            pool_config: Makes a pool of connections instead of one: `min_size`, `max_size`, …
            **settings: Those of `PostgresStore`.
        """

        async def connect() -> Any:
            return await driver.AsyncConnection.connect(conn_string, **CONNECTION)

        make_pool: Any = None
        if pool_config is not None:
            from psycopg_pool import AsyncConnectionPool

            settings_of_pool = pool_settings(pool_config)
            make_pool = partial(AsyncConnectionPool, conn_string, open=False, **settings_of_pool)
        with connecting():
            source = await connect() if make_pool is None else make_pool()
        try:
            store = cls(source, **settings)
        except BaseException:
            await source.close()
            raise
        store.reconnect_with(connect if make_pool is None else None, make_pool)
        try:
            await store.engine.open()
            yield store
        finally:
            await store.stop_ttl_sweeper()
            await store.engine.close()
