"""Threads in LangGraph's own tables, read as they are: its savers are not needed, and nothing is
written."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from milepost._db.dialect import POSTGRES, SQLITE, Dialect
from milepost.checkpoint._contract.records import (
    SENDS_ARE_A_CHANNEL,
    Checkpoint,
    CheckpointTuple,
    PendingWrite,
    Place,
    get_checkpoint_id,
    is_older,
    metadata_matches,
    place_of,
    with_sends,
)
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import CheckpointMetadata
    from milepost.integrations.langgraph._formats.decoding import StrictSerializer
    from milepost.types import RunnableConfig

Pending: TypeAlias = list[PendingWrite]
"""Named, since `list` is a method of a saver."""

Execute: TypeAlias = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""Runs a query with `?` for its parameters."""

_PAGE: Final = 64


class LangGraphReader(BaseCheckpointSaver[Any]):
    """Checkpoints of a LangGraph database, for reading."""

    def __init__(self, execute: Execute, serde: StrictSerializer) -> None:
        super().__init__(serde=serde)
        self.execute = execute

    serde: Any

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
        given = {clause: value for clause, value in conditions.items() if value is not None}
        clauses, values = [*given], [*given.values()]
        last: tuple[Any, ...] = ()
        while True:
            # With the namespace, since two graphs may have made checkpoints of one id.
            beyond = ["(checkpoint_id, checkpoint_ns) < (?, ?)"] if last else []
            rows = self.execute(
                "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, metadata,"
                f" {self.stored} FROM checkpoints WHERE {' AND '.join(clauses + beyond)}"
                f" ORDER BY checkpoint_id DESC, checkpoint_ns DESC LIMIT {size}",
                (*values, *last),
            )
            for row in rows:
                yield self._tuple(*row)
            if len(rows) < size:
                return
            last = (rows[-1][2], rows[-1][1])

    def _tuple(
        self, thread_id: str, ns: str, id: str, parent: str | None, about: Any, *stored: Any
    ) -> CheckpointTuple:
        place = Place(thread_id, ns, id)
        checkpoint = self._checkpoint(place, *stored)
        config = None
        if parent:
            before = place._replace(checkpoint_id=parent)
            config = before.config()
            if is_older(checkpoint["v"], SENDS_ARE_A_CHANNEL):
                checkpoint = with_sends(checkpoint, self._pending(before))
        pending = self._pending(place)
        return CheckpointTuple(
            place.config(),
            checkpoint,
            cast("CheckpointMetadata", self.serde.loads_json(about)),
            config,
            pending,
        )

    def _pending(self, place: Place) -> Pending:
        if not self._columns:
            return []
        rows = self.execute(
            f"SELECT {self._path}, task_id, idx, channel, type, {self._blob}"
            f" FROM {self.writes_table}"
            " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            tuple(place),
        )
        # As LangGraph sorts them; a server might have other ideas of the order of texts.
        rows.sort(key=itemgetter(0, 1, 2))
        return [(task_id, name, self.value(kind, data)) for _, task_id, _, name, kind, data in rows]

    def paths(self, place: Place) -> dict[str, str]:
        """The paths of the tasks that wrote after a checkpoint, as far as they are stored."""
        if not self._columns:
            return {}
        return task_paths(self.execute, place, self.writes_table, self._path)

    @cached_property
    def _columns(self) -> set[str]:
        """The columns with writes; none if there is no such table."""
        return {row[0] for row in self.execute(self.dialect.columns, (self.writes_table,))}

    @property
    def _path(self) -> str:
        """The column with the path of a task; tables of older versions have none."""
        return "task_path" if "task_path" in self._columns else "''"

    _blob = "blob"

    def value(self, kind: str | None, data: Any) -> Any:
        """A stored value."""
        return self.serde.loads_typed((kind or "null", bytes(data or b"")))


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
        found = _with_all_keys(self.serde.loads_json(*stored), place)
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


def task_paths(
    execute: Execute, place: Place, table: str, column: str = "task_path"
) -> dict[str, str]:
    """The paths of the tasks that wrote after a checkpoint by their ids, as far as the table has
    them. milepost's tables have the same columns."""
    rows = execute(
        f"SELECT DISTINCT task_id, {column} FROM {table}"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
        tuple(place),
    )
    return {row[0]: row[1] for row in rows if row[1]}
