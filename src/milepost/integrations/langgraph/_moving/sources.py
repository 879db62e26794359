"""Databases of either library as sources of threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from milepost._db.operations import rows_of
from milepost.checkpoint._contract.records import CheckpointTuple, Place
from milepost.errors import CheckpointError, MilepostError

if TYPE_CHECKING:
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.integrations.langgraph._formats.tables import Execute, LangGraphReader


class BadAddressError(MilepostError, ValueError):
    """An address that names no database that can be moved, or none that answers."""


class Source(ABC):
    """A database whose threads can be read."""

    @abstractmethod
    def threads(self) -> Iterable[str]:
        """All threads."""

    @abstractmethod
    def size(self) -> int | None:
        """How many checkpoints there are, if that is easy to say."""

    @abstractmethod
    def places(self, thread_id: str) -> Sequence[tuple[str, str]]:
        """Namespace and id of every checkpoint, oldest first."""

    @abstractmethod
    def paths(self, place: Place) -> Mapping[str, str]:
        """The paths of the tasks that wrote after a checkpoint, as far as they are stored."""

    @abstractmethod
    def read(self, place: Place) -> CheckpointTuple | None:
        """A checkpoint with its writes."""

    def damaged(self) -> Sequence[str]:
        """Rows or documents whose thread cannot be found out, and why."""
        return ()


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


class Tables(Source):
    """Threads in tables that both libraries have, with the saver that reads them."""

    def __init__(self, saver: BaseCheckpointSaver[Any], execute: Execute) -> None:
        self._saver = saver
        self._execute = execute

    def threads(self) -> Iterable[str]:
        rows = self._execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id", ())
        return [row[0] for row in rows]

    def size(self) -> int | None:
        count: int = self._execute("SELECT count(*) FROM checkpoints", ())[0][0]
        return count

    def places(self, thread_id: str) -> Sequence[tuple[str, str]]:
        rows = self._execute(
            "SELECT checkpoint_ns, checkpoint_id FROM checkpoints"
            " WHERE thread_id = ? ORDER BY checkpoint_id",
            (thread_id,),
        )
        return [(row[0], row[1]) for row in rows]

    def read(self, place: Place) -> CheckpointTuple | None:
        with naming(place):
            return self._saver.get_tuple(place.config())


class TheirTables(Tables):
    """LangGraph's threads on SQLite or PostgreSQL."""

    def __init__(self, reader: LangGraphReader) -> None:
        super().__init__(reader, reader.execute)
        self._reader = reader

    def paths(self, place: Place) -> Mapping[str, str]:
        return self._reader.paths(place)


class OurTables(Tables):
    """The threads of a saver of ours on SQLite or PostgreSQL."""

    def __init__(self, saver: Any) -> None:
        def execute(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
            query = saver.dialect.sql(sql)
            rows: list[tuple[Any, ...]] = saver.engine.run(
                lambda: rows_of(query, values), write=False
            )
            return rows

        super().__init__(saver, execute)

    def paths(self, place: Place) -> Mapping[str, str]:
        rows = self._execute(
            "SELECT DISTINCT task_id, task_path FROM checkpoint_writes"
            " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            tuple(place),
        )
        return {row[0]: row[1] for row in rows if row[1]}
