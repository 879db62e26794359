"""The registry of threads: who they belong to, how they stand, when they were last used.

It is a table of its own, so that listing threads never reads a checkpoint or a value.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost.errors import CheckpointNotFoundError
from milepost.sql.operations import Operation, Query, Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.checkpoint.sql.queries import Queries
    from milepost.sql.dialect import Dialect

LEASE: Final = 60.0
"""Seconds without a commit after which a run is taken for dead."""

STATUSES: Final = ("idle", "interrupted", "error", "running", "stale")
_COLUMNS = "thread_id, status, created_at, updated_at, head, metadata"


def is_alive(status: str, updated_at: float) -> bool:
    """Whether a run is at work on a thread, as far as its entry tells."""
    return status == "running" and time.time() - updated_at <= LEASE


class ThreadInfo(NamedTuple):
    """A thread, as the registry knows it."""

    thread_id: str
    status: str
    """idle, interrupted, error, running; stale if a run has not been heard of for long."""
    created_at: float
    updated_at: float
    head: str | None
    """The latest checkpoint."""
    metadata: dict[str, Any]
    """What `set_thread_metadata` has stored."""
    checkpoints: int | None = None
    """Counts and bytes are there when one thread was asked for."""
    writes: int | None = None
    bytes: int | None = None


class Wanted(NamedTuple):
    """What `list_threads` is asked for; all of it must hold."""

    metadata: Mapping[str, Any] = {}
    status: str | None = None
    prefix: str | None = None
    updated_after: float | None = None
    updated_before: float | None = None
    after: str | None = None
    """The last thread of the page before."""
    limit: int = 100


class Registry:
    """Reads and writes the registry through one dialect's queries."""

    def __init__(self, dialect: Dialect, queries: Queries) -> None:
        self._dialect = dialect
        self._q = queries

    def page(self, wanted: Wanted) -> Operation[list[ThreadInfo]]:
        """Threads in the order of their ids."""
        if wanted.status is not None and wanted.status not in STATUSES:
            raise ValueError(f"Unknown status '{wanted.status}': use one of {', '.join(STATUSES)}.")
        clauses, values = self._clauses(wanted)
        if not all(map(_may_be_stored, values)):
            return []
        where = f"WHERE {' AND '.join(clauses)} " if clauses else ""
        sql = f"SELECT {_COLUMNS} FROM threads {where}ORDER BY thread_id LIMIT ?"
        rows = yield Query(_placed(self._dialect, sql), (*values, wanted.limit))
        return [_info(row) for row in rows]

    def _clauses(self, wanted: Wanted) -> tuple[list[str], list[Any]]:
        """Only fixed text goes into the query; all that the caller gave is a parameter."""
        clauses: list[str] = []
        values: list[Any] = []

        def add(clause: str, *given: Any) -> None:
            clauses.append(clause)
            values.extend(given)

        if wanted.after is not None:
            add("thread_id > ?", wanted.after)
        if wanted.prefix:
            add("thread_id >= ?", wanted.prefix)
            if (end := _after_prefix(wanted.prefix)) is not None:
                add("thread_id < ?", end)
        stale = time.time() - LEASE
        if wanted.status == "stale":
            add("status = 'running' AND updated_at < ?", stale)
        elif wanted.status == "running":
            add("status = 'running' AND updated_at >= ?", stale)
        elif wanted.status is not None:
            add("status = ?", wanted.status)
        if wanted.updated_after is not None:
            add("updated_at > ?", wanted.updated_after)
        if wanted.updated_before is not None:
            add("updated_at < ?", wanted.updated_before)
        for key, value in wanted.metadata.items():
            if key == "owner":
                add("owner = ?", str(value))
            elif key == "tags":
                for tag in [value] if isinstance(value, str) else value:
                    add(*self._has_tag(tag))
            else:
                add(*self._equals(key, value))
        return clauses, values

    def _equals(self, key: str, value: Any) -> tuple[str, str, str]:
        if self._dialect.name == "sqlite":
            # Through json_each a key is compared, never read as a path.
            return (
                "EXISTS (SELECT 1 FROM json_each(threads.metadata) e, json_each(?) w"
                " WHERE e.key = ? AND e.type = w.type AND e.value IS w.value)",
                json.dumps([value]),
                str(key),
            )
        return ("metadata @> jsonb_build_object(?::text, ?::jsonb)", str(key), json.dumps(value))

    def _has_tag(self, tag: Any) -> tuple[str, str]:
        if self._dialect.name == "sqlite":
            return (
                "EXISTS (SELECT 1 FROM json_each(threads.metadata, '$.tags') e WHERE e.value = ?)",
                str(tag),
            )
        return ("metadata -> 'tags' @> ?::jsonb", json.dumps([str(tag)]))

    def one(self, thread_id: str) -> Operation[ThreadInfo | None]:
        """One thread, with counts."""
        rows = yield Query(self._q.thread_info, (thread_id,))
        if not rows:
            return None
        info = _info(rows[0])
        rows = yield Query(self._q.thread_size, (thread_id, thread_id, thread_id))
        checkpoints = writes = size = 0
        for table, count, bytes_ in rows:
            checkpoints += count if table == 1 else 0
            writes += count if table == 3 else 0
            size += int(bytes_ or 0)
        return info._replace(checkpoints=checkpoints, writes=writes, bytes=size)

    def describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Operation[None]:
        """Replace what is stored about a thread."""
        owner = metadata.get("owner")
        try:
            text = json.dumps(dict(metadata), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"The metadata of thread '{thread_id}' must be plain JSON: {error}."
            ) from error
        if not _may_be_stored(text):
            raise ValueError(
                f"The metadata of thread '{thread_id}' contains a NUL character or half of a "
                "surrogate pair, which not every database can hold."
            )
        values = (None if owner is None else str(owner), text, thread_id)
        changed = yield Run(self._q.describe_thread, values)
        if not changed:
            raise CheckpointNotFoundError(
                f"There is no thread '{thread_id}'. Its first checkpoint makes it."
            )


def _info(row: Sequence[Any]) -> ThreadInfo:
    thread_id, status, created_at, updated_at, head, metadata = row
    if status == "running" and not is_alive(status, updated_at):
        status = "stale"
    if isinstance(metadata, str):
        metadata = json.loads(metadata)
    return ThreadInfo(thread_id, status, created_at, updated_at, head, metadata)


def _may_be_stored(value: Any) -> bool:
    """Whether a parameter is text that every database can hold; what is not matches nothing."""
    if not isinstance(value, str):
        return True
    plain = value.replace("\\\\", "")
    return "\0" not in plain and not _UNSTORABLE.search(plain) and _encodable(value)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_UNSTORABLE: Final = re.compile(
    r"\\u0000|\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f]"
)
"""In JSON: NUL, or half of a surrogate pair."""


def _after_prefix(prefix: str) -> str | None:
    """The first text after all that begin with `prefix`."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if 0xD800 <= code <= 0xDFFF:
            code = 0xE000
        if code <= 0x10FFFF:
            return prefix[: end - 1] + chr(code)
    return None


def _placed(dialect: Dialect, sql: str) -> str:
    return sql if dialect.name == "sqlite" else sql.replace("?", "%s")
