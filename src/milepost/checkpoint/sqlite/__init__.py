"""A saver that keeps threads in a SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from milepost.checkpoint.sql.maintenance import MaintainedSaver
from milepost.checkpoint.sql.schema import SCHEMA
from milepost.sql.dialect import SQLITE
from milepost.sql.lite import SqliteEngine, open_sqlite
from milepost.sql.migrations import migrate
from milepost.sql.operations import Operation, Query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.checkpoint.serde.base import SerializerProtocol

__all__ = ["SqliteSaver"]


class SqliteSaver(MaintainedSaver):
    """Keeps threads in a SQLite database. The tables are made on first use.

    Give it a connection, or let `from_conn_string` open and close one. Every step that was
    acknowledged survives a power cut; with `synchronous="NORMAL"` commits are faster, and a power
    cut (not a crash of the program) may take back the last of them.
    """

    dialect = SQLITE
    steadfast = True
    engine: SqliteEngine

    def __init__(
        self,
        conn: sqlite3.Connection,
        *,
        serde: SerializerProtocol | None = None,
        synchronous: str = "FULL",
    ) -> None:
        super().__init__(serde=serde)
        if not isinstance(conn, sqlite3.Connection):
            raise TypeError(
                f"SqliteSaver needs a sqlite3.Connection, not {type(conn).__name__}. For a file "
                "name use `with SqliteSaver.from_conn_string(...) as saver:`."
            )
        self.engine = SqliteEngine(conn, synchronous=synchronous, first=create_tables)

    @property
    def conn(self) -> sqlite3.Connection:
        """The connection."""
        return self.engine.connection

    @classmethod
    @contextmanager
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        serde: SerializerProtocol | None = None,
        synchronous: str = "FULL",
    ) -> Iterator[Self]:
        """A saver on a file, or on `":memory:"`; use it with `with`."""
        connection = open_sqlite(conn_string)
        saver = cls(connection, serde=serde, synchronous=synchronous)
        saver.engine.owns(conn_string)
        try:
            yield saver
        finally:
            saver.stop_sweeper()
            saver.engine.close()

    def setup(self) -> None:
        """Make the tables now. Not needed: the first use does it."""
        self.engine.run(nothing, write=False)


def create_tables() -> Operation[None]:
    """The first thing that is done with a database."""
    return migrate(SQLITE, SCHEMA)


def nothing() -> Operation[None]:
    """An operation that only makes the engine look at its connection."""
    yield Query("SELECT 1")
