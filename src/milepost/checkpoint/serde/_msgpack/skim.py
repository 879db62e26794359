"""The heads of msgpack values: read to step over bytes without decoding them, and written."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["list", "dict"]

SCALAR: Final = 0
"""The size is that of the bytes that follow the head."""
ARRAY: Final = 1
"""The size is the number of members."""
MAP: Final = 2
"""The size is the number of pairs."""
EXT: Final = 3
"""The size is that of the payload; the code byte is between it and the head."""


def head(data: bytes, position: int) -> tuple[int, int, int]:
    """Kind and size of the value at `position`, and where its body begins."""
    kind, size, width = _HEADS[data[position]]
    position += 1
    if width:
        size = int.from_bytes(data[position : position + width], "big")
        position += width
    return kind, size, position


def elements_head(kind: Kind, count: int) -> bytes:
    """The head of a list or dict of so many elements."""
    short, long = (0x90, 0xDC) if kind == "list" else (0x80, 0xDE)
    if count < 16:
        return bytes((short | count,))
    if count < 1 << 16:
        return bytes((long,)) + count.to_bytes(2, "big")
    return bytes((long + 1,)) + count.to_bytes(4, "big")


def skip(data: bytes, position: int, count: int = 1) -> int:
    """Where the value after the next `count` values begins; -1 if the data ends before."""
    size_of_data = len(data)
    while count:
        if position >= size_of_data:
            return -1
        kind, size, position = head(data, position)
        count -= 1
        if kind == SCALAR:
            position += size
        elif kind == EXT:
            position += size + 1
        else:
            count += size if kind == ARRAY else 2 * size
    return position if position <= size_of_data else -1


def _table() -> list[tuple[int, int, int]]:
    """For every first byte: kind, size if the byte itself tells it, width of the size if not."""
    table = [(SCALAR, 0, 0)] * 256
    for byte in range(0x80, 0x90):
        table[byte] = (MAP, byte & 0x0F, 0)
    for byte in range(0x90, 0xA0):
        table[byte] = (ARRAY, byte & 0x0F, 0)
    for byte in range(0xA0, 0xC0):
        table[byte] = (SCALAR, byte & 0x1F, 0)
    for step, width in enumerate((1, 2, 4)):
        table[0xC4 + step] = (SCALAR, 0, width)  # bytes
        table[0xC7 + step] = (EXT, 0, width)
        table[0xD9 + step] = (SCALAR, 0, width)  # str
    for byte, size in zip(range(0xCA, 0xD4), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8), strict=True):
        table[byte] = (SCALAR, size, 0)  # numbers
    for step in range(5):
        table[0xD4 + step] = (EXT, 1 << step, 0)
    for step, width in enumerate((2, 4)):
        table[0xDC + step] = (ARRAY, 0, width)
        table[0xDE + step] = (MAP, 0, width)
    return table


_HEADS: Final = _table()
