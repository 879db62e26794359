"""The registry of threads: owner, status, times and metadata of each thread.

The registry is a table of its own, so that listing threads reads no checkpoint and no value.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from milepost._db.operations import Execute, Operation, Query
from milepost.checkpoint._contract.thread_metadata import SEALED, metadata_text
from milepost.checkpoint._contract.threads import (
    Problem,
    ThreadFilter,
    ThreadInfo,
    may_be_stored,
    no_such_thread,
    tags_asked_for,
)
from milepost.checkpoint._sql.threads.lock import LEASE, is_alive, lock
from milepost.errors import DamagedRowError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from milepost._db.dialect import Traits
    from milepost.checkpoint._contract.thread_metadata import StoredMetadata, ThreadMetadata
    from milepost.checkpoint._sql.statements import Statements

_PAGE: Final = 1000
"""Entries with sealed metadata that one query reads."""


class Search(NamedTuple):
    """Text search, order and offset of a search, besides the conditions in `ThreadFilter`."""

    text: str | None = None
    """Part of the thread's id or metadata; case does not matter."""
    unfinished: bool = False
    """Only threads that are not idle."""
    sort: Literal["updated_at", "created_at", "thread_id"] = "updated_at"
    descending: bool = True
    offset: int = 0


_ORDERS: Final = {
    ("updated_at", True): " ORDER BY updated_at DESC, thread_id DESC LIMIT ? OFFSET ?",
    ("updated_at", False): " ORDER BY updated_at, thread_id LIMIT ? OFFSET ?",
    ("created_at", True): " ORDER BY created_at DESC, thread_id DESC LIMIT ? OFFSET ?",
    ("created_at", False): " ORDER BY created_at, thread_id LIMIT ? OFFSET ?",
    ("thread_id", True): " ORDER BY thread_id DESC LIMIT ? OFFSET ?",
    ("thread_id", False): " ORDER BY thread_id LIMIT ? OFFSET ?",
}
"""By what a search sorts, and whether the last comes first."""


class Registry:
    def __init__(self, dialect: Traits, queries: Statements, metadata: ThreadMetadata) -> None:
        self._dialect = dialect
        self._q = queries
        self._metadata = metadata

    def page(self, wanted: ThreadFilter) -> Operation[list[ThreadInfo]]:
        """Threads in the order of their ids."""
        where, values = self._where(wanted, Search())
        if wanted.finds_none or not all(map(may_be_stored, values)):
            return []
        sql = f"{self._q.list_threads}{where} ORDER BY thread_id LIMIT ?"
        rows = yield Query(self._dialect.placed(sql), (*values, wanted.limit))
        return [self._info(row) for row in rows]

    def found(self, wanted: ThreadFilter) -> Operation[list[str]]:
        """The ids of a page. Metadata that is damaged or does not open does not matter here."""
        where, values = self._where(wanted, Search())
        if wanted.finds_none or not all(map(may_be_stored, values)):
            return []
        sql = f"{self._q.list_ids}{where} ORDER BY thread_id LIMIT ?"
        return _ids((yield Query(self._dialect.placed(sql), (*values, wanted.limit))))

    def unjudged(self, wanted: ThreadFilter) -> Operation[list[str]]:
        """The threads of which it cannot be told whether they meet the conditions, since their
        metadata does not open."""
        found: list[str] = []
        others = wanted._replace(metadata={})
        while True:
            where, values = self._where(others, Search())
            if not all(map(may_be_stored, values)):
                return []
            where += f"{' AND' if where else ' WHERE'} {self._q.is_sealed}"
            sql = f"{self._q.list_metadata}{where} ORDER BY thread_id LIMIT ?"
            rows = yield Query(self._dialect.placed(sql), (*values, _PAGE))
            cells = [(id, stored_metadata(cell)) for id, cell in rows]
            threads = [(id, cell) for id, cell in cells if not isinstance(cell, str)]
            found += self._metadata.unjudged(threads, wanted.metadata)
            if len(rows) < _PAGE:
                return found
            others = others._replace(after=rows[-1][0])

    def search(
        self, wanted: ThreadFilter, search: Search
    ) -> Operation[tuple[list[ThreadInfo], int]]:
        """A page of a search, and the number of all threads that match."""
        where, values = self._where(wanted, search)
        if wanted.finds_none or not all(map(may_be_stored, values)):
            return [], 0
        counted = self._q.count_threads + where
        [(total,)] = yield Query(self._dialect.placed(counted), tuple(values))
        sql = self._q.list_threads + where + _ORDERS[search.sort, search.descending]
        rows = yield Query(self._dialect.placed(sql), (*values, wanted.limit, search.offset))
        return [self._info(row) for row in rows], total

    def ids(self, start: str, limit: int) -> Operation[list[str]]:
        """A page of thread ids from `start` on. Damage in other columns does not matter here."""
        return _ids((yield Query(self._q.thread_page, (start, limit))))

    def problems(self, thread_id: str) -> Operation[list[Problem]]:
        """The damage in a thread's entry."""
        rows = yield Query(self._q.thread_info, (thread_id,))
        problems = []
        for row in rows:
            damage: object = _entry(row)
            if isinstance(damage, ThreadInfo):
                try:
                    self._info(row)
                    continue
                except SerdeError as error:
                    damage = error
            reason = f"its entry is damaged: {damage}"
            problems.append(Problem(thread_id, "", "threads", thread_id, reason))
        return problems

    def _where(self, wanted: ThreadFilter, search: Search) -> tuple[str, list[Any]]:
        """The WHERE clause, empty if there is no condition, and its parameters. Values from the
        caller are always parameters."""
        wanted.check()
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
        for condition in self._metadata_conditions(wanted.metadata):
            add(*condition)
        if search.unfinished:
            add("status <> 'idle'")
        if search.text:
            add(self._q.has_text, *[search.text.lower()] * 2)
        return f" WHERE {' AND '.join(clauses)}" if clauses else "", values

    def _metadata_conditions(self, wanted: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
        """Clauses for the metadata of threads, each with its parameters."""
        for key, value in wanted.items():
            if key == "owner":
                owners = [str(value), *self._metadata.digests(key, value)]
                yield f"owner IN ({', '.join('?' * len(owners))})", *owners
            elif key == "tags":
                for tag in tags_asked_for(value):
                    given = json.dumps([tag])
                    yield self._or_sealed(self._q.has_tag, given, of=(key, tag))
            else:
                given = json.dumps([value], sort_keys=True)
                yield self._or_sealed(self._q.has_metadata, given, str(key), of=(key, value))

    def _or_sealed(self, clause: str, *given: str, of: tuple[str, Any]) -> tuple[str, ...]:
        """The clause, or a match of a digest of the same metadata where that is sealed."""
        digests = self._metadata.digests(*of)
        either = " OR ".join([clause, *[self._q.has_digest] * len(digests)])
        return (f"({either})", *given, *[json.dumps([digest]) for digest in digests])

    def one(self, thread_id: str) -> Operation[ThreadInfo | None]:
        """One thread, with counts."""
        rows = yield Query(self._q.thread_info, (thread_id,))
        if not rows:
            return None
        info = self._info(rows[0])
        rows = yield Query(self._q.thread_size, (thread_id,) * 4)
        counts = {kind: count for kind, count, _ in rows}
        return info._replace(
            checkpoints=counts["checkpoints"],
            writes=counts["writes"] + counts["inline writes"],
            bytes=sum(int(size or 0) for *_, size in rows),
        )

    def describe(self, thread_id: str, metadata: Mapping[str, Any]) -> Operation[None]:
        stored = self._metadata.stored(thread_id, metadata)
        changed = yield Execute(self._q.describe_thread, (*stored, thread_id))
        if not changed:
            raise no_such_thread(thread_id)

    def create(self, thread_id: str, metadata: Mapping[str, Any]) -> Operation[ThreadInfo]:
        """Add a thread, or add metadata to an existing one."""
        metadata_text(thread_id, metadata)
        # For a missing thread, the lock itself adds the entry of a new thread.
        entry = yield from lock(self._q, thread_id)
        if not entry.new:
            yield Execute(self._q.create_claimed, (time.time(), thread_id))
        yield from self.add_metadata(thread_id, metadata)
        rows = yield Query(self._q.thread_info, (thread_id,))
        return self._info(rows[0])

    def add_metadata(self, thread_id: str, more: Mapping[str, Any]) -> Operation[None]:
        """Add metadata to a thread, which the caller has locked."""
        stored = yield from self._stored(thread_id)
        known = self._metadata.opened(thread_id, stored)
        if metadata_text(thread_id, known) != metadata_text(thread_id, {**known, **more}):
            values = self._metadata.merged(thread_id, stored, more)
            yield Execute(self._q.describe_thread, (*values, thread_id))

    def new_entry(self, thread_id: str, metadata: Mapping[str, Any]) -> StoredMetadata:
        """The metadata columns of a new thread."""
        return self._metadata.stored(thread_id, metadata)

    def move_metadata(self, source: str, target: str) -> Operation[None]:
        """Seal the metadata of a copy for its own thread."""
        stored = yield from self._stored(target)
        if SEALED in stored:
            values = self._metadata.moved(source, target, stored)
            yield Execute(self._q.describe_thread, (*values, target))

    def reseal(self, thread_id: str) -> Operation[bool | None]:
        """Seal a thread's metadata with the newest key; False if it is, None if none is sealed."""
        if (yield Query(self._q.lock_thread, (thread_id,))):
            stored = yield from self._stored(thread_id)
            current = self._metadata.is_current(stored)
            if current is not False:
                return None if current is None else False
            values = self._metadata.merged(thread_id, stored, {})
            yield Execute(self._q.describe_thread, (*values, thread_id))
            return True
        return None

    def _stored(self, thread_id: str) -> Operation[dict[str, Any]]:
        rows = yield Query(self._q.thread_info, (thread_id,))
        stored = stored_metadata(rows[0][-1]) if rows else {}
        if isinstance(stored, str):
            raise _damaged(thread_id, stored)
        return stored

    def _as_stored(self, row: Sequence[Any]) -> ThreadInfo:
        """The entry of a thread, with its metadata as it is stored."""
        info = _entry(row)
        if isinstance(info, str):
            raise _damaged(row[0], info)
        return info

    def _info(self, row: Sequence[Any]) -> ThreadInfo:
        return self._opened(self._as_stored(row))

    def _opened(self, info: ThreadInfo) -> ThreadInfo:
        if SEALED not in info.metadata:
            return info
        return info._replace(metadata=self._metadata.opened(info.thread_id, info.metadata))


def _ids(rows: Sequence[Sequence[Any]]) -> list[str]:
    for (thread_id,) in rows:
        if type(thread_id) is not str:
            raise DamagedRowError(
                f"The registry (table `threads`) has an entry whose thread_id is no text: "
                f"{thread_id!r}. Restore the row from a backup, or delete it."
            )
    return [thread_id for (thread_id,) in rows]


def _damaged(thread_id: object, damage: str) -> DamagedRowError:
    return DamagedRowError(
        f"The entry of thread '{thread_id}' in the registry (table `threads`) is damaged: {damage}."
        " Restore the row from a backup, or repair the metadata with `set_thread_metadata`; the "
        "thread's checkpoints can be read."
    )


def stored_metadata(cell: Any) -> dict[str, Any] | str:
    """The metadata in a cell of the registry, or a text about its damage."""
    if not isinstance(cell, dict):
        try:
            cell = json.loads(cell)
        except (TypeError, ValueError):
            return "its metadata is no JSON"
        if not isinstance(cell, dict):
            return "its metadata is no object of JSON"
    return cell


def _entry(row: Sequence[Any]) -> ThreadInfo | str:
    """The entry of a thread, or a text about its damage."""
    thread_id, status, created_at, updated_at, head, metadata = row
    if type(thread_id) is not str:
        return "its thread_id is no text"
    if type(status) is not str or not (head is None or type(head) is str):
        return "its status or its head is no text"
    if not (isinstance(created_at, (int, float)) and isinstance(updated_at, (int, float))):
        return "a time in it is no number"
    found = stored_metadata(metadata)
    if isinstance(found, str):
        return found
    if status == "running" and not is_alive(status, updated_at):
        status = "stale"
    return ThreadInfo(thread_id, status, created_at, updated_at, head, found)


def _after_prefix(prefix: str) -> str | None:
    """The first text that sorts after all texts with this prefix."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if 0xD800 <= code <= 0xDFFF:
            code = 0xE000
        if code <= 0x10FFFF:
            return prefix[: end - 1] + chr(code)
    return None
