"""A store in Redis or Valkey. Core commands are enough: no modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from milepost._db.redis.client import is_cluster_client, make_client
from milepost._db.redis.commands import RedisEffects
from milepost._db.redis.engine import RedisEngine
from milepost._internal.fork_guard import ProcessBound
from milepost._internal.lazy_imports import on_demand
from milepost._internal.left_open import lend
from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.store._core.api import CoreStore, Upkeep
from milepost.store._core.arguments import warn_of_distance
from milepost.store._core.core import Deserializer
from milepost.store._core.records import IndexConfig, TTLConfig
from milepost.store._core.ttl import Clock
from milepost.store._redis.core import RedisCore
from milepost.store._redis.layout import Keys
from milepost.store.base import BaseStore

if TYPE_CHECKING:
    from milepost.store.redis.aio import AsyncRedisStore
else:
    __getattr__, __dir__ = on_demand(__name__, {"AsyncRedisStore": "milepost.store.redis.aio"})

__all__ = ["AsyncRedisStore", "RedisStore"]

R = TypeVar("R")


class _StoreEngine:
    """Carries out sequences of commands on a client, sync or async. `write` is what databases with
    transactions ask for."""

    def __init__(self, redis: RedisEngine) -> None:
        self._redis = redis

    def run(self, work: Callable[[], RedisEffects[R]], *, write: bool) -> R:  # noqa: ARG002
        return self._redis.run(work())

    async def arun(self, work: Callable[[], RedisEffects[R]], *, write: bool) -> R:  # noqa: ARG002
        return await self._redis.arun(work())


class RedisStorage(CoreStore, ProcessBound, BaseStore):
    """Keeps items in Redis or Valkey."""

    def __init__(
        self,
        conn: Any,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        cluster_mode: bool | None = None,
        store_prefix: str = "milepost:store",
        vector_prefix: str | None = None,  # noqa: ARG002
        serde: SerializerProtocol | None = None,
        clear_fields: Sequence[str] | None = None,
        clock: Clock | None = None,
        deserializer: Deserializer | None = None,
        fsync: bool = False,
        allow_eviction: bool = False,
    ) -> None:
        warn_of_distance(index, "Redis")
        self.engine = RedisEngine(conn, owner=type(self).__name__)
        if cluster_mode is None:
            cluster_mode = is_cluster_client(conn)
        core = RedisCore(
            Keys(store_prefix, is_cluster=cluster_mode),
            fsync=fsync,
            allow_eviction=allow_eviction,
            index=index,
            ttl=ttl,
            serde=serde,
            clear_fields=clear_fields,
            clock=clock,
            deserializer=deserializer,
        )
        super().__init__(core, _StoreEngine(self.engine))

    @property
    def conn(self) -> Any:
        """The client."""
        return self.engine.client

    def close(self) -> None:
        """Stop what runs in the background. The client is the caller's."""
        self._sweeper.stop()


class RedisStore(Upkeep, RedisStorage):
    """Keeps items in Redis or Valkey. Nothing has to be set up.

    The async methods work too: they hand their work to a thread.

    Args:
        conn: A client of redis-py or valkey-py, also a cluster or Sentinel client; it can be a
            saver's as well.
        index: Enables search by meaning.
        ttl: How long items live.
        cluster_mode: Whether the server is part of a cluster, if the client does not show it.
        store_prefix: What all keys begin with.
        vector_prefix: Accepted for programs that pass it; vectors are among the store's other keys.
        serde: How values are written.
        clear_fields: The fields that filters may see when `serde` encrypts.
        clock: Gives the time in seconds, for tests.
        deserializer: Makes the values of items from their JSON text.
        fsync: Whether a write ends when the server's disk has it, where the server can tell.
        allow_eviction: Accept a server that evicts any key when its memory is full.

    Examples:
        >>> import os
        >>> from milepost.store.redis import RedisStore
        >>> with RedisStore.from_conn_string(os.environ["REDIS_URL"]) as store:
        ...     store.put(("users", "ada"), "city", {"name": "Paris"})
        ...     store.get(("users", "ada"), "city").value
        {'name': 'Paris'}
    """

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, conn_string: str, *, cluster_mode: bool | None = None, **settings: Any
    ) -> Iterator[Self]:
        """A store on a server; use it with `with`.

        Args:
            conn_string: `redis://`, `rediss://`, `unix://` or `redis+cluster://`.
            cluster_mode: Whether the server is part of a cluster, if the address does not show it.
            **settings: Those of the class.
        """
        client = make_client(conn_string, is_async=False, cluster=cluster_mode)
        try:
            store = cls(client, cluster_mode=cluster_mode, **settings)
        except BaseException:
            client.close()
            raise

        def close() -> None:
            store.close()
            store.engine.close()

        yield from lend(store, close)
