"""What can go wrong when a database is inspected, and errors of databases turned into that.

InspectError
├── BadReferenceError        a text that names no thread or checkpoint
├── ThreadNotFoundError
├── StateNotFoundError       no such checkpoint, tag, namespace or key
├── AmbiguousReferenceError  several checkpoints begin like this
├── CannotOpenError          no such database, a wrong password, not a database of ours
├── ReadOnlyError            opened for reading, or LangGraph's
├── DamagedError             what is stored cannot be read
└── MergeConflictError       two branches changed the same keys
"""

from __future__ import annotations

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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class InspectError(MilepostError):
    """A database cannot be inspected as asked. The message says what to do."""


class BadReferenceError(InspectError, ValueError):
    """A text that names no thread or checkpoint."""


class ThreadNotFoundError(InspectError, LookupError):
    """The database has no such thread."""


class StateNotFoundError(InspectError, LookupError):
    """The thread has no such checkpoint, tag, namespace or key."""


class AmbiguousReferenceError(InspectError, LookupError):
    """Several checkpoints begin with what was given: `candidates` has some of them."""

    candidates: Sequence[str] = ()


class CannotOpenError(InspectError):
    """The address names no database that can be opened."""


class ReadOnlyError(InspectError):
    """The database was opened for reading only, or is LangGraph's, which is never written."""


class DamagedError(InspectError):
    """What is stored cannot be read. `milepost verify` names every such row."""


class MergeConflictError(InspectError):
    """Two branches changed the same keys in ways that no reducer brings together."""

    keys: Sequence[str] = ()


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
            text = str(error).strip() or type(error).__name__
            raise CannotOpenError(f"{what}: the database says: {text}") from error
        raise
