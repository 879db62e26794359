"""A cache in a SQLite file, which the processes of a machine share."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from milepost._db.sqlite.errors import explained
from milepost._internal import fork_guard
from milepost._internal.asyncio_tools import in_thread
from milepost.cache._stored import StoredCache
from milepost.cache.base import FullKey, Namespace, ValueT
from milepost.checkpoint.serde.base import SerializerProtocol

__all__ = ["SqliteCache"]

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS milepost_cache (
    ns TEXT NOT NULL, key TEXT NOT NULL, expires REAL, kind TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (ns, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS milepost_cache_expires ON milepost_cache (expires);
"""
_SELECT = "SELECT kind, data FROM milepost_cache WHERE ns = ? AND key = ?" + (
    " AND (expires IS NULL OR expires > ?)"
)
_REPLACE = "INSERT OR REPLACE INTO milepost_cache VALUES (?, ?, ?, ?, ?)"
_PATIENCE = 5.0
"""Seconds that a call waits for a process that writes."""


class SqliteCache(StoredCache[ValueT]):
    """Keeps values in a file, in their stored form. What has expired is dropped on writing.

    Reading runs nothing and imports nothing. An entry that cannot be read, one of a type that is
    not registered here for example, counts as missing.

    Args:
        path: The file.
        serde: Turns values into bytes and back.

    Examples:
        >>> from milepost.cache.sqlite import SqliteCache
        >>> cache = SqliteCache(path="cache.db")
        >>> cache.set({(("cities",), "paris"): ("France", None)})
        >>> cache.get([(("cities",), "paris")])
        {(('cities',), 'paris'): 'France'}
        >>> cache.close()
    """

    def __init__(self, *, path: str, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._path = path
        self._lock = fork_guard.held_at_fork(threading.Lock())
        self._opened: tuple[int, sqlite3.Connection] | None = None
        with self._lock, explained():
            self._connection()

    def _connection(self) -> sqlite3.Connection:
        """The connection of this process: a forked child opens its own."""
        pid = os.getpid()
        if self._opened is None or self._opened[0] != pid:
            conn = sqlite3.connect(
                self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            conn.executescript(_SCHEMA)
            self._opened = (pid, conn)
        return self._opened[1]

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        now = time.time()
        rows: list[tuple[FullKey, tuple[str, bytes]]] = []
        with self._lock, explained():
            conn = self._connection()
            for namespace, key in keys:
                row = conn.execute(_SELECT, (_text(namespace), key, now)).fetchone()
                if row is not None:
                    rows.append(((tuple(namespace), key), row))
        return self.decoded(rows)

    def set(self, mapping: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        now = time.time()
        rows = [
            (_text(ns), key, None if ttl is None else now + ttl, *self.serde.dumps_typed(value))
            for (ns, key), (value, ttl) in mapping.items()
        ]
        with self._lock, explained():
            conn = self._connection()
            conn.execute("BEGIN IMMEDIATE")
            try:
                conn.execute("DELETE FROM milepost_cache WHERE expires <= ?", (now,))
                conn.executemany(_REPLACE, rows)
                conn.execute("COMMIT")
            except BaseException:
                conn.execute("ROLLBACK")
                raise

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._lock, explained():
            conn = self._connection()
            if namespaces is None:
                conn.execute("DELETE FROM milepost_cache")
            else:
                rows = [(_text(namespace),) for namespace in namespaces]
                conn.executemany("DELETE FROM milepost_cache WHERE ns = ?", rows)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            if self._opened is not None and self._opened[0] == os.getpid():
                self._opened[1].close()
            self._opened = None

    def __del__(self) -> None:
        if getattr(self, "_opened", None) is not None:
            self.close()

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return await in_thread(self.get, keys)

    async def aset(self, mapping: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        await in_thread(self.set, mapping)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        await in_thread(self.clear, namespaces)


def _text(namespace: Namespace) -> str:
    """A namespace as text, so that no two have the same one."""
    return json.dumps(list(namespace))
