"""Runs operations on PostgreSQL: what the sync and the async engine have in common.

A transaction holds a connection no longer than it lasts. A connection that turns out to be dead is
replaced and the transaction repeated, which is safe: every operation of ours may run twice.
"""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from milepost._db.connections import OpenConnections
from milepost._db.operations import Execute, Operation, Query, Work
from milepost._db.postgres.wire import forget_prepared
from milepost._internal import fork_guard, log
from milepost.errors import (
    CheckpointError,
    ConnectionUnusableError,
    DatabaseBusyError,
    InvalidIdError,
    NotSetUpError,
    ReadOnlyError,
    SaverError,
    StorageError,
    StorageFullError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


driver = psycopg
"""The package itself, for modules that need no more of it."""

ATTEMPTS: Final = 4
"""How often a transaction is tried if others conflict with it."""
RESTART: Final = 20.0
"""Seconds that a server may take to come back, before what waits for it fails."""

SETUP_PATIENCE: Final = 30
"""Seconds that a setup waits for another one."""

Begin: TypeAlias = tuple[str, ...]
"""What starts a transaction. Without it, each yielded statement is a transaction of its own."""

_LOCK_TIMEOUT = "SELECT set_config('lock_timeout', %s, true)"
"""For the rest of the transaction."""
_IDLE = TransactionStatus.IDLE
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")
_REPEATABLE = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,  # two runs began the same thread: the second will see the first
)
_UNPREPARED = (
    psycopg.errors.InvalidSqlStatementName,  # a prepared statement was removed on the server
    psycopg.errors.FeatureNotSupported,  # a prepared statement's tables have changed
)


_POOL_IS_BUSY = ("PoolTimeout", "TooManyRequests")
"""By name: a program may have a pool of its own, without psycopg's."""


class Settings:
    """How transactions begin, and what their failures mean."""

    def __init__(
        self,
        schema: str | None,
        pooler_safe: bool,
        tables: Sequence[str] = (),
        owner: str = "PostgreSQL",
    ) -> None:
        if schema is not None and not _NAME.fullmatch(schema):
            raise ValueError(
                f"The schema name {schema!r} is not a plain identifier: use letters, digits and "
                "underscores, at most 63."
            )
        self.schema = schema
        self.owner = owner
        """The class that the log names."""
        # For one transaction only, so that a pooler may hand the connection to others afterwards.
        path = (f'SET LOCAL search_path TO "{schema}"',) if schema else ()
        self.begin_write: Begin = ("BEGIN", *path)
        self.begin_read: Begin = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", *path)
        self.begin = {True: self.begin_write, False: self.begin_read}
        """By whether the transaction writes."""
        self.prepare = not pooler_safe
        prefix = f'"{schema}".' if schema else ""
        self.tables = [prefix + table for table in tables]

    def setup_work(self, make: Work[None]) -> Operation[None]:
        """Before tables are made: only one at a time, and the schema must exist."""
        key = f"milepost {self.schema or ''}"
        [(former,)] = yield Query("SELECT current_setting('lock_timeout')")
        yield Query(_LOCK_TIMEOUT, (f"{SETUP_PATIENCE}s",))
        yield Query("SELECT pg_advisory_xact_lock(hashtext(%s))", (key,))
        yield Query(_LOCK_TIMEOUT, (former,))
        if self.schema:
            yield Execute(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"')
            yield Execute(f'SET LOCAL search_path TO "{self.schema}"')
        yield from make()


@contextmanager
def setting_up() -> Iterator[None]:
    """While tables are made: the wait for another setup has a limit."""
    try:
        yield
    except DatabaseBusyError as error:
        if not isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
            raise
        raise DatabaseBusyError(
            "setup() has waited too long for another transaction: that of another setup(), or one "
            "that uses the tables. Nothing was changed. Call setup() again when the other one has "
            "ended. If both run on one event loop, the sync setup() keeps the other one from "
            "ending: await the setup() of an async saver or store, or call it before the loop "
            f"starts. ({error})"
        ) from error.__cause__


def ended_error() -> ConnectionUnusableError:
    """The engine's own connection was closed by its owner, and must not be replaced."""
    return ConnectionUnusableError(
        "The `with` block of from_conn_string has ended, and its connection with it. Use what it "
        "gave you inside of the block, or make it from a pool that stays open."
    )


IN_CHILD: Final = (
    "This process was forked after the saver or store was made, and its connection or pool is the "
    "parent's: two processes that share a connection read each other's answers. Make the "
    "connection or pool and the saver or store in each process after the fork (with gunicorn, in "
    "`post_fork`), or use from_conn_string: then each process opens a connection of its own."
)


def leave_to_parent(connection: Any) -> None:
    """In a forked child: stop using the parent's connection.

    Its socket is replaced by one that has ended, so that nothing that is still done with the
    connection, as the end of a pipeline or of a `with` block, reaches the server.
    """
    fork_guard.keep_for_ever(connection)
    with suppress(psycopg.Error, OSError):
        ended, other = socket.socketpair()
        with ended, other:
            os.dup2(ended.fileno(), connection.pgconn.socket, inheritable=False)


class _Pipes:
    """The pipeline that a connection is kept in."""

    def __init__(self) -> None:
        super().__init__()
        fork_guard.renewed_in_child(self)

    def renew(self: Any) -> None:
        """In a forked child: a lock of the parent's pipeline may never be released."""
        fork_guard.keep_for_ever(self.pop_all())


class Pipes(_Pipes, ExitStack):
    """For sync connections."""


class AsyncPipes(_Pipes, AsyncExitStack):
    """For async connections."""


@contextmanager
def connecting() -> Iterator[None]:
    """While the first connection is made: later ones are tried again, and fail as a call does."""
    try:
        yield
    except psycopg.Error as error:
        text = " ".join(str(error).split()) or type(error).__name__
        # What libpq quotes here is a part of the address, such as the password.
        text = re.sub(r"(percent-encoded token):.*", r"\1 in the address (% is written %25)", text)
        raise ConnectionUnusableError(
            "No connection to PostgreSQL could be made. See that the server runs and takes "
            "connections at this address, and that the database, the role and the password of the "
            f"connection string are right. ({text})"
        ) from error


def is_idle(connection: Any) -> bool:
    """Whether nothing is under way on a connection."""
    return bool(connection.pgconn.transaction_status == _IDLE)


def open_connections_of(source: Any) -> OpenConnections:
    """What is open of a connection or pool; nothing is known of pools other than psycopg's."""
    if (stats := getattr(source, "get_stats", None)) is not None:
        known = stats()
        idle = known.get("pool_available", 0)
        return OpenConnections("postgresql", known.get("pool_size", 0) - idle, idle)
    if source is None or getattr(source, "closed", True):
        return OpenConnections("postgresql", 0, 0)
    idle = int(is_idle(source))
    return OpenConnections("postgresql", 1 - idle, idle)


class Retries:
    """How often, and for how long, one transaction is tried."""

    def __init__(self, settings: Settings, replaceable: bool) -> None:
        self._schema = settings.schema
        self._owner = settings.owner
        self._replaceable = replaceable
        """Whether a connection that has died can be replaced by another one."""
        self._attempts = 0
        self._start = time.monotonic()

    def pause(self, error: psycopg.Error, connection: Any) -> float:
        """Seconds to wait before the next attempt. Raises the explained error if there is none."""
        self._attempts += 1
        if not self._may_repeat(error, connection):
            if self._attempts > 1:
                gave_up = "%s: a transaction has failed for good in attempt %d, with %s."
                log.warning(log.STORAGE, gave_up, self._owner, self._attempts, error)
            raise explain(error, self._schema) from error
        seconds = float(min(0.02 * 4 ** (self._attempts - 1), 0.5))
        if self._attempts.bit_count() == 1:  # 1, 2, 4, …: an outage lasts for many attempts
            again = "%s: attempt %d at a transaction has failed with %s; again in %.2f s."
            log.warning(log.STORAGE, again, self._owner, self._attempts, error, seconds)
        return seconds

    def _may_repeat(self, error: psycopg.Error, connection: Any) -> bool:
        if isinstance(error, _REPEATABLE):
            return self._attempts < ATTEMPTS
        if isinstance(error, _UNPREPARED):
            return self._attempts < ATTEMPTS and forget_prepared(connection)
        if type(error).__name__ in _POOL_IS_BUSY:
            return False  # the pool has waited for as long as it was told to
        lost = connection is None or connection.closed
        if not lost or not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            return False
        return self._replaceable and time.monotonic() - self._start < RESTART


def explain(error: psycopg.Error, schema: str | None) -> CheckpointError:
    """The typed error for what psycopg raised."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)):
        where = f" in schema '{schema}'" if schema else ""
        return NotSetUpError(
            f"The tables of the saver do not exist{where}. Call `saver.setup()` once, for example "
            f"when you deploy. (PostgreSQL: {text})"
        )
    if isinstance(error, psycopg.errors.ProgramLimitExceeded):
        if "index row" in text:
            return InvalidIdError(
                f"The ids and names of a row are together too long for an index of PostgreSQL. "
                f"Nothing of this step was stored; use shorter ones. (PostgreSQL: {text})"
            )
        return SaverError(
            f"PostgreSQL: {text}. Nothing of this step was stored; a value can have 1 GB at most."
        )
    if isinstance(error, psycopg.errors.DiskFull):
        return StorageFullError(
            f"PostgreSQL could not write ({text}). Nothing of this step was stored; make room, "
            "then resume the thread."
        )
    if isinstance(error, psycopg.errors.IoError):
        return StorageError(
            f"PostgreSQL could not read or write its files ({text}). Nothing of this step was "
            "stored; look into the server's log."
        )
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return DatabaseBusyError(
            f"PostgreSQL: {text}. Another transaction has held a table or a row for "
            "longer than lock_timeout; end it, or repeat the call later."
        )
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return ReadOnlyError(
            f"PostgreSQL: {text}. The server is a replica, or default_transaction_read_only is on. "
            "Reading works; to store something, or to renew the ttl of what is read from a store, "
            "connect to the primary (target_session_attrs=read-write)."
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return SaverError(f"PostgreSQL: {text}. Grant the role the rights on the saver's tables.")
    if isinstance(error, _REPEATABLE):
        return DatabaseBusyError(
            f"PostgreSQL: {text}. Other transactions conflicted with it several times."
        )
    if isinstance(error, psycopg.errors.QueryCanceled):
        return DatabaseBusyError(
            f"PostgreSQL: {text}. Nothing of it was stored. If statement_timeout is set for the "
            "role, the database or the connection, give the saver's role a longer one "
            "(ALTER ROLE ... SET statement_timeout); otherwise an operator has cancelled the "
            "statement, and the call can be repeated."
        )
    if type(error).__name__ in _POOL_IS_BUSY:
        return DatabaseBusyError(
            f"The pool gave no connection ({text}). All of its connections are in use, or the "
            "server cannot be reached. Give the pool a larger max_size or timeout, or keep "
            "transactions on its connections short, and see that the server runs."
        )
    if type(error).__name__ == "PoolClosed":
        return ConnectionUnusableError(
            f"PostgreSQL: {text}. Open the pool before the first use, with `pool.open()` or a "
            "`with` block around all uses, and keep it open."
        )
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return ConnectionUnusableError(
            f"The connection to PostgreSQL was lost or refused: {text}. Use a pool or "
            "from_conn_string, which replace connections that die, and see that the server runs."
        )
    return SaverError(f"PostgreSQL: {text}.")
