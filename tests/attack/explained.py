"""Which errors are allowed: typed ones that say what another party or a fault has done.

`is_explained` returns why an error is a violation, or None if it is fine.
"""

from __future__ import annotations

from typing import Any

import milepost.checkpoint.serde._types.exceptions
import milepost.errors
from attack.history import Span

MODULES = (milepost.errors, milepost.checkpoint.serde._types.exceptions)
TYPES: dict[str, type] = {
    name: kind
    for module in MODULES
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, milepost.errors.MilepostError)
}

BY_HARM = {
    "StorageError": ("full",),
    "StorageFullError": ("full",),
    "DatabaseBusyError": ("stop", "restart", "terminate", "full"),
    "ConnectionUnusableError": ("restart", "terminate"),
    "OutcomeUnknownError": ("restart", "terminate"),
    "SaverError": ("restart", "terminate", "full"),
    "Hindered": ("stop", "restart", "terminate", "full"),
}
"""Errors → the faults that may cause them."""
BY_REMOVAL = ("BrokenChainError", "CheckpointNotFoundError")
CHANGES = ("run", "update", "remove", "copy")


def is_explained(span: Span, now: Any) -> str | None:
    assert span.end is not None
    assert span.error is not None
    name = span.error
    told = span.arguments
    if span.operation == "fault":
        return "a fault could not be done"
    if span.operation == "observe":
        return "nobody stands in the way at a quiet moment"
    if name == "CancelledError" and told.get("how") == "cancel":
        return None
    if name == "GraphDrained" and told.get("how") == "drain":
        return None
    if name not in TYPES and name not in BY_HARM:
        return "no error of milepost's"
    since = told.get("since") or span.start
    if name == "EmptyInputError":
        return None if told.get("token") is None else "there was an input"
    if name in BY_HARM:
        kinds = BY_HARM[name]
        harmed = any(
            fault.arguments["kind"] in kinds and fault.overlaps(span.start - LINGER, span.stop)
            for fault in now.faults
        )
        return None if harmed else f"none of {kinds} was done"
    if told.get("how") == "forked" and "process" in span.end.error[1]:  # type: ignore[index]
        return None  # a saver says that it belongs to another process
    if name == "NotErasedError":
        return None
    if name == "CheckpointError" and "exists already" in span.end.error[1]:  # type: ignore[index]
        return None
    threads = {told.get("thread"), told.get("source")} - {None}
    others = [
        other
        for thread_id in threads or {None}
        for other in now.of_thread(thread_id)
        if other is not span and other.overlaps(since, span.stop)
    ]
    if name == "CheckpointNotFoundError" and ("source" in told or told.get("how") == "describe"):
        return None  # there is no such thread
    if name in BY_REMOVAL:
        removals = [other for other in others if other.operation == "remove"]
        # What a run has stored is removed from copies of its thread, too.
        removals += [
            other
            for other in now.spans
            if other.arguments.get("how") == "delete_for_runs" and other.overlaps(since, span.stop)
        ]
        return None if removals else "nobody removed anything"
    if name in ("ThreadConflict", "UnknownInterruptError"):
        changes = [other for other in others if other.operation in CHANGES]
        return None if changes else "nobody else changed the thread"
    return "not an error that others can cause"


LINGER = 2_000_000_000
"""Nanoseconds for which a fault may still be felt by a call that begins after it."""
