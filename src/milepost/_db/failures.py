"""Failures of a database that several modules of `_db` handle."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from milepost.errors import (
    ConnectionUnusableError,
    DatabaseBusyError,
    ForeignDatabaseError,
    NotErasedError,
    NotSetUpError,
    SaverError,
    StorageError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILURES_OF_THE_DATABASE: Final = (ConnectionUnusableError, DatabaseBusyError, StorageError)
"""Failures of the database itself: any other transaction would fail in the same way."""

STILL_THERE: Final = (
    "What was removed cannot be read any more, but its bytes are still in the files of the "
    "database."
)


@contextmanager
def not_erased() -> Iterator[None]:
    """Report a failure while space is given back as `NotErasedError`: the bytes are still there."""
    try:
        yield
    except (NotErasedError, NotSetUpError, ForeignDatabaseError, ConnectionUnusableError):
        raise
    except SaverError as error:
        raise NotErasedError(
            f"{STILL_THERE} Overwriting them has failed: {error} Repair the cause, then call "
            "vacuum(), or erase() again."
        ) from error
