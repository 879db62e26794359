"""How a thread lies in Redis: three keys, which share one hash tag.

    {prefix:thread}:thread   hash         the registry's entry: head, token, epoch, status, …
    {prefix:thread}:rows     hash         checkpoints, values and writes, one field for each row
    {prefix:thread}:index    sorted set   the fields of checkpoints and writes, in their order
    prefix:threads           sorted set   the ids of all threads, in a slot of its own

Only a thread's own keys decide whether the thread exists. The ids in `prefix:threads` are an index:
an id whose thread has expired, or was lost by the server, is left out of listings and removed.

A field is the kind of the row and the parts of its key, joined by NUL. Names have no NUL, so fields
sort as the tuples of their parts do. A row is a sequence of cells, each behind its length. Cells
that lead to other rows come first, so that a script finds them without reading the rest:

    c  namespace, id                  parent, complete, run_id, kind, led, metadata, frame
    b  namespace, channel, version    base, base_channel, level, kind, blob
    w  namespace, id, task, place     base, channel, path, kind, blob
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from milepost._db.redis.commands import literally
from milepost.errors import DamagedRowError

CHECKPOINT: Final = b"c"
BLOB: Final = b"b"
WRITE: Final = b"w"

REV: Final = "rev"
"""A value beside the entry: replaced by every write of the thread."""
SEQ: Final = "seq"
"""A value beside the entry: how many writes the thread has had."""
FOR_EVER: Final = "-1"
"""The time to live of a thread that never expires."""

_NULL: Final = b"\0"
"""A cell that is NULL. Other cells begin with their length plus 1."""
_LONG: Final = 255
"""In the place of the length plus 1: the length is in the next four bytes."""
_TEXT, _NUMBER, _BYTES = "tib"


class Checkpoint(NamedTuple):
    """A row of kind `c`."""

    parent: str | None
    complete: int
    run_id: str | None
    kind: str | None
    led: bytes | None
    metadata: bytes
    frame: bytes


class Blob(NamedTuple):
    """A row of kind `b`."""

    base: str | None
    base_channel: str | None
    level: int
    kind: str | None
    blob: bytes


class Write(NamedTuple):
    """A row of kind `w`."""

    base: str | None
    channel: str
    path: str
    kind: str | None
    blob: bytes


Row: TypeAlias = Checkpoint | Blob | Write
Rows: TypeAlias = list[tuple[Any, ...]]
"""The answer to a query."""


class _Kind(NamedTuple):
    """How rows of one kind are stored, and the order of their columns in statements."""

    row: Any
    """The class."""
    cells: str
    """The type of each cell: `_TEXT`, `_NUMBER` or `_BYTES`."""
    key: int
    """How many parts its key has."""
    columns: tuple[str, ...]
    """The cells in the order of the columns that follow the key in a statement."""


_KINDS: Final = {
    CHECKPOINT: _Kind(
        Checkpoint,
        "tittbbb",
        2,
        ("parent", "complete", "run_id", "frame", "kind", "metadata", "led"),
    ),
    BLOB: _Kind(Blob, "ttitb", 3, ("base_channel", "base", "level", "kind", "blob")),
    WRITE: _Kind(Write, "ttttb", 4, ("channel", "path", "base", "kind", "blob")),
}
_CELLS: Final = {kind: attrgetter(*made.columns) for kind, made in _KINDS.items()}
_DECODE: Final[dict[str, Callable[[bytes], Any]]] = {
    _TEXT: bytes.decode,
    _NUMBER: int,
    _BYTES: bytes,
}
_EMPTY: Final = {_TEXT: None, _NUMBER: 0, _BYTES: b""}


ROOT_CHECKPOINTS: Final = CHECKPOINT + b"\0\0"
"""The prefix of the fields of the root graph's checkpoints."""
AFTER_ALL: Final = b"\xff"
"""Sorts after every name: no UTF-8 text has this byte."""


class ThreadKeys(NamedTuple):
    """The three keys of a thread."""

    thread: bytes
    rows: bytes
    order: bytes
    """The key of the index."""


class Keys(NamedTuple):
    """The keys of a saver's threads, which begin with a prefix."""

    prefix: str

    def of(self, thread_id: str) -> ThreadKeys:
        tag = f"{{{self.prefix}:{thread_id}}}"
        return ThreadKeys(
            thread=f"{tag}:thread".encode(),
            rows=f"{tag}:rows".encode(),
            order=f"{tag}:index".encode(),
        )

    @property
    def threads(self) -> bytes:
        """The key of the index of all threads."""
        return f"{self.prefix}:threads".encode()

    @property
    def pattern(self) -> str:
        """A pattern that matches the key with the rows of every thread."""
        return f"{{{literally(self.prefix)}:*}}:rows"

    def thread_in(self, key: bytes) -> str:
        """The thread that a key with rows belongs to."""
        return key[len(self.prefix.encode()) + 2 : -len("}:rows")].decode()


def field_of(kind: bytes, *parts: str) -> bytes:
    return b"\0".join((kind, *map(str.encode, parts)))


def parts(field: bytes) -> list[str]:
    """The key of a row, without its kind.

    A damaged row may lead to a field that is no text. No row has the name that this gives.
    """
    return [part.decode("utf-8", "replace") for part in field.split(b"\0")[1:]]


# -- rows in statements: key and columns, without the thread


def row_given(kind: bytes, *given: Any) -> tuple[bytes, Row]:
    """The field and the row that the parameters of a statement describe."""
    row, _, size, columns = _KINDS[kind]
    cells = dict(zip(columns, given[size:], strict=True))
    return field_of(kind, *map(str, given[:size])), row(**cells)


def key_of(field: bytes) -> tuple[Any, ...]:
    """The key of a row. The last part of a write's key is a number."""
    key = parts(field)
    return (*key[:-1], int(key[-1])) if field[:1] == WRITE else tuple(key)


def columns_of(field: bytes, row: Row) -> tuple[Any, ...]:
    """The key of a row, and its cells."""
    return key_of(field) + _CELLS[field[:1]](row)


# -- rows as they are stored


def packed_cell(value: object) -> bytes:
    """The stored form of a cell; b"" for NULL, which the script and `pack` replace with `_NULL`."""
    if value is None:
        return b""
    data = value if isinstance(value, (bytes, bytearray, memoryview)) else str(value).encode()
    size = len(data) + 1
    head = bytes((size,)) if size < _LONG else b"\xff" + struct.pack(">I", size - 1)
    return head + data


def cell_number(field: bytes, name: str) -> int:
    """Where a cell is in a row, from 1."""
    fields: tuple[str, ...] = _KINDS[field[:1]].row._fields
    return fields.index(name) + 1


def pack(row: Row) -> bytes:
    return b"".join(packed_cell(value) or _NULL for value in row)


def unpack(field: bytes, data: bytes) -> Any:
    """The row that `pack` was given; of damaged bytes, a row that fails its checksum."""
    made, kinds, *_ = _KINDS[field[:1]]
    found: list[Any] = []
    at = 0
    try:
        for kind in kinds:
            size, at = data[at], at + 1
            if size == 0:
                found.append(None)
                continue
            size -= 1
            if size == _LONG - 1:
                (size,), at = struct.unpack_from(">I", data, at), at + 4
            value = data[at : at + size]
            at += size
            if len(value) != size:
                raise ValueError("the row is cut off")
            found.append(_DECODE[kind](value))
        if at != len(data):
            raise ValueError("the row is too long")
    except (IndexError, ValueError, struct.error):
        # Empty bytes fail their checksum when they are decoded, with an error that names the row.
        return made(*(_EMPTY[kind] for kind in kinds))
    return made(*found)


def link(field: bytes, row: Row) -> bytes | None:
    """The field of the row that a row is a difference from; None if the row is complete."""
    ns = parts(field)[0]
    if isinstance(row, Checkpoint):
        if row.parent is None or row.complete:
            return None
        return field_of(CHECKPOINT, ns, row.parent)
    if row.base is None:
        return None
    channel = row.channel if isinstance(row, Write) else row.base_channel or parts(field)[1]
    return field_of(BLOB, ns, channel, row.base)


# -- the registry's entry


class Entry(NamedTuple):
    """What the registry knows of a thread. The hash has the same names."""

    head: str | None
    token: str | None
    epoch: int
    status: str
    created_at: float
    updated_at: float
    owner: str | None = None
    metadata: str | None = "{}"
    ttl: str | None = None
    """Seconds, or `FOR_EVER`. None if the saver's default applies."""


def entry_in(thread_id: str, cells: Sequence[bytes]) -> tuple[dict[str, str], Entry | None]:
    """All values of a thread's hash, and the entry in it; None if the thread does not exist."""
    try:
        given = {key.decode(): value.decode() for key, value in pairs(cells)}
        if "epoch" not in given:
            return given, None
        return given, Entry(
            given.get("head"),
            given.get("token"),
            int(given["epoch"]),
            given["status"],
            float(given["created_at"]),
            float(given["updated_at"]),
            given.get("owner"),
            given.get("metadata"),
            given.get("ttl"),
        )
    except (KeyError, ValueError) as error:
        raise DamagedRowError(
            f"The entry of thread '{thread_id}' in the registry is damaged: {error!r}. Restore the "
            "thread's keys from a backup, or delete the thread."
        ) from error


def entry_changes(before: Entry | None, after: Entry) -> tuple[dict[str, str], list[str]]:
    """The values to set and those to remove, to turn one entry into another."""
    put: dict[str, str] = {}
    gone: list[str] = []
    for key, value in after._asdict().items():
        known = None if before is None else getattr(before, key)
        if value is None:
            gone += [] if known is None else [key]
        elif value != known:
            put[key] = repr(value) if isinstance(value, float) else str(value)
    return put, gone


def pairs(flat: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
    """The keys and values of a mapping in the form of RESP2, a flat list."""
    return zip(flat[::2], flat[1::2], strict=True)
