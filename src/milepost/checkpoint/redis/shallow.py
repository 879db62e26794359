"""A Redis saver that keeps only the latest checkpoint of each graph."""

from __future__ import annotations

from milepost.checkpoint._sql.shallow import Shallow
from milepost.checkpoint.redis import RedisSaver

__all__ = ["ShallowRedisSaver"]


class ShallowRedisSaver(Shallow, RedisSaver):
    """Keeps the latest checkpoint only: no history, no forks, no time travel.

    `RedisSaver` with `durability="exit"` stores as little for each run, in one step.

    Examples:
        >>> import os
        >>> from milepost.checkpoint.redis.shallow import ShallowRedisSaver
        >>> with ShallowRedisSaver.from_conn_string(os.environ["REDIS_URL"]) as saver:
        ...     saver.get_tuple({"configurable": {"thread_id": "none"}}) is None
        True
    """
