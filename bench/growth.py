"""Grows a conversation turn by turn, and keeps what each turn took."""

from __future__ import annotations

import gc
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.context import Context
from bench.graphs import chat, on_thread, text, user_turn
from bench.libraries import Library
from bench.measure import Reading

THREAD = "chat"


@dataclass(slots=True)
class Grown:
    """A conversation in a database, and how it came there."""

    where: Any
    """A file, or the address of a schema."""
    turns: list[Reading] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Turns and bytes, along the way."""
    bytes: int = 0
    """After closing."""

    def total(self) -> Reading:
        """The whole conversation."""
        return Reading(sum(t.wall for t in self.turns), sum(t.cpu for t in self.turns))

    def part(self, start: int | None, end: int | None) -> Reading:
        """Some turns."""
        part = self.turns[start:end]
        return Reading(sum(t.wall for t in part), sum(t.cpu for t in part))


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of database: how to get an empty one, how to open it, how large it is."""

    name: str
    empty: Callable[[Context], Any]
    open: Callable[[Library, Any], AbstractContextManager[Any]]
    used: Callable[[Any], int]
    """Bytes while it is open."""
    left: Callable[[Any], int]
    """Bytes after it was closed."""


def grow(backend: Backend, context: Context, library: Library) -> Grown:
    """A conversation of as many turns as the plan has, saved with `sync`."""
    grown = Grown(backend.empty(context))
    turns = context.plan.turns
    sampled = max(1, turns // 40)
    with backend.open(library, grown.where) as saver:
        graph = chat(library, saver)
        config = on_thread(THREAD)
        for number in range(2 * turns + 2):
            text(number)  # made once, and not while the clock runs
        gc.collect()
        for number in range(turns):
            given = user_turn(number)
            wall, cpu = time.perf_counter(), time.process_time()
            graph.invoke(given, config, durability="sync")
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            grown.turns.append(Reading(wall, cpu))
            if (number + 1) % sampled == 0:
                grown.sizes.append((number + 1, backend.used(grown.where)))
    grown.bytes = backend.left(grown.where)
    return grown


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


SQLITE = Backend("SQLite", Context.file, Library.sqlite, _pages, _files)
POSTGRES = Backend("Postgres", Context.schema, Library.postgres, _relations, _relations)


def kept(backend: Backend, context: Context, library: Library) -> Any:
    """Where a conversation is, grown by an earlier case or now."""
    return context.once(
        ("grown", backend.name, library.name), lambda: grow(backend, context, library)
    ).where
