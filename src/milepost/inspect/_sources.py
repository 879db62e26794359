"""What is read from a database besides its checkpoints: lists of threads, namespaces, ids, sizes.

`SqlSource` is for milepost's savers on SQL databases, `RedisSource` for those on Redis,
`LangGraphSource` (`_langgraph.py`) for LangGraph's databases, and `PlainSource` for every
other saver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost._db.operations import rows_of
from milepost._internal.ids import time_of
from milepost.checkpoint._contract.records import Place, place_of
from milepost.checkpoint._contract.threads import ThreadFilter, ThreadInfo, passes_filter
from milepost.checkpoint._redis.names import CHECKPOINT_KEYS, REDIS, TTL_OF
from milepost.checkpoint._sql.threads.registry import Search
from milepost.inspect._reading import id_of, parent_of
from milepost.inspect._records import Page, Stats, ThreadRow, ThreadSize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from milepost.checkpoint._sql.saver import SqlSaver
    from milepost.checkpoint.base import BaseCheckpointSaver

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

    def ids(self, thread_id: str, ns: str, part: str) -> list[str]:
        """Ids of checkpoints that begin with a text; newest first.

        If none does: those that end with it, or whose last eight characters, which are what
        listings show, begin with it.
        """
        ids = self._ids(thread_id, ns)
        return [id for id in ids if id.startswith(part)] or [
            id for id in ids if id.endswith(part) or id[-_SHOWN:].startswith(part)
        ]

    def _ids(self, thread_id: str, ns: str) -> list[str]:
        return [id for id, _ in reversed(self.line(thread_id, ns))]

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

    _saver: SqlSaver

    def _rows(self, sql: str, *values: Any) -> Sequence[Any]:
        query = partial(rows_of, self._saver.dialect.placed(sql), values)
        return self._saver.engine.run(query, write=False)

    def thread_entry(self, thread_id: str) -> ThreadRow | None:
        wanted = ThreadFilter(prefix=thread_id, limit=1)
        registry = self._saver._registry
        found = self._saver.engine.run(lambda: registry.page(wanted), write=False)
        return row_of(found[0]) if found and found[0].thread_id == thread_id else None

    def has_thread(self, thread_id: str) -> bool:
        wanted = ThreadFilter(prefix=thread_id, limit=1)
        registry = self._saver._registry
        found = self._saver.engine.run(lambda: registry.found(wanted), write=False)
        return found == [thread_id]


KINDS: Final = ("checkpoints", "values", "writes")
"""The kinds of rows that are measured."""
Measured: TypeAlias = "tuple[str, str, str | None, int, int | None]"
"""Kind of rows, thread, the channel of values, how many rows, their bytes."""


def stats_of(
    measured: Iterable[Measured], statuses: Mapping[str, int], kinds: Sequence[str] = KINDS
) -> Stats:
    """Totals, and the largest threads and channels first."""
    by_thread: dict[str, list[int]] = {}
    channels: dict[str, int] = {}
    bytes_of, writes = dict.fromkeys(kinds, 0), 0
    for kind, thread, channel, count, bytes in measured:
        size = int(bytes or 0)
        bytes_of[kind] += size
        sums = by_thread.setdefault(thread, [0, 0])
        sums[1] += size
        if channel is not None:
            channels[channel] = channels.get(channel, 0) + size
        elif kind == "writes":
            writes += count
        else:
            sums[0] += count
    sizes = [ThreadSize(name, count, size) for name, (count, size) in by_thread.items()]
    sizes.sort(key=lambda one: (-one.bytes, one.thread_id))
    return Stats(
        threads=sum(statuses.values()) if statuses else len(by_thread),
        checkpoints=sum(one.checkpoints for one in sizes),
        writes=writes,
        bytes=sum(bytes_of.values()),
        kinds=bytes_of,
        channels=dict(sorted(channels.items(), key=lambda pair: (-pair[1], pair[0]))),
        statuses=dict(statuses),
        largest=sizes[:20],
    )


class PlainSource(Source):
    """Any other saver: everything is found with the methods that all savers have."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver: Any = saver

    def threads(self, wanted: ThreadFilter, search: Search) -> Page[ThreadRow]:
        wanted.check()
        return page_of(self._all(wanted), wanted, search)

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

    def stats(self, thread_id: str | None) -> Stats:
        found = self._all(ThreadFilter(prefix=thread_id, limit=_MOST))
        rows = [row for row in found if thread_id in (None, row.thread_id)]
        measured = (one for row in rows for one in self._measured(row.thread_id))
        return stats_of(measured, Counter(row.status for row in rows), self._kinds)

    _kinds: Sequence[str] = ("all",)

    def _measured(self, thread_id: str) -> Iterable[Measured]:
        row = self.thread(thread_id)
        return [] if row is None else [("all", thread_id, None, row.checkpoints or 0, row.bytes)]


class RedisSource(RegisteredThreads, PlainSource):
    """A saver on Redis. Ids are read without the rows that they name."""

    _saver: Any
    _kinds = KINDS

    def namespaces(self, thread_id: str) -> list[str]:
        return sorted({ns for ns, _ in self._rows(CHECKPOINT_KEYS, thread_id)})

    def _ids(self, thread_id: str, ns: str) -> list[str]:
        found = (id for graph, id in self._rows(CHECKPOINT_KEYS, thread_id) if graph == ns)
        return sorted(found, reverse=True)

    def line(self, thread_id: str, ns: str) -> list[tuple[str, str | None]]:
        rows = self._rows(REDIS.checkpoints_of, thread_id)
        return sorted((id, parent) for graph, id, parent, *_ in rows if graph == ns)

    def _measured(self, thread_id: str) -> Iterator[Measured]:
        for kind, count, size in self._rows(REDIS.thread_size, *[thread_id] * 4):
            if kind == "inline writes":
                yield "checkpoints", thread_id, None, 0, size
            elif kind != "values":
                yield kind, thread_id, None, count, size
        for _, _, channel, *_, blob in self._rows(REDIS.dump_blobs, thread_id):
            yield "values", thread_id, channel, 1, len(blob)

    def ttl(self, thread_id: str) -> float | None:
        [(own,)] = self._rows(TTL_OF, thread_id) or [(None,)]
        seconds = self._saver.settings.ttl if own is None else float(own)
        return None if seconds is None or seconds < 0 else seconds / 60


def page_of(rows: Iterable[ThreadRow], wanted: ThreadFilter, search: Search) -> Page[ThreadRow]:
    """The threads that a search finds, in the order and the part that it asks for."""
    found = [row for row in rows if _is_found(row, search)]
    found.sort(key=lambda row: row.thread_id, reverse=search.descending)
    if search.sort != "thread_id":
        name = search.sort
        found.sort(key=lambda row: getattr(row, name) or 0.0, reverse=search.descending)
    return Page(found[search.offset : search.offset + wanted.limit], len(found))


def _is_found(row: ThreadRow, search: Search) -> bool:
    if search.unfinished and row.status == "idle":
        return False
    text = (search.text or "").lower()
    return text in row.thread_id.lower() or text in str(dict(row.metadata)).lower()


def satisfies(row: ThreadRow, wanted: ThreadFilter) -> bool:
    """Whether a thread has the status, id, times and metadata that are asked for."""
    updated, metadata = row.updated_at or 0.0, dict(row.metadata)
    info = ThreadInfo(row.thread_id, row.status, updated, updated, row.head, metadata)
    return passes_filter(info, wanted)


class TableSource(Source):
    """A database with tables of checkpoints, milepost's or LangGraph's."""

    sizes: str
    """Gives `Measured` rows of all threads, or with a condition in place of `where`, of one."""
    statuses: str | None = None
    """Counts threads by status; None where there is no registry."""

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

    def stats(self, thread_id: str | None) -> Stats:
        def found(sql: str) -> Sequence[Any]:
            if thread_id is None:
                return self._rows(sql.format(where=""))
            given = [thread_id] * sql.count("{where}")
            return self._rows(sql.format(where=" WHERE thread_id = ?"), *given)

        return stats_of(found(self.sizes), dict(found(self.statuses) if self.statuses else ()))


_ON_POSTGRES: Final = (
    "SELECT 'checkpoints', thread_id, NULL, COUNT(*),"
    " SUM(LENGTH(frame) + LENGTH(metadata) + COALESCE(LENGTH(led), 0))"
    " FROM checkpoints{where} GROUP BY thread_id"
    " UNION ALL SELECT 'values', thread_id, channel, 0, SUM(LENGTH(blob))"
    " FROM checkpoint_blobs{where} GROUP BY thread_id, channel"
    " UNION ALL SELECT 'writes', thread_id, NULL, COUNT(*), SUM(LENGTH(blob))"
    " FROM checkpoint_writes{where} GROUP BY thread_id"
)
_ON_SQLITE: Final = _ON_POSTGRES.replace("checkpoint_blobs", "checkpoint_values")


class SqlSource(RegisteredThreads, TableSource):
    """A saver of milepost's on SQLite or PostgreSQL."""

    statuses = "SELECT status, COUNT(*) FROM threads{where} GROUP BY status"

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
