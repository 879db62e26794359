"""Errors of databases as errors that say what to do, without passwords."""

from __future__ import annotations

import re
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from milepost.errors import (
    BrokenChainError,
    ConnectionUnusableError,
    DatabaseBusyError,
    ForeignDatabaseError,
    MilepostError,
    MissingDependencyError,
    NotSetUpError,
    SaverError,
    SerdeError,
    ThreadConflict,
)
from milepost.inspect._errors import CannotOpenError, DamagedError, InspectError

if TYPE_CHECKING:
    from collections.abc import Iterator


def hidden(url: str) -> str:
    """An address without its password."""
    url = re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", url)
    return re.sub(r"(?i)(password=)[^&\s]*", r"\1***", url)


_UNREACHABLE: Final = (
    ConnectionUnusableError,
    DatabaseBusyError,
    ForeignDatabaseError,
    NotSetUpError,
)


@contextmanager
def told_plainly(what: str) -> Iterator[None]:
    """Errors of databases as errors that say what to do.

    Args:
        what: What is being done.

    Raises:
        InspectError: `DamagedError`, `CannotOpenError` or another one, in place of the database's.

    Examples:
        >>> from milepost.inspect.parts import told_plainly
        >>> with told_plainly("trip"):
        ...     pass
    """
    try:
        yield
    except (InspectError, ThreadConflict, MissingDependencyError):
        raise
    except _UNREACHABLE as error:
        raise CannotOpenError(f"{what}: {error}") from error
    except (SerdeError, BrokenChainError, SaverError) as error:
        # Of other errors of savers, only the files themselves can be the cause.
        raise DamagedError(f"{what}: {error}") from error
    except MilepostError as error:
        raise InspectError(str(error)) from error
    except sqlite3.Error as error:
        raise CannotOpenError(f"{what}: SQLite says: {error}.") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("psycopg", "redis", "valkey"):
            said = str(error).strip() or type(error).__name__
            raise CannotOpenError(f"{what}: the database says: {said}") from error
        raise
