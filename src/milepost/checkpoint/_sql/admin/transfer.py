"""Threads as a stream of lines with checksums: from one database to any other.

    {"milepost": "threads", "version": 1}
    {"row": ["checkpoints", ...], "sum": "..."}     one line for each row, bytes as base64
    {"thread": "id", "rows": 12, "sum": "..."}      ends a thread; covers all its lines
    {"end": 3}                                      the number of threads

A row is transferred as it is, so a sealed row stays sealed and needs the same key. Only a thread
that gets another id is unsealed on the way, and sealed for its new place.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost._db.operations import Execute, ExecuteMany, Operation, Query
from milepost._internal.ids import blake2b, new_epoch
from milepost.checkpoint._contract.thread_metadata import SEALED
from milepost.checkpoint._sql.threads.copy import Move, is_bound
from milepost.checkpoint._sql.threads.lock import lock
from milepost.checkpoint._sql.threads.registry import stored_metadata
from milepost.errors import CheckpointError

if TYPE_CHECKING:
    from milepost.checkpoint._contract.thread_metadata import ThreadMetadata
    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._sql.statements import Statements

_HEADER: Final = {"milepost": "threads", "version": 1}
FIRST_LINE: Final = json.dumps(_HEADER)
Rows: TypeAlias = dict[str, list[tuple[Any, ...]]]
"""Table → the rows of one thread."""

_TABLES: Final = {"threads": 7, "checkpoints": 10, "checkpoint_blobs": 9, "checkpoint_writes": 10}
"""Table → the number of columns of a row in the stream."""


def dump_thread(q: Statements, thread_id: str) -> Operation[list[str]]:
    """The lines of one thread; none if it does not exist."""
    lines = []
    total = blake2b(digest_size=16)
    for table, sql in zip(_TABLES, q.dumps, strict=True):
        rows = yield Query(sql, (thread_id,))
        for row in rows:
            body = json.dumps([table, *map(_plain, row)])
            checksum = _sum(body)
            total.update(checksum.encode())
            lines.append(f'{{"row": {body}, "sum": "{checksum}"}}')
    if not lines:
        return []
    end = {"thread": thread_id, "rows": len(lines), "sum": total.hexdigest()}
    return [*lines, json.dumps(end)]


def last_line(threads: int) -> str:
    return json.dumps({"end": threads})


class LoadStream:
    """The reader of a stream, line by line."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        """The threads that are stored, under their new ids."""
        self._lines = self._threads = 0
        self._state = "start"
        self._start_thread()

    def _start_thread(self) -> None:
        self._rows: Rows = {}
        self._count = 0
        self._total = blake2b(digest_size=16)

    def take(self, line: str) -> tuple[str, Rows] | None:
        """A thread and its rows, if this is the thread's last line and all its lines are intact."""
        self._lines += 1
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise self._damaged("is not JSON") from error
        if not isinstance(entry, dict):
            raise self._damaged("is not what was expected there")
        if self._state == "start":
            if entry != _HEADER:
                raise self._damaged("is not the beginning of a stream of threads")
            self._state = "open"
        elif self._state == "open" and "row" in entry:
            if _sum(json.dumps(entry["row"])) != entry.get("sum"):
                raise self._damaged("does not match its checksum")
            table, row = self._row(entry["row"])
            self._rows.setdefault(table, []).append(row)
            self._total.update(entry["sum"].encode())
            self._count += 1
        elif self._state == "open" and isinstance(entry.get("thread"), str):
            thread_id, rows = entry["thread"], self._rows
            if (entry.get("rows"), entry.get("sum")) != (self._count, self._total.hexdigest()):
                raise self._damaged(f"ends thread '{thread_id}', of which rows are missing")
            if any(row[0] != thread_id for some in rows.values() for row in some):
                raise self._damaged(f"ends thread '{thread_id}', but has rows of another one")
            self._threads += 1
            self._start_thread()
            return thread_id, rows
        elif entry.get("end") == self._threads and not self._count:
            self._state = "end"
        else:
            raise self._damaged("is not what was expected there")
        return None

    def _row(self, entry: Any) -> tuple[str, tuple[Any, ...]]:
        """A table and a row. The shape is checked too, since anyone can compute the checksum."""
        try:
            table, *values = entry
            if len(values) == _TABLES[table]:
                return table, tuple(map(_stored, values))
        except (TypeError, ValueError, KeyError):
            pass
        raise self._damaged("is not a row of a thread")

    def finish(self) -> list[str]:
        """The stored threads; raises if the stream has ended too early."""
        if self._state != "end":
            raise CheckpointError(
                f"The stream of threads breaks off after {self._threads} complete threads, which "
                "are loaded. Get the rest of it, and load it again."
            )
        return self.loaded

    def _damaged(self, reason: str) -> CheckpointError:
        return CheckpointError(
            f"Line {self._lines} of the stream {reason}. Threads before it are loaded, this one "
            "is not."
        )


def renamed(codec: Codec, metadata: ThreadMetadata, source: str, target: str, rows: Rows) -> Rows:
    """The rows of a thread under another id."""
    moved = {table: [(target, *row[1:]) for row in some] for table, some in rows.items()}
    for n, (*entry, owner, text) in enumerate(moved.get("threads", [])):
        stored = stored_metadata(text)
        if SEALED in stored and not isinstance(stored, str):
            owner, text = metadata.moved(source, target, stored)
            moved["threads"][n] = (*entry, owner, text)
    if is_bound(codec):
        move = Move(codec, source, target)
        for table, change in (
            ("checkpoints", move.checkpoint),
            ("checkpoint_blobs", move.blob),
            ("checkpoint_writes", move.write),
        ):
            moved[table] = [change(row) for row in rows.get(table, [])]
    return moved


def load_thread(q: Statements, thread_id: str, rows: Rows) -> Operation[None]:
    """Store a thread that does not exist yet."""
    entry = yield from lock(q, thread_id)
    if not entry.new:
        raise CheckpointError(
            f"Thread '{thread_id}' exists already. Delete it first, or load the stream's under "
            f"another id: load(lines, rename={{'{thread_id}': ...}}), or `milepost load --rename "
            f"{thread_id}=NEW`."
        )
    yield Execute(q.delete_thread, (thread_id,))  # the stream has the entry
    loads = zip(_TABLES, q.loads, strict=True)
    for table, sql in loads:
        some = rows.get(table, [])
        if table == "threads":
            # The loaded thread has no owner, and an epoch that no cache knows.
            some = [
                (
                    id,
                    head,
                    None,
                    new_epoch(),
                    "interrupted" if status == "running" else status,
                    *rest,
                )
                for id, head, status, *rest in some
            ]
        yield ExecuteMany(sql, some)


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, memoryview)):
        return {"b": base64.b64encode(value).decode()}
    return value if not isinstance(value, dict) else json.dumps(value)


def _stored(value: Any) -> Any:
    return base64.b64decode(value["b"], validate=True) if isinstance(value, dict) else value


def _sum(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
