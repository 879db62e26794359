"""The Redis saver for programs that run on an event loop."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, Unpack

from milepost.checkpoint._contract.thread_metadata import ThreadOptions, check_options
from milepost.checkpoint._redis.engine import AsyncRedisEngine
from milepost.checkpoint._redis.saver import RedisStorage, client_of
from milepost.errors import ColourError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from milepost.checkpoint.serde.base import SerializerProtocol

__all__ = ["AsyncRedisSaver"]


class AsyncRedisSaver(RedisStorage):
    """Keeps threads in Redis or Valkey. Nothing has to be set up.

    The sync methods work from threads other than the loop's, while it runs.

    Args:
        redis_url: The address.
        redis_client: An async client of redis-py, for one server or for a cluster, in place of the
            address.
        connection_args: See `RedisSaver`.
        ttl: See `RedisSaver`.
        checkpoint_prefix: What all keys begin with.
        checkpoint_write_prefix: Not used.
        serde: Turns values into bytes and back.
        wait_aof: Whether to wait for the server's disk before a step is acknowledged.
        wait_replicas: How many replicas must have a step before it is acknowledged.
        allow_eviction: Accept a server that drops threads when its memory is full.
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

    engine: AsyncRedisEngine

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        redis_client: Any = None,
        connection_args: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        checkpoint_prefix: str = "milepost",
        checkpoint_write_prefix: str | None = None,  # noqa: ARG002
        serde: SerializerProtocol | None = None,
        wait_aof: bool = True,
        wait_replicas: int = 0,
        allow_eviction: bool = False,
        scripts: bool = True,
        **threads: Unpack[ThreadOptions],
    ) -> None:
        super().__init__(
            serde=serde,
            ttl=ttl,
            checkpoint_prefix=checkpoint_prefix,
            wait_aof=wait_aof,
            wait_replicas=wait_replicas,
            allow_eviction=allow_eviction,
            scripts=scripts,
            **threads,
        )
        name = type(self).__name__
        client = client_of(name, redis_url, redis_client, connection_args, is_async=True)
        if not inspect.iscoroutinefunction(type(client).execute_command):
            raise ColourError(f"{name} needs an async client; a sync one serves RedisSaver.")
        self.engine = AsyncRedisEngine(client, self.settings, owns=redis_client is None)

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, redis_url: str | None = None, **options: Any
    ) -> AsyncIterator[Self]:
        """A saver on a client of its own; use it with `async with`.

        Args:
            redis_url: The address.
            **options: Those of the class.
        """
        some = ("thread_metadata", "seal_thread_metadata")
        given: Any = {key: options[key] for key in some if key in options}
        check_options(options.get("serde"), given)
        async with cls(redis_url, **options) as saver:
            yield saver

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.stop_sweeper()
        await self.engine.close()

    async def setup(self) -> None:
        """Look at the server now. Not needed: the first use does it."""
        await self.engine.aset_up()

    asetup = setup
