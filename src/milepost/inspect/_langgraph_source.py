"""The threads of LangGraph's databases, which have no registry of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint._contract.names import time_of
from milepost.checkpoint._contract.records import CheckpointMetadata, Place
from milepost.constants import ERROR, INTERRUPT
from milepost.inspect._langgraph import SqliteReader, as_json
from milepost.inspect._records import Page, ThreadRow
from milepost.inspect._sources import SizeStatements, TableSource, is_wanted, satisfies, sort

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.checkpoint._contract.threads import ThreadFilter
    from milepost.checkpoint._sql.threads.registry import Search
    from milepost.inspect._langgraph import LangGraphReader


_ON_SQLITE: Final = SizeStatements(
    "SELECT thread_id, COUNT(*), SUM(LENGTH(checkpoint) + LENGTH(metadata))"
    " FROM checkpoints{where} GROUP BY thread_id",
    "SELECT thread_id, COUNT(*), SUM(LENGTH(value)) FROM writes{where} GROUP BY thread_id",
)
_ON_POSTGRES: Final = SizeStatements(
    "SELECT thread_id, COUNT(*), SUM(LENGTH(checkpoint::text) + LENGTH(metadata::text))"
    " FROM checkpoints{where} GROUP BY thread_id",
    "SELECT thread_id, COUNT(*), SUM(LENGTH(blob)) FROM checkpoint_writes{where}"
    " GROUP BY thread_id",
    "SELECT thread_id, channel, SUM(LENGTH(blob)) FROM checkpoint_blobs{where}"
    " GROUP BY thread_id, channel",
)


class LangGraphSource(TableSource):
    """The threads of a LangGraph database, which has no registry of them."""

    def __init__(self, reader: LangGraphReader) -> None:
        self._reader = reader
        self.sizes = _ON_SQLITE if isinstance(reader, SqliteReader) else _ON_POSTGRES

    def _summaries(self, where: str = "", values: Sequence[Any] = ()) -> list[ThreadRow]:
        # No registry: times are those in the ids, and the newest metadata is not read here.
        rows = self._reader.execute(
            "SELECT thread_id, MIN(checkpoint_id), MAX(checkpoint_id), COUNT(*)"
            f" FROM checkpoints {where} GROUP BY thread_id ORDER BY thread_id",
            values,
        )
        return [
            ThreadRow(row[0], "idle", {}, _time(row[1]), _time(row[2]), row[2], int(row[3]))
            for row in rows
        ]

    def threads(self, wanted: ThreadFilter, search: Search) -> Page[ThreadRow]:
        wanted.check()
        # Status and metadata need a look at each thread, so they are found last, for one page,
        # unless they decide which threads are wanted.
        decides = bool(wanted.metadata or wanted.status or search.unfinished)
        found = self._summaries()
        if decides:
            found = [self._with_status(row) for row in found]
        found = [row for row in found if satisfies(row, wanted) and is_wanted(row, search)]
        sort(found, search)
        page = found[search.offset : search.offset + wanted.limit]
        if not decides:
            page = [self._with_status(row) for row in page]
        return Page(page, len(found))

    def _with_status(self, row: ThreadRow) -> ThreadRow:
        head = self._reader.execute(
            "SELECT checkpoint_id, metadata FROM checkpoints WHERE thread_id = ?"
            " AND checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT 1",
            (row.thread_id,),
        )
        if not head:
            return row
        channels = self._reader.execute(
            f"SELECT DISTINCT channel FROM {self._reader.writes_table} WHERE thread_id = ?"
            " AND checkpoint_ns = '' AND checkpoint_id = ?",
            (row.thread_id, head[0][0]),
        )
        names = {channel for (channel,) in channels}
        status = "interrupted" if INTERRUPT in names else "error" if ERROR in names else "idle"
        own: CheckpointMetadata = as_json(head[0][1])
        shown = {key: value for key, value in own.items() if key not in _OF_A_STEP}
        return replace(row, status=status, metadata=shown, head=head[0][0])

    def thread(self, thread_id: str) -> ThreadRow | None:
        row = self.thread_entry(thread_id)
        if row is None:
            return None
        return replace(self._with_status(row), bytes=self.stats(thread_id).bytes)

    def thread_entry(self, thread_id: str) -> ThreadRow | None:
        found = self._summaries("WHERE thread_id = ?", (thread_id,))
        return found[0] if found else None

    def _rows(self, sql: str, *values: Any) -> Sequence[Any]:
        return self._reader.execute(sql, values)

    def paths(self, place: Place) -> Mapping[str, str]:
        with suppress(Exception):  # tables of older versions have no such column
            rows = self._rows(
                f"SELECT DISTINCT task_id, task_path FROM {self._reader.writes_table}"
                " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
                *place,
            )
            return {row[0]: row[1] for row in rows if row[1]}
        return {}


_OF_A_STEP: Final = frozenset({"source", "step", "parents", "writes", "thread_id", "run_id"})


def _time(id: str) -> float | None:
    when = time_of(id)
    return when if when != float("inf") else None
