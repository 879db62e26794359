"""The SQLite saver for programs that run on an event loop."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, Unpack

from milepost._db.dialect import SQLITE
from milepost._db.sqlite.aio import AiosqliteEngine
from milepost._db.sqlite.engine import FilePath, SqliteEngine, open_sqlite
from milepost._internal.asyncio_tools import in_thread
from milepost._internal.left_open import quiet_at_exit
from milepost.checkpoint._contract.thread_metadata import (
    SaverOptions,
    ThreadOptions,
    checked_options,
)
from milepost.checkpoint._sql.group_saver import GroupCommits
from milepost.checkpoint._sql.saver import SqlSaver
from milepost.checkpoint._sql.sqlite_statements import STATEMENTS
from milepost.checkpoint.sqlite import TABLE_SETUP, nothing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from milepost.checkpoint.serde.base import SerializerProtocol

__all__ = ["AsyncSqliteSaver"]


class AsyncSqliteSaver(GroupCommits, SqlSaver):  # type: ignore[misc] # what prune returns
    """Keeps threads in a SQLite database. The tables are made on first use.

    Give it an aiosqlite connection or a sqlite3 one, or let `from_conn_string` open and close one.
    The loop never waits for the disk. The sync methods work too; with an aiosqlite connection,
    from every thread but the loop's own.

    Args:
        conn: A connection of aiosqlite or sqlite3.
        serde: Turns values into bytes and back.
        synchronous: See `SqliteSaver`.
        **threads: See `SqliteSaver`.

    Examples:
        >>> import asyncio
        >>> from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
        >>> from milepost.graph import START, StateGraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> builder = builder.add_edge(START, "work")
        >>> async def main():
        ...     async with AsyncSqliteSaver.from_conn_string("threads.db") as saver:
        ...         graph = builder.compile(checkpointer=saver)
        ...         return await graph.ainvoke({}, {"configurable": {"thread_id": "1"}})
        >>> asyncio.run(main())
        {'n': 1}
    """

    dialect = SQLITE
    statements = STATEMENTS
    engine: SqliteEngine | AiosqliteEngine

    def __init__(
        self,
        conn: Any,
        *,
        serde: SerializerProtocol | None = None,
        synchronous: str = "FULL",
        **threads: Unpack[ThreadOptions],
    ) -> None:
        super().__init__(serde=serde, **threads)
        if isinstance(conn, sqlite3.Connection):
            self.engine = SqliteEngine(conn, synchronous=synchronous, first=TABLE_SETUP)
            self.steadfast = True
        else:
            self.engine = AiosqliteEngine(
                conn, owner=type(self).__name__, synchronous=synchronous, first=TABLE_SETUP
            )

    @property
    def conn(self) -> Any:
        """The connection."""
        return self.engine.connection

    @classmethod
    @asynccontextmanager
    @quiet_at_exit
    async def from_conn_string(
        cls, conn_string: FilePath, *, synchronous: str = "FULL", **options: Unpack[SaverOptions]
    ) -> AsyncGenerator[Self, None]:
        """A saver on a file, or in memory; use it with `async with`.

        Args:
            conn_string: The path of the file, or ":memory:".
            synchronous: As for the class.
            **options: Those of the class.
        """
        options = checked_options(options)
        connection = await in_thread(open_sqlite, conn_string)
        saver = cls(connection, synchronous=synchronous, **options)
        assert isinstance(saver.engine, SqliteEngine)
        saver.engine.owns(conn_string)
        try:
            yield saver
        finally:
            saver.stop_sweeper()
            await in_thread(saver.engine.close)

    async def setup(self) -> None:
        """Make the tables now. Not needed: the first use does it."""
        await self.engine.arun(nothing, write=False)
