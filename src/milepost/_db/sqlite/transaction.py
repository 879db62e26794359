"""Runs operations on a `sqlite3` cursor, each in one transaction."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
    Statement,
    Work,
)
from milepost._db.sqlite.errors import explain
from milepost._internal.generators import drive
from milepost.errors import ConnectionUnusableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

R = TypeVar("R")
_Rows = list[tuple[Any, ...]]

READ: Final = "BEGIN"
WRITE: Final = "BEGIN IMMEDIATE"
OPEN_TRANSACTION: Final = (
    "The sqlite3 connection has an open transaction that is not the saver's or store's. Commit it "
    "or roll it back first, or give them a connection of their own: they must be able to commit by "
    "themselves."
)
_PAGES: Final = 32
"""Pages that SQLite may keep in its cache while it reads a cell."""


class Session:
    """One cursor. A transaction begins with the first statement that needs one."""

    __slots__ = ("_begin", "_begun", "_cursor", "_is_own")

    def __init__(self, cursor: sqlite3.Cursor, *, is_own: bool) -> None:
        self._cursor = cursor
        self._begin = READ
        self._begun = False
        self._is_own = is_own
        """Whether the connection was opened for the engine, so that its settings may change."""

    def run(self, work: Work[R], begin: str) -> R:
        """Carry out an operation in one transaction, and roll back if the operation fails."""
        try:
            if self._cursor.connection.in_transaction:
                raise ConnectionUnusableError(OPEN_TRANSACTION)
            self._begin, self._begun = begin, False
            operation = work()
            try:
                result = drive(operation, self._carry_out, thrown=())
                if self._begun:
                    self._cursor.execute("COMMIT")
                return result
            except BaseException as error:
                self._roll_back()
                if isinstance(error, StopIteration):  # raised by a parameter, converter or callback
                    raise RuntimeError("a statement raised StopIteration") from error
                raise
            finally:
                operation.close()
        except sqlite3.Error as error:
            raise explain(error) from error

    def _carry_out(self, statement: Statement) -> Any:
        kind = type(statement)
        if not (self._begun or kind is ConditionalInsert or self._is_alone(statement)):
            self._cursor.execute(self._begin)
            self._begun = True
        return _RUN[kind](self, statement)

    def _roll_back(self) -> None:
        # SQLite itself ends the transaction after some failures, such as a full disk.
        if self._cursor.connection.in_transaction:
            self._cursor.execute("ROLLBACK")

    def _is_alone(self, statement: Statement) -> bool:
        """Whether a statement needs no BEGIN: a read that is a single query."""
        if self._begin != READ:
            return False
        if isinstance(statement, Queries):
            return statement.last and len(statement.queries) == 1
        return isinstance(statement, Query) and statement.last

    def _query(self, query: Query) -> _Rows:
        return self._cursor.execute(query.sql, query.parameters).fetchall()

    def _queries(self, queries: Queries) -> list[_Rows]:
        return [self._query(query) for query in queries.queries]

    def _linked_rows(self, linked: LinkedRows) -> None:
        wanted = linked.parameters
        while wanted is not None:
            row = self._cursor.execute(linked.sql, wanted).fetchone()
            wanted = None if row is None else linked.onward(row)

    def _read_cells(self, cells: ReadCells) -> list[bytes]:
        return read_cells(self._cursor, cells, own=self._is_own)

    def _execute(self, statement: Execute) -> int:
        return self._cursor.execute(statement.sql, statement.parameters).rowcount

    def _execute_many(self, statement: ExecuteMany) -> None:
        self._cursor.executemany(statement.sql, statement.rows)

    def _batch(self, batch: Batch) -> None:
        self._run_all(batch.statements)

    def _guarded_batch(self, guarded: GuardedBatch) -> bool:
        if self._holds(guarded):
            self._run_all(guarded.statements)
            return True
        self._cursor.execute("ROLLBACK")
        self._cursor.execute(self._begin)
        return False

    def _conditional_insert(self, statement: ConditionalInsert) -> bool:
        is_done = self._cursor.execute(statement.sql, statement.parameters).rowcount == 1
        # Unless the user has switched that off, sqlite3 begins a transaction before an INSERT.
        self._begun = self._cursor.connection.in_transaction
        return is_done

    def _holds(self, guarded: GuardedBatch) -> bool:
        cursor = self._cursor
        for sql, rows in guarded.guards:
            for row in rows:
                cursor.execute(sql, row)
                is_query = cursor.description is not None
                if cursor.fetchone() is None if is_query else cursor.rowcount != 1:
                    return False
        return True

    def _run_all(self, statements: Sequence[Execute | ExecuteMany]) -> None:
        cursor = self._cursor
        for one in statements:
            if isinstance(one, Execute):
                cursor.execute(one.sql, one.parameters)
            elif len(one.rows) == 1:
                cursor.execute(one.sql, one.rows[0])
            else:
                cursor.executemany(one.sql, one.rows)


_RUN: Final[Mapping[type, Callable[[Session, Any], Any]]] = {
    Query: Session._query,
    Queries: Session._queries,
    LinkedRows: Session._linked_rows,
    ReadCells: Session._read_cells,
    Execute: Session._execute,
    ExecuteMany: Session._execute_many,
    Batch: Session._batch,
    GuardedBatch: Session._guarded_batch,
    ConditionalInsert: Session._conditional_insert,
}
"""The method that runs each type of statement."""


def read_cells(cursor: sqlite3.Cursor, read: ReadCells, *, own: bool) -> list[bytes]:
    """The bytes of each cell, with as little fresh memory as can be.

    Memory that a process has not used before is provided page by page, and that costs more than all
    that is done with the bytes. A query makes a copy of a cell for itself, and another one for us;
    and each page of the cell stays in SQLite's cache, where it takes the place of others.
    The cache of a connection that is not our own is left as it is.
    """
    if not own:
        return [_cell(cursor, read, number) for number in read.numbers]
    (usual,) = cursor.execute("PRAGMA cache_size").fetchone()
    cursor.execute(f"PRAGMA cache_size={_PAGES}")
    try:
        return [_cell(cursor, read, number) for number in read.numbers]
    finally:
        cursor.execute(f"PRAGMA cache_size={usual}")


def _cell(cursor: sqlite3.Cursor, read: ReadCells, number: int) -> bytes:
    open_cell: Any = getattr(cursor.connection, "blobopen", None)
    if open_cell is None:  # a module that was put in the place of `sqlite3` may lack it
        query = f"SELECT {read.column} FROM {read.table} WHERE rowid = ?"
        return bytes(cursor.execute(query, (number,)).fetchone()[0])
    with open_cell(read.table, read.column, number, readonly=True) as cell:
        data: bytes = cell.read()
        return data
