"""Databases of either library as sources of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from milepost._db.operations import rows_of
from milepost.checkpoint._contract.records import CheckpointTuple, Place
from milepost.errors import CheckpointError, MilepostError
from milepost.integrations.langgraph._formats.tables import task_paths

if TYPE_CHECKING:
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.integrations.langgraph._formats.tables import Execute


class BadAddressError(MilepostError, ValueError):
    """An address that names no database that can be moved, or none that answers."""


@contextmanager
def naming(place: Place) -> Iterator[None]:
    """Whatever a broken row or document makes a reader raise, as an error that names the
    checkpoint."""
    try:
        yield
    except MilepostError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"its checkpoint '{place.checkpoint_id}' cannot be read: {error!r}"
        ) from error


class Tables:
    """Threads in tables that both libraries have, with the saver that reads them."""

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any],
        execute: Execute,
        paths: Callable[[Place], Mapping[str, str]],
    ) -> None:
        self._saver = saver
        self._execute = execute
        self.paths = paths
        """The paths of the tasks that wrote after a checkpoint, as far as they are stored."""

    def threads(self) -> Iterable[str]:
        """All threads."""
        rows = self._execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id", ())
        return [row[0] for row in rows]

    def size(self) -> int:
        """How many checkpoints there are."""
        count: int = self._execute("SELECT count(*) FROM checkpoints", ())[0][0]
        return count

    def places(self, thread_id: str) -> Sequence[tuple[str, str]]:
        """Namespace and id of every checkpoint, oldest first."""
        rows = self._execute(
            "SELECT checkpoint_ns, checkpoint_id FROM checkpoints"
            " WHERE thread_id = ? ORDER BY checkpoint_id",
            (thread_id,),
        )
        return [(row[0], row[1]) for row in rows]

    def read(self, place: Place) -> CheckpointTuple | None:
        """A checkpoint with its writes."""
        with naming(place):
            return self._saver.get_tuple(place.config())

    def damaged(self) -> Sequence[str]:
        """Rows whose thread cannot be found out: there are none."""
        return ()


def our_tables(saver: Any) -> Tables:
    """The threads of a saver of ours on SQLite or PostgreSQL."""

    def execute(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        query = saver.dialect.sql(sql)
        rows: list[tuple[Any, ...]] = saver.engine.run(lambda: rows_of(query, values), write=False)
        return rows

    return Tables(saver, execute, lambda place: task_paths(execute, place, "checkpoint_writes"))
