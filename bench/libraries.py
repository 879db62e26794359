"""The two libraries behind one face: what has the same name is looked up under either root."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.limits import use_sqlite

NEEDED = ("graph", "checkpoint.sqlite.aio")
"""What every case takes from a library."""
_PROMISE = {"journal_mode": "wal", "synchronous": 2}


class Library:
    """milepost or LangGraph, loaded into this process."""

    def __init__(self, name: str, root: str) -> None:
        self.name = name
        self.root = root
        graph, types = import_module(f"{root}.graph"), import_module(f"{root}.types")
        self.StateGraph: Any = graph.StateGraph
        self.START: str = graph.START
        self.END: str = graph.END
        self.Send: Any = types.Send
        self.Command: Any = types.Command
        self.interrupt: Any = types.interrupt

    @property
    def MessagesState(self) -> Any:  # noqa: N802 - the name that both have
        """The state of a conversation; milepost loads it when it is asked for."""
        return import_module(f"{self.root}.graph").MessagesState

    def memory(self) -> Any:
        """A saver that keeps threads in memory."""
        return import_module(f"{self.root}.checkpoint.memory").InMemorySaver()

    @contextmanager
    def sqlite(self, path: Path) -> Iterator[Any]:
        """A saver on a file, with a log and an fsync for every commit."""
        module = import_module(f"{self.root}.checkpoint.sqlite")
        with module.SqliteSaver.from_conn_string(str(path)) as saver:
            if self.root == "langgraph":
                saver.conn.execute("PRAGMA journal_mode=WAL")
                saver.conn.execute("PRAGMA synchronous=FULL")
            saver.setup()
            _check({name: _setting(saver.conn, name) for name in _PROMISE})
            yield saver

    @contextmanager
    def used_sqlite(self, path: Path) -> Iterator[Any]:
        """The same on a file that has been in use: its log is written over from its start."""
        with self.sqlite(path) as saver:
            use_sqlite(path)
            yield saver

    @asynccontextmanager
    async def async_sqlite(self, path: Path) -> AsyncIterator[Any]:
        """The same, for use on an event loop."""
        module = import_module(f"{self.root}.checkpoint.sqlite.aio")
        async with module.AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            if self.root == "langgraph":
                await saver.conn.execute("PRAGMA journal_mode=WAL")
                await saver.conn.execute("PRAGMA synchronous=FULL")
            await saver.setup()
            _check({name: await _async_setting(saver.conn, name) for name in _PROMISE})
            use_sqlite(path)
            yield saver

    @contextmanager
    def postgres(self, address: str) -> Iterator[Any]:
        """A saver on a server, through one connection."""
        module = import_module(f"{self.root}.checkpoint.postgres")
        with module.PostgresSaver.from_conn_string(address) as saver:
            saver.setup()
            yield saver

    @asynccontextmanager
    async def async_postgres(self, address: str, size: int) -> AsyncIterator[Any]:
        """A saver on a server, through a pool of connections."""
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        module = import_module(f"{self.root}.checkpoint.postgres.aio")
        settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool: Any = AsyncConnectionPool(
            address, min_size=size, max_size=size, kwargs=settings, open=False
        )
        async with pool:
            await pool.wait()
            saver = module.AsyncPostgresSaver(pool)
            await saver.setup()
            yield saver

    @contextmanager
    def redis(self, address: str) -> Iterator[Any]:
        """A saver on a Redis or Valkey server; LangGraph's needs modules that this one has not."""
        module = import_module(f"{self.root}.checkpoint.redis")
        with module.RedisSaver.from_conn_string(address) as saver:
            saver.setup()
            yield saver

    @asynccontextmanager
    async def async_redis(self, address: str) -> AsyncIterator[Any]:
        """The same, for use on an event loop."""
        module = import_module(f"{self.root}.checkpoint.redis.aio")
        async with module.AsyncRedisSaver.from_conn_string(address) as saver:
            await saver.setup()
            yield saver


def _setting(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


async def _async_setting(connection: Any, name: str) -> Any:
    """milepost opens a connection of sqlite3 for an event loop, LangGraph one of aiosqlite."""
    if isinstance(connection, sqlite3.Connection):
        return _setting(connection, name)
    async with connection.execute(f"PRAGMA {name}") as cursor:
        return (await cursor.fetchone())[0]


def _check(found: dict[str, Any]) -> None:
    """Both sides must keep the same promise to be compared."""
    if found != _PROMISE:
        raise RuntimeError(f"SQLite has {found}, not {_PROMISE}")
