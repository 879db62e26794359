"""Runs a store's transactions on psycopg, sync and async.

A read is not wrapped in a transaction unless it needs one: on a local server BEGIN and COMMIT
take longer than most queries. The same goes for a write of a single statement.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.errors import ColourError, MissingDependencyError, StoreError
from milepost.sql.operations import Many, Operation, Query, Work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

R = TypeVar("R")
_RETRIES = 5


def load_psycopg() -> Any:
    """psycopg, or an error that says how to get it."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingDependencyError(
            'PostgreSQL needs psycopg: pip install "psycopg[binary]" psycopg-pool'
        ) from error
    return psycopg


class PgEngine:
    """One database, through a connection or a pool of them."""

    def __init__(self, source: Any) -> None:
        psycopg = load_psycopg()
        self._is_pool = hasattr(source, "connection") and hasattr(source, "getconn")
        if not self._is_pool and not isinstance(source, psycopg.Connection):
            raise TypeError(
                "PostgresStore needs a psycopg.Connection or a psycopg_pool.ConnectionPool, not "
                f"{type(source).__name__}. For an address use from_conn_string(...)."
            )
        self._source = source
        self._lock = threading.RLock()
        self._again = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
        self._error = psycopg.Error

    def run(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """Carry out an operation."""
        for attempt in range(_RETRIES):
            try:
                with self._connection() as connection:
                    if (single or not write) and connection.autocommit:
                        return _drive(connection, work())
                    with connection.transaction():
                        return _drive(connection, work())
            except self._again:
                if attempt == _RETRIES - 1:
                    raise
            except self._error as error:
                raise explain(error) from error
        raise AssertionError

    async def arun(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """`run` in a thread: this engine's connection is a sync one."""
        return await asyncio.to_thread(self.run, work, write=write, single=single)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        if self._is_pool:
            with self._source.connection() as connection:
                yield connection
        else:
            with self._lock:
                yield self._source


class AsyncPgEngine:
    """The same on an event loop."""

    def __init__(self, source: Any) -> None:
        psycopg = load_psycopg()
        self._is_pool = hasattr(source, "connection") and hasattr(source, "getconn")
        if not self._is_pool and not isinstance(source, psycopg.AsyncConnection):
            raise TypeError(
                "AsyncPostgresStore needs a psycopg.AsyncConnection or a "
                f"psycopg_pool.AsyncConnectionPool, not {type(source).__name__}. For an address "
                "use from_conn_string(...)."
            )
        self._source = source
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._again = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
        self._error = psycopg.Error

    async def arun(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """Carry out an operation."""
        self._loop = asyncio.get_running_loop()
        for attempt in range(_RETRIES):
            try:
                async with self._connection() as connection:
                    if (single or not write) and connection.autocommit:
                        return await _adrive(connection, work())
                    async with connection.transaction():
                        return await _adrive(connection, work())
            except self._again:
                if attempt == _RETRIES - 1:
                    raise
            except self._error as error:
                raise explain(error) from error
        raise AssertionError

    def run(self, work: Work[R], *, write: bool, single: bool = False) -> R:
        """`arun`, from a thread that is not the loop's."""
        loop = self._loop
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if loop is None or running is not None:
            raise ColourError(
                "AsyncPostgresStore belongs to an event loop: await its async methods there. Its "
                "sync ones work only in other threads, once the store has been used on its loop."
            )
        job = self.arun(work, write=write, single=single)
        return asyncio.run_coroutine_threadsafe(job, loop).result()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        if self._is_pool:
            async with self._source.connection() as connection:
                yield connection
        else:
            async with self._lock:
                yield self._source


def _drive(connection: Any, operation: Operation[R]) -> R:
    with connection.cursor(row_factory=_rows()) as cursor:
        try:
            statement = next(operation)
            while True:
                answer: Any = None
                if isinstance(statement, Many):
                    if len(statement.rows) == 1:
                        cursor.execute(statement.sql, statement.rows[0])
                    elif statement.rows:
                        cursor.executemany(statement.sql, statement.rows)
                else:
                    cursor.execute(statement.sql, statement.parameters or None)
                    is_query = isinstance(statement, Query)
                    answer = cursor.fetchall() if is_query else cursor.rowcount
                statement = operation.send(answer)
        except StopIteration as done:
            result: R = done.value
            return result
        finally:
            operation.close()


async def _adrive(connection: Any, operation: Operation[R]) -> R:
    async with connection.cursor(row_factory=_rows()) as cursor:
        try:
            statement = next(operation)
            while True:
                answer: Any = None
                if isinstance(statement, Many):
                    if len(statement.rows) == 1:
                        await cursor.execute(statement.sql, statement.rows[0])
                    elif statement.rows:
                        await cursor.executemany(statement.sql, statement.rows)
                else:
                    await cursor.execute(statement.sql, statement.parameters or None)
                    is_query = isinstance(statement, Query)
                    answer = await cursor.fetchall() if is_query else cursor.rowcount
                statement = operation.send(answer)
        except StopIteration as done:
            result: R = done.value
            return result
        finally:
            operation.close()


def _rows() -> Any:
    from psycopg.rows import tuple_row

    return tuple_row


def explain(error: Exception) -> Exception:
    """The typed error for what psycopg raised."""
    text = str(error).strip()
    if 'extension "vector"' in text or 'type "vector" does not exist' in text:
        return MissingDependencyError(
            f"Search by meaning on PostgreSQL needs the extension pgvector on the server: {text} "
            "Install it (apt install postgresql-NN-pgvector, or an image with pgvector), and let "
            "an administrator run: CREATE EXTENSION vector"
        )
    return StoreError(f"PostgreSQL: {text}")
