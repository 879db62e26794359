"""Runs operations on PostgreSQL: what the sync and the async engine have in common.

A transaction holds a connection no longer than it lasts. A connection that turns out to be dead is
replaced and the transaction repeated, which is safe: every operation of ours may run twice.
"""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from milepost._db.connections import OpenConnections
from milepost._db.operations import Execute, Operation, Query, Work
from milepost._db.postgres.errors import POOL_IS_BUSY, REPEATABLE, TOOK_TOO_LONG, explain
from milepost._db.postgres.wire import forget_prepared
from milepost._internal import fork_guard, log

if TYPE_CHECKING:
    from collections.abc import Sequence


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
_UNPREPARED = (
    psycopg.errors.InvalidSqlStatementName,  # a prepared statement was removed on the server
    psycopg.errors.FeatureNotSupported,  # a prepared statement's tables have changed
)


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
        if isinstance(error, REPEATABLE):
            return self._attempts < ATTEMPTS
        if error.sqlstate in TOOK_TOO_LONG:
            return self._attempts < ATTEMPTS and self._replaceable
        if isinstance(error, _UNPREPARED):
            return self._attempts < ATTEMPTS and forget_prepared(connection)
        if type(error).__name__ in POOL_IS_BUSY:
            return False  # the pool has waited for as long as it was told to
        lost = connection is None or connection.closed
        if not lost or not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            return False
        return self._replaceable and time.monotonic() - self._start < RESTART
