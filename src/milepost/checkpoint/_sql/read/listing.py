"""Lists checkpoints page by page, so that a listing never has a whole thread in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from milepost._db.operations import Operation, Query, Work
from milepost.checkpoint._contract.names import check_name, check_place
from milepost.checkpoint._contract.records import (
    CheckpointTuple,
    get_checkpoint_id,
    metadata_matches,
    place_of,
)
from milepost.checkpoint._contract.threads import may_be_stored
from milepost.checkpoint._sql.read.fetched import CheckpointRecord, metadata_of
from milepost.checkpoint._sql.read.reader import CheckpointReader
from milepost.checkpoint._sql.statements import just_after
from milepost.types import RunnableConfig

PAGE = 20
"""Checkpoints of the first page. Each later page has twice as many, up to MOST."""
MOST = 160
_THREADS = 200
LAST = "\U0010ffff"
"""Sorts after every id."""

Walk: TypeAlias = Generator[Work[Any], Any, None]
"""Yields the work of one transaction at a time, and is sent its result."""


_Cursor: TypeAlias = tuple[str, str] | None
"""The id and namespace that a page ended with; None at the end of the thread."""


class Listing:
    """One call of `list`."""

    def __init__(
        self,
        reader: CheckpointReader,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        self._reader = reader
        self._filter = filter or {}
        run_id = self._filter.get("run_id")
        # The only key with an indexed column. The column holds text, so only text is looked up.
        self._run = (run_id,) if type(run_id) is str and may_be_stored(run_id) else ()
        end = get_checkpoint_id(before) if before else None
        self._before = LAST if end is None else check_name("checkpoint_id", end)
        self.left = limit
        self._found: deque[CheckpointTuple] = deque()
        self.thread_id: str | None = None
        self._ns: str | None = None
        self._id: str | None = None
        self._plain: str | None = None
        """A thread that is known to have no inner graphs."""
        if config:
            place = check_place(place_of(config))
            self.thread_id = place.thread_id
            self._ns = (config.get("configurable") or {}).get("checkpoint_ns")
            self._id = place.checkpoint_id

    def pages(self) -> Walk:
        """The walk. Its driver takes the found checkpoints from `take()` after each step."""
        if self.thread_id is not None:
            yield from self._thread(self.thread_id)
            return
        start = ""
        while True:
            threads: list[str] = yield partial(self._threads, start)
            for thread_id in threads:
                yield from self._thread(thread_id)
                if self.left is not None and self.left <= 0:
                    return
            if len(threads) < _THREADS:
                return
            start = just_after(threads[-1])

    def take(self) -> Iterator[CheckpointTuple]:
        """The checkpoints found since the last call. The listing drops each one that it yields."""
        while self._found:
            yield self._found.popleft()

    def _thread(self, thread_id: str) -> Walk:
        cursor: _Cursor = (self._before, "")
        size = PAGE
        while cursor is not None and (self.left is None or self.left > 0):
            found, cursor = yield partial(self._page, thread_id, cursor, size)
            self._found += found[: self.left]
            if self.left is not None:
                self.left = max(0, self.left - len(found))
            del found  # or the walk holds checkpoints that were given away
            size = min(2 * size, MOST)

    def _threads(self, start: str) -> Operation[list[str]]:
        q = self._reader.q
        sql = q.thread_page_of_run if self._run else q.thread_page
        rows = yield Query(sql, (*self._run, start, _THREADS))
        return [row[0] for row in rows]

    def _page(
        self, thread_id: str, cursor: tuple[str, str], size: int
    ) -> Operation[tuple[list[CheckpointTuple], _Cursor]]:
        q = self._reader.q
        # With a filter, most rows of a page may be left out at little cost.
        if self.left is not None and not self._filter:
            size = min(size, self.left)
        graph = "" if self._plain == thread_id else self._ns
        before: CheckpointRecord | None = None
        if self._id is not None:
            rows = yield Query(q.with_id, (thread_id, self._id))
            rows = [
                r
                for r in rows
                if self._ns in (None, r[0]) and (self._before == LAST or r[1] < self._before)
            ]
        elif graph is not None:
            sql = q.page_of_graph_and_run if self._run else q.page_of_graph
            # With the last checkpoint of the page before, whose manifest counts the writes at its
            # parent. Read again, since it may have been removed meanwhile.
            end = LAST if cursor[0] == LAST else just_after(cursor[0])
            page = Query(sql, (*self._run, thread_id, graph, end, size + 1))
            (rows,) = yield from self._reader.first(page)
            if rows and rows[0][1] == cursor[0]:
                before = CheckpointRecord(*rows[0][1:])
                rows = rows[1:]
            rows = rows[:size]
        else:
            # Sorts the rest of the thread, so a thread with one graph avoids it.
            sql = q.page_of_thread_and_run if self._run else q.page_of_thread
            page = Query(sql, (*self._run, thread_id, cursor[0], *cursor, size))
            inner = Query(q.inner_graph, (thread_id,))
            rows, others = yield from self._reader.first(page, inner)
            self._plain = None if others else thread_id
        records = [(row[0], CheckpointRecord(*row[1:])) for row in rows]
        more = self._id is None and len(records) == size
        ends = (records[-1][1].id, records[-1][0]) if more else None
        if self._filter:
            records = [
                (ns, record)
                for ns, record in records
                if metadata_matches(
                    metadata_of(self._reader.codec, thread_id, ns, record), self._filter
                )
            ]
        return (yield from self._records(thread_id, records, before)), ends

    def _records(
        self,
        thread_id: str,
        rows: Sequence[tuple[str, CheckpointRecord]],
        before: CheckpointRecord | None,
    ) -> Operation[list[CheckpointTuple]]:
        found: dict[tuple[str, str], CheckpointTuple] = {}
        graphs = list(dict.fromkeys(ns for ns, _ in rows))
        for ns in graphs:
            own = [row for other, row in rows if other == ns]
            assembler = yield from self._reader.assembler(
                (thread_id, ns),
                own,
                before=before if ns == graphs[0] else None,
                adjacent=not self._filter,
                last=ns == graphs[-1],
            )
            for row in own:
                found[ns, row.id] = assembler.record(row)
        return [found[ns, row.id] for ns, row in rows]
