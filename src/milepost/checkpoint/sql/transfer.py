"""Threads as a stream of lines with checksums: from one database to any other.

    {"milepost": "threads", "version": 1}
    {"row": ["checkpoints", ...], "sum": "..."}     one line for each row, bytes as base64
    {"thread": "id", "rows": 12, "sum": "..."}      ends a thread; covers all its lines
    {"end": 3}                                      the number of threads

A row is stored as it is, so what is sealed stays sealed, and opens with the same key.
"""

from __future__ import annotations

import base64
import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from milepost.errors import CheckpointError
from milepost.ids import getrandbits
from milepost.sql.operations import Many, Operation, Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from milepost.checkpoint.sql.queries import Queries

_HEADER: Final = {"milepost": "threads", "version": 1}
_TABLES: Final = ("threads", "checkpoints", "checkpoint_blobs", "checkpoint_writes")


def dump_thread(q: Queries, thread_id: str) -> Operation[list[str]]:
    """The lines of one thread."""
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


def header() -> str:
    """The first line of a stream."""
    return json.dumps(_HEADER)


def end(threads: int) -> str:
    """The last line of a stream."""
    return json.dumps({"end": threads})


def threads_in(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, list[tuple[Any, ...]]]]]:
    """The threads of a stream, each when its last line has been read and found intact."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    total = blake2b(digest_size=16)
    count = threads = 0
    state = "start"
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise _damaged(number, "is not JSON") from error
        if state == "start":
            if entry != _HEADER:
                raise _damaged(number, "is not the beginning of a stream of threads")
            state = "open"
        elif "row" in entry:
            if _sum(json.dumps(entry["row"])) != entry.get("sum"):
                raise _damaged(number, "does not match its checksum")
            table, *values = entry["row"]
            rows.setdefault(table, []).append(tuple(map(_stored, values)))
            total.update(entry["sum"].encode())
            count += 1
        elif "thread" in entry:
            if (entry["rows"], entry["sum"]) != (count, total.hexdigest()):
                raise _damaged(
                    number, f"ends thread '{entry['thread']}', of which rows are missing"
                )
            yield entry["thread"], rows
            rows, count, threads = {}, 0, threads + 1
            total = blake2b(digest_size=16)
        elif entry.get("end") == threads and not count:
            state = "end"
        else:
            raise _damaged(number, "is not what was expected there")
    if state != "end":
        raise CheckpointError(
            f"The stream of threads breaks off after {threads} complete threads, which are loaded. "
            "Get the rest of it, and load it again."
        )


def load_thread(
    q: Queries, thread_id: str, rows: dict[str, list[tuple[Any, ...]]]
) -> Operation[None]:
    """Store a thread that is not there yet."""
    found = yield Query(q.thread, (thread_id,))
    if found:
        raise CheckpointError(
            f"Thread '{thread_id}' exists already. Delete it first, or leave it out of the stream."
        )
    loads = zip(_TABLES, q.loads, strict=True)
    for table, sql in loads:
        some = rows.get(table, [])
        if table == "threads":
            # No run owns it here, and nobody remembers its rows.
            some = [(id, head, getrandbits(53), *rest) for id, head, *rest in some]
        yield Many(sql, some)


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, memoryview)):
        return {"b": base64.b64encode(value).decode()}
    return value if not isinstance(value, dict) else json.dumps(value)


def _stored(value: Any) -> Any:
    return base64.b64decode(value["b"]) if isinstance(value, dict) else value


def _sum(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _damaged(number: int, reason: str) -> CheckpointError:
    return CheckpointError(
        f"Line {number} of the stream {reason}. Threads before it are loaded, this one is not."
    )
