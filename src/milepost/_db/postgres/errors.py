"""Turns errors of psycopg into errors that say what to do."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg

from milepost._db.addresses import without_password
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
    from collections.abc import Iterator

REPEATABLE: Final = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,  # two runs began the same thread: the second will see the first
)
"""A transaction that failed with one of these may succeed if it is repeated."""
TOOK_TOO_LONG: Final = ("25P03", "25P04")
"""The server has undone a transaction and ended its connection: by
idle_in_transaction_session_timeout, or by transaction_timeout."""
POOL_IS_BUSY: Final = ("PoolTimeout", "TooManyRequests")
"""By name: a program may have a pool of its own, without psycopg's."""

IN_CHILD: Final = (
    "This process was forked after the saver or store was made, and its connection or pool is the "
    "parent's: two processes that share a connection read each other's answers. Make the "
    "connection or pool and the saver or store in each process after the fork (with gunicorn, in "
    "`post_fork`), or use from_conn_string: then each process opens a connection of its own."
)


@contextmanager
def connecting() -> Iterator[None]:
    """While the first connection is made: later ones are tried again, and fail as a call does."""
    try:
        yield
    except psycopg.Error as error:
        text = " ".join(str(error).split()) or type(error).__name__
        # What libpq quotes here is a part of the address, such as the password.
        text = re.sub(r"(percent-encoded token):.*", r"\1 in the address (% is written %25)", text)
        text = without_password(text)
        raise ConnectionUnusableError(
            "No connection to PostgreSQL could be made. See that the server runs and takes "
            "connections at this address, and that the database, the role and the password of the "
            f"connection string are right. ({text})"
        ) from error


@contextmanager
def setting_up() -> Iterator[None]:
    """While tables are made: the wait for another setup has a limit."""
    try:
        yield
    except SaverError as error:
        cause = error.__cause__
        if isinstance(cause, psycopg.errors.LockNotAvailable):
            raise DatabaseBusyError(
                "setup() has waited too long for another transaction: that of another setup(), or "
                "one that uses the tables. Nothing was changed. Call setup() again when the other "
                "one has ended. If both run on one event loop, the sync setup() keeps the other "
                "one from ending: await the setup() of an async saver or store, or call it before "
                f"the loop starts. ({error})"
            ) from cause
        if isinstance(cause, psycopg.errors.InvalidSchemaName):
            raise NotSetUpError(
                "setup() has no schema to make the tables in: the search_path of this connection "
                "names none that exists. Create one of them, or name another with `schema=`. "
                f"(PostgreSQL: {cause})"
            ) from cause
        if isinstance(cause, psycopg.errors.InsufficientPrivilege):
            raise SaverError(
                "setup() may not make or change the tables. Call it once as a role that may, and "
                "grant this role SELECT, INSERT, UPDATE and DELETE on them: setup() then finds "
                f"them complete. (PostgreSQL: {cause})"
            ) from cause
        raise


def ended_error() -> ConnectionUnusableError:
    """The engine's own connection was closed by its owner, and must not be replaced."""
    return ConnectionUnusableError(
        "The `with` block of from_conn_string has ended, and its connection with it. Use what it "
        "gave you inside of the block, or make it from a pool that stays open."
    )


def explain(error: psycopg.Error, schema: str | None) -> CheckpointError:
    """The typed error for what psycopg raised."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)):
        where = f"in schema '{schema}'" if schema else "in the schemas of the search_path"
        return NotSetUpError(
            f"The tables of the saver do not exist {where}. Call `saver.setup()` once, for example "
            "when you deploy; if they are in another schema, name it with `schema=`. "
            f"(PostgreSQL: {text})"
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
    if error.sqlstate in TOOK_TOO_LONG:
        return DatabaseBusyError(
            f"PostgreSQL: {text}. Nothing of the transaction was stored. Give the saver's role a "
            "longer transaction_timeout or idle_in_transaction_session_timeout (ALTER ROLE ... "
            "SET ...), or repeat the call when the server or this process has less to do."
        )
    if isinstance(error, REPEATABLE):
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
    if type(error).__name__ in POOL_IS_BUSY:
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
            "from_conn_string, which replace connections that die, and see that the server runs "
            "and has connections left."
        )
    return SaverError(f"PostgreSQL: {text}.")
