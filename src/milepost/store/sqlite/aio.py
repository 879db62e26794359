"""A store in a SQLite file, for programs on an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from milepost.store.sql.faces import AsyncUpkeep
from milepost.store.sqlite import SqliteStore, open_sqlite

__all__ = ["AsyncSqliteStore"]


class AsyncSqliteStore(AsyncUpkeep, SqliteStore):
    """`SqliteStore`, whose upkeep is awaited: `setup`, the sweeper, `reindex`.

    The event loop never waits for the disk: a thread does. The sync methods work too, for code
    that is called outside the loop.
    """

    @classmethod
    @asynccontextmanager
    async def from_conn_string(  # type: ignore[override]
        cls, conn_string: str, **settings: Any
    ) -> AsyncIterator[Self]:
        """A store on a file, or on `":memory:"`; use it with `async with`."""
        conn = open_sqlite(conn_string)
        try:
            store = cls(conn, **settings)
        except BaseException:
            conn.close()
            raise
        try:
            yield store
        finally:
            await store.stop_ttl_sweeper()
            store.engine.close()
