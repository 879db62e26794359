"""Which threads a client means.

What the registry of a database can answer is asked there. What it cannot (a key of the state, a
part of a nested value, an order by status) is found by looking at threads one by one, up to a
limit that the error names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec

from milepost import inspect
from milepost.server._errors import refused
from milepost.server._records import Checkpoint, Interrupt, Thread, ThreadStatus, ThreadTtl
from milepost.server._states import read_state
from milepost.server._wire import wire_dict

if TYPE_CHECKING:
    from milepost.inspect import ThreadRow
    from milepost.server._server import Server

SortBy = Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"]

_OURS: Final[Mapping[ThreadStatus, tuple[str, ...]]] = {
    "idle": ("idle",),
    "busy": ("running",),
    "interrupted": ("interrupted", "stale"),
    "error": ("error",),
}
"""A stale thread was left in the middle of a run, by a process that died: it can go on."""
_THEIRS: Final = {ours: theirs for theirs, many in _OURS.items() for ours in many}


def status_of(row: ThreadRow) -> ThreadStatus:
    """The status of a thread, as clients know it."""
    return _THEIRS.get(row.status, "idle")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which threads; all of it must hold."""

    metadata: Mapping[str, Any]
    values: Mapping[str, Any]
    status: ThreadStatus | None
    ids: list[str] | None = None
    sort_by: SortBy = "created_at"
    descending: bool = True

    @property
    def is_simple(self) -> bool:
        """Whether the registry can find them."""
        nested = any(isinstance(value, (dict, list)) for value in self.metadata.values())
        by_registry = self.sort_by != "status" and len(_OURS.get(self.status or "idle", ())) == 1
        return by_registry and not (nested or self.values or self.ids)

    def holds(self, server: Server, row: ThreadRow) -> bool:
        """Whether a thread is one of them; its state is looked at last."""
        if self.status not in (None, status_of(row)):
            return False
        if not contains(dict(row.metadata), dict(self.metadata)):
            return False
        if not self.values:
            return True
        return contains(_latest(server, row)[0], dict(self.values))


def find(server: Server, wanted: Wanted, limit: int, offset: int) -> tuple[list[ThreadRow], int]:
    """A part of the threads, and how many there are."""
    if wanted.is_simple:
        page = inspect.threads(
            server.database,
            metadata=wanted.metadata,
            status=None if wanted.status is None else _OURS[wanted.status][0],
            sort=_column(wanted.sort_by),
            descending=wanted.descending,
            limit=limit,
            offset=offset,
        )
        return list(page.items), page.total
    found = [row for row in _candidates(server, wanted) if wanted.holds(server, row)]
    if wanted.ids is not None or wanted.sort_by == "status":
        found.sort(key=_order(wanted.sort_by), reverse=wanted.descending)
    return found[offset : offset + limit], len(found)


def _column(sort_by: SortBy) -> Any:
    return "updated_at" if sort_by == "state_updated_at" else sort_by


def _order(sort_by: SortBy) -> Callable[[ThreadRow], Any]:
    if sort_by == "status":
        return lambda row: (status_of(row), row.thread_id)
    name = _column(sort_by)
    return lambda row: (getattr(row, name) or 0 if name != "thread_id" else 0, row.thread_id)


def _candidates(server: Server, wanted: Wanted) -> Iterator[ThreadRow]:
    if wanted.ids is not None:
        rows = (server.find_thread(id) for id in dict.fromkeys(wanted.ids))
        yield from (row for row in rows if row is not None)
        return
    plain = {k: v for k, v in wanted.metadata.items() if not isinstance(v, (dict, list))}
    sort: Any = "thread_id" if wanted.sort_by == "status" else _column(wanted.sort_by)
    seen = 0
    while True:
        page = inspect.threads(
            server.database,
            metadata=plain,
            sort=sort,
            descending=wanted.descending,
            limit=500,
            offset=seen,
        )
        if page.total > server.limits.scanned:
            raise refused(
                f"{page.total:,} threads would have to be looked at, and the limit is "
                f"{server.limits.scanned:,}. Narrow the search down by metadata."
            )
        yield from page.items
        seen += len(page.items)
        if not page.items or seen >= page.total:
            return


def contains(stored: Any, wanted: Any) -> bool:
    """Whether JSON has a part, as PostgreSQL's `@>` says it."""
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


def select(record: msgspec.Struct, fields: Sequence[str] | None) -> Any:
    if not fields:
        return record
    return {name: getattr(record, name) for name in fields if hasattr(record, name)}


# -- threads as clients see them


def shown(server: Server, row: ThreadRow, *, state: bool = True) -> Thread:
    """A thread; without `state` its values and interrupts are not read."""
    values, interrupts = _latest(server, row) if state else ({}, {})
    return Thread(
        thread_id=row.thread_id,
        created_at=_iso(row.created_at),
        updated_at=_iso(row.updated_at),
        state_updated_at=_iso(row.updated_at),
        metadata=wire_dict(row.metadata),
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


_ROOT: Final = re.compile(r"(values|metadata|config|interrupts)(?=[.\[]|\Z)")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(-?\d{1,9})\]")


def parse_path(text: str) -> list[str | int]:
    """`values.messages[-1]` as its steps; a refusal for anything else."""
    root = _ROOT.match(text)
    steps: list[str | int] = [root[0]] if root else []
    at = root.end() if root else 0
    while root and at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            break
        steps.append(step[1] if step[1] is not None else int(step[2]))
        at = step.end()
    if not root or at < len(text):
        raise refused(
            f"'{text}' is no path: begin with values, metadata, config or interrupts, and go on "
            "with .key and [position]."
        )
    return steps


def extract(thread: Thread, path: list[str | int]) -> Any:
    """What a thread has at a path; None if there is nothing."""
    value: Any = getattr(thread, cast("str", path[0]))
    for step in path[1:]:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value
