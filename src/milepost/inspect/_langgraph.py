"""LangGraph's databases, read as they are: no package of LangGraph is needed, nothing is written.

Values are read under our rules (`integrations/langgraph/_formats/decoding.py`), and what those
would refuse is read as data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from milepost._internal.ids import time_of
from milepost.checkpoint._contract.records import Place
from milepost.constants import ERROR, INTERRUPT
from milepost.errors import SerdeError
from milepost.inspect._data import Unreadable
from milepost.inspect._records import Page, ThreadRow
from milepost.inspect._sources import TableSource, page_of, satisfies
from milepost.inspect._stored import StoredObject
from milepost.integrations.langgraph._formats.decoding import BUILDERS, StrictSerializer
from milepost.integrations.langgraph._formats.tables import LangGraphReader, SqliteReader

if TYPE_CHECKING:
    from milepost.checkpoint._contract.threads import ThreadFilter
    from milepost.checkpoint._sql.threads.registry import Search


class DataSerializer(StrictSerializer):
    """Reads what LangGraph's serializer wrote: classes of programs as data, and `Unreadable` in
    place of what cannot be read."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        try:
            return super().loads_typed(data)
        except SerdeError as error:
            return Unreadable(str(error))

    def loads_json(self, cell: Any) -> dict[str, Any]:
        try:
            return super().loads_json(cell)
        except (ValueError, SerdeError):
            return {}

    def _builder(self, known: str, module: str, name: str) -> Any:
        build = BUILDERS.get(known)
        if build is not None:
            return build
        root = module.partition(".")[0]
        stored = f"langchain_core:{name}" if root.startswith("langchain") else f"{module}:{name}"

        def keep(*args: Any, **fields: Any) -> StoredObject:
            if fields:
                return StoredObject(stored, fields)
            return StoredObject(stored, args[0] if len(args) == 1 else list(args))

        return keep

    def _extension(self, code: int, inside: Any) -> Any:
        if code == 6:  # an array: dtype, shape, order, bytes
            names = ("dtype", "shape", "order", "data")
            return StoredObject("numpy:ndarray", dict(zip(names, inside, strict=False)))
        return super()._extension(code, inside)


_ON_SQLITE: Final = (
    "SELECT 'checkpoints', thread_id, NULL, COUNT(*), SUM(LENGTH(checkpoint) + LENGTH(metadata))"
    " FROM checkpoints{where} GROUP BY thread_id"
    " UNION ALL SELECT 'writes', thread_id, NULL, COUNT(*), SUM(LENGTH(value))"
    " FROM writes{where} GROUP BY thread_id"
)
_ON_POSTGRES: Final = (
    "SELECT 'checkpoints', thread_id, NULL, COUNT(*),"
    " SUM(LENGTH(checkpoint::text) + LENGTH(metadata::text))"
    " FROM checkpoints{where} GROUP BY thread_id"
    " UNION ALL SELECT 'values', thread_id, channel, 0, SUM(LENGTH(blob))"
    " FROM checkpoint_blobs{where} GROUP BY thread_id, channel"
    " UNION ALL SELECT 'writes', thread_id, NULL, COUNT(*), SUM(LENGTH(blob))"
    " FROM checkpoint_writes{where} GROUP BY thread_id"
)


class LangGraphSource(TableSource):
    """The threads of a LangGraph database, which has no registry of them."""

    def __init__(self, reader: LangGraphReader) -> None:
        self._reader = reader
        self.sizes = _ON_SQLITE if isinstance(reader, SqliteReader) else _ON_POSTGRES

    def _all(self, where: str = "", *values: Any) -> list[ThreadRow]:
        # No registry: times are those in the ids, and the rest is that of the latest checkpoint.
        rows = self._rows(
            "SELECT t.thread_id, t.first, t.last, t.count, t.head, c.metadata,"
            f" (SELECT MAX(channel) FROM {self._reader.writes_table} w"
            " WHERE w.thread_id = t.thread_id AND w.checkpoint_ns = ''"
            f" AND w.checkpoint_id = t.head AND w.channel IN ('{ERROR}', '{INTERRUPT}'))"
            " FROM (SELECT thread_id, MIN(checkpoint_id) AS first, MAX(checkpoint_id) AS last,"
            " COUNT(*) AS count, MAX(CASE checkpoint_ns WHEN '' THEN checkpoint_id END) AS head"
            f" FROM checkpoints {where} GROUP BY thread_id) t LEFT JOIN checkpoints c"
            " ON c.thread_id = t.thread_id AND c.checkpoint_ns = '' AND c.checkpoint_id = t.head"
            " ORDER BY t.thread_id",
            *values,
        )
        return [
            ThreadRow(
                thread_id,
                {INTERRUPT: "interrupted", ERROR: "error"}.get(ended, "idle"),
                {
                    key: one
                    for key, one in self._reader.serde.loads_json(about).items()
                    if key not in _OF_A_STEP
                },
                _time(first),
                _time(last),
                head or last,
                int(count),
            )
            for thread_id, first, last, count, head, about, ended in rows
        ]

    def threads(self, wanted: ThreadFilter, search: Search) -> Page[ThreadRow]:
        wanted.check()
        return page_of((row for row in self._all() if satisfies(row, wanted)), wanted, search)

    def thread(self, thread_id: str) -> ThreadRow | None:
        row = self.thread_entry(thread_id)
        return None if row is None else replace(row, bytes=self.stats(thread_id).bytes)

    def thread_entry(self, thread_id: str) -> ThreadRow | None:
        found = self._all("WHERE thread_id = ?", thread_id)
        return found[0] if found else None

    def _rows(self, sql: str, *values: Any) -> Sequence[Any]:
        return self._reader.execute(sql, values)

    def paths(self, place: Place) -> Mapping[str, str]:
        return self._reader.paths(place)


_OF_A_STEP: Final = frozenset({"source", "step", "parents", "writes", "thread_id", "run_id"})


def _time(id: str) -> float | None:
    when = time_of(id)
    return when if when != float("inf") else None
