"""Runs operations on an async psycopg connection or pool; sync callers reach it from outside."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg

from milepost._db.batched_reads import Readers
from milepost._db.connection_lock import ConnectionLock, lock_of
from milepost._db.connections import HOLDERS, OpenConnections
from milepost._db.failures import not_erased
from milepost._db.operations import BatchableRead, Work
from milepost._db.postgres.engine import (
    IN_CHILD,
    Begin,
    Retries,
    Settings,
    check_idle,
    counted,
    has_ended,
    is_idle,
    is_piping,
    is_replaceable,
    renewed,
    setting_up,
)
from milepost._db.postgres.transaction import transaction
from milepost._db.postgres.vacuum import vacuuming
from milepost._internal import fork_guard
from milepost._internal.generators import GeneratorDriver
from milepost.errors import ColourError, ForkedProcessError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from milepost._db.group_commit import Committer, Outcome, Transactions, Waiting
    from milepost._db.migrations import TableSetup

R = TypeVar("R")
S = TypeVar("S")


class LoopBlockedError(ColourError, asyncio.InvalidStateError):
    """A sync method was called on the event loop; LangGraph raises the second of its bases."""


class _Sleeper(NamedTuple):
    """One who waits until its steps are stored."""

    committer: Committer[Any]
    """The queue that its steps are in."""
    waiting: Waiting[Any]
    future: asyncio.Future[None]


class AsyncPostgresEngine:
    """One PostgreSQL database, reached from one event loop."""

    def __init__(
        self,
        source: Any,
        settings: Settings,
        reconnect: Callable[[], Awaitable[psycopg.AsyncConnection[Any]]] | None = None,
        repool: Callable[[], Any] | None = None,
    ) -> None:
        self._pool: Any = None if isinstance(source, psycopg.AsyncConnection) else source
        self._connection: Any = source if self._pool is None else None
        self._reconnect = reconnect
        """Makes a connection, if that is the engine's own."""
        self._repool = repool
        """Makes a pool that is still to be opened, if that is the engine's own."""
        self._is_open = repool is None
        self._ended = False
        self._forked = False
        """Whether the connection or pool is that of a parent process, and not the engine's own."""
        self._connection_lock = lock_of(source)
        # Or that of the first use: a saver may be made where no loop runs yet.
        self._loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()
        self._sleepers: list[_Sleeper] = []
        self._writer: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._readers = Readers(self._read)
        self.settings = settings
        fork_guard.renewed_in_child(self)
        HOLDERS.add(self)

    def source(self) -> object:
        """The connection or pool."""
        return self._connection if self._pool is None else self._pool

    def open_connections(self) -> OpenConnections:
        """What is open of it, unless that is another process's."""
        return counted(None if self._forked else self.source())

    def renew(self) -> None:
        """In a forked child: leave the parent's loop, tasks and connections alone."""
        fork_guard.keep_for_ever(
            self._loop, self._writer, self._sleepers, self._readers, self._closing
        )
        self._connection_lock, self._loop = ConnectionLock(None), None
        self._sleepers, self._writer = [], None
        self._readers = Readers(self._read)
        self._forked = not renewed(self)

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction, which short reads share."""
        if isinstance(work, BatchableRead):
            self._bind()
            return await self._readers.read(work)
        return await self._attempts(work, self.settings.begin(write))

    async def _read(self, work: Work[R]) -> R:
        return await self._attempts(work, self.settings.begin_read)

    def run(self, work: Work[R], *, write: bool) -> R:
        """`arun`, from a thread that is not the loop's."""
        return self._from_outside(lambda: self.arun(work, write=write))

    async def aset_up(self, tables: TableSetup) -> None:
        """Make the tables, if that is not done."""
        if not await self._attempts(tables.is_done, self.settings.begin_read, prepare=False):
            with setting_up():
                make = partial(self.settings.first, tables.make)
                await self._attempts(make, ("BEGIN",), prepare=False)

    def set_up(self, tables: TableSetup) -> None:
        """`aset_up`, from a thread that is not the loop's."""
        self._from_outside(lambda: self.aset_up(tables))

    async def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """Take part in a group commit; a cancellation waits until it has ended."""
        self._bind()
        cancelled: asyncio.CancelledError | None = None
        while waiting.outcome is None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._sleepers.append(_Sleeper(committer, waiting, future))
            if self._writer is None or self._writer.done():
                self._writer = asyncio.ensure_future(self._write())
            try:
                await future
            except asyncio.CancelledError as error:
                if self._writer.done():  # the writer has ended with the loop
                    committer.withdraw(waiting)
                    raise
                cancelled = error
        if cancelled is not None:
            raise cancelled
        return waiting.outcome

    async def _write(self) -> None:
        """Store what waits, and what comes while that is being stored, until no caller waits.

        One writer for all, also on a pool: what arrives while a transaction is under way shares
        the next one, instead of competing for the disk. Savers with different serializers have a
        queue each, and take turns.
        """
        try:
            while self._sleepers:
                for committer in dict.fromkeys(sleeper.committer for sleeper in self._sleepers):
                    await self._drain(committer.transactions())
                self._wake()
        except BaseException:  # the loop is being ended
            # In the last moment: a caller that is woken must find that the writer is done.
            self._wake()
            for sleeper in self._sleepers:
                sleeper.future.cancel()
            self._sleepers.clear()
            raise

    def _wake(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if sleeper.waiting.outcome is None:
                self._sleepers.append(sleeper)
            elif not sleeper.future.done():  # or the waiting caller was cancelled
                sleeper.future.set_result(None)

    async def _drain(self, transactions: Transactions) -> None:
        begin = self.settings.begin_write
        steps = GeneratorDriver(transactions)
        for work in steps:
            try:
                steps.answer = await self._attempts(work, begin)
            except BaseException as error:
                steps.error = error

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """`acommit`, from a thread that is not the loop's."""
        return self._from_outside(lambda: self.acommit(committer, waiting))

    async def avacuum(self) -> None:
        """Rewrite the tables without the rows that were removed."""
        with not_erased():
            for work, begin in vacuuming(self.settings):
                await self._attempts(work, begin, prepare=False)

    def vacuum(self) -> None:
        """`avacuum`, from a thread that is not the loop's."""
        self._from_outside(self.avacuum)

    async def close(self) -> None:
        """Close a connection that is the engine's own."""
        self._ended = True
        if self._connection is not None and not self._forked:
            await self._connection.close()
        if self._repool is not None:
            await self._pool.close()

    # -- loops

    def _bind(self) -> None:
        """Stay with the loop of the first call: a connection cannot be used on another one."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._forked:
            raise ForkedProcessError(IN_CHILD)
        if self._loop is not None and not self._loop.is_closed() and self._loop.is_running():
            raise ColourError(
                "This AsyncPostgresSaver or AsyncPostgresStore is in use on another event loop, "
                "and its connections cannot be shared between loops. Make one for each loop."
            )
        self._loop = loop
        self._sleepers, self._writer = [], None
        self._readers = Readers(self._read)

    def _from_outside(self, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        if self._forked:
            raise ForkedProcessError(IN_CHILD)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise LoopBlockedError(
                "A sync method of AsyncPostgresSaver or AsyncPostgresStore would block the event "
                "loop that runs in this thread. Use the async method."
            )
        if self._loop is None or not self._loop.is_running():
            raise ColourError(
                "The connections of an AsyncPostgresSaver or AsyncPostgresStore belong to an event "
                "loop, and none is running. Use the async methods, or PostgresSaver and "
                "PostgresStore in sync programs."
            )
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    # -- connections

    async def _own_connection(self) -> Any:
        if self._ended:
            raise has_ended()
        if self._reconnect and (self._connection is None or self._connection.closed):
            if self._connection is not None:
                await self._connection.close()  # also where it broke
            self._connection = await self._reconnect()
        return self._connection

    async def open(self) -> None:
        """Open a pool that is the engine's own."""
        if self._ended:
            raise has_ended()
        await self._pool.open()
        self._is_open = True

    async def _close_with_loop(self) -> None:
        """Close a pool of a forked child when the loop ends and cancels what is left of its tasks.

        The `async with` block that would close the pool is the parent's. And a task of a pool that
        is cancelled while it connects goes on: the loop would wait for that task for ever.
        """
        assert self._repool is not None
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            with suppress(asyncio.CancelledError):  # of the pool's tasks, which this waits for
                await self._pool.close()
            self._pool, self._is_open = self._repool(), False

    async def _attempts(
        self,
        work: Work[R],
        begin: Begin,
        *,
        prepare: bool = True,
    ) -> R:
        retries: Retries | None = None
        while True:
            connection: Any = None
            self._bind()
            try:
                if not self._is_open:
                    await self.open()
                    self._closing = asyncio.ensure_future(self._close_with_loop())
                if self._pool is None:
                    async with self._connection_lock.on_loop(asyncio.get_running_loop()):
                        connection = await self._own_connection()
                        return await self._transaction(connection, work, begin, prepare)
                async with self._pool.connection() as connection:
                    return await self._transaction(connection, work, begin, prepare)
            except psycopg.Error as error:
                retries = retries or Retries(
                    self.settings, is_replaceable(self._pool, self._reconnect)
                )
                pause = retries.pause(error, connection)
            await asyncio.sleep(pause)

    async def _transaction(self, connection: Any, work: Work[R], begin: Begin, prepare: bool) -> R:
        if not is_idle(connection):
            if is_piping(connection):
                async with connection.pipeline():
                    pass  # to enter it again waits for what the user has sent
            check_idle(connection)
        async with connection.lock:
            steps = transaction(connection, work, begin, prepare=prepare and self.settings.prepare)
            try:
                result: R = await connection.wait(steps)
            except BaseException:
                if not self._forked and not is_idle(connection):
                    await connection.close()  # broken off in the middle: unusable
                raise
            return result
