"""A Redis saver for event loops that keeps only the latest checkpoint of each graph."""

from __future__ import annotations

from milepost.checkpoint._sql.shallow import Shallow
from milepost.checkpoint.redis.aio import AsyncRedisSaver

__all__ = ["AsyncShallowRedisSaver"]


class AsyncShallowRedisSaver(Shallow, AsyncRedisSaver):
    """Keeps the latest checkpoint only: no history, no forks, no time travel.

    `AsyncRedisSaver` with `durability="exit"` stores as little for each run, in one step.
    """
