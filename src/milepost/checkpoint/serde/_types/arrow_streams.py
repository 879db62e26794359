"""Looks through an Arrow stream before a library reads it.

Arrow can say much in few bytes: its buffers can be compressed, several columns can share one, and
columns of nothing can be of any length. Our writers do none of that, apart from short columns of
nothing. So what a stream holds is in proportion to its size, or it is refused.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_GOES_ON: Final = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
"""Kinds of messages."""
_KIND, _HEADER, _BODY = 1, 2, 3
"""Fields of a message."""
_DATA: Final = 1
"""Field of a message with a dictionary: the batch that has its values."""
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = 0, 1, 2, 3
"""Fields of a batch."""
_PER_BYTE: Final = 64
"""Elements that a byte may hold. Eight booleans are in one; the rest is for columns that hold
nothing, beside others or alone."""


def check(data: bytes) -> None:
    """ValueError if the stream is not one that is written here, or of more than its bytes."""
    elements = 0
    try:
        for batch, size in _batches(data):
            if batch.offset(_COMPRESSION):
                raise ValueError("the table is compressed")
            if sum(length for _, length in batch.pairs(_BUFFERS)) > size:
                raise ValueError("columns of the table share their bytes")
            nodes = sum(length for length, _ in batch.pairs(_NODES))
            elements += max(nodes, batch.number(_LENGTH, "<q"))
    except struct.error:
        raise ValueError("the table ends too soon") from None
    if elements > _PER_BYTE * len(data):
        raise ValueError(f"the table is of {elements} elements in {len(data)} bytes")


def _batches(data: bytes) -> Iterator[tuple[_Table, int]]:
    """Each batch of a stream, and how many bytes its buffers have."""
    at = 0
    while at < len(data):
        mark, size = struct.unpack_from("<II", data, at)
        if mark != _GOES_ON:
            raise ValueError("the table is in another form than it is written in")
        at += 8
        if not size:
            if at != len(data):
                raise ValueError("something follows the table")
            return
        message = _Table.root(data[at : at + size])
        at += size
        kind, body = message.number(_KIND, "<B"), message.number(_BODY, "<q")
        if not 0 <= body <= len(data) - at:
            raise ValueError("the table ends too soon")
        if kind in (_DICTIONARY, _BATCH):
            batch = message.table(_HEADER)
            yield (batch.table(_DATA) if kind == _DICTIONARY else batch), body
        elif kind != _SCHEMA:
            raise ValueError(f"a message of kind {kind} in a table")
        at += body
    raise ValueError("the table ends too soon")


class _Table:
    """A table of a flatbuffer, which is how Arrow writes what its messages say."""

    __slots__ = ("_at", "_data", "_fields")

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        index = at - self._number("<i", at)
        self._fields = range(index + 4, index + self._number("<H", index), 2)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, *struct.unpack_from("<I", data))

    def offset(self, field: int) -> int:
        """Where a field is, from the start of the table; 0 if it is not there."""
        return self._number("<H", self._fields[field]) if field < len(self._fields) else 0

    def number(self, field: int, form: str) -> int:
        """A number; 0 if it is not there."""
        at = self.offset(field)
        return self._number(form, self._at + at) if at else 0

    def table(self, field: int) -> _Table:
        """A table, which must be there."""
        return _Table(self._data, self._far(field))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Pairs of numbers; none of them may be less than nothing."""
        if not self.offset(field):
            return []
        at = self._far(field)
        size = 16 * self._number("<I", at)
        found = list(struct.iter_unpack("<qq", self._slice(at + 4, size)))
        if any(first < 0 or second < 0 for first, second in found):
            raise ValueError("a size in the table is less than nothing")
        return found

    def _far(self, field: int) -> int:
        at = self._at + self.offset(field)
        return at + self._number("<I", at)

    def _number(self, form: str, at: int) -> int:
        found: int = struct.unpack(form, self._slice(at, struct.calcsize(form)))[0]
        return found

    def _slice(self, at: int, size: int) -> bytes:
        if at < 0 or at + size > len(self._data):
            raise ValueError("the table ends too soon")
        return self._data[at : at + size]
