"""A store in Redis or Valkey, for programs on an event loop."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from milepost._db.redis.client import make_client
from milepost._internal.left_open import keep_at_exit, quiet_at_exit
from milepost.store._core.api import AsyncUpkeep
from milepost.store.redis import RedisStorage

__all__ = ["AsyncRedisStore"]


class AsyncRedisStore(AsyncUpkeep, RedisStorage):
    """`RedisStore` on an async client, whose upkeep is awaited.

    A client that the store has made is closed by `async with` or `aclose`. The sync methods work
    from threads other than the loop's, while it runs.

    Args:
        redis_url: An address or a client.
        redis_client: A client, in place of an address.
        connection_args: For the client that is made.
        cluster_mode: Whether the server is part of a cluster, if the client does not show it.
        **settings: Those of `RedisStore`.

    Examples:
        >>> import asyncio, os
        >>> from milepost.store.redis import AsyncRedisStore
        >>> async def main():
        ...     async with AsyncRedisStore.from_conn_string(os.environ["REDIS_URL"]) as store:
        ...         await store.aput(("users", "ada"), "city", {"name": "Paris"})
        ...         return (await store.aget(("users", "ada"), "city")).value
        >>> asyncio.run(main())
        {'name': 'Paris'}
    """

    def __init__(
        self,
        redis_url: Any = None,
        *,
        redis_client: Any = None,
        connection_args: Mapping[str, Any] | None = None,
        cluster_mode: bool | None = None,
        **settings: Any,
    ) -> None:
        if redis_client is None and redis_url is not None and not isinstance(redis_url, str):
            redis_client, redis_url = redis_url, None
        self._owns_client = redis_client is None
        if redis_client is None:
            url = redis_url or os.environ.get("REDIS_URL")
            if not url:
                raise ValueError(
                    "AsyncRedisStore needs an address or a client: AsyncRedisStore('redis://…'), "
                    "AsyncRedisStore(redis_client=client), or the environment's REDIS_URL."
                )
            options = dict(connection_args or {})
            redis_client = make_client(url, is_async=True, cluster=cluster_mode, **options)
        super().__init__(redis_client, cluster_mode=cluster_mode, **settings)

    @classmethod
    @asynccontextmanager
    @quiet_at_exit
    async def from_conn_string(
        cls, conn_string: str, **settings: Any
    ) -> AsyncGenerator[Self, None]:
        """A store on a server; use it with `async with`.

        Args:
            conn_string: `redis://`, `rediss://`, `unix://` or `redis+cluster://`.
            **settings: Those of `RedisStore`.
        """
        async with keep_at_exit(cls(conn_string, **settings)) as store:
            yield store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the sweeper, and close the client that the store has made."""
        await self.stop_ttl_sweeper()
        if self._owns_client:
            await self._batcher.settle()
            await self.engine.aclose()
