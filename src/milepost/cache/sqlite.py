"""A cache in a SQLite file, which the processes of a machine share."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from milepost._db.migrations import TableSetup
from milepost._db.operations import Execute, ExecuteMany, Operation, Queries, Query, Work
from milepost._db.sqlite.engine import FilePath, SqliteEngine, is_in_memory, open_sqlite
from milepost._internal import fork_guard
from milepost._internal.asyncio_tools import in_thread
from milepost.cache.base import BaseCache, FullKey, Namespace, ValueT
from milepost.checkpoint.serde.base import SerializerProtocol

__all__ = ["SqliteCache"]

_TABLE: Final = """CREATE TABLE IF NOT EXISTS milepost_cache (
    ns TEXT NOT NULL, key TEXT NOT NULL, expires REAL, kind TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (ns, key)
) WITHOUT ROWID"""
_INDEX: Final = "CREATE INDEX IF NOT EXISTS milepost_cache_expires ON milepost_cache (expires)"
_INDEXES: Final = "SELECT 1 FROM sqlite_master WHERE name = 'milepost_cache_expires'"
_SELECT: Final = "SELECT kind, data FROM milepost_cache WHERE ns = ? AND key = ?" + (
    " AND (expires IS NULL OR expires > ?)"
)
_REPLACE: Final = "INSERT OR REPLACE INTO milepost_cache VALUES (?, ?, ?, ?, ?)"
_PATIENCE: Final = 5.0
"""Seconds that a call waits for a process that writes."""
R = TypeVar("R")


class SqliteCache(BaseCache[ValueT]):
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

    def __init__(self, *, path: FilePath, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._path = os.fsdecode(path)
        # Not held at a fork: a thread that holds this lock waits for the engine's.
        self._lock = fork_guard.fresh_in_child(threading.Lock())
        self._engine: SqliteEngine | None = None
        """None while the file is closed."""
        fork_guard.renewed_in_child(self)
        self._run(_is_made, write=False)

    def renew(self) -> None:
        """In a forked child the engine opens its file again; what was in memory is the parent's."""
        if is_in_memory(self._path):
            self._engine = None

    def _open(self) -> SqliteEngine:
        if self._engine is None:
            connection = open_sqlite(self._path, timeout=_PATIENCE)
            self._engine = SqliteEngine(connection, synchronous="NORMAL", first=_TABLES)
            self._engine.owns(self._path, timeout=_PATIENCE)
        return self._engine

    def _run(self, work: Work[R], *, write: bool) -> R:
        with self._lock:
            return self._open().run(work, write=write)

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        if not keys:
            return {}
        now = time.time()
        names = [(tuple(namespace), key) for namespace, key in keys]
        wanted = [Query(_SELECT, (_text(namespace), key, now)) for namespace, key in names]

        def look() -> Operation[list[list[tuple[str, bytes]]]]:
            found: list[list[tuple[str, bytes]]] = yield Queries(wanted, last=True)
            return found

        found = self._run(look, write=False)
        stored = [(name, rows[0]) for name, rows in zip(names, found, strict=True) if rows]
        return self._decoded(stored)

    def set(self, mapping: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        now = time.time()
        rows = [
            (_text(ns), key, None if ttl is None else now + ttl, *self.serde.dumps_typed(value))
            for (ns, key), (value, ttl) in mapping.items()
        ]

        def store() -> Operation[None]:
            yield Execute("DELETE FROM milepost_cache WHERE expires <= ?", (now,))
            yield ExecuteMany(_REPLACE, rows)

        self._run(store, write=True)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        def remove() -> Operation[None]:
            if namespaces is None:
                yield Execute("DELETE FROM milepost_cache")
            else:
                rows = [(_text(namespace),) for namespace in namespaces]
                yield ExecuteMany("DELETE FROM milepost_cache WHERE ns = ?", rows)

        self._run(remove, write=True)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            engine, self._engine = self._engine, None
            if engine is not None:
                engine.close()

    def __del__(self) -> None:
        if getattr(self, "_engine", None) is not None:
            self.close()

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return await in_thread(self.get, keys)

    async def aset(self, mapping: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        await in_thread(self.set, mapping)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        await in_thread(self.clear, namespaces)


def _is_made() -> Operation[bool]:
    return bool((yield Query(_INDEXES, last=True)))


def _make() -> Operation[None]:
    yield Execute(_TABLE)
    yield Execute(_INDEX)


_TABLES: Final = TableSetup(_is_made, _make)


def _text(namespace: Namespace) -> str:
    """A namespace as text, so that no two have the same one."""
    return json.dumps(list(namespace))
