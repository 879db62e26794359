"""Runs operations on an async psycopg connection or pool; sync callers reach it from outside."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from milepost.errors import ColourError
from milepost.sql.operations import Batch, Guarded, Many, Query, Run
from milepost.sql.pg import ATTEMPTS, Settings, check_idle, cursor_of, explain, may_retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from milepost.sql.operations import Operation, Work

R = TypeVar("R")


class AsyncPostgresEngine:
    """One PostgreSQL database, reached from one event loop."""

    def __init__(
        self,
        source: Any,
        settings: Settings,
        reconnect: Callable[[], Awaitable[psycopg.AsyncConnection[Any]]] | None = None,
    ) -> None:
        self._pool = None if isinstance(source, psycopg.AsyncConnection) else source
        self._connection: Any = source if self._pool is None else None
        self._reconnect = reconnect
        # Made on first use: a saver may be made where no loop runs yet.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: asyncio.Lock | None = None
        self._turn: asyncio.Lock | None = None
        self.settings = settings

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction."""
        return await self._attempts(work, self.settings.begin(write))

    def run(self, work: Work[R], *, write: bool) -> R:
        """`arun`, from a thread that is not the loop's."""
        result: R = self._from_outside(lambda: self.arun(work, write=write))
        return result

    async def aset_up(self, work: Work[None]) -> None:
        """Make the tables."""
        await self._attempts(lambda: self.settings.first(work()), "BEGIN")

    async def acommit(self, committer: Any, waiting: Any) -> Any:
        """Take part in a group commit."""
        self._bind()
        assert self._turn is not None
        async with self._turn:
            if waiting.outcome is None:
                await asyncio.shield(asyncio.ensure_future(self._drain(committer.transactions())))
        return waiting.outcome

    async def _drain(self, transactions: Any) -> None:
        try:
            work = next(transactions)
            while True:
                try:
                    result = await self.arun(work, write=True)
                except BaseException as error:
                    work = transactions.throw(error)
                else:
                    work = transactions.send(result)
        except StopIteration:
            return

    def commit(self, committer: Any, waiting: Any) -> Any:
        """`acommit`, from a thread that is not the loop's."""
        return self._from_outside(lambda: self.acommit(committer, waiting))

    async def avacuum(self) -> None:
        """Rewrite the tables without the rows that were removed."""
        async with self._connected() as connection, _autocommit(connection):
            for statement in self.settings.vacuums:
                await connection.execute(statement)

    def vacuum(self) -> None:
        """`avacuum`, from a thread that is not the loop's."""
        self._from_outside(self.avacuum)

    async def close(self) -> None:
        """Close a connection that is the engine's own."""
        if self._connection is not None:
            await self._connection.close()

    # -- loops

    def _bind(self) -> None:
        """Stay with the loop of the first call: a connection cannot be used on another one."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None and not self._loop.is_closed() and self._loop.is_running():
            raise ColourError(
                "This AsyncPostgresSaver is in use on another event loop, and its connections "
                "cannot be shared between loops. Make one for each loop."
            )
        self._loop = loop
        self._lock, self._turn = asyncio.Lock(), asyncio.Lock()

    def _from_outside(self, call: Callable[[], Any]) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ColourError(
                "A sync method of AsyncPostgresSaver would block the event loop that runs in this "
                "thread. Use the async method."
            )
        if self._loop is None or not self._loop.is_running():
            raise ColourError(
                "The connections of an AsyncPostgresSaver belong to an event loop, and none is "
                "running. Use the async methods, or PostgresSaver in sync programs."
            )
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    # -- connections

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        self._bind()
        if self._pool is not None:
            async with self._pool.connection() as connection:
                yield connection
            return
        assert self._lock is not None
        async with self._lock:
            if (self._connection.closed or self._connection.broken) and self._reconnect:
                await self._connection.close()
                self._connection = await self._reconnect()
            yield self._connection

    async def _attempts(self, work: Work[R], begin: str) -> R:
        attempt = 0
        while True:
            attempt += 1
            connection: Any = None
            try:
                async with self._connected() as connection:
                    return await self._transaction(connection, work, begin)
            except psycopg.Error as error:
                again = self._pool is not None or self._reconnect is not None
                if (
                    attempt >= ATTEMPTS
                    or not may_retry(error, connection)
                    or not (again or not connection.closed)
                ):
                    raise explain(error, self.settings.schema) from error
                await asyncio.sleep(0.02 * 4 ** (attempt - 1))

    async def _transaction(self, connection: Any, work: Work[R], begin: str) -> R:
        check_idle(connection)
        async with _autocommit(connection), cursor_of(connection) as cursor:
            try:
                await cursor.execute(begin, prepare=False)
                result = await self._drive(connection, cursor, work(), begin)
                await cursor.execute("COMMIT", prepare=False)
                return result
            except BaseException:
                if not connection.closed and not connection.broken:
                    await cursor.execute("ROLLBACK", prepare=False)
                raise

    async def _drive(
        self, connection: Any, cursor: Any, operation: Operation[R], begin: str = "BEGIN"
    ) -> R:
        prepare = self.settings.prepare
        try:
            statement = next(operation)
            while True:
                answer: Any = None
                if isinstance(statement, Query):
                    await cursor.execute(statement.sql, statement.parameters, prepare=prepare)
                    answer = await cursor.fetchall()
                elif isinstance(statement, Run):
                    await cursor.execute(statement.sql, statement.parameters, prepare=prepare)
                    answer = cursor.rowcount
                elif isinstance(statement, Guarded):
                    answer = await self._guarded(cursor, statement, begin)
                elif isinstance(statement, Batch):
                    async with connection.pipeline():
                        for one in statement.statements:
                            for row in one.rows if isinstance(one, Many) else (one.parameters,):
                                await cursor.execute(one.sql, row, prepare=prepare)
                elif statement.rows:
                    async with connection.pipeline():
                        for row in statement.rows:
                            await cursor.execute(statement.sql, row, prepare=prepare)
                statement = operation.send(answer)
        except StopIteration as done:
            result: R = done.value
            return result
        finally:
            operation.close()

    async def _guarded(self, cursor: Any, statement: Guarded, begin: str) -> bool:
        prepare = self.settings.prepare
        for row in statement.guard.rows:
            await cursor.execute(statement.guard.sql, row, prepare=prepare)
            if cursor.rowcount != 1:
                await cursor.execute("ROLLBACK", prepare=False)
                await cursor.execute(begin, prepare=False)
                return False
        for one in statement.statements:
            for row in one.rows if isinstance(one, Many) else (one.parameters,):
                await cursor.execute(one.sql, row, prepare=prepare)
        return True


@asynccontextmanager
async def _autocommit(connection: Any) -> AsyncIterator[None]:
    """Begin and commit by hand, also on a connection that would begin by itself."""
    if connection.autocommit:
        yield
        return
    await connection.set_autocommit(True)
    try:
        yield
    finally:
        if not connection.closed:
            await connection.set_autocommit(False)
