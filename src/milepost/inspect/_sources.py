"""What is read from a database besides its checkpoints: lists of threads, namespaces, ids, sizes.

`SqlSource` is for milepost's savers on SQL databases, `RedisSource` (`_redis_source.py`) for those
on Redis, `LangGraphSource` (`_langgraph.py`) for LangGraph's databases, and `PlainSource` for every
other saver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._db.operations import rows_of
from milepost._internal.ids import time_of
from milepost.checkpoint._contract.records import Place, place_of
from milepost.checkpoint._contract.threads import ThreadFilter, ThreadInfo
from milepost.checkpoint._sql.threads.registry import Search
from milepost.inspect._reading import id_of, parent_of
from milepost.inspect._records import Page, Stats, ThreadRow, ThreadSize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from milepost.checkpoint._sql.saver import SqlSaver
    from milepost.checkpoint.base import BaseCheckpointSaver

LAST = "\U0010ffff"
"""Sorts after every id."""
_MOST = 1_000_000
_SHOWN = 8
"""How many characters of an id the command line and the page show: its last ones."""


class Source(ABC):
    """Reads threads, namespaces, ids and sizes of a database."""

    @abstractmethod
    def threads(self, wanted: ThreadFilter, search: Search) -> Page[ThreadRow]:
        """A page of threads."""

    @abstractmethod
    def thread(self, thread_id: str) -> ThreadRow | None:
        """One thread, with counts."""

    def thread_entry(self, thread_id: str) -> ThreadRow | None:
        """One thread; counts may be left out, which take time in a long one."""
        return self.thread(thread_id)

    def has_thread(self, thread_id: str) -> bool:
        """Whether there is such a thread; its metadata may be sealed with another key."""
        return self.thread_entry(thread_id) is not None

    @abstractmethod
    def line(self, thread_id: str, ns: str) -> list[tuple[str, str | None]]:
        """Ids of all checkpoints of a graph, oldest first, and of their parents."""

    @abstractmethod
    def namespaces(self, thread_id: str) -> list[str]:
        """The graphs of a thread that have checkpoints."""

    @abstractmethod
    def ids(self, thread_id: str, ns: str, part: str, limit: int) -> list[str]:
        """Ids of checkpoints that begin with a text; newest first.

        If none does: those that end with it, or whose last eight characters, which are what
        listings show, begin with it.
        """

    @abstractmethod
    def stats(self, thread_id: str | None) -> Stats:
        """How many bytes threads, channels and kinds of rows take."""

    def ttl(self, thread_id: str) -> float | None:  # noqa: ARG002
        """After how many minutes without use a thread goes; None if it stays."""
        return None

    def paths(self, place: Place) -> Mapping[str, str]:  # noqa: ARG002
        """The paths of the tasks after a checkpoint by their ids, where ids are no digests."""
        return {}


def row_of(info: ThreadInfo) -> ThreadRow:
    return ThreadRow(
        info.thread_id,
        info.status,
        info.metadata,
        info.created_at,
        info.updated_at,
        info.head,
        info.checkpoints,
        info.bytes,
    )


class RegisteredThreads(Source):
    """A saver of milepost's on a database, whose registry knows each thread."""

    _saver: Any

    def thread_entry(self, thread_id: str) -> ThreadRow | None:
        wanted = ThreadFilter(prefix=thread_id, limit=1)
        registry = self._saver._registry
        found = self._saver.engine.run(lambda: registry.page(wanted), write=False)
        return row_of(found[0]) if found and found[0].thread_id == thread_id else None

    def has_thread(self, thread_id: str) -> bool:
        wanted = ThreadFilter(prefix=thread_id, limit=1)
        registry = self._saver._registry
        found = self._saver.engine.run(lambda: registry.found(wanted), write=False)
        return bool(found == [thread_id])


def stats_of(
    by_thread: Mapping[str, Sequence[int]],
    writes: int,
    kinds: Mapping[str, int],
    channels: Mapping[str, int],
    statuses: Mapping[str, int],
) -> Stats:
    """Totals, and the largest threads and channels first."""
    sizes = [ThreadSize(name, count, size) for name, (count, size) in by_thread.items()]
    sizes.sort(key=lambda one: (-one.bytes, one.thread_id))
    largest_first = sorted(channels.items(), key=lambda pair: (-pair[1], pair[0]))
    return Stats(
        threads=sum(statuses.values()) if statuses else len(by_thread),
        checkpoints=sum(one.checkpoints for one in sizes),
        writes=writes,
        bytes=sum(kinds.values()),
        kinds=dict(kinds),
        channels=dict(largest_first),
        statuses=dict(statuses),
        largest=sizes[:20],
    )


class PlainSource(Source):
    """Any other saver: everything is found with the methods that all savers have."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver: Any = saver

    def threads(self, wanted: ThreadFilter, search: Search) -> Page[ThreadRow]:
        wanted.check()
        found = [row for row in self._all(wanted) if is_wanted(row, search)]
        sort(found, search)
        return Page(found[search.offset : search.offset + wanted.limit], len(found))

    def _all(self, wanted: ThreadFilter) -> Iterator[ThreadRow]:
        if hasattr(self._saver, "list_threads"):
            asked = wanted._replace(limit=_MOST)._asdict()
            yield from map(row_of, self._saver.list_threads(**asked))
            return
        for thread_id in sorted(
            {place_of(found.config).thread_id for found in self._saver.list(None)}
        ):
            row = self.thread(thread_id)
            if row is not None and satisfies(row, wanted):
                yield row

    def thread(self, thread_id: str) -> ThreadRow | None:
        if hasattr(self._saver, "get_thread"):
            info = self._saver.get_thread(thread_id)
            return None if info is None else row_of(info)
        listed = self._saver.list({"configurable": {"thread_id": thread_id}})
        ids = [id_of(found) for found in listed]
        if not ids:
            return None
        return ThreadRow(
            thread_id, "idle", {}, time_of(min(ids)), time_of(max(ids)), max(ids), len(ids)
        )

    def namespaces(self, thread_id: str) -> list[str]:
        listed = self._saver.list({"configurable": {"thread_id": thread_id}})
        return sorted({place_of(found.config).checkpoint_ns for found in listed})

    def line(self, thread_id: str, ns: str) -> list[tuple[str, str | None]]:
        config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
        return sorted((id_of(one), parent_of(one)) for one in self._saver.list(config))

    def _ids(self, thread_id: str, ns: str) -> Iterable[str]:
        config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
        return map(id_of, self._saver.list(config))

    def ids(self, thread_id: str, ns: str, part: str, limit: int) -> list[str]:
        ids = list(self._ids(thread_id, ns))
        found = [id for id in ids if id.startswith(part)] or [
            id for id in ids if id.endswith(part) or id[-_SHOWN:].startswith(part)
        ]
        return found[:limit]

    def stats(self, thread_id: str | None) -> Stats:
        rows = list(self._all(ThreadFilter(limit=_MOST)))
        by_thread: dict[str, list[int]] = {}
        statuses: dict[str, int] = {}
        for row in rows:
            if thread_id not in (None, row.thread_id):
                continue
            counted = self.thread(row.thread_id) or row
            by_thread[row.thread_id] = [counted.checkpoints or 0, counted.bytes or 0]
            statuses[row.status] = statuses.get(row.status, 0) + 1
        total = sum(size for _, size in by_thread.values())
        return stats_of(by_thread, 0, {"all": total}, {}, statuses)


def sort(rows: list[ThreadRow], search: Search) -> None:
    """Sort threads as a search asks for."""
    rows.sort(key=lambda row: row.thread_id, reverse=search.descending)
    if search.sort != "thread_id":
        name = search.sort
        rows.sort(key=lambda row: getattr(row, name) or 0.0, reverse=search.descending)


def is_wanted(row: ThreadRow, search: Search) -> bool:
    """Whether a thread is found by a search."""
    if search.unfinished and row.status == "idle":
        return False
    if search.text:
        text = search.text.lower()
        return text in row.thread_id.lower() or text in str(dict(row.metadata)).lower()
    return True


def satisfies(row: ThreadRow, wanted: ThreadFilter) -> bool:
    """Whether a thread has the status, id, times and metadata that are asked for."""
    updated = row.updated_at or 0.0
    return (
        wanted.status in (None, row.status)
        and (wanted.prefix is None or row.thread_id.startswith(wanted.prefix))
        and (wanted.updated_after is None or updated > wanted.updated_after)
        and (wanted.updated_before is None or updated < wanted.updated_before)
        and all(row.metadata.get(key) == value for key, value in wanted.metadata.items())
    )


class SizeStatements(NamedTuple):
    """Statements that count and measure rows, of one thread or, `where` left out, of all."""

    checkpoints: str
    writes: str
    values: str | None = None
    """None where values are in the rows of checkpoints."""
    statuses: str | None = None
    """None where there is no registry."""


class TableSource(Source):
    """A database with tables of checkpoints, milepost's or LangGraph's."""

    sizes: SizeStatements

    @abstractmethod
    def _rows(self, sql: str, *values: Any) -> Sequence[Any]:
        """What a query finds; `?` is in place of each value."""

    def line(self, thread_id: str, ns: str) -> list[tuple[str, str | None]]:
        sql = (
            "SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints"
            " WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id"
        )
        return [(row[0], row[1]) for row in self._rows(sql, thread_id, ns)]

    def namespaces(self, thread_id: str) -> list[str]:
        # From one to the next by the index: a thread may have 100,000 checkpoints in each.
        sql = (
            "WITH RECURSIVE one (ns) AS ("
            " SELECT MIN(checkpoint_ns) FROM checkpoints WHERE thread_id = ?"
            " UNION ALL SELECT (SELECT MIN(checkpoint_ns) FROM checkpoints"
            " WHERE thread_id = ? AND checkpoint_ns > one.ns) FROM one WHERE one.ns IS NOT NULL)"
            " SELECT ns FROM one WHERE ns IS NOT NULL"
        )
        return [row[0] for row in self._rows(sql, thread_id, thread_id)]

    def ids(self, thread_id: str, ns: str, part: str, limit: int) -> list[str]:
        beginning = (
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
            " AND checkpoint_id >= ? AND checkpoint_id < ? ORDER BY checkpoint_id DESC LIMIT ?"
        )
        ending = (
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
            " AND (substr(checkpoint_id, length(checkpoint_id) - ?) = ?"
            " OR substr(checkpoint_id, length(checkpoint_id) - ?, ?) = ?)"
            " ORDER BY checkpoint_id DESC LIMIT ?"
        )
        rows = self._rows(beginning, thread_id, ns, part, part + LAST, limit)
        if not rows:
            size = len(part)
            given = (thread_id, ns, size - 1, part, _SHOWN - 1, min(size, _SHOWN), part)
            rows = self._rows(ending, *given, limit)
        return [row[0] for row in rows]

    def stats(self, thread_id: str | None) -> Stats:
        where, given = ("", ()) if thread_id is None else (" WHERE thread_id = ?", (thread_id,))

        def found(sql: str | None) -> Sequence[Any]:
            return () if sql is None else self._rows(sql.format(where=where), *given)

        rows = found(self.sizes.checkpoints)
        by_thread = {row[0]: [int(row[1]), int(row[2] or 0)] for row in rows}
        kinds = {"checkpoints": sum(size for _, size in by_thread.values()), "values": 0}
        channels: dict[str, int] = {}
        for thread, channel, size in found(self.sizes.values):
            kinds["values"] += int(size or 0)
            channels[channel] = channels.get(channel, 0) + int(size or 0)
            by_thread.setdefault(thread, [0, 0])[1] += int(size or 0)
        writes, kinds["writes"] = 0, 0
        for thread, count, size in found(self.sizes.writes):
            writes += int(count)
            kinds["writes"] += int(size or 0)
            by_thread.setdefault(thread, [0, 0])[1] += int(size or 0)
        statuses = {row[0]: int(row[1]) for row in found(self.sizes.statuses)}
        return stats_of(by_thread, writes, kinds, channels, statuses)


_ON_SQLITE: Final = SizeStatements(
    "SELECT thread_id, COUNT(*), SUM(LENGTH(frame) + LENGTH(metadata) + COALESCE(LENGTH(led), 0))"
    " FROM checkpoints{where} GROUP BY thread_id",
    "SELECT thread_id, COUNT(*), SUM(LENGTH(blob)) FROM checkpoint_writes{where}"
    " GROUP BY thread_id",
    "SELECT thread_id, channel, SUM(LENGTH(blob)) FROM checkpoint_values{where}"
    " GROUP BY thread_id, channel",
    "SELECT status, COUNT(*) FROM threads{where} GROUP BY status",
)
_ON_POSTGRES: Final = _ON_SQLITE._replace(
    values="SELECT thread_id, channel, SUM(LENGTH(blob)) FROM checkpoint_blobs{where}"
    " GROUP BY thread_id, channel"
)


class SqlSource(RegisteredThreads, TableSource):
    """A saver of milepost's on SQLite or PostgreSQL."""

    _saver: SqlSaver

    def __init__(self, saver: SqlSaver) -> None:
        self._saver = saver
        self.sizes = _ON_SQLITE if saver.dialect.name == "sqlite" else _ON_POSTGRES

    def threads(self, wanted: ThreadFilter, search: Search) -> Page[ThreadRow]:
        registry = self._saver._registry
        found, total = self._saver.engine.run(lambda: registry.search(wanted, search), write=False)
        return Page([row_of(info) for info in found], total)

    def thread(self, thread_id: str) -> ThreadRow | None:
        info = self._saver.threads.get(thread_id)
        return None if info is None else row_of(info)

    def _rows(self, sql: str, *values: Any) -> Sequence[Any]:
        query = partial(rows_of, self._saver.dialect.placed(sql), values)
        return self._saver.engine.run(query, write=False)
