"""A store in a SQLite file, for programs on an event loop."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

from milepost._db.sqlite.aio import AiosqliteEngine
from milepost._db.sqlite.engine import FilePath, SqliteEngine
from milepost._internal.left_open import quiet_at_exit
from milepost.store._core.api import AsyncUpkeep
from milepost.store.sqlite import BaseSqliteStore

__all__ = ["AsyncSqliteStore"]


class AsyncSqliteStore(AsyncUpkeep, BaseSqliteStore):
    """`SqliteStore`, whose upkeep is awaited: `setup`, the sweeper, `reindex`.

    Give it a sqlite3 or an aiosqlite connection, or let `from_conn_string` open and close one;
    either can be a saver's as well. The event loop never waits for the disk: a thread does. The
    sync methods work too, for code that is called outside the loop.

    Examples:
        >>> import asyncio
        >>> from milepost.store.sqlite import AsyncSqliteStore
        >>> async def main():
        ...     async with AsyncSqliteStore.from_conn_string("store.db") as store:
        ...         await store.aput(("users", "ada"), "city", {"name": "Paris"})
        ...         return (await store.aget(("users", "ada"), "city")).value
        >>> asyncio.run(main())
        {'name': 'Paris'}
    """

    def _engine_for(self, conn: Any, synchronous: str) -> Any:
        if isinstance(conn, (sqlite3.Connection, SqliteEngine)):
            return super()._engine_for(conn, synchronous)
        if isinstance(conn, AiosqliteEngine):
            conn = conn.connection
        self._owns_engine = False  # what it has of threads is the connection's
        return AiosqliteEngine(
            conn, owner=type(self).__name__, synchronous=synchronous, equip=self._equip
        )

    @classmethod
    @asynccontextmanager
    @quiet_at_exit
    async def from_conn_string(
        cls, conn_string: FilePath, **settings: Any
    ) -> AsyncGenerator[Self, None]:
        """A store on a file, or in memory; use it with `async with`.

        Args:
            conn_string: The path of the file, or ":memory:".
            **settings: Those of `SqliteStore`.
        """
        store = cls._on_file(conn_string, settings)
        try:
            yield store
        finally:
            await store.stop_ttl_sweeper()
            store.engine.close()
