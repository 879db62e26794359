"""Queries on tables of checkpoints, milepost's and LangGraph's."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._db.operations import rows_of
from milepost.checkpoint._contract.threads import ThreadFilter
from milepost.inspect._records import Page, Stats, ThreadRow
from milepost.inspect._sources import LAST, Source, is_registered, registered, row_of, stats_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint._sql.saver import SqlSaver
    from milepost.checkpoint._sql.threads.registry import Search


class SizeStatements(NamedTuple):
    """Statements that count and measure rows, of one thread or, `where` left out, of all."""

    checkpoints: str
    writes: str
    values: str | None = None
    """None where values are in the rows of checkpoints."""
    statuses: str | None = None
    """None where there is no registry."""


class TableSource(Source):
    """A database with tables of checkpoints."""

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
            " AND substr(checkpoint_id, length(checkpoint_id) - ?) = ?"
            " ORDER BY checkpoint_id DESC LIMIT ?"
        )
        rows = self._rows(beginning, thread_id, ns, part, part + LAST, limit)
        rows = rows or self._rows(ending, thread_id, ns, len(part) - 1, part, limit)
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


class SqlSource(TableSource):
    """A saver of milepost's on SQLite or PostgreSQL."""

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

    def thread_entry(self, thread_id: str) -> ThreadRow | None:
        return registered(self._saver, thread_id)

    def has_thread(self, thread_id: str) -> bool:
        return is_registered(self._saver, thread_id)

    def _rows(self, sql: str, *values: Any) -> Sequence[Any]:
        query = partial(rows_of, self._saver.dialect.placed(sql), values)
        return self._saver.engine.run(query, write=False)
