"""What can go wrong when a database is looked at.

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

from typing import TYPE_CHECKING

from milepost.errors import MilepostError

if TYPE_CHECKING:
    from collections.abc import Sequence


class InspectError(MilepostError):
    """Something about looking at a database. The message says what to do."""


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
