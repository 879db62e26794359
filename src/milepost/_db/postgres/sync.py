"""Runs operations on a psycopg connection or pool in sync code; async callers use a thread."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from milepost._db.connection_lock import ConnectionLock, lock_of
from milepost._db.connections import HOLDERS, OpenConnections
from milepost._db.failures import not_erased
from milepost._db.operations import Work
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
from milepost._internal.asyncio_tools import in_thread
from milepost.errors import ForkedProcessError

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost._db.group_commit import Committer, Outcome, Waiting
    from milepost._db.migrations import TableSetup

R = TypeVar("R")
S = TypeVar("S")


class PostgresEngine:
    """One PostgreSQL database."""

    def __init__(
        self,
        source: Any,
        settings: Settings,
        reconnect: Callable[[], psycopg.Connection[Any]] | None = None,
        repool: Callable[[], Any] | None = None,
    ) -> None:
        self._pool: Any = None if isinstance(source, psycopg.Connection) else source
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
        """In a forked child: leave the parent's connections alone."""
        self._connection_lock = ConnectionLock(None)
        self._forked = not renewed(self)

    def run(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction."""
        return self._attempts(work, self.settings.begin(write))

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """`run`, for use on an event loop."""
        return await in_thread(self.run, work, write=write)

    def set_up(self, tables: TableSetup) -> None:
        """Make the tables, if that is not done."""
        if not self._attempts(tables.is_done, self.settings.begin_read, prepare=False):
            with setting_up():
                make = partial(self.settings.first, tables.make)
                self._attempts(make, ("BEGIN",), prepare=False)

    async def aset_up(self, tables: TableSetup) -> None:
        """`set_up`, for use on an event loop."""
        await in_thread(self.set_up, tables)

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """Take part in a group commit."""
        return committer.commit(waiting, self._write)

    def _write(self, work: Work[R]) -> R:
        return self._attempts(work, self.settings.begin_write)

    async def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """`commit`, for use on an event loop."""
        return await in_thread(self.commit, committer, waiting)

    def vacuum(self) -> None:
        """Rewrite the tables without the rows that were removed."""
        with not_erased():
            for work, begin in vacuuming(self.settings):
                self._attempts(work, begin, prepare=False)

    async def avacuum(self) -> None:
        """`vacuum`, for use on an event loop."""
        await in_thread(self.vacuum)

    def close(self) -> None:
        """Close a connection that is the engine's own."""
        self._ended = True
        if self._connection is not None and not self._forked:
            self._connection.close()
        if self._repool is not None:
            self._pool.close()

    # -- connections

    def _own_connection(self) -> Any:
        if self._ended:
            raise has_ended()
        if self._reconnect and (self._connection is None or self._connection.closed):
            if self._connection is not None:
                self._connection.close()  # also where it broke
            self._connection = self._reconnect()
        return self._connection

    def open(self) -> None:
        """Open a pool that is the engine's own."""
        if self._ended:
            raise has_ended()
        self._pool.open()
        self._is_open = True

    def _attempts(self, work: Work[R], begin: Begin, *, prepare: bool = True) -> R:
        retries: Retries | None = None
        if self._forked:
            raise ForkedProcessError(IN_CHILD)
        while True:
            connection: Any = None
            try:
                if self._pool is None:
                    with self._connection_lock.lock:
                        connection = self._own_connection()
                        return self._transaction(connection, work, begin, prepare)
                if not self._is_open:
                    self.open()
                with self._pool.connection() as connection:
                    return self._transaction(connection, work, begin, prepare)
            except psycopg.Error as error:
                retries = retries or Retries(
                    self.settings, is_replaceable(self._pool, self._reconnect)
                )
                pause = retries.pause(error, connection)
            time.sleep(pause)

    def _transaction(self, connection: Any, work: Work[R], begin: Begin, prepare: bool) -> R:
        if not is_idle(connection):
            if is_piping(connection):
                with connection.pipeline():
                    pass  # to enter it again waits for what the user has sent
            check_idle(connection)
        with connection.lock:
            steps = transaction(connection, work, begin, prepare=prepare and self.settings.prepare)
            try:
                result: R = connection.wait(steps)
            except BaseException:
                if not self._forked and not is_idle(connection):
                    connection.close()  # broken off in the middle: unusable
                raise
            return result
