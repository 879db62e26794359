"""Errors that only a database can cause.

CheckpointError
├── InvalidIdError (ValueError)   an id or a name that a database cannot hold
└── SaverError
    ├── NotSetUpError             the tables are not there yet
    ├── ForeignDatabaseError      the tables are another program's
    ├── StorageFullError          the disk or a quota is used up
    ├── DatabaseBusyError         another process holds the database
    └── ConnectionUnusableError   the connection is closed, busy or bound to another thread
"""

from __future__ import annotations

from milepost.errors import CheckpointError, SaverError


class InvalidIdError(CheckpointError, ValueError):
    """An id or a name that cannot be stored. The message says which, and why."""


class NotSetUpError(SaverError):
    """The tables do not exist yet: call `setup()` once, before the first use."""


class ForeignDatabaseError(SaverError):
    """The database belongs to another program. Nothing in it was touched."""


class StorageFullError(SaverError):
    """There is no room left. What was saved before is intact; make room and resume."""


class ConnectionUnusableError(SaverError):
    """The connection cannot be used as it is. The message says what to change."""


class DatabaseBusyError(SaverError):
    """Another process holds the database, or it is restarting. Repeat the call later."""


ALL_THE_SAME = (ConnectionUnusableError, DatabaseBusyError, StorageFullError)
"""Failures that have nothing to do with what was wanted: others would fail alike."""
