"""The Redis saver for programs that run on an event loop."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from milepost.checkpoint._redis.saver import RedisStorage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["AsyncRedisSaver"]


class AsyncRedisSaver(RedisStorage):
    """Keeps threads in Redis or Valkey. Nothing has to be set up.

    Give it an address or an async client of redis-py, for one server or for a cluster. The sync
    methods work from threads other than the loop's, while it runs. See `RedisSaver` for the
    options.
    """

    is_async = True

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, redis_url: str | None = None, **options: Any
    ) -> AsyncIterator[Self]:
        """A saver on a client of its own; use it with `async with`. Takes what the class takes."""
        async with cls(redis_url, **options) as saver:
            yield saver

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.stop_sweeper()
        await self.engine.redis.close_nodes()
        if self._owns_client:
            await self.engine.redis.aclose()

    async def setup(self) -> None:
        """Look at the server now. Not needed: the first use does it."""
        await self.engine.aset_up()

    asetup = setup
