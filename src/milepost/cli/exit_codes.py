"""The exit statuses of the command line, for scripts.

| status | meaning |
| --- | --- |
| 0 | done |
| 1 | it failed, or something is wrong: damaged rows, a run that failed, threads that do not fit |
| 2 | wrong use: an unknown option, no JSON, a bad reference, a question without a terminal |
| 3 | there is no such thread, checkpoint, tag, key or graph, or the reference is ambiguous |
| 4 | the database cannot be opened, or is not one that can be moved |
| 5 | refused: opened for reading, LangGraph's, or taken by another run |
| 6 | what is stored is damaged |
| 7 | a merge has conflicts |
| 8 | an optional part is not installed; the message has the command |
| 130 | ended with Ctrl-C |
"""

from __future__ import annotations

from typing import Final

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CANNOT_OPEN: Final = 4
REFUSED: Final = 5
DAMAGED: Final = 6
CONFLICT: Final = 7
NOT_INSTALLED: Final = 8
INTERRUPTED: Final = 130
"""The status that a shell reports for a program that was ended with Ctrl-C."""


def status_of(error: BaseException) -> int:
    from milepost import errors
    from milepost import inspect as inspecting
    from milepost.integrations.langgraph._moving.sources import BadAddressError

    table: tuple[tuple[type[BaseException], int], ...] = (
        (inspecting.BadReferenceError, USAGE),
        (inspecting.MergeConflictError, CONFLICT),
        (inspecting.DamagedError, DAMAGED),
        (inspecting.ReadOnlyError, REFUSED),
        (inspecting.CannotOpenError, CANNOT_OPEN),
        (BadAddressError, CANNOT_OPEN),
        (errors.MissingDependencyError, NOT_INSTALLED),
        (errors.ThreadConflict, REFUSED),
        (errors.SerdeError, DAMAGED),
        (errors.BrokenChainError, DAMAGED),
        (errors.ConnectionUnusableError, CANNOT_OPEN),
        (errors.CheckpointNotFoundError, NOT_FOUND),
    )
    if isinstance(error, inspecting.InspectError) and isinstance(error, LookupError):
        return NOT_FOUND
    return next((status for kind, status in table if isinstance(error, kind)), FAILED)
