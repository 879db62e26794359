"""A saver that keeps threads in Redis or Valkey, with core commands only.

All keys of a thread share one hash tag, so that a thread lies on one server of a cluster, expires
as a whole and is removed as a whole:

    {milepost:THREAD}:thread   who writes, the head, the status, metadata, the time to live
    {milepost:THREAD}:rows     checkpoints, differences between values, writes
    {milepost:THREAD}:index    their order
    milepost:threads           the ids of all threads, for listings; never the truth

A step is one script: it compares the token of the run, the epoch of the thread and the run's last
commit with what is there, writes everything, moves the head, and sets the expiry. Where scripts are
barred, WATCH, MULTI and EXEC do the same in more round trips. A step that was sent twice, since the
first reply was lost, is stored once.

`saver.durability` says what an acknowledged step means on this server. If the server loses
acknowledged steps, as in a fail-over to a replica that lagged behind, the saver that stored or read
them raises `BrokenChainError` at its next read or commit of the thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from milepost.checkpoint._redis.saver import RedisStorage
from milepost.checkpoint._redis.settings import Durability

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.checkpoint.redis.aio import AsyncRedisSaver
    from milepost.checkpoint.redis.ashallow import AsyncShallowRedisSaver
    from milepost.checkpoint.redis.shallow import ShallowRedisSaver
else:

    def __getattr__(name):
        """The other savers, when they are asked for."""
        modules = {
            "AsyncRedisSaver": "aio",
            "AsyncShallowRedisSaver": "ashallow",
            "ShallowRedisSaver": "shallow",
        }
        if name not in modules:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{modules[name]}"), name)


__all__ = [
    "AsyncRedisSaver",
    "AsyncShallowRedisSaver",
    "Durability",
    "RedisSaver",
    "ShallowRedisSaver",
]


class RedisSaver(RedisStorage):
    """Keeps threads in Redis or Valkey. Nothing has to be set up.

    Give it an address or a client of redis-py, for one server or for a cluster; several threads
    may share it. `connection_args` go to the client that is made for an address; with
    `cluster=True` among them it is a cluster's.

    `ttl={"default_ttl": minutes, "refresh_on_read": bool}` lets threads expire so long after their
    last step, or their last use; `saver.threads.set_ttl` and `saver.threads.pin` decide for one.
    `wait_replicas`: how many replicas must have a step before it is acknowledged. `wait_aof=False`
    does not wait for the server's disk. `allow_eviction=True` accepts a server that drops threads
    when its memory is full. `scripts=False` uses none. `checkpoint_write_prefix` is not used: all
    keys begin with `checkpoint_prefix`.
    """

    is_async = False

    @classmethod
    @contextmanager
    def from_conn_string(cls, redis_url: str | None = None, **options: Any) -> Iterator[Self]:
        """A saver on a client of its own; use it with `with`. Takes what the class takes."""
        with cls(redis_url, **options) as saver:
            yield saver

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop_sweeper()
        if self._owns_client:
            self.engine.redis.close()

    def setup(self) -> None:
        """Look at the server now. Not needed: the first use does it."""
        self.engine.set_up()
