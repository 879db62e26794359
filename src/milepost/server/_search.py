"""The search for threads, and threads as clients see them.

The registry of a database answers simple searches. Threads are read one by one, up to a limit that
the error names, if a search is for a key of the state or for a part of a nested value, or sorts by
status.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from milepost import inspect
from milepost.server._errors import refused
from milepost.server._json import wire
from milepost.server._records import (
    Checkpoint,
    Interrupt,
    Limit,
    Offset,
    SortOrder,
    Thread,
    ThreadStatus,
    ThreadTtl,
)
from milepost.server._states import read_state

if TYPE_CHECKING:
    from milepost.inspect import ThreadRow
    from milepost.server._server import Server

_SortBy = Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"]
_Field = Literal[
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "context",
    "status",
    "values",
    "interrupts",
]

_STORED: Final[Mapping[ThreadStatus, tuple[str, ...]]] = {
    "idle": ("idle",),
    "busy": ("running",),
    "interrupted": ("interrupted", "stale"),
    "error": ("error",),
}
"""Status that clients see → those in the registry.

A stale thread was left in the middle of a run, by a process that died: it can go on.
"""
_SHOWN: Final = {stored: shown for shown, many in _STORED.items() for stored in many}


def status_of(row: ThreadRow) -> ThreadStatus:
    """The status of a thread, as clients know it."""
    return _SHOWN.get(row.status, "idle")


class ThreadFilter(msgspec.Struct, kw_only=True):
    """Which threads."""

    metadata: dict[str, Any] | None = None
    values: dict[str, Any] | None = None
    status: ThreadStatus | None = None


class ThreadSearch(ThreadFilter, kw_only=True):
    """Which threads, in what order, with which fields."""

    ids: Annotated[list[str], Meta(max_length=1000)] | None = None
    limit: Limit = 10
    offset: Offset = 0
    sort_by: _SortBy | None = None
    sort_order: SortOrder | None = None
    select: list[_Field] | None = None
    extract: dict[str, str] | None = None


def find(server: Server, wanted: ThreadSearch) -> tuple[list[ThreadRow], int]:
    """A part of the threads, and how many there are."""
    sort_by, descending = wanted.sort_by or "created_at", wanted.sort_order != "asc"
    order: dict[str, Any] = {"sort": _column(sort_by), "descending": descending}
    if sort_by != "status" and _is_simple(wanted):
        page = inspect.threads(
            server.database,
            metadata=wanted.metadata,
            status=None if wanted.status is None else _STORED[wanted.status][0],
            **order,
            limit=wanted.limit,
            offset=wanted.offset,
        )
        return list(page.items), page.total
    found = [row for row in _candidates(server, wanted, order) if _holds(server, wanted, row)]
    if wanted.ids or sort_by == "status":
        found.sort(key=_order(sort_by), reverse=descending)
    return found[wanted.offset : wanted.offset + wanted.limit], len(found)


def _is_simple(wanted: ThreadSearch) -> bool:
    """Whether the registry can find the threads."""
    nested = any(isinstance(value, (dict, list)) for value in (wanted.metadata or {}).values())
    is_one_status = wanted.status is None or len(_STORED[wanted.status]) == 1
    return is_one_status and not (nested or wanted.values or wanted.ids)


def _holds(server: Server, wanted: ThreadSearch, row: ThreadRow) -> bool:
    """Whether a thread is one of those that are wanted; its state is read last."""
    if wanted.status not in (None, status_of(row)):
        return False
    if not contains(dict(row.metadata), wanted.metadata or {}):
        return False
    return not wanted.values or contains(_latest(server, row)[0], wanted.values)


def _column(sort_by: _SortBy) -> str:
    """The column that the registry sorts by; by status it cannot."""
    return {"state_updated_at": "updated_at", "status": "thread_id"}.get(sort_by, sort_by)


def _order(sort_by: _SortBy) -> Callable[[ThreadRow], Any]:
    if sort_by == "status":
        return lambda row: (status_of(row), row.thread_id)
    return lambda row: (getattr(row, _column(sort_by)) or 0, row.thread_id)


def _candidates(
    server: Server, wanted: ThreadSearch, order: Mapping[str, Any]
) -> Iterable[ThreadRow]:
    if wanted.ids:
        rows = (server.find_thread(id) for id in dict.fromkeys(wanted.ids))
        return (row for row in rows if row is not None)
    given = (wanted.metadata or {}).items()
    plain = {key: value for key, value in given if not isinstance(value, (dict, list))}
    most = server.limits.scanned
    page = inspect.threads(server.database, metadata=plain, **order, limit=most)
    if page.total > most:
        raise refused(
            f"{page.total:,} threads would have to be looked at, and the limit is {most:,}. Narrow "
            "the search down by metadata."
        )
    return page.items


def contains(stored: Any, wanted: Any) -> bool:
    """Whether JSON contains a part, in the sense of PostgreSQL's `@>`."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(
            key in stored and contains(stored[key], one) for key, one in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(stored, list) and all(
            any(contains(member, one) for member in stored) for one in wanted
        )
    if isinstance(stored, bool) is not isinstance(wanted, bool):
        return False
    return bool(stored == wanted)


# -- threads as clients see them


def shown(server: Server, row: ThreadRow, *, state: bool = True) -> Thread:
    """A thread; without `state` its values and interrupts are not read."""
    values, interrupts = _latest(server, row) if state else ({}, {})
    return Thread(
        thread_id=row.thread_id,
        created_at=_iso(row.created_at),
        updated_at=_iso(row.updated_at),
        state_updated_at=_iso(row.updated_at),
        metadata=wire(row.metadata),
        config={},
        status=status_of(row),
        values=values,
        interrupts=interrupts,
    )


def ttl_of(server: Server, row: ThreadRow) -> ThreadTtl | None:
    """When a thread goes; None if it stays."""
    minutes = server.database.source.ttl(row.thread_id)
    if minutes is None:
        return None
    used = row.updated_at
    ends = None if used is None else _iso(used + 60 * minutes)
    return ThreadTtl(strategy="delete", ttl_minutes=minutes, expires_at=ends)


def _latest(server: Server, row: ThreadRow) -> tuple[Any, dict[str, list[Interrupt]]]:
    if row.head is None:
        return {}, {}
    state = read_state(server, row, Checkpoint())
    return state.values, {task.id: task.interrupts for task in state.tasks if task.interrupts}


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(-?\d{1,9})\]")
_PATH: Final = re.compile(rf"(values|metadata|config|interrupts)((?:{_STEP.pattern})*)")


def parse_path(text: str) -> list[str | int]:
    """`values.messages[-1]` as its steps; a refusal for anything else."""
    path = _PATH.fullmatch(text)
    if path is None:
        raise refused(
            f"'{text}' is no path: begin with values, metadata, config or interrupts, and go on "
            "with .key and [position]."
        )
    return [path[1], *(key or int(position) for key, position in _STEP.findall(path[2]))]


def extract(thread: Thread, path: list[str | int]) -> Any:
    """The value at a path of a thread; None if there is none."""
    value: Any = getattr(thread, cast("str", path[0]))
    for step in path[1:]:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value
