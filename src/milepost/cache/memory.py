"""A cache in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from milepost._internal import fork_guard
from milepost.cache.base import BaseCache, FullKey, Namespace, ValueT
from milepost.checkpoint.serde.base import SerializerProtocol

_FEW: Final = 256
"""Entries that are not worth looking through."""


class InMemoryCache(BaseCache[ValueT]):
    """Keeps values in memory, in their stored form, so that later changes do not show.

    What has expired is dropped when it is asked for, or when there are twice as many entries as
    were left the last time.

    Args:
        serde: Turns values into bytes and back.

    Examples:
        >>> from milepost.cache.memory import InMemoryCache
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.types import CachePolicy
        >>> builder = StateGraph(dict).add_node("work", print, cache_policy=CachePolicy())
        >>> graph = builder.add_edge(START, "work").compile(cache=InMemoryCache())
        >>> _ = graph.invoke({"n": 1}), graph.invoke({"n": 1})  # the node runs once
        {'n': 1}
    """

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._entries: dict[FullKey, tuple[str, bytes, float | None]] = {}
        self._room = _FEW
        """With more entries than this, a `set` looks for those that have expired."""
        self._lock = fork_guard.held_at_fork(threading.Lock())

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        now = time.time()
        found: dict[FullKey, ValueT] = {}
        with self._lock:
            for namespace, key in keys:
                name = (tuple(namespace), key)
                entry = self._entries.get(name)
                if entry is None:
                    continue
                kind, data, expires = entry
                if expires is not None and now >= expires:
                    del self._entries[name]
                else:
                    found[name] = self.serde.loads_typed((kind, data))
        return found

    def set(self, keys: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        now = time.time()
        with self._lock:
            for (namespace, key), (value, ttl) in keys.items():
                expires = None if ttl is None else now + ttl
                self._entries[namespace, key] = (*self.serde.dumps_typed(value), expires)
            if len(self._entries) > self._room:
                self._drop_expired(now)

    def _drop_expired(self, now: float) -> None:
        """Drop expired entries that no `get` asks for. Rare, since it looks at all entries."""
        for name, (_, _, expires) in [*self._entries.items()]:
            if expires is not None and now >= expires:
                del self._entries[name]
        self._room = max(_FEW, 2 * len(self._entries))

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._lock:
            if namespaces is None:
                self._entries.clear()
            else:
                gone = set(map(tuple, namespaces))
                for name in [name for name in self._entries if name[0] in gone]:
                    del self._entries[name]

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return self.get(keys)

    async def aset(self, keys: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        self.set(keys)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self.clear(namespaces)
