"""A saver that keeps threads in a SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self, Unpack

from milepost._db.dialect import SQLITE
from milepost._db.migrations import table_setup
from milepost._db.operations import Operation, Query
from milepost._db.sqlite.engine import FilePath, SqliteEngine, open_sqlite
from milepost._internal.left_open import lend
from milepost.checkpoint._contract.thread_metadata import (
    SaverOptions,
    ThreadOptions,
    checked_options,
)
from milepost.checkpoint._sql.group_saver import GroupCommits
from milepost.checkpoint._sql.saver import SqlSaver
from milepost.checkpoint._sql.schema import SCHEMA
from milepost.checkpoint._sql.sqlite_statements import STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.checkpoint.serde.base import SerializerProtocol

__all__ = ["SqliteSaver"]


class SqliteSaver(GroupCommits, SqlSaver):  # type: ignore[misc] # what prune returns
    """Keeps threads in a SQLite database. The tables are made on first use.

    Give it a connection, or let `from_conn_string` open and close one. Every step that was
    acknowledged survives a power cut.

    Args:
        conn: A connection of `sqlite3`.
        serde: Turns values into bytes and back.
        synchronous: With "NORMAL" commits are faster, and a power cut (not a crash of the program)
            may take back the last of them.
        **threads: `thread_metadata`: keys of a run's metadata that are stored with the thread;
            `seal_thread_metadata`: whether they are encrypted there.

    Examples:
        >>> from milepost.checkpoint.sqlite import SqliteSaver
        >>> from milepost.graph import START, StateGraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> builder = builder.add_edge(START, "work")
        >>> with SqliteSaver.from_conn_string("threads.db") as saver:
        ...     graph = builder.compile(checkpointer=saver)
        ...     graph.invoke({}, {"configurable": {"thread_id": "1"}})
        {'n': 1}
    """

    dialect = SQLITE
    statements = STATEMENTS
    steadfast = True
    engine: SqliteEngine

    def __init__(
        self,
        conn: sqlite3.Connection,
        *,
        serde: SerializerProtocol | None = None,
        synchronous: str = "FULL",
        **threads: Unpack[ThreadOptions],
    ) -> None:
        super().__init__(serde=serde, **threads)
        if not isinstance(conn, sqlite3.Connection):
            raise TypeError(
                f"SqliteSaver needs a sqlite3.Connection, not {type(conn).__name__}. For a file "
                "name use `with SqliteSaver.from_conn_string(...) as saver:`."
            )
        self.engine = SqliteEngine(conn, synchronous=synchronous, first=TABLE_SETUP)

    @property
    def conn(self) -> sqlite3.Connection:
        """The connection."""
        return self.engine.connection

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, conn_string: FilePath, *, synchronous: str = "FULL", **options: Unpack[SaverOptions]
    ) -> Iterator[Self]:
        """A saver on a file, or in memory; use it with `with`.

        Args:
            conn_string: The path of the file, or ":memory:".
            synchronous: As for the class.
            **options: Those of the class.
        """
        options = checked_options(options)
        connection = open_sqlite(conn_string)
        saver = cls(connection, synchronous=synchronous, **options)
        saver.engine.owns(conn_string)

        def close() -> None:
            saver.stop_sweeper()
            saver.engine.close()

        yield from lend(saver, close, saver.engine.close_at_exit)

    def setup(self) -> None:
        """Make the tables now. Not needed: the first use does it."""
        self.engine.run(nothing, write=False)


TABLE_SETUP: Final = table_setup(SQLITE, SCHEMA)
"""The first thing that is done with a database."""


def nothing() -> Operation[None]:
    """An operation that only makes the engine look at its connection."""
    yield Query("SELECT 1")
