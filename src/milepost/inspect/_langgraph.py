"""LangGraph's databases, read as they are: no package of LangGraph is needed, nothing is written.

Values are read under our rules (`integrations/langgraph/_formats/decoding.py`), and what those
would refuse is read as data.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost._db.dialect import POSTGRES, SQLITE, Dialect
from milepost._internal.ids import time_of
from milepost.checkpoint._contract.records import (
    SENDS_ARE_A_CHANNEL,
    Checkpoint,
    CheckpointTuple,
    PendingWrite,
    Place,
    get_checkpoint_id,
    metadata_matches,
    place_of,
    with_sends,
)
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.constants import ERROR, INTERRUPT
from milepost.errors import DeserializationError, SerdeError
from milepost.inspect._data import Unreadable
from milepost.inspect._records import Page, ThreadRow
from milepost.inspect._sources import TableSource, page_of, satisfies
from milepost.inspect._stored import StoredObject
from milepost.integrations.langgraph._formats.decoding import BUILDERS, StrictSerializer

if TYPE_CHECKING:
    from milepost.checkpoint._contract.threads import ThreadFilter
    from milepost.checkpoint._sql.threads.registry import Search
    from milepost.types import RunnableConfig

Pending: TypeAlias = list[PendingWrite]
"""Named, since `list` is a method of a saver."""

Execute: TypeAlias = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""Runs a query with `?` for its parameters."""

_PAGE: Final = 64


class DataSerializer(StrictSerializer):
    """Reads what LangGraph's serializer wrote; classes of programs are read as data."""

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


class LangGraphReader(BaseCheckpointSaver[Any]):
    """Checkpoints of a LangGraph database, for reading."""

    def __init__(self, execute: Execute) -> None:
        super().__init__(serde=DataSerializer(unseals=True))
        self.execute = execute

    # -- what SQLite and PostgreSQL have in tables of their own

    dialect: Dialect
    writes_table: str
    stored: str
    """The columns with a checkpoint."""

    @abstractmethod
    def _checkpoint(self, place: Place, *stored: Any) -> Checkpoint:
        """The checkpoint in these columns."""

    # -- the contract

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return next(self.list(place_of(config).config(), limit=1), None)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        if config is None:
            raise NotImplementedError("Threads of a LangGraph database are read one by one.")
        size = _PAGE if limit is None else min(_PAGE, limit)
        listed = self._newest_first(config, before, size)
        return islice(
            (one for one in listed if metadata_matches(one.metadata, filter or {})), limit
        )

    # -- parts

    def _newest_first(
        self, config: RunnableConfig, before: RunnableConfig | None, size: int
    ) -> Iterator[CheckpointTuple]:
        place = place_of(config)
        conditions = {
            "thread_id = ?": place.thread_id,
            "checkpoint_ns = ?": (config.get("configurable") or {}).get("checkpoint_ns"),
            "checkpoint_id = ?": place.checkpoint_id,
            "checkpoint_id < ?": get_checkpoint_id(before) if before else None,
        }
        while True:
            given = {clause: value for clause, value in conditions.items() if value is not None}
            rows = self.execute(
                "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, metadata,"
                f" {self.stored} FROM checkpoints WHERE {' AND '.join(given)}"
                f" ORDER BY checkpoint_id DESC LIMIT {size}",
                tuple(given.values()),
            )
            for row in rows:
                yield self._tuple(*row)
            if len(rows) < size:
                return
            conditions["checkpoint_id < ?"] = rows[-1][2]

    def _tuple(
        self, thread_id: str, ns: str, id: str, parent: str | None, about: Any, *stored: Any
    ) -> CheckpointTuple:
        place = Place(thread_id, ns, id)
        checkpoint = self._checkpoint(place, *stored)
        config = None
        if parent:
            before = place._replace(checkpoint_id=parent)
            config = before.config()
            if checkpoint["v"] < SENDS_ARE_A_CHANNEL:
                checkpoint = with_sends(checkpoint, self._pending(before))
        pending = self._pending(place)
        return CheckpointTuple(place.config(), checkpoint, as_json(about), config, pending)

    def _pending(self, place: Place) -> Pending:
        rows = self.execute(
            f"SELECT {self.path}, task_id, idx, channel, type, {self._blob}"
            f" FROM {self.writes_table}"
            " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            tuple(place),
        )
        # As LangGraph sorts them; a server might have other ideas of the order of texts.
        rows.sort(key=itemgetter(0, 1, 2))
        return [(task_id, name, self.value(kind, data)) for _, task_id, _, name, kind, data in rows]

    @cached_property
    def path(self) -> str:
        """The column with the path of a task; tables of older versions have none."""
        columns = self.execute(self.dialect.columns, (self.writes_table,))
        return "task_path" if ("task_path",) in columns else "''"

    _blob = "blob"

    def value(self, kind: str | None, data: Any) -> Any:
        """A stored value; `Unreadable` with the reason if it cannot be read."""
        try:
            return self.serde.loads_typed((kind or "null", bytes(data or b"")))
        except SerdeError as error:
            return Unreadable(str(error))


class SqliteReader(LangGraphReader):
    """LangGraph's tables in SQLite: a checkpoint is one value."""

    dialect = SQLITE
    writes_table = "writes"
    _blob = "value"
    stored = "type, checkpoint"

    def _checkpoint(self, place: Place, *stored: Any) -> Checkpoint:
        found = self.value(*stored)
        if not isinstance(found, dict):
            reason = getattr(found, "reason", "it is no checkpoint")
            raise DeserializationError(
                f"checkpoint '{place.checkpoint_id}' of thread '{place.thread_id}': {reason}"
            )
        return _with_all_keys(found, place)


class PostgresReader(LangGraphReader):
    """LangGraph's tables in PostgreSQL: large values have rows of their own."""

    dialect = POSTGRES
    writes_table = "checkpoint_writes"
    stored = "checkpoint"

    def _checkpoint(self, place: Place, *stored: Any) -> Checkpoint:
        found = _with_all_keys(as_json(*stored), place)
        values, versions = found["channel_values"], found["channel_versions"]
        # Of all channels: a delta channel's snapshot has a row although the checkpoint says `true`.
        rows = self.execute(
            "SELECT channel, version, type, blob FROM checkpoint_blobs WHERE thread_id = ?"
            " AND checkpoint_ns = ? AND version = ANY(?)",
            (*place[:2], [str(version) for version in versions.values()]),
        )
        for channel, version, kind, data in rows:
            if str(versions.get(channel)) == version and kind != "empty":
                values[channel] = self.value(kind, data)
        return found


def as_json(cell: Any) -> Any:
    """The object in a cell of JSON; an empty one if the cell has no object."""
    if isinstance(cell, (bytes, str)):
        try:
            cell = json.loads(cell)
        except ValueError:
            cell = {}
    return cell if isinstance(cell, dict) else {}


def _with_all_keys(stored: Mapping[str, Any], place: Place) -> Checkpoint:
    """A checkpoint with all of its keys, whatever version of LangGraph wrote it."""
    return Checkpoint(
        v=stored.get("v", 1),
        id=stored.get("id", place.checkpoint_id),
        ts=stored.get("ts", ""),
        channel_values=stored.get("channel_values") or {},
        channel_versions=stored.get("channel_versions") or {},
        versions_seen=stored.get("versions_seen") or {},
        updated_channels=stored.get("updated_channels"),
    )


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
                {key: one for key, one in as_json(about).items() if key not in _OF_A_STEP},
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
        rows = self._rows(
            f"SELECT DISTINCT task_id, {self._reader.path} FROM {self._reader.writes_table}"
            " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            *place,
        )
        return {row[0]: row[1] for row in rows if row[1]}


_OF_A_STEP: Final = frozenset({"source", "step", "parents", "writes", "thread_id", "run_id"})


def _time(id: str) -> float | None:
    when = time_of(id)
    return when if when != float("inf") else None
