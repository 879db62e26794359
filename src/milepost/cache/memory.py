"""A cache in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from milepost.cache.base import BaseCache, FullKey, Namespace, ValueT
from milepost.checkpoint.serde.base import SerializerProtocol


class InMemoryCache(BaseCache[ValueT]):
    """Keeps values in memory, in their stored form, so that later changes do not show."""

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._entries: dict[Namespace, dict[str, tuple[str, bytes, float | None]]] = {}
        self._lock = threading.Lock()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        now = time.time()
        found: dict[FullKey, ValueT] = {}
        with self._lock:
            for namespace, key in keys:
                entries = self._entries.get(namespace, {})
                if key not in entries:
                    continue
                kind, data, expires = entries[key]
                if expires is not None and now >= expires:
                    del entries[key]
                else:
                    found[(namespace, key)] = self.serde.loads_typed((kind, data))
        return found

    def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        now = time.time()
        with self._lock:
            for (namespace, key), (value, ttl) in pairs.items():
                expires = None if ttl is None else now + ttl
                entry = (*self.serde.dumps_typed(value), expires)
                self._entries.setdefault(namespace, {})[key] = entry

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._lock:
            if namespaces is None:
                self._entries.clear()
            else:
                for namespace in namespaces:
                    self._entries.pop(namespace, None)

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return self.get(keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        self.set(pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self.clear(namespaces)
