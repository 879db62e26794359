"""The registry of threads: who they belong to, how they stand, when they were last used.

It is a table of its own, so that listing threads never reads a checkpoint or a value.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.sql.queries import HEAD
from milepost.checkpoint.threads import (
    Problem,
    ThreadInfo,
    Wanted,
    may_be_stored,
    metadata_text,
    no_such_thread,
)
from milepost.errors import DamagedRowError
from milepost.sql.operations import Operation, Query, Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.checkpoint.sql.queries import Queries
    from milepost.sql.dialect import Dialect

LEASE: Final = 60.0
"""Seconds without a commit after which a run is taken for dead."""

_COLUMNS = f"thread_id, status, created_at, updated_at, {HEAD}, metadata"


def is_alive(status: str, updated_at: float) -> bool:
    """Whether a run is at work on a thread, as far as its entry tells."""
    return status == "running" and time.time() - updated_at <= LEASE


class Registry:
    """Reads and writes the registry through one dialect's queries."""

    def __init__(self, dialect: Dialect, queries: Queries) -> None:
        self._dialect = dialect
        self._q = queries

    def page(self, wanted: Wanted) -> Operation[list[ThreadInfo]]:
        """Threads in the order of their ids."""
        wanted.check()
        clauses, values = self._clauses(wanted)
        if not all(map(may_be_stored, values)):
            return []
        where = f"WHERE {' AND '.join(clauses)} " if clauses else ""
        sql = f"SELECT {_COLUMNS} FROM threads {where}ORDER BY thread_id LIMIT ?"
        rows = yield Query(self._dialect.placed(sql), (*values, wanted.limit))
        return [_info(row) for row in rows]

    def ids(self, after: str | None, limit: int) -> Operation[list[str]]:
        """The ids of threads in their order, whatever else may be wrong with their entries."""
        where = "" if after is None else "WHERE thread_id > ? "
        sql = f"SELECT thread_id FROM threads {where}ORDER BY thread_id LIMIT ?"
        given = (limit,) if after is None else (after, limit)
        rows = yield Query(self._dialect.placed(sql), given)
        for (thread_id,) in rows:
            if type(thread_id) is not str:
                raise DamagedRowError(
                    f"The registry (table `threads`) has an entry whose thread_id is no text: "
                    f"{thread_id!r}. Restore the row from a backup, or delete it."
                )
        return [thread_id for (thread_id,) in rows]

    def problems(self, thread_id: str) -> Operation[list[Problem]]:
        """What is wrong with the entry of a thread."""
        rows = yield Query(self._q.thread_info, (thread_id,))
        return [
            Problem(thread_id, "", "threads", thread_id, f"its entry is damaged: {damage}")
            for damage in map(_entry, rows)
            if isinstance(damage, str)
        ]

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
                json.dumps([value], sort_keys=True),
                str(key),
            )
        # As text: for jsonb 1 and 1.0 are the same.
        return ("(metadata -> ?::text)::text = (?::jsonb)::text", str(key), json.dumps(value))

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
        rows = yield Query(self._q.thread_size, (thread_id,) * 4)
        checkpoints = writes = size = 0
        for table, count, bytes_ in rows:
            checkpoints += count if table == 1 else 0
            writes += count if table == 3 else 0
            size += int(bytes_ or 0)
        return info._replace(checkpoints=checkpoints, writes=writes, bytes=size)

    def describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Operation[None]:
        """Replace what is stored about a thread."""
        owner = metadata.get("owner")
        text = metadata_text(thread_id, metadata)
        values = (None if owner is None else str(owner), text, thread_id)
        changed = yield Run(self._q.describe_thread, values)
        if not changed:
            raise no_such_thread(thread_id)


def _info(row: Sequence[Any]) -> ThreadInfo:
    info = _entry(row)
    if isinstance(info, str):
        raise DamagedRowError(
            f"The entry of thread '{row[0]}' in the registry (table `threads`) is damaged: {info}. "
            "Restore the row from a backup, or repair the metadata with `set_thread_metadata`; the "
            "thread's checkpoints can be read."
        )
    return info


def _entry(row: Sequence[Any]) -> ThreadInfo | str:
    """The entry of a thread, or what is wrong with it."""
    thread_id, status, created_at, updated_at, head, metadata = row
    if type(thread_id) is not str:
        return "its thread_id is no text"
    if type(status) is not str or not (head is None or type(head) is str):
        return "its status or its head is no text"
    if not all(isinstance(time, (int, float)) for time in (created_at, updated_at)):
        return "a time in it is no number"
    if not isinstance(metadata, dict):
        try:
            metadata = json.loads(metadata)
        except (TypeError, ValueError):
            return "its metadata is no JSON"
        if not isinstance(metadata, dict):
            return "its metadata is no object of JSON"
    if status == "running" and not is_alive(status, updated_at):
        status = "stale"
    return ThreadInfo(thread_id, status, created_at, updated_at, head, metadata)


def _after_prefix(prefix: str) -> str | None:
    """The first text after all that begin with `prefix`."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if 0xD800 <= code <= 0xDFFF:
            code = 0xE000
        if code <= 0x10FFFF:
            return prefix[: end - 1] + chr(code)
    return None
