"""How a thread lies in Redis: three keys, which share one hash tag.

    {prefix:thread}:thread   hash         the registry's entry: head, token, epoch, status, …
    {prefix:thread}:rows     hash         checkpoints, values and writes, one field for each row
    {prefix:thread}:index    sorted set   the fields of checkpoints and writes, in their order
    prefix:threads           sorted set   the ids of all threads; an index only, on its own slot

A thread's own keys are the truth: an id in the index whose keys are gone, because they have
expired or the server has lost them, is left out of listings and removed.

A field is the row's kind and key with NUL between the parts. Names have no NUL, so fields sort as
the tuples of their parts do. A row's cells follow each other, each behind its length. What leads
to other rows comes first, where a script finds that without the rest:

    c  namespace, id                  parent, complete, run_id, kind, led, metadata, frame
    b  namespace, channel, version    base, base_channel, level, kind, blob
    w  namespace, id, task, place     base, channel, path, kind, blob
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from milepost._db.redis.commands import literally

CHECKPOINT: Final = b"c"
BLOB: Final = b"b"
WRITE: Final = b"w"
_LONG: Final = 255
"""In the place of a length: the length is in the next four bytes. NULL has 0, empty text 1."""


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
"""What a query is answered with."""


class _Kind(NamedTuple):
    """How rows of one kind are stored, and how statements have them."""

    row: Any
    """The class."""
    cells: str
    """What its cells are: text, numbers, bytes."""
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


class Keys(NamedTuple):
    """Where a saver's threads are."""

    prefix: str

    def of(self, thread_id: str) -> tuple[bytes, bytes, bytes]:
        """The three keys of a thread."""
        tag = f"{{{self.prefix}:{thread_id}}}"
        return f"{tag}:thread".encode(), f"{tag}:rows".encode(), f"{tag}:index".encode()

    @property
    def threads(self) -> bytes:
        """The key of the index of all threads."""
        return f"{self.prefix}:threads".encode()

    @property
    def pattern(self) -> str:
        """Matches every thread's key with rows."""
        return f"{{{literally(self.prefix)}:*}}:rows"

    def thread_in(self, key: bytes) -> str:
        """The thread whose key with rows this is."""
        return key[len(self.prefix.encode()) + 2 : -len("}:rows")].decode()


def field_of(kind: bytes, *parts: str) -> bytes:
    return b"\0".join((kind, *map(str.encode, parts)))


def parts(field: bytes) -> list[str]:
    """The key of a row, without its kind."""
    return [part.decode() for part in field.split(b"\0")[1:]]


# -- rows as statements have them, without the thread, which comes first


def row_given(kind: bytes, *given: Any) -> tuple[bytes, Row]:
    """The field and the row that the parameters of a statement describe."""
    row, _, size, columns = _KINDS[kind]
    cells = dict(zip(columns, given[size:], strict=True))
    return field_of(kind, *map(str, given[:size])), row(**cells)


def key_of(field: bytes) -> tuple[Any, ...]:
    """The key of a row; the place of a write is a number."""
    key = parts(field)
    return (*key[:-1], int(key[-1])) if field[:1] == WRITE else tuple(key)


def columns_of(field: bytes, row: Row) -> tuple[Any, ...]:
    """The key of a row, and its cells."""
    return key_of(field) + _CELLS[field[:1]](row)


# -- rows as they are stored


def packed_cell(value: object) -> bytes:
    """A cell as it is stored; NULL as b"", which no other cell is."""
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
    return b"".join(packed_cell(value) or b"\0" for value in row)


def unpack(field: bytes, data: bytes) -> Any:
    """The row that `pack` was given. For anything else, a row that cannot be read."""
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
                raise ValueError("it is cut off")
            found.append(value if kind == "b" else int(value) if kind == "i" else value.decode())
        if at != len(data):
            raise ValueError("it is too long")
    except (IndexError, ValueError, struct.error):
        # Its bytes fail their checksum when they are looked at, which names the row.
        empty = {"t": None, "i": 0, "b": b""}
        return made(*(empty[kind] for kind in kinds))
    return made(*found)


def link(field: bytes, row: Row, *, to_parent: bool = False) -> bytes | None:
    """The row that is needed beside this one: what a difference is from.

    `to_parent`: of a checkpoint, its parent also if it is not a difference from that.
    """
    ns = parts(field)[0]
    if isinstance(row, Checkpoint):
        if row.parent is None or (row.complete and not to_parent):
            return None
        return field_of(CHECKPOINT, ns, row.parent)
    if row.base is None:
        return None
    channel = row.channel if isinstance(row, Write) else row.base_channel or parts(field)[1]
    return field_of(BLOB, ns, channel, row.base)
