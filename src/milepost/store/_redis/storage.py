"""A store in Redis or Valkey, by a sync or an async client: everything but its upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from milepost._db.redis.client import is_cluster_client
from milepost._db.redis.engine import RedisEngine
from milepost._internal import log
from milepost._internal.fork_guard import ProcessBound
from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.store._core.api import CoreStore
from milepost.store._core.core import Deserializer
from milepost.store._core.records import IndexConfig, TTLConfig
from milepost.store._core.ttl import Clock
from milepost.store._redis.core import RedisCore
from milepost.store.base import BaseStore


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
        if index is not None and index.get("distance_type", "cosine") != "cosine":
            log.warning(
                log.STORE, "A store in Redis ranks by cosine; distance_type is for PostgreSQL."
            )
        self.engine = RedisEngine(conn, owner=type(self).__name__)
        core = RedisCore(
            store_prefix,
            is_cluster=is_cluster_client(conn) if cluster_mode is None else cluster_mode,
            fsync=fsync,
            allow_eviction=allow_eviction,
            index=index,
            ttl=ttl,
            serde=serde,
            clear_fields=clear_fields,
            clock=clock,
            deserializer=deserializer,
        )
        super().__init__(core, self.engine)

    @property
    def conn(self) -> Any:
        """The client."""
        return self.engine.client

    def close(self) -> None:
        """Stop what runs in the background. The client is the caller's."""
        self._sweeper.stop()
