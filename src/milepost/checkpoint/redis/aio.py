"""The Redis saver for programs that run on an event loop."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from milepost._internal.left_open import keep_at_exit, quiet_at_exit
from milepost.checkpoint._redis.saver import RedisStorage
from milepost.checkpoint._redis.server import check_server
from milepost.checkpoint._sql.saver import SqlSaver

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["AsyncRedisSaver"]


class AsyncRedisSaver(RedisStorage, SqlSaver):  # type: ignore[misc] # what prune returns
    """Keeps threads in Redis or Valkey. Nothing has to be set up.

    The sync methods work from threads other than the loop's, while the loop runs.

    Args:
        redis_url: The address.
        redis_client: An async client of redis-py, for one server or for a cluster, in place of the
            address.
        connection_args: See `RedisSaver`.
        ttl: See `RedisSaver`.
        checkpoint_prefix: The prefix of all keys.
        checkpoint_write_prefix: Not used.
        serde: Turns values into bytes and back.
        wait_aof: Whether a step is acknowledged only when it is on the server's disk.
        wait_replicas: How many replicas must have a step before it is acknowledged.
        allow_eviction: Accept a server that evicts threads when its memory is full.
        scripts: Whether to use scripts on the server.
        **threads: See `RedisSaver`.

    Examples:
        >>> import asyncio, os
        >>> from milepost.checkpoint.redis.aio import AsyncRedisSaver
        >>> from milepost.graph import START, StateGraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> async def main():
        ...     async with AsyncRedisSaver.from_conn_string(os.environ["REDIS_URL"]) as saver:
        ...         graph = builder.add_edge(START, "work").compile(checkpointer=saver)
        ...         return await graph.ainvoke({}, {"configurable": {"thread_id": "1"}})
        >>> asyncio.run(main())
        {'n': 1}
    """

    is_async = True

    @classmethod
    @asynccontextmanager
    @quiet_at_exit
    async def from_conn_string(
        cls, redis_url: str | None = None, **options: Any
    ) -> AsyncGenerator[Self, None]:
        """A saver on a client of its own; use it with `async with`.

        Args:
            redis_url: The address.
            **options: Those of the class.
        """
        async with keep_at_exit(cls(redis_url, **options)) as saver:
            yield saver

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.stop_sweeper()
        await self.server.redis.close_nodes()
        if self._owns_client:
            await self.server.redis.aclose()

    async def setup(self) -> None:
        """Check the server now. The first use does it otherwise."""
        await self.server.redis.arun(check_server(self.settings))

    asetup = setup
