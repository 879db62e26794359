"""A Redis saver for event loops that keeps only the latest checkpoint of each graph."""

from __future__ import annotations

from milepost.checkpoint._sql.shallow import Shallow
from milepost.checkpoint.redis.aio import AsyncRedisSaver

__all__ = ["AsyncShallowRedisSaver"]


class AsyncShallowRedisSaver(Shallow, AsyncRedisSaver):
    """Keeps the latest checkpoint only: no history, no forks, no time travel.

    `AsyncRedisSaver` with `durability="exit"` stores as little for each run, in one step.

    Examples:
        >>> import asyncio, os
        >>> from milepost.checkpoint.redis.ashallow import AsyncShallowRedisSaver
        >>> async def main():
        ...     address = os.environ["REDIS_URL"]
        ...     async with AsyncShallowRedisSaver.from_conn_string(address) as saver:
        ...         return await saver.aget_tuple({"configurable": {"thread_id": "none"}})
        >>> asyncio.run(main()) is None
        True
    """
