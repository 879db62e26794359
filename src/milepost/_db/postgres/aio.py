"""Runs operations on an async psycopg connection or pool; sync callers reach it from outside."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import psycopg

from milepost._db.batched_reads import Readers
from milepost._db.calls import amake_calls, from_outside, on_another_loop, running_loop
from milepost._db.operations import BatchableRead, Work
from milepost._db.postgres.engine import Begin
from milepost._db.postgres.errors import IN_CHILD
from milepost._db.postgres.source import PostgresSource
from milepost._db.postgres.wire import WAIT_INTERVAL
from milepost._internal import fork_guard
from milepost._internal.generators import adrive
from milepost.errors import ForkedProcessError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from milepost._db.calls import Calls
    from milepost._db.group_commit import Committer, Outcome, Waiting

R = TypeVar("R")
S = TypeVar("S")

_OWNER: Final = "AsyncPostgresSaver or AsyncPostgresStore"


class _Waiter(NamedTuple):
    """A caller that waits until its steps are stored."""

    committer: Committer[Any]
    """The queue that its steps are in."""
    waiting: Waiting[Any]
    future: asyncio.Future[None]


class AsyncPostgresEngine(PostgresSource):
    """One PostgreSQL database, reached from one event loop."""

    connection_type = psycopg.AsyncConnection
    pool_type = "AsyncConnectionPool"
    _closing: asyncio.Future[None] | None = None

    def _made(self) -> None:
        # Or that of the first use: a saver may be made where no loop runs yet.
        self._use_loop(running_loop())

    def _use_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._waiters: list[_Waiter] = []
        self._writer: asyncio.Task[None] | None = None
        self._readers = Readers(partial(self._attempts, begin=self.settings.begin_read))

    def renew(self) -> None:
        """In a forked child: leave the parent's loop, tasks and connections alone."""
        fork_guard.keep_for_ever(
            self._loop, self._writer, self._waiters, self._readers, self._closing
        )
        self._use_loop(None)
        super().renew()

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction, which short reads share."""
        if isinstance(work, BatchableRead):
            self._check()
            return await self._readers.read(work)
        return await super().arun(work, write=write)

    def _make(self, calls: Calls[R]) -> R:
        return self._from_outside(lambda: amake_calls(calls))

    _amake = staticmethod(amake_calls)

    async def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """Take part in a group commit; a cancellation waits until it has ended."""
        self._check()
        cancelled: asyncio.CancelledError | None = None
        while waiting.outcome is None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(_Waiter(committer, waiting, future))
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
        store = partial(self._attempts, begin=self.settings.begin_write)
        try:
            while self._waiters:
                for committer in dict.fromkeys(waiter.committer for waiter in self._waiters):
                    await adrive(committer.transactions(), store, thrown=BaseException)
                self._wake()
        except BaseException:  # the loop is being ended
            # In the last moment: a caller that is woken must find that the writer is done.
            self._wake()
            for waiter in self._waiters:
                waiter.future.cancel()
            self._waiters.clear()
            raise

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if waiter.waiting.outcome is None:
                self._waiters.append(waiter)
            elif not waiter.future.done():  # or the waiting caller was cancelled
                waiter.future.set_result(None)

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """`acommit`, from a thread that is not the loop's."""
        return self._from_outside(lambda: self.acommit(committer, waiting))

    async def close(self) -> None:
        """Close a connection that is the engine's own."""
        await amake_calls(self.closing())

    async def _attempts(self, work: Work[R], begin: Begin) -> R:
        return await amake_calls(self.attempts(work, begin))

    # -- loops

    def _lock(self) -> Any:
        return self._connection_lock.on_loop(asyncio.get_running_loop())

    async def _wait(self, socket: int, writing: bool) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        wake = partial(_set, ready)
        timer = loop.call_later(WAIT_INTERVAL, wake)
        try:
            loop.add_reader(socket, wake)
            if writing:
                loop.add_writer(socket, wake)
            await ready
        finally:
            timer.cancel()
            loop.remove_reader(socket)
            if writing:
                loop.remove_writer(socket)

    def _check(self) -> None:
        """Stay with the loop of the first call: a connection cannot be used on another one."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._forked:
            raise ForkedProcessError(IN_CHILD)
        if self._loop is not None and not self._loop.is_closed() and self._loop.is_running():
            raise on_another_loop(_OWNER)
        self._use_loop(loop)

    def _from_outside(self, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        if self._forked:
            raise ForkedProcessError(IN_CHILD)
        return from_outside(
            self._loop, call, owner=_OWNER, instead="PostgresSaver and PostgresStore"
        )

    def _opened(self) -> None:
        self._closing = asyncio.ensure_future(self._close_with_loop())

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


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
