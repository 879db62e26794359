"""The engine of the savers, with one short cut: a read of one statement needs no transaction."""

from __future__ import annotations

import sqlite3
import time
from typing import Final, TypeVar

from milepost.sql.failures import DatabaseBusyError
from milepost.sql.lite import SqliteEngine, explain
from milepost.sql.operations import Query, Work

R = TypeVar("R")
_PAUSES: Final = [0.01 * 1.5**attempt for attempt in range(12)]
"""Seconds; together about four."""


class LiteEngine(SqliteEngine):
    """One SQLite database, for a store."""

    def run(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """Carry out an operation, in a transaction unless it is a `single` read."""
        if write or not single:
            return super().run(work, write=write)
        with self.lock:
            self._prepare()
            if self.connection.in_transaction:
                return super().run(work, write=write)  # which knows what to say about it
            operation = work()
            cursor = self._cursor()
            try:
                statement = next(operation)
                while True:
                    assert isinstance(statement, Query)
                    cursor.execute(statement.sql, statement.parameters)
                    statement = operation.send(cursor.fetchall())
            except StopIteration as done:
                result: R = done.value
                return result
            except sqlite3.Error as error:
                raise explain(error) from error
            finally:
                operation.close()
                cursor.close()

    def _prepare(self) -> None:
        """The same, with patience: SQLite does not wait for others that open a new file, too."""
        for pause in _PAUSES:
            try:
                super()._prepare()
                return
            except DatabaseBusyError:
                time.sleep(pause)
        super()._prepare()

    async def arun(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """`run`, for use on an event loop."""
        return await self.in_worker(lambda: self.run(work, write=write, single=single))
