"""What is read from a database besides its checkpoints: lists of threads, namespaces, ids, sizes.

One source is for milepost's savers on SQL databases (`_sql_source.py`), one for Redis
(`_redis_source.py`), one for LangGraph's databases (`_langgraph_source.py`), and `PlainSource` for
every other saver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from milepost.checkpoint._contract.names import time_of
from milepost.checkpoint._contract.records import Place, place_of
from milepost.checkpoint._contract.threads import ThreadFilter, ThreadInfo
from milepost.checkpoint._sql.threads.registry import Search
from milepost.inspect._reading import id_of, parent_of
from milepost.inspect._records import Page, Stats, ThreadRow, ThreadSize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from milepost.checkpoint.base import BaseCheckpointSaver

LAST = "\U0010ffff"
"""Sorts after every id."""
_MOST = 1_000_000


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
        """Ids of checkpoints that begin with a text or, if none does, end with it; newest first."""

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


def registered(saver: Any, thread_id: str) -> ThreadRow | None:
    """A thread as the registry of one of our savers has it, without counts."""
    wanted = ThreadFilter(prefix=thread_id, limit=1)
    found = saver.engine.run(lambda: saver._registry.page(wanted), write=False)
    return row_of(found[0]) if found and found[0].thread_id == thread_id else None


def is_registered(saver: Any, thread_id: str) -> bool:
    """Whether the registry of one of our savers has a thread."""
    wanted = ThreadFilter(prefix=thread_id, limit=1)
    found = saver.engine.run(lambda: saver._registry.found(wanted), write=False)
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
        found = [id for id in ids if id.startswith(part)] or [id for id in ids if id.endswith(part)]
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
