"""A cache in Redis or Valkey, which the machines of a service share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from milepost._db.redis.commands import (
    Command,
    Pipeline,
    RedisEffects,
    Scan,
    chunks,
    command,
    literally,
)
from milepost._db.redis.engine import RedisEngine
from milepost._db.redis.errors import named
from milepost._internal import log
from milepost.cache.base import BaseCache, FullKey, Namespace, ValueT
from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.errors import ColourError, SaverError

__all__ = ["RedisCache"]

_UNUSABLE_NAMES: Final = (
    "ConnectionError",
    "TimeoutError",
    "OutOfMemoryError",
    "ReadOnlyError",
    "ClusterError",
)
"""Errors of a client whose server cannot be reached, is full, or has become a replica."""
_KEYS_PER_UNLINK: Final = 500
"""Keys that are removed in one round trip."""
R = TypeVar("R")


class RedisCache(BaseCache[ValueT]):
    """Keeps values in Redis, in their stored form. The server removes what has expired.

    While the server cannot be reached or is full, the cache finds and keeps nothing, and logs a
    warning.

    Args:
        redis: A client of redis-py or valkey-py (`pip install redis`), also of a cluster. A sync
            client serves all methods, an async client the async methods.
        serde: Turns values into bytes and back.
        prefix: The prefix of its keys in Redis.

    Examples:
        >>> import os
        >>> import redis
        >>> from milepost.cache.redis import RedisCache
        >>> with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        ...     cache = RedisCache(client)
        ...     cache.set({(("cities",), "paris"): ("France", 60)})
        ...     cache.get([(("cities",), "paris")])
        {(('cities',), 'paris'): 'France'}
    """

    def __init__(
        self,
        redis: Any,
        *,
        serde: SerializerProtocol | None = None,
        prefix: str = "milepost:cache:",
    ) -> None:
        super().__init__(serde=serde)
        self.redis = redis
        self.prefix = prefix
        # A node must not wait until its cache is back.
        self._engine = RedisEngine(redis, owner="RedisCache", retry_seconds=0)

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return self._run("get", self._getting(keys)) or {}

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return await self._arun("aget", self._getting(keys)) or {}

    def set(self, mapping: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        self._run("set", self._setting(mapping))

    async def aset(self, mapping: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        await self._arun("aset", self._setting(mapping))

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self._run("clear", self._clearing(namespaces))

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        await self._arun("aclear", self._clearing(namespaces))

    def _run(self, method: str, effects: RedisEffects[R]) -> R | None:
        if self._engine.is_async:
            effects.close()
            raise ColourError(
                f"RedisCache.{method}() was called on an async client: call a{method}(), or give "
                "the cache a sync client, which serves both."
            )
        try:
            return self._engine.run(effects)
        except SaverError as error:
            _go_without(method, error)
            return None

    async def _arun(self, method: str, effects: RedisEffects[R]) -> R | None:
        try:
            return await self._engine.arun(effects)
        except SaverError as error:
            _go_without(method, error)
            return None

    def _key(self, namespace: Namespace, key: str) -> str:
        """The key in Redis. Parts are escaped, so that no two names have the same key."""
        return f"{self.prefix}{':'.join(map(_escaped, namespace))}/{_escaped(key)}"

    def _patterns(self, namespaces: Sequence[Namespace] | None) -> list[str]:
        prefix = literally(self.prefix)
        if namespaces is None:
            return [f"{prefix}*"]
        return [f"{prefix}{literally(':'.join(map(_escaped, ns)))}/*" for ns in namespaces]

    def _getting(self, keys: Sequence[FullKey]) -> RedisEffects[dict[FullKey, ValueT]]:
        if not keys:
            return {}
        names = [self._key(*name) for name in keys]
        if self._engine.is_cluster:  # MGET takes keys of one slot
            found = yield Pipeline([command("GET", name) for name in names])
        else:
            found = yield command("MGET", *names)
        rows = []
        for (namespace, key), stored in zip(keys, found, strict=True):
            if stored is not None:
                kind, _, data = stored.partition(b":")
                rows.append(((tuple(namespace), key), (kind.decode("utf-8", "replace"), data)))
        return self._decoded(rows)

    def _setting(self, mapping: Mapping[FullKey, tuple[Any, int | None]]) -> RedisEffects[None]:
        commands: list[Command] = []
        for name, (value, ttl) in mapping.items():
            kind, data = self.serde.dumps_typed(value)
            key, stored = self._key(*name), kind.encode() + b":" + data
            if ttl is None:
                commands.append(command("SET", key, stored))
            elif ttl > 0:
                commands.append(command("SET", key, stored, "PX", max(1, int(1000 * ttl))))
            else:  # an entry that expires at once also replaces the one before
                commands.append(command("UNLINK", key))
        if commands:
            yield Pipeline(commands)

    def _clearing(self, namespaces: Sequence[Namespace] | None) -> RedisEffects[None]:
        for pattern in self._patterns(namespaces):
            names: list[bytes] = yield Scan(pattern.encode())
            for some in chunks(names, _KEYS_PER_UNLINK):
                yield Pipeline([command("UNLINK", name) for name in some])


def _go_without(method: str, error: SaverError) -> None:
    """Turn an unreachable server into a miss, with a line in the log; raise anything else."""
    if not isinstance(error.__cause__, named(*_UNUSABLE_NAMES)):
        raise error
    message = "RedisCache.%s() could not use its server (%s); it goes on without the cache."
    log.warning(log.STORAGE, message, method, error.__cause__)


def _escaped(part: str) -> str:
    return quote(part, safe="")
