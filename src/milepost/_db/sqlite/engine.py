"""Runs operations on a `sqlite3` connection, for sync and async callers.

One connection, one lock. Sync callers take the lock in their own thread. Async callers hand their
work to one worker thread, so that the event loop never waits for the disk.
"""

from __future__ import annotations

import os
import sqlite3
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from milepost._db.addresses import without_password
from milepost._db.connections import HOLDERS, OpenConnections, lock_of
from milepost._db.engine import STILL_THERE, not_erased
from milepost._db.sqlite import inherited
from milepost._db.sqlite.errors import explained, suppress_read_only
from milepost._db.sqlite.transaction import OPEN_TRANSACTION, READ, WRITE, Session
from milepost._db.sqlite.worker import Worker
from milepost._internal import fork_guard, log
from milepost.errors import (
    ConnectionUnusableError,
    ForkedProcessError,
    NotErasedError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from milepost._db.group_commit import Committer, Outcome, Waiting
    from milepost._db.migrations import TableSetup
    from milepost._db.operations import Work

R = TypeVar("R")
S = TypeVar("S")
FilePath: TypeAlias = "str | os.PathLike[str]"
"""What a database is opened by: a path, ":memory:", or the URI of a file."""


_INCREMENTAL: Final = 2
"""The value of `PRAGMA auto_vacuum` for INCREMENTAL."""
BUSY_TIMEOUT: Final = 30.0
"""Seconds to wait for another process's transaction."""


class SqliteEngine:
    """One SQLite database. Engines on one connection take turns."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        synchronous: str = "FULL",
        first: TableSetup | None = None,
        equip: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        if synchronous not in ("FULL", "NORMAL", "EXTRA"):
            raise ValueError(f"synchronous must be FULL, EXTRA or NORMAL, not {synchronous!r}")
        self.connection = connection
        self._connection_lock = lock_of(connection)
        self.lock = fork_guard.held_at_fork(self._connection_lock.lock)
        self._is_own = False
        """Whether the connection was opened for this engine. On the user's connection, the engine
        changes only the settings that make commits durable."""
        self._reopen: Callable[[], sqlite3.Connection] | None = None
        self._reopening = False
        self._unusable = ""
        """Why this process cannot use the connection."""
        self._in_child = IN_CHILD
        """Why a forked child cannot use the connection, unless it can be opened again."""
        self._path: str | None = None
        """The file of the connection, once the connection was used."""
        self._file: Any = None
        """The number of that file and of its device, whatever its name; None if it has none. Of a
        connection that is the engine's own, it is known from when the connection was opened."""
        self._synchronous = synchronous
        self._first = first
        """The tables that are set up once, before the first operation."""
        self._equipment = [] if equip is None else [equip]
        """Called with the connection before the tables are set up, in a thread that may use it."""
        self._equipped = 0
        """How many entries of `_equipment` were called with this connection."""
        self._ready = False
        self._session: Session | None = None
        """The cursor for transactions, kept since a new one costs as much as a small statement."""
        self._worker = Worker()
        fork_guard.renewed_in_child(self)
        HOLDERS.add(self)

    def source(self) -> object:
        return self.connection

    def open_connections(self) -> OpenConnections:
        """The connection, unless it is closed or belongs to another process."""
        try:
            used = self.connection.in_transaction
        except sqlite3.ProgrammingError:
            return OpenConnections("sqlite", 0, 0)
        there = not self._unusable
        return OpenConnections("sqlite", int(there and used), int(there and not used))

    def equip(self, equip: Callable[[sqlite3.Connection], None]) -> None:
        """Extend the connection, with an SQL function for instance, and any connection that
        replaces it after a fork."""
        with self.lock:
            self._check_process()
            if not self._reopening:
                self._equip()
                equip(self.connection)
                self._equipped += 1
            self._equipment.append(equip)

    def _equip(self) -> None:
        while self._equipped < len(self._equipment):
            self._equipment[self._equipped](self.connection)
            self._equipped += 1

    # -- processes

    def owns(self, path: FilePath, *, timeout: float = BUSY_TIMEOUT) -> None:
        """The engine has opened the connection itself: a forked child opens another."""
        self._is_own = True
        conn_string = os.fsdecode(path)
        if is_in_memory(conn_string):
            self._in_child = _MEMORY_IN_CHILD
            return
        if not conn_string.startswith("file:"):
            conn_string = os.path.abspath(conn_string)
        self._file = _number_of(_path_in(conn_string))
        self._reopen = partial(open_sqlite, conn_string, timeout=timeout)

    def renew(self) -> None:
        """In a forked child: leave the parent's connection alone.

        SQLite keeps one record per process of the locks on a file, and the child inherits a copy of
        that record. So the inherited connection is closed before a new one is opened. Otherwise the
        new connection would rely on locks that only the parent has, and the parent could delete the
        write-ahead log under it. Closing does not release the parent's locks, which belong to the
        parent's process. A connection that was in use during the fork cannot be closed, nor one of
        the user's; it is kept and never used, and neither is its file (`inherited`).
        """
        quiet = fork_guard.was_held(self.lock)
        self._worker = Worker()
        session, self._session, self._ready = self._session, None, False
        if self._unusable or self._reopening:
            return
        own = self._reopen is not None
        if not own:
            self._unusable = self._in_child
        try:
            quiet = own and quiet and not self.connection.in_transaction
        except sqlite3.Error:  # closed before the fork, or here by the engine that owns it
            return
        if not quiet:
            self._unusable = self._in_child
            fork_guard.keep_for_ever(self.connection, session)
            inherited.keep(self._path, self.connection)
            return
        self.connection.close()
        self._reopening = True

    def _check_process(self) -> None:
        if self._unusable:
            raise ForkedProcessError(self._unusable)

    # -- sync and async

    def run(self, work: Work[R], *, write: bool) -> R:
        with self.lock:
            if not self._ready:
                self._prepare()
            if write and self._path:
                try:  # written out, since every step passes it
                    file: Any = os.stat(self._path)[1:3]
                except PermissionError:  # the process has dropped privileges since
                    file = self._file
                except OSError:
                    file = None
                if file != self._file:
                    raise ConnectionUnusableError(_LOST_ITS_NAME.format(path=self._path))
            return (self._session or self._open_session()).run(work, WRITE if write else READ)

    async def arun(self, work: Work[R], *, write: bool) -> R:
        return await self.in_worker(lambda: self.run(work, write=write))

    def set_up(self, tables: TableSetup) -> None:
        """Create the tables, unless they are complete."""
        with self.lock:
            if not self._ready:
                self._prepare()
            self._set_up(tables)

    async def aset_up(self, tables: TableSetup) -> None:
        await self.in_worker(lambda: self.set_up(tables))

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        return committer.commit(waiting, partial(self.run, write=True))

    def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Coroutine[Any, Any, Outcome]:
        """`commit`, for use on an event loop; a cancellation waits until the commit has ended."""
        return self._worker.see_through(partial(self.commit, committer, waiting))

    def in_worker(self, job: Callable[[], R]) -> asyncio.Future[R]:
        return self._worker.call(job)

    def vacuum(self) -> None:
        """Rewrite the file without the rows that were removed, and empty the log beside it."""
        with self.lock:
            self._prepare()
            if self.connection.in_transaction:
                raise ConnectionUnusableError(OPEN_TRANSACTION)
            with not_erased(), explained():
                self._cursor().execute("VACUUM")
                [(timeout,)] = self._cursor().execute("PRAGMA busy_timeout").fetchall()
        until = time.monotonic() + timeout / 1000
        # Short attempts, since one attempt that waits would block all writers.
        while not self._empty_log(timeout):
            if time.monotonic() >= until:
                raise NotErasedError(
                    f"{STILL_THERE} Another connection has been reading for longer than the busy "
                    f"timeout of {timeout / 1000:g} s, and SQLite cannot overwrite what that one "
                    "may still need. End its transaction, then call vacuum(), or erase() again."
                )
            time.sleep(0.01)

    def _empty_log(self, timeout: int) -> bool:
        """Copy the write-ahead log into the file and truncate it; False if the log is in use."""
        with self.lock, not_erased(), explained():
            cursor = self._cursor()
            if not self._is_own:
                # PASSIVE never waits. TRUNCATE blocks writers while it waits, and after PASSIVE
                # waits only for readers that began after the VACUUM.
                [(_, pages, moved)] = cursor.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                if moved < pages:
                    return False
                return _truncated(cursor)
            cursor.execute("PRAGMA busy_timeout=0")
            try:
                return _truncated(cursor)
            finally:
                cursor.execute(f"PRAGMA busy_timeout={timeout}")

    async def avacuum(self) -> None:
        await self.in_worker(self.vacuum)

    def close(self) -> None:
        """End the worker thread, and close the connection."""
        self._worker.close()
        with self.lock:
            if self._ready:
                try:
                    # `execute` would stop after the first page.
                    self.connection.executescript("PRAGMA incremental_vacuum")
                except sqlite3.Error as error:
                    kept = "SQLite: free pages were not given back at the end (%s)."
                    log.debug(log.STORAGE, kept, error)
            if not self._unusable:
                self.connection.close()

    def close_at_exit(self) -> None:
        """Close the connection when the interpreter ends, so that SQLite tidies up its files.

        No thread that holds the lock gives it back by then, and no global name is left to rely on.
        """
        if not self._unusable and self.lock.acquire(blocking=False):
            self.connection.close()

    def release(self) -> None:
        """End the worker thread. The connection belongs to the caller, and stays open."""
        self._worker.close()

    # -- transactions

    def _prepare(self) -> None:
        """Check and configure the connection, and create the tables."""
        if self._ready:
            return
        self._check_process()
        if self._reopening and self._reopen is not None:
            self.connection = self._connection_lock.connect(self._reopen())
            self._reopening, self._equipped, self._file = False, 0, None
        connection = self.connection
        with explained():
            if getattr(connection, "autocommit", None) is False:
                raise ConnectionUnusableError(
                    "The sqlite3 connection was made with autocommit=False, so it is always "
                    "inside a transaction. Make it without that argument, or with autocommit=True."
                )
            if connection.in_transaction:
                raise ConnectionUnusableError(OPEN_TRANSACTION)
            if connection.text_factory is not str:
                raise ConnectionUnusableError(
                    "The sqlite3 connection has a text_factory of its own, which would change "
                    "what is read. Give the saver a connection with the default, `str`."
                )
            cursor = self._cursor()
            self._path = _path_of(cursor)
            if self._file is None:
                self._file = _number_of(self._path)
            inherited.refuse_known(self._path)
            with suppress_read_only():
                # Only on a new file. Compactions leave free pages; `close` gives them back.
                [(former,)] = cursor.execute("PRAGMA auto_vacuum").fetchall()
                if former != _INCREMENTAL:  # setting it again would wait for writers
                    cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
                _switch_to_wal(cursor)
            cursor.execute(f"PRAGMA synchronous={self._synchronous}")
            cursor.close()
            self._equip()
        if self._first is not None:
            self._set_up(self._first)
        self._ready = True

    def _set_up(self, tables: TableSetup) -> None:
        session = self._session or self._open_session()
        if not session.run(tables.is_done, READ):
            session.run(tables.make, WRITE)

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self.connection.cursor()
        cursor.row_factory = None  # the user's connection may have one
        return cursor

    def _open_session(self) -> Session:
        with explained():
            session = self._session = Session(self._cursor(), is_own=self._is_own)
        return session


def _path_of(cursor: sqlite3.Cursor) -> str:
    """The file of a connection; "" for a database in memory."""
    rows = cursor.execute("PRAGMA database_list").fetchall()
    return next((file for _, name, file in rows if name == "main"), None) or ""


def _number_of(path: str) -> Any:
    """The number of a file and of its device; None if it has none, or may not be looked at."""
    return os.stat(path)[1:3] if os.path.exists(path) else None


def _truncated(cursor: sqlite3.Cursor) -> bool:
    [(busy, *_)] = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not busy


def _switch_to_wal(cursor: sqlite3.Cursor) -> None:
    """Retries, since SQLite does not wait here when several processes open a new file at once."""
    until = time.monotonic() + _WAL_TIMEOUT
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.002)


_WAL_TIMEOUT: Final = 10.0
"""Seconds that another process may take to create a file and its tables."""


_LOST_ITS_NAME: Final = (
    "The file '{path}' was removed, replaced or renamed while it was open. What is stored through "
    "this connection would be lost when it is closed, so nothing is. Put the file back, or open "
    "the saver or store again."
)
IN_CHILD: Final = (
    "This process was forked after the saver or store was made, and its SQLite connection is the "
    "parent's: used by two processes, it can damage the database. Make the connection and the "
    "saver or store in each process after the fork, or use from_conn_string with a file: then each "
    "process opens a connection of its own. A store that shares a saver's connection does so too "
    "if it is given the saver's engine, as in SqliteStore(saver.engine)."
)
_MEMORY_IN_CHILD: Final = (
    "This process was forked after the saver or store was made, and its database is in the memory "
    "of the parent process, which cannot be shared. Use a file, or make another saver or store in "
    "each process."
)


def is_in_memory(conn_string: str) -> bool:
    """Whether the database disappears when its connection is closed."""
    if conn_string.startswith("file:"):
        return ":memory:" in conn_string or "mode=memory" in conn_string
    return conn_string in ("", ":memory:")


def _path_in(conn_string: str) -> str:
    if not conn_string.startswith("file:"):
        return conn_string
    from urllib.parse import unquote, urlsplit  # loads slowly, and most names are paths

    return unquote(urlsplit(conn_string).path)


def open_sqlite(path: FilePath, *, timeout: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    """A connection that threads can share, with explicit transactions."""
    conn_string = os.fsdecode(path)
    if not is_in_memory(conn_string):
        inherited.refuse_path(_path_in(conn_string))
    try:
        return sqlite3.connect(
            conn_string,
            timeout=timeout,
            check_same_thread=False,
            isolation_level=None,
            uri=conn_string.startswith("file:"),
        )
    except sqlite3.OperationalError as error:
        raise ConnectionUnusableError(
            f"SQLite cannot open '{without_password(conn_string)}' ({error}). It must be a file, "
            "or a name for one, in a directory that exists and can be written to."
        ) from error
