"""The threads of LangGraph's databases, which have no registry of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint._contract.names import time_of
from milepost.checkpoint._contract.records import CheckpointMetadata, Place
from milepost.constants import ERROR, INTERRUPT
from milepost.inspect._langgraph import SqliteReader, as_json
from milepost.inspect._records import Page, Stats, ThreadRow
from milepost.inspect._sources import LAST, Source, collected, holds, is_wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.checkpoint._contract.threads import Wanted
    from milepost.checkpoint._sql.threads.registry import Search
    from milepost.inspect._langgraph import LangGraphReader


class LangGraphSource(Source):
    """The threads of a LangGraph database, which has no registry of them."""

    def __init__(self, reader: LangGraphReader) -> None:
        self._reader = reader

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

    def threads(self, wanted: Wanted, search: Search) -> Page[ThreadRow]:
        wanted.check()
        # Status and metadata need a look at each thread, so they are found last, for one page,
        # unless they decide which threads are wanted.
        decides = bool(wanted.metadata or wanted.status or search.unfinished)
        found = self._summaries()
        if decides:
            found = [self._with_status(row) for row in found]
        found = [row for row in found if holds(row, wanted) and is_wanted(row, search)]
        found.sort(key=lambda row: row.thread_id, reverse=search.descending)
        if search.sort != "thread_id":
            name = search.sort
            found.sort(key=lambda row: getattr(row, name) or 0.0, reverse=search.descending)
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
        return ThreadRow(
            row.thread_id,
            status,
            shown,
            row.created_at,
            row.updated_at,
            head[0][0],
            row.checkpoints,
            row.bytes,
        )

    def thread(self, thread_id: str) -> ThreadRow | None:
        found = self._summaries("WHERE thread_id = ?", (thread_id,))
        if not found:
            return None
        row = self._with_status(found[0])
        size = self.stats(thread_id).bytes
        return ThreadRow(
            row.thread_id,
            row.status,
            row.metadata,
            row.created_at,
            row.updated_at,
            row.head,
            row.checkpoints,
            size,
        )

    def namespaces(self, thread_id: str) -> list[str]:
        rows = self._reader.execute(
            "SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE thread_id = ?"
            " ORDER BY checkpoint_ns",
            (thread_id,),
        )
        return [row[0] for row in rows]

    def thread_entry(self, thread_id: str) -> ThreadRow | None:
        found = self._summaries("WHERE thread_id = ?", (thread_id,))
        return found[0] if found else None

    def line(self, thread_id: str, ns: str) -> list[tuple[str, str | None]]:
        rows = self._reader.execute(
            "SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints"
            " WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id",
            (thread_id, ns),
        )
        return [(row[0], row[1]) for row in rows]

    def ids(self, thread_id: str, ns: str, begin: str, limit: int) -> list[str]:
        sql = "AND checkpoint_id >= ? AND checkpoint_id < ?"
        return self._ids(thread_id, ns, sql, (begin, begin + LAST), limit)

    def ids_ending(self, thread_id: str, ns: str, end: str, limit: int) -> list[str]:
        sql = "AND substr(checkpoint_id, length(checkpoint_id) - ?) = ?"
        return self._ids(thread_id, ns, sql, (len(end) - 1, end), limit)

    def _ids(
        self, thread_id: str, ns: str, where: str, values: Sequence[Any], limit: int
    ) -> list[str]:
        rows = self._reader.execute(
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
            f" {where} ORDER BY checkpoint_id DESC LIMIT {int(limit)}",
            (thread_id, ns, *values),
        )
        return [row[0] for row in rows]

    def stats(self, thread_id: str | None) -> Stats:
        where, given = ("", ()) if thread_id is None else (" WHERE thread_id = ?", (thread_id,))
        execute, is_sqlite = self._reader.execute, isinstance(self._reader, SqliteReader)
        own = "LENGTH({}) + LENGTH({})"
        size = own.format("checkpoint", "metadata")
        if not is_sqlite:
            size = own.format("checkpoint::text", "metadata::text")
        rows = execute(
            f"SELECT thread_id, COUNT(*), SUM({size}) FROM checkpoints{where} GROUP BY thread_id",
            given,
        )
        by_thread = {row[0]: [int(row[1]), int(row[2] or 0)] for row in rows}
        kinds = {"checkpoints": sum(size for _, size in by_thread.values()), "values": 0}
        channels: dict[str, int] = {}
        if not is_sqlite:
            rows = execute(
                f"SELECT thread_id, channel, SUM(LENGTH(blob)) FROM checkpoint_blobs{where}"
                " GROUP BY thread_id, channel",
                given,
            )
            for thread, channel, length in rows:
                kinds["values"] += int(length or 0)
                channels[channel] = channels.get(channel, 0) + int(length or 0)
                by_thread.setdefault(thread, [0, 0])[1] += int(length or 0)
        blob = "value" if is_sqlite else "blob"
        rows = execute(
            f"SELECT thread_id, COUNT(*), SUM(LENGTH({blob})) FROM {self._reader.writes_table}"
            f"{where} GROUP BY thread_id",
            given,
        )
        kinds["writes"] = sum(int(row[2] or 0) for row in rows)
        for thread, _, length in rows:
            by_thread.setdefault(thread, [0, 0])[1] += int(length or 0)
        return collected(by_thread, sum(int(row[1]) for row in rows), kinds, channels, {})

    def paths(self, thread_id: str, ns: str, checkpoint_id: str) -> Mapping[str, str]:
        return self._reader.paths(Place(thread_id, ns, checkpoint_id))


_OF_A_STEP: Final = frozenset({"source", "step", "parents", "writes", "thread_id", "run_id"})


def _time(id: str) -> float | None:
    when = time_of(id)
    return when if when != float("inf") else None
