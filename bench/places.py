"""Where checkpoints go: how to get an empty place, how to open it, how large it has become."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.context import Context
from bench.libraries import Library

Opener = Callable[[Library, Any], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a saver keeps its threads."""

    empty: Callable[[Context], Any]
    """A new one: a file, the address of a schema, or None."""
    open: Opener
    """A saver on it; in the library's process."""


@dataclass(frozen=True, slots=True)
class Database(Place):
    """A place that outlives its saver."""

    name: str
    used: Callable[[Any], int]
    """Bytes while it is open."""
    left: Callable[[Any], int]
    """Bytes after it was closed."""


def _no_place(_: Context) -> None:
    return None


def _no_saver(_: Library, __: None) -> AbstractContextManager[None]:
    return nullcontext(None)


def _memory(library: Library, _: None) -> AbstractContextManager[Any]:
    return nullcontext(library.memory())


def _pages(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        count, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return int((count - free) * size)


def _files(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def _relations(address: str) -> int:
    import psycopg

    with psycopg.connect(address) as connection:
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c"
            " WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace"
        ).fetchone()
    assert row is not None
    return int(row[0])


def _keys(address: str) -> int:
    """Bytes of memory of all keys, as the server counts them."""
    import redis

    with redis.Redis.from_url(address) as client:
        return sum(int(client.memory_usage(key, samples=0) or 0) for key in client.scan_iter())


NOWHERE = Place(_no_place, _no_saver)
MEMORY = Place(_no_place, _memory)
SQLITE = Database(Context.file, Library.sqlite, "SQLite", _pages, _files)
USED_SQLITE = Place(Context.file, Library.used_sqlite)
"""A file whose log is written over from its start, as it is in a file that is in use."""
POSTGRES = Database(Context.schema, Library.postgres, "Postgres", _relations, _relations)
REDIS = Database(Context.redis, Library.redis, "Redis", _keys, _keys)
