"""A full check of a database: lineage, chains and every value. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.checkpoint.sql.reading import CheckpointRecord, Framed, Reader, WriteRecord
from milepost.checkpoint.sql.values import Resolver
from milepost.errors import BrokenChainError, SerdeError
from milepost.sql.operations import Operation, Query

if TYPE_CHECKING:
    from collections.abc import Mapping

_BAD = (BrokenChainError, SerdeError)


class Problem(NamedTuple):
    """A row that cannot be read, or that nothing leads to."""

    thread_id: str
    checkpoint_ns: str
    table: str
    key: str
    reason: str


def thread(reader: Reader, thread_id: str) -> Operation[list[Problem]]:
    """What is wrong with one thread."""
    checkpoints = yield Query(reader.q.checkpoints_of, (thread_id,))
    blobs = yield Query(reader.q.blobs_of, (thread_id,))
    writes = yield Query(reader.q.all_writes_of, (thread_id,))
    heads = yield Query(reader.q.head, (thread_id,))
    problems: list[Problem] = []
    spaces = dict.fromkeys(row[0] for rows in (checkpoints, blobs, writes) for row in rows)
    for ns in spaces:
        check = _Graph(reader, thread_id, ns, problems)
        check.checkpoints([CheckpointRecord(*row[1:]) for row in checkpoints if row[0] == ns])
        check.values([row[1:] for row in blobs if row[0] == ns])
        check.writes([WriteRecord(*row[1:]) for row in writes if row[0] == ns])
        check.orphans()
    head = heads[0][0] if heads else None
    if head is not None and not any(row[0] == "" and row[1] == head for row in checkpoints):
        problems.append(Problem(thread_id, "", "threads", head, "the head is gone"))
    return problems


class _Graph:
    """The rows of one graph of a thread."""

    def __init__(self, reader: Reader, thread_id: str, ns: str, problems: list[Problem]) -> None:
        self._reader = reader
        self._place = (thread_id, ns)
        self._problems = problems
        self._framed: dict[str, Framed] = {}
        self._rows: Mapping[str, CheckpointRecord] = {}
        self._keys: set[tuple[str, str]] = set()
        self._used: set[tuple[str, str]] = set()

    def _report(self, table: str, key: str, reason: object) -> None:
        self._problems.append(Problem(*self._place, table, key, str(reason)))

    def checkpoints(self, rows: list[CheckpointRecord]) -> None:
        self._rows = {row.id: row for row in rows}
        for row in rows:
            try:
                self._reader.put_together(*self._place, row, self._rows, {}, self._framed)
                self._reader.metadata(*self._place, row)
            except _BAD as error:
                self._report("checkpoints", row.id, error)
            if row.parent_id is not None and row.parent_id not in self._rows:
                self._report("checkpoints", row.id, f"its parent '{row.parent_id}' is gone")

    def values(self, rows: list[Any]) -> None:
        self._keys = {(row[0], row[1]) for row in rows}
        self._resolver = Resolver(self._reader.codec, *self._place, rows, {})
        for id, framed in self._framed.items():
            for channel, held in framed.frame.inline.items():
                if held is not None and channel in framed.frame.versions:
                    self._value(id, channel, framed)

    def _value(self, id: str, channel: str, framed: Framed) -> None:
        version = str(framed.frame.versions[channel])
        if framed.frame.inline[channel] is False:
            if (channel, version) in self._used:
                return
            self._use(channel, version)
        try:
            self._reader.channel(*self._place, framed.frame, channel, self._resolver)
        except _BAD as error:
            self._report("checkpoint_blobs", f"{channel} {version} of {id}", error)

    def _use(self, channel: str, version: str) -> None:
        key: tuple[str, str] | None = (channel, version)
        while key is not None and key not in self._used:
            self._used.add(key)
            key = self._resolver.base(*key) if key in self._keys else None

    def writes(self, rows: list[WriteRecord]) -> None:
        for row in rows:
            key = f"{row.checkpoint_id} {row.task_id} {row.position}"
            if row.base is not None:
                self._use(row.channel, row.base)
            try:
                self._reader.write(*self._place, row, self._resolver)
            except _BAD as error:
                self._report("checkpoint_writes", key, error)
            if row.checkpoint_id not in self._rows:
                self._report("checkpoint_writes", key, "its checkpoint is gone")

    def orphans(self) -> None:
        for channel, version in sorted(self._keys - self._used):
            self._report("checkpoint_blobs", f"{channel} {version}", "nothing refers to it")
