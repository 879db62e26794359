"""A store in PostgreSQL, for programs on an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from milepost._db.calls import amake_calls
from milepost._db.postgres.aio import AsyncPostgresEngine
from milepost._db.postgres.opening import PoolConfig, opening
from milepost._internal.left_open import quiet_at_exit
from milepost.store._core.api import AsyncUpkeep
from milepost.store.postgres import BasePostgresStore

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

    _engine_type = AsyncPostgresEngine

    @classmethod
    @asynccontextmanager
    @quiet_at_exit
    async def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,  # noqa: ARG003
        pool_config: PoolConfig | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> AsyncGenerator[Self, None]:
        """A store on a server; use it with `async with`.

        Args:
            conn_string: The address, such as `postgresql://user:password@host:5432/database`.
            pipeline: Changes nothing: statements that belong together are always sent together.
            pool_config: Makes a pool of connections instead of one: `min_size`, `max_size`, …
            **settings: Those of `PostgresStore`.
        """
        calls = opening(AsyncPostgresEngine, conn_string, pool_config, cls, settings)
        store = await amake_calls(calls)
        try:
            yield store
        finally:
            await store.stop_ttl_sweeper()
            await store.engine.close()
