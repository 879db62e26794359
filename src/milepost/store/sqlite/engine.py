"""The engine of the savers, with one short cut: a read of one statement needs no transaction."""

from __future__ import annotations

import sqlite3
from typing import TypeVar

from milepost.sql.lite import SqliteEngine, explain
from milepost.sql.operations import Query, Work

R = TypeVar("R")


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

    async def arun(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """`run`, for use on an event loop."""
        return await self.in_worker(lambda: self.run(work, write=write, single=single))
