"""Runs operations on a psycopg connection or pool in sync code; async callers use a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from milepost.sql.operations import Batch, Guarded, Many, Query, Run
from milepost.sql.pg import ATTEMPTS, Settings, check_idle, cursor_of, explain, may_retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from milepost.sql.operations import Operation, Work

R = TypeVar("R")


class PostgresEngine:
    """One PostgreSQL database."""

    def __init__(
        self,
        source: Any,
        settings: Settings,
        reconnect: Callable[[], psycopg.Connection[Any]] | None = None,
    ) -> None:
        self._pool = None if isinstance(source, psycopg.Connection) else source
        self._connection: Any = source if self._pool is None else None
        self._reconnect = reconnect
        self._lock = threading.RLock()
        self.settings = settings

    def run(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction."""
        return self._attempts(work, self.settings.begin(write))

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """`run`, for use on an event loop."""
        return await asyncio.to_thread(self.run, work, write=write)

    def set_up(self, work: Work[None]) -> None:
        """Make the tables."""
        self._attempts(lambda: self.settings.first(work()), "BEGIN")

    def commit(self, committer: Any, waiting: Any) -> Any:
        """Take part in a group commit."""
        return committer.commit(waiting, lambda work: self.run(work, write=True))

    async def acommit(self, committer: Any, waiting: Any) -> Any:
        """`commit`, for use on an event loop."""
        return await asyncio.to_thread(self.commit, committer, waiting)

    def vacuum(self) -> None:
        """Rewrite the tables without the rows that were removed."""
        with self._connected() as connection, _autocommit(connection):
            for statement in self.settings.vacuums:
                connection.execute(statement)

    async def avacuum(self) -> None:
        """`vacuum`, for use on an event loop."""
        await asyncio.to_thread(self.vacuum)

    def close(self) -> None:
        """Close a connection that is the engine's own."""
        if self._connection is not None:
            self._connection.close()

    # -- connections

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        if self._pool is not None:
            with self._pool.connection() as connection:
                yield connection
            return
        with self._lock:
            if (self._connection.closed or self._connection.broken) and self._reconnect:
                self._connection.close()
                self._connection = self._reconnect()
            yield self._connection

    def _attempts(self, work: Work[R], begin: str) -> R:
        attempt = 0
        while True:
            attempt += 1
            connection: Any = None
            try:
                with self._connected() as connection:
                    return self._transaction(connection, work, begin)
            except psycopg.Error as error:
                again = self._pool is not None or self._reconnect is not None
                if (
                    attempt >= ATTEMPTS
                    or not may_retry(error, connection)
                    or not (again or not connection.closed)
                ):
                    raise explain(error, self.settings.schema) from error
                time.sleep(0.02 * 4 ** (attempt - 1))

    def _transaction(self, connection: Any, work: Work[R], begin: str) -> R:
        check_idle(connection)
        with _autocommit(connection), cursor_of(connection) as cursor:
            try:
                cursor.execute(begin, prepare=False)
                result = self._drive(connection, cursor, work(), begin)
                cursor.execute("COMMIT", prepare=False)
                return result
            except BaseException:
                if not connection.closed and not connection.broken:
                    cursor.execute("ROLLBACK", prepare=False)
                raise

    def _drive(
        self, connection: Any, cursor: Any, operation: Operation[R], begin: str = "BEGIN"
    ) -> R:
        prepare = self.settings.prepare
        try:
            statement = next(operation)
            while True:
                answer: Any = None
                if isinstance(statement, Query):
                    cursor.execute(statement.sql, statement.parameters, prepare=prepare)
                    answer = cursor.fetchall()
                elif isinstance(statement, Run):
                    cursor.execute(statement.sql, statement.parameters, prepare=prepare)
                    answer = cursor.rowcount
                elif isinstance(statement, Guarded):
                    answer = self._guarded(cursor, statement, begin)
                elif isinstance(statement, Batch):
                    with connection.pipeline():
                        for one in statement.statements:
                            for row in one.rows if isinstance(one, Many) else (one.parameters,):
                                cursor.execute(one.sql, row, prepare=prepare)
                elif statement.rows:
                    with connection.pipeline():
                        for row in statement.rows:
                            cursor.execute(statement.sql, row, prepare=prepare)
                statement = operation.send(answer)
        except StopIteration as done:
            result: R = done.value
            return result
        finally:
            operation.close()

    def _guarded(self, cursor: Any, statement: Guarded, begin: str) -> bool:
        prepare = self.settings.prepare
        for row in statement.guard.rows:
            cursor.execute(statement.guard.sql, row, prepare=prepare)
            if cursor.rowcount != 1:
                cursor.execute("ROLLBACK", prepare=False)
                cursor.execute(begin, prepare=False)
                return False
        for one in statement.statements:
            for row in one.rows if isinstance(one, Many) else (one.parameters,):
                cursor.execute(one.sql, row, prepare=prepare)
        return True


@contextmanager
def _autocommit(connection: Any) -> Iterator[None]:
    """Begin and commit by hand, also on a connection that would begin by itself."""
    if connection.autocommit:
        yield
        return
    connection.autocommit = True
    try:
        yield
    finally:
        if not connection.closed:
            connection.autocommit = False
