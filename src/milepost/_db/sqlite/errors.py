"""Turns errors of sqlite3 into errors that say what to do."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from milepost.errors import (
    ConnectionUnusableError,
    DatabaseBusyError,
    ForeignDatabaseError,
    ReadOnlyError,
    SaverError,
    StorageError,
    StorageFullError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


_IMMUTABLE: Final = (
    "A database in a directory that cannot be written to can be read with "
    "from_conn_string('file:/path/to/it?immutable=1'), if no process changes it meanwhile and no "
    "-wal is beside it: what is in that is not read then, so copy both to another directory."
)
_NO_FILES_BESIDE: Final = (sqlite3.SQLITE_READONLY | 5 << 8, sqlite3.SQLITE_READONLY | 6 << 8)
"""SQLITE_READONLY_CANTINIT and SQLITE_READONLY_DIRECTORY, which some modules lack as names."""


@contextmanager
def explained() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error) from error


@contextmanager
def suppress_read_only() -> Iterator[None]:
    """Skips a change to a file that is read-only. The first write reports the error."""
    try:
        yield
    except sqlite3.Error as error:
        if not _is(error, sqlite3.SQLITE_READONLY):
            raise


def explain(error: sqlite3.Error) -> SaverError:
    text = str(error)
    if "same thread" in text:
        return ConnectionUnusableError(
            "The sqlite3 connection belongs to another thread. Open it with "
            "sqlite3.connect(..., check_same_thread=False); its users take turns."
        )
    if "closed" in text:
        return ConnectionUnusableError(
            "The sqlite3 connection is closed. Keep it open as long as the saver or store is used; "
            "with from_conn_string, use it inside the `with` block."
        )
    if _is(error, sqlite3.SQLITE_FULL):
        return StorageFullError(
            f"SQLite could not write ({text}). Nothing of this step was stored, and what was "
            "stored before is intact. Make room, then resume the thread."
        )
    if _is(error, sqlite3.SQLITE_IOERR):
        return StorageError(
            f"SQLite could not read or write its files ({text}, {error.sqlite_errorname}) and has "
            "undone the transaction. It does not say why: a device or a network file system may be "
            "failing, or a quota or a limit on the size of files may be used up. Look into the "
            "system's log, repair that or make room, then resume the thread."
        )
    if "locked" in text or "busy" in text:
        return DatabaseBusyError(
            f"SQLite: {text}. Another process has held the database for longer than the busy "
            "timeout. Keep transactions short there, or pass a larger timeout to sqlite3.connect."
        )
    if getattr(error, "sqlite_errorcode", 0) in _NO_FILES_BESIDE:
        return ReadOnlyError(
            f"SQLite: {text}. SQLite cannot create or change the files that it needs beside the "
            "database, in WAL mode for reading too. Let the process write to the directory. "
            f"{_IMMUTABLE}"
        )
    if _is(error, sqlite3.SQLITE_READONLY):
        return ReadOnlyError(
            f"SQLite: {text}. The file or its directory cannot be written to, or the connection "
            "was opened for reading only. Reading works; to store something, open the file for "
            "writing, in a directory in which SQLite can create files beside it."
        )
    if _is(error, sqlite3.SQLITE_CANTOPEN):
        return StorageError(
            f"SQLite: {text}. The file is gone or may not be read, or SQLite cannot create the "
            f"files that it needs beside it. {_IMMUTABLE}"
        )
    if "not a database" in text:
        return ForeignDatabaseError(
            "SQLite: the file is not a database, or it is encrypted by another program. Nothing in "
            "it was touched; give the saver another file name."
        )
    if _is(error, sqlite3.SQLITE_TOOBIG):
        return SaverError(
            f"SQLite: {text}. Nothing of this step was stored; a value can have 1 GB at most."
        )
    if _is(error, sqlite3.SQLITE_CORRUPT):
        # Not a StorageError: other transactions may need none of the damaged pages.
        return SaverError(
            f"SQLite: {text}. The file is damaged, or it was copied while it was written to, or "
            "without the -wal beside it. Put a backup back; `.recover` of the sqlite3 shell writes "
            "out what can still be read."
        )
    return SaverError(f"SQLite: {text}.")


def _is(error: sqlite3.Error, code: int) -> bool:
    """Whether the error has this primary code, which is the low byte of an extended code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == code
