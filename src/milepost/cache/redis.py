"""A cache in Redis or Valkey, which the machines of a service share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from milepost._db.redis.client import is_async_client, is_cluster_client
from milepost._db.redis.errors import named
from milepost._internal import log
from milepost._internal.asyncio_tools import in_thread
from milepost.cache._stored import MISS, StoredCache
from milepost.cache.base import FullKey, Namespace, ValueT
from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.errors import ColourError

__all__ = ["RedisCache"]

_PASSING = ("ConnectionError", "TimeoutError", "OutOfMemoryError", "ReadOnlyError", "ClusterError")
"""Errors of a server that cannot be reached, is full, or was demoted."""
_PAGE = 500
"""Keys that are asked for, or removed, in one go."""


class RedisCache(StoredCache[ValueT]):
    """Keeps values in Redis, in their stored form; the server drops what has expired.

    While the server cannot be reached, or is full, nothing is found or kept, and a warning is
    logged.

    Args:
        redis: A client of redis-py or valkey-py (`pip install redis`), sync or async, also one of a
            cluster: a sync one serves both kinds of methods, an async one the async methods.
        serde: Turns values into bytes and back.
        prefix: What the names of its keys begin with.

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
        self._is_async = is_async_client(redis)
        self._is_cluster = is_cluster_client(redis)

    # -- sync

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        with _Reachable(self._sync("get")):
            if keys:
                return self._found(keys, self._asked(keys)())
        return {}

    def set(self, mapping: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        entries = self._entries(mapping)
        with _Reachable(self._sync("set")):
            if entries:
                self._queued(entries).execute()

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with _Reachable(self._sync("clear")):
            for pattern in self._patterns(namespaces):
                for page in _pages(self.redis.scan_iter(match=pattern, count=_PAGE)):
                    self.redis.unlink(*page)

    def _sync(self, method: str) -> str:
        if self._is_async:
            raise ColourError(
                f"RedisCache.{method}() was called on an async client: call a{method}(), or give "
                "the cache a sync client, which serves both."
            )
        return method

    # -- async

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        if not self._is_async:
            return await in_thread(self.get, keys)
        with _Reachable("aget"):
            if keys:
                return self._found(keys, await self._asked(keys)())
        return {}

    async def aset(self, mapping: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        if not self._is_async:
            return await in_thread(self.set, mapping)
        entries = self._entries(mapping)
        with _Reachable("aset"):
            if entries:
                await self._queued(entries).execute()
        return None

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        if not self._is_async:
            return await in_thread(self.clear, namespaces)
        with _Reachable("aclear"):
            for pattern in self._patterns(namespaces):
                names = [n async for n in self.redis.scan_iter(match=pattern, count=_PAGE)]
                for page in _pages(iter(names)):
                    await self.redis.unlink(*page)
        return None

    # -- both

    def _key(self, namespace: Namespace, key: str) -> str:
        """Parts are escaped, so that no two names have the same key."""
        return f"{self.prefix}{':'.join(map(_escaped, namespace))}/{_escaped(key)}"

    def _patterns(self, namespaces: Sequence[Namespace] | None) -> list[str]:
        prefix = _literally(self.prefix)
        if namespaces is None:
            return [f"{prefix}*"]
        return [f"{prefix}{_literally(':'.join(map(_escaped, ns)))}/*" for ns in namespaces]

    def _entries(
        self, mapping: Mapping[FullKey, tuple[Any, int | None]]
    ) -> list[tuple[str, bytes, int | None]]:
        entries = []
        for name, (value, ttl) in mapping.items():
            kind, data = self.serde.dumps_typed(value)
            entries.append((self._key(*name), kind.encode() + b":" + data, ttl))
        return entries

    def _asked(self, keys: Sequence[FullKey]) -> Any:
        """The call that fetches these keys."""
        names = [self._key(*name) for name in keys]
        if not self._is_cluster:
            return partial(self.redis.mget, names)
        pipe = self.redis.pipeline()  # MGET takes keys of one slot
        for name in names:
            pipe.get(name)
        return pipe.execute

    def _queued(self, entries: Sequence[tuple[str, bytes, int | None]]) -> Any:
        pipe = self.redis.pipeline() if self._is_cluster else self.redis.pipeline(transaction=False)
        for key, data, ttl in entries:
            if ttl is None:
                pipe.set(key, data)
            elif ttl > 0:
                pipe.set(key, data, px=max(1, int(1000 * ttl)))
            else:  # what has expired when it is set is not there, and neither is what was before
                pipe.unlink(key)
        return pipe

    def _found(self, keys: Sequence[FullKey], found: Sequence[Any]) -> dict[FullKey, ValueT]:
        values: dict[FullKey, ValueT] = {}
        for (namespace, key), data in zip(keys, found, strict=True):
            if data is None:
                continue
            if isinstance(data, str):
                raise TypeError(
                    "The Redis client decodes what it reads: make it without decode_responses=True."
                )
            kind, _, body = data.partition(b":")
            value = self.decoded((namespace, key), kind.decode("utf-8", "replace"), body)
            if value is not MISS:
                values[tuple(namespace), key] = value
        return values


class _Reachable:
    """Turns an unreachable server into a miss, with a line in the log."""

    def __init__(self, method: str) -> None:
        self._method = method

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> bool:
        if not isinstance(error, named(*_PASSING)):
            return False
        message = "RedisCache.%s() could not use its server (%s); it goes on without the cache."
        log.warning(log.STORAGE, message, self._method, error)
        return True


def _escaped(part: str) -> str:
    return quote(part, safe="")


def _literally(text: str) -> str:
    """A text that a pattern matches as it is."""
    return "".join(f"\\{c}" if c in "*?[]\\" else c for c in text)


def _pages(names: Iterator[Any]) -> Iterator[list[Any]]:
    page: list[Any] = []
    for name in names:
        page.append(name)
        if len(page) == _PAGE:
            yield page
            page = []
    if page:
        yield page
