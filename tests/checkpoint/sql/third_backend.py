"""A saver for one more database, as an outsider writes it from ARCHITECTURE's section on backends.

The database is SQLite behind Python's common interface for databases (DB-API 2), with a connection
for each transaction and none of the care that `SqliteSaver` takes for speed, forks and users'
connections. A database with words of its own adds a module of statements and a `Dialect`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from milepost._db.dialect import SQLITE
from milepost._db.group_commit import Committer, Outcome, Waiting
from milepost._db.migrations import table_setup
from milepost._db.operations import (
    Batch,
    ConditionalInsert,
    Execute,
    ExecuteMany,
    GuardedBatch,
    LinkedRows,
    Queries,
    Query,
    ReadCells,
    Work,
)
from milepost._internal.generators import drive
from milepost.checkpoint._sql.group_saver import GroupCommits
from milepost.checkpoint._sql.saver import SqlSaver
from milepost.checkpoint._sql.schema import SCHEMA
from milepost.checkpoint.serde.base import SerializerProtocol

R = TypeVar("R")
S = TypeVar("S")


class Transaction:
    """Carries out statements on one cursor."""

    def __init__(self, cursor: sqlite3.Cursor, *, write: bool) -> None:
        self._cursor = cursor
        self._begin = "BEGIN IMMEDIATE" if write else "BEGIN"

    def run(self, work: Work[R]) -> R:
        """All of an operation, or nothing."""
        self._cursor.execute(self._begin)
        try:
            result = drive(work(), self._carry_out)
        except BaseException:
            self._cursor.execute("ROLLBACK")
            raise
        self._cursor.execute("COMMIT")
        return result

    def _carry_out(self, statement: Any) -> Any:
        cursor = self._cursor
        match statement:
            case Query(sql, parameters):
                return cursor.execute(sql, parameters).fetchall()
            case Queries(queries):
                return [cursor.execute(query.sql, query.parameters).fetchall() for query in queries]
            case LinkedRows(sql, parameters, onward):
                while parameters is not None:
                    row = cursor.execute(sql, parameters).fetchone()
                    parameters = None if row is None else onward(row)
                return None
            case ReadCells(table, column, numbers):
                cell = f"SELECT {column} FROM {table} WHERE id = ?"
                return [cursor.execute(cell, (number,)).fetchone()[0] for number in numbers]
            case Execute(sql, parameters) | ConditionalInsert(sql, parameters):
                changed = cursor.execute(sql, parameters).rowcount
                return changed if isinstance(statement, Execute) else changed == 1
            case ExecuteMany(sql, rows):
                cursor.executemany(sql, rows)
                return None
            case Batch(statements):
                self._run_all(statements)
                return None
            case GuardedBatch(guards, statements):
                if all(self._holds(guard) for guard in guards):
                    self._run_all(statements)
                    return True
                cursor.execute("ROLLBACK")
                cursor.execute(self._begin)
                return False
        raise TypeError(f"unknown statement {statement!r}")

    def _run_all(self, statements: Sequence[Execute | ExecuteMany]) -> None:
        for statement in statements:
            self._carry_out(statement)

    def _holds(self, guard: ExecuteMany) -> bool:
        for row in guard.rows:
            self._cursor.execute(guard.sql, row)
            is_query = self._cursor.description is not None
            if self._cursor.fetchone() is None if is_query else self._cursor.rowcount != 1:
                return False
        return True


class ThirdEngine:
    """A connection for each transaction; async code waits for a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        tables = table_setup(SQLITE, SCHEMA)
        if not self.run(tables.is_done, write=False):
            self.run(tables.make, write=True)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        connection.execute("PRAGMA synchronous=NORMAL")  # no clause cuts the power
        return connection

    def run(self, work: Work[R], *, write: bool) -> R:
        with closing(self._connect()) as connection:
            return Transaction(connection.cursor(), write=write).run(work)

    async def arun(self, work: Work[R], *, write: bool) -> R:
        return await asyncio.to_thread(partial(self.run, work, write=write))

    def vacuum(self) -> None:
        with closing(self._connect()) as connection:
            connection.execute("VACUUM")

    async def avacuum(self) -> None:
        await asyncio.to_thread(self.vacuum)

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        return committer.commit(waiting, partial(self.run, write=True))

    async def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        return await asyncio.to_thread(self.commit, committer, waiting)


class ThirdSaver(GroupCommits, SqlSaver):  # type: ignore[misc] # what prune returns
    """Keeps threads through `ThirdEngine`."""

    dialect = SQLITE
    engine: ThirdEngine

    def __init__(self, path: Path, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self.engine = ThirdEngine(path)
