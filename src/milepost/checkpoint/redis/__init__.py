"""A saver that keeps threads in Redis or Valkey, with core commands only.

All keys of a thread share one hash tag, so that a thread lies on one server of a cluster, expires
as a whole and is removed as a whole:

    {milepost:THREAD}:thread   who writes, the head, the status, metadata, the time to live
    {milepost:THREAD}:rows     checkpoints, differences between values, writes
    {milepost:THREAD}:index    the order of checkpoints and writes
    milepost:threads           the ids of all threads, for listings; may lag behind

A step is one script. It checks that the run still owns the thread, and that the server still has
the run's last commit; then it writes all rows, moves the head, and sets the expiry. Where scripts
are barred, WATCH, MULTI and EXEC do the same in more round trips. A step that is sent twice, since
the first reply was lost, is stored once.

`saver.durability` says what an acknowledged step means on this server. If the server loses
acknowledged steps, as in a fail-over to a replica that lagged behind, the saver that stored or read
them raises `BrokenChainError` at its next read or commit of the thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from milepost._internal.lazy_imports import on_demand
from milepost._internal.left_open import lend
from milepost.checkpoint._redis.saver import RedisStorage
from milepost.checkpoint._redis.server import Durability, check_server
from milepost.checkpoint._sql.saver import SqlSaver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.checkpoint.redis.aio import AsyncRedisSaver
    from milepost.checkpoint.redis.ashallow import AsyncShallowRedisSaver
    from milepost.checkpoint.redis.shallow import ShallowRedisSaver
else:
    __getattr__, __dir__ = on_demand(
        __name__,
        {
            "AsyncRedisSaver": "milepost.checkpoint.redis.aio",
            "AsyncShallowRedisSaver": "milepost.checkpoint.redis.ashallow",
            "ShallowRedisSaver": "milepost.checkpoint.redis.shallow",
        },
    )

__all__ = [
    "AsyncRedisSaver",
    "AsyncShallowRedisSaver",
    "Durability",
    "RedisSaver",
    "ShallowRedisSaver",
]


class RedisSaver(RedisStorage, SqlSaver):  # type: ignore[misc] # what prune returns
    """Keeps threads in Redis or Valkey. Nothing has to be set up.

    Several threads may share it. `saver.threads.set_ttl` and `saver.threads.pin` decide how long
    one thread is kept.

    Args:
        redis_url: The address.
        redis_client: A client of redis-py, for one server or for a cluster, in place of the
            address.
        connection_args: Arguments of the client that is made for an address; `cluster=True` among
            them makes a cluster client.
        ttl: `{"default_ttl": minutes, "refresh_on_read": bool}` lets threads expire so long after
            their last step; with `refresh_on_read`, after their last read or step.
        checkpoint_prefix: The prefix of all keys.
        checkpoint_write_prefix: Not used.
        serde: Turns values into bytes and back.
        wait_aof: Whether a step is acknowledged only when it is on the server's disk.
        wait_replicas: How many replicas must have a step before it is acknowledged.
        allow_eviction: Accept a server that evicts threads when its memory is full.
        scripts: Whether to use scripts on the server.
        **threads: `thread_metadata`: keys of a run's metadata that are stored with the thread;
            `seal_thread_metadata`: whether they are encrypted there.

    Examples:
        >>> import os
        >>> from milepost.checkpoint.redis import RedisSaver
        >>> from milepost.graph import START, StateGraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> with RedisSaver.from_conn_string(os.environ["REDIS_URL"]) as saver:
        ...     graph = builder.add_edge(START, "work").compile(checkpointer=saver)
        ...     graph.invoke({}, {"configurable": {"thread_id": "1"}})
        {'n': 1}
    """

    is_async = False

    @classmethod
    @contextmanager
    def from_conn_string(cls, redis_url: str | None = None, **options: Any) -> Iterator[Self]:
        """A saver on a client of its own; use it with `with`.

        Args:
            redis_url: The address.
            **options: Those of the class.
        """
        saver = cls(redis_url, **options)
        yield from lend(saver, partial(saver.__exit__, None, None, None))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop_sweeper()
        if self._owns_client:
            self.server.redis.close()

    def setup(self) -> None:
        """Check the server now. The first use does it otherwise."""
        self.server.redis.run(check_server(self.settings))
