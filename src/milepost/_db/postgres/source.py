"""A connection or a pool, and transactions on it: what the sync and the async engine do alike.

The generators here yield calls of psycopg, which are awaited if it is async (`_db/calls.py`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from milepost._db.calls import Calls, Pause, entering, leaving
from milepost._db.connections import HOLDERS, ConnectionLock, OpenConnections, lock_of
from milepost._db.engine import STILL_THERE, not_erased
from milepost._db.operations import Batch, Execute, Operation, Query
from milepost._db.postgres.engine import (
    Begin,
    Retries,
    Settings,
    is_idle,
    leave_to_parent,
    open_connections_of,
)
from milepost._db.postgres.errors import ended_error, setting_up
from milepost._db.postgres.transaction import transaction
from milepost._internal import fork_guard
from milepost._internal.generators import method_pairs
from milepost.errors import ConnectionUnusableError, NotErasedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost._db.migrations import TableSetup
    from milepost._db.operations import Work

R = TypeVar("R")


_sync_and_async: Final = method_pairs(
    lambda engine, calls, _: engine._make(calls), lambda engine, calls, _: engine._amake(calls)
)


class PostgresSource(ABC):
    """One PostgreSQL database, reached by a connection or a pool."""

    connection_type: ClassVar[Any]
    pool_type: ClassVar[str]
    """The name of a class in psycopg_pool, which a program may do without."""

    def __init__(
        self,
        source: Any,
        settings: Settings,
        reconnect: Callable[[], Any] | None = None,
        repool: Callable[[], Any] | None = None,
    ) -> None:
        is_connection = isinstance(source, (psycopg.Connection, psycopg.AsyncConnection))
        self._pool: Any = None if is_connection else source
        self._connection: Any = source if is_connection else None
        self.own(reconnect, repool)
        self._ended = False
        self._forked = False
        """Whether the connection or pool is that of a parent process, and not the engine's own."""
        self._connection_lock = lock_of(source)
        self.settings = settings
        self._made()
        fork_guard.renewed_in_child(self)
        HOLDERS.add(self)

    def own(
        self, reconnect: Callable[[], Any] | None, repool: Callable[[], Any] | None = None
    ) -> None:
        """Take over the connection or pool, and replace one that has died.

        Args:
            reconnect: Makes a connection, if that is the engine's own.
            repool: Makes a pool that is still to be opened, if that is the engine's own.
        """
        self._reconnect = reconnect
        self._repool = repool
        self._is_open = repool is None

    def source(self) -> object:
        """The connection or pool."""
        return self._connection if self._pool is None else self._pool

    def open_connections(self) -> OpenConnections:
        """The open connections; none if a parent process owns them."""
        return open_connections_of(None if self._forked else self.source())

    def renew(self) -> None:
        """In a forked child: leave the parent's connections alone."""
        self._connection_lock = ConnectionLock(None)
        if self._repool is not None:
            fork_guard.keep_for_ever(self._pool)
            self._pool, self._is_open = self._repool(), False
        elif self._reconnect is not None:
            if self._connection is not None:
                leave_to_parent(self._connection)
            self._connection = None
        else:
            self._forked = True

    # -- for the engines to say

    @abstractmethod
    def _make(self, calls: Calls[R]) -> R:
        """Make calls in sync code."""

    @abstractmethod
    async def _amake(self, calls: Calls[R]) -> R:
        """Make calls on an event loop."""

    @abstractmethod
    def _check(self) -> None:
        """Raise if connections cannot be used here."""

    @abstractmethod
    def _lock(self) -> Any:
        """The lock of the connection."""

    @abstractmethod
    def _wait(self, socket: int, writing: bool) -> Any:
        """A `SocketWait`."""

    def _made(self) -> None:  # noqa: B027 - the sync engine has nothing to do then
        """The engine was made."""

    def _opened(self) -> None:  # noqa: B027 - nor then
        """A pool was opened by its first use."""

    # -- what they carry out

    def run(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction."""
        return self._make(self.attempts(work, self.settings.begin[write]))

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """`run`, for use on an event loop."""
        return await self._amake(self.attempts(work, self.settings.begin[write]))

    def opening(self) -> Calls[None]:
        """Open a pool that is the engine's own; a connection is open from the start."""
        if self._ended:
            raise ended_error()
        if self._pool is not None:
            yield self._pool.open
            self._is_open = True

    def closing(self) -> Calls[None]:
        """Close a connection or pool that is the engine's own."""
        self._ended = True
        if self._connection is not None and not self._forked:
            yield self._connection.close
        if self._repool is not None:
            self._is_open = False
            yield self._pool.close

    def _set_up(self, tables: TableSetup) -> Calls[None]:
        """Make the tables, if that is not done."""
        if not (yield from self.attempts(tables.is_done, self.settings.begin_read, prepare=False)):
            with setting_up():
                make = partial(self.settings.setup_work, tables.make)
                yield from self.attempts(make, ("BEGIN",), prepare=False)

    def _vacuum(self) -> Calls[None]:
        """Rewrite the tables without the rows that were removed."""
        with not_erased():
            for table in self.settings.tables:
                free = partial(_free, table)
                yield from self.attempts(free, self.settings.begin_write, prepare=False)
                yield from self.attempts(partial(_rewritten, table), (), prepare=False)

    set_up, aset_up = _sync_and_async(_set_up)
    vacuum, avacuum = _sync_and_async(_vacuum)

    def attempts(self, work: Work[R], begin: Begin, *, prepare: bool = True) -> Calls[R]:
        """Carry out an operation in one transaction, on another connection if one has died."""
        prepare = prepare and self.settings.prepare
        retries: Retries | None = None
        while True:
            self._check()
            connection: Any = None
            try:
                if self._pool is None:
                    lock = self._lock()
                    yield lock.acquire
                    try:
                        connection = self._connection
                        if self._ended or (
                            self._reconnect and (connection is None or connection.closed)
                        ):
                            connection = yield from self._reconnected()
                        return (yield from self._carry_out(connection, work, begin, prepare))
                    finally:
                        lock.release()
                if not self._is_open:
                    yield from self.opening()
                    self._opened()
                manager = self._pool.connection()
                connection = yield entering(manager)
                ending = leaving(manager)
                try:
                    result = yield from self._carry_out(connection, work, begin, prepare)
                except BaseException as error:
                    yield partial(ending, error)
                    raise
                yield ending
                return result
            except psycopg.Error as error:
                retries = retries or Retries(self.settings, self._is_replaceable())
                pause = retries.pause(error, connection)
            yield Pause(pause)

    def _carry_out(self, connection: Any, work: Work[R], begin: Begin, prepare: bool) -> Calls[R]:
        """One transaction; a connection on which it is broken off is closed."""
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            yield from _settle(connection)
        # The program may use the connection in other threads and tasks: psycopg's cursors wait for
        # this lock. psycopg does not document it, so its version is bounded in pyproject.toml.
        yield connection.lock.acquire
        try:
            return (
                yield from transaction(connection, work, begin, prepare=prepare, wait=self._wait)
            )
        except GeneratorExit:
            # The caller has abandoned this generator: no call is made for it any more.
            if not self._forked and not is_idle(connection):
                connection.pgconn.finish()
            raise
        except BaseException:
            if not self._forked and not is_idle(connection):
                yield connection.close
            raise
        finally:
            connection.lock.release()

    def _is_replaceable(self) -> bool:
        """Whether there is another connection, should one die. A pool that was closed has none."""
        if self._reconnect is not None:
            return True
        return self._pool is not None and not getattr(self._pool, "closed", False)

    def _reconnected(self) -> Calls[Any]:
        """A new connection in place of one that has died."""
        if self._ended:
            raise ended_error()
        if self._connection is not None:
            yield self._connection.close  # also where it broke
        assert self._reconnect is not None
        self._connection = yield self._reconnect
        return self._connection


def _settle(connection: Any) -> Calls[None]:
    """Wait for what the program has sent in a pipeline; refuse a transaction that is still open."""
    pgconn = connection.pgconn
    is_active = pgconn.transaction_status == TransactionStatus.ACTIVE
    if is_active and pgconn.pipeline_status != PipelineStatus.OFF:
        pipeline = connection.pipeline()
        yield entering(pipeline)
        yield leaving(pipeline)
    if pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        raise ConnectionUnusableError(
            "The psycopg connection has an open transaction that is not the saver's. Commit it or "
            "roll it back first, or open the connection with autocommit=True and leave it to the "
            "saver."
        )


# -- vacuum

# VACUUM FULL reports success also where it had to keep rows, since a transaction that began before
# they were removed might still see them; and where it did nothing at all, for want of rights. But
# what it leaves out is everything that was removed before a certain transaction, and it notes which
# one that was: as the `relfrozenxid` of the table.

LOCK_TIMEOUT: Final = 10.0
"""Seconds for which other transactions may hold the table."""

_NEXT: Final = "SELECT txid_snapshot_xmax(txid_current_snapshot())"
"""Whatever was removed so far, was removed before this transaction."""
_REWRITTEN: Final = """
    SELECT age(relfrozenxid) <= age(%s::xid), pg_has_role(relowner, 'USAGE')
    FROM pg_class WHERE oid = to_regclass(%s)"""


def _free(table: str) -> Operation[None]:
    """Wait until the table is unused; VACUUM would wait for ever, and others behind it."""
    bounded = Execute(f"SET LOCAL lock_timeout TO {LOCK_TIMEOUT * 1000:.0f}")
    # Not the last, which goes without BEGIN: PostgreSQL before 18 then refuses to lock.
    yield Batch((bounded, Execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")))


def _rewritten(table: str) -> Operation[None]:
    """Rewrite the table without the rows that were removed, and see whether it was done."""
    [(bound,)] = yield Query(_NEXT)
    until = time.monotonic() + LOCK_TIMEOUT
    pause = 0.05
    while True:
        yield Execute(f"VACUUM FULL {table}")
        [(done, is_owner)] = yield Query(_REWRITTEN, (str(bound % 2**32), table))
        if done:
            return
        if not is_owner:
            raise NotErasedError(
                f"{STILL_THERE} PostgreSQL has not rewritten the table {table}, which is not this "
                "role's. Call vacuum(), or erase() again, as its owner."
            )
        if time.monotonic() >= until:
            raise NotErasedError(
                f"{STILL_THERE} PostgreSQL kept rows of {table}, since a transaction that began "
                "before they were removed could still see them. End it (pg_stat_activity has its "
                "backend_xmin; also look at pg_prepared_xacts and pg_replication_slots), then call "
                "vacuum(), or erase() again."
            )
        yield Query("SELECT pg_sleep(%s)", (pause,))
        pause = min(2 * pause, 1.0)
