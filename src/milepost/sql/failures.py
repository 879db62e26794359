"""Errors that only a database can cause.

CheckpointError
├── InvalidIdError (ValueError)   an id or a name that a database cannot hold
└── SaverError
    ├── NotSetUpError             the tables are not there yet
    ├── ForeignDatabaseError      the tables are another program's
    ├── StorageError              the database's files cannot be read or written
    │   └── StorageFullError      the disk or a quota is used up
    ├── NotErasedError            rows are gone, but their bytes are still in the files
    ├── OutcomeUnknownError       the connection was lost while a change was on its way
    ├── DatabaseBusyError         others hold the database, or all connections to it
    └── ConnectionUnusableError   the connection is closed, busy or bound to another thread
        ├── ForkedProcessError    the connection is the parent process's
        └── ReadOnlyError         the database can only be read
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from milepost.errors import CheckpointError, SaverError

if TYPE_CHECKING:
    from collections.abc import Iterator


class InvalidIdError(CheckpointError, ValueError):
    """An id or a name that cannot be stored. The message says which, and why."""


class NotSetUpError(SaverError):
    """The tables do not exist yet: call `setup()` once, before the first use."""


class ForeignDatabaseError(SaverError):
    """The database belongs to another program. Nothing in it was touched."""


class StorageError(SaverError):
    """The database could not read or write its files. The message says what is known of it."""


class StorageFullError(StorageError):
    """There is no room left. What was saved before is intact; make room and resume."""


class NotErasedError(SaverError):
    """What was removed cannot be read any more, but its bytes are still in the database's files.

    Do what the message says, then call `vacuum()`, or `erase()` again.
    """


class OutcomeUnknownError(SaverError):
    """The connection was lost while a change was on its way: nobody knows whether it was stored.

    Read what is there now, and decide.
    """


class ConnectionUnusableError(SaverError):
    """The connection cannot be used as it is. The message says what to change."""


class ForkedProcessError(ConnectionUnusableError):
    """The saver or store was made before this process was forked, and its connection is the
    parent's. Make it after the fork, in each process, or use `from_conn_string`."""


class ReadOnlyError(ConnectionUnusableError):
    """The database can be read, and not written to. The message says what to change."""


class DatabaseBusyError(SaverError):
    """Others hold the database or all connections to it, or it is restarting. Repeat the call
    later."""


ALL_THE_SAME = (ConnectionUnusableError, DatabaseBusyError, StorageError)
"""Failures that have nothing to do with what was wanted: others would fail alike."""


@contextmanager
def not_erased() -> Iterator[None]:
    """While space is given back: what fails there is told as what it leaves in the files."""
    try:
        yield
    except (NotErasedError, NotSetUpError, ForeignDatabaseError, ConnectionUnusableError):
        raise
    except SaverError as error:
        raise NotErasedError(
            f"{STILL_THERE} Overwriting them has failed: {error} Mend that, then call vacuum(), or "
            "erase() again."
        ) from error


STILL_THERE: Final = (
    "What was removed cannot be read any more, but its bytes are still in the files of the "
    "database."
)
