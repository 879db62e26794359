"""How deep a value may nest, and the check that keeps hostile bytes from overflowing the stack.

ormsgpack bounds the nesting within one payload (255 when writing, 1,024 when reading), but each
extension starts a payload of its own. Bounding the number of payloads alone would still allow
their product, some hundred thousand frames. So at a fixed level what is left is measured without
recursion, on both sides: what could not be read is not written.
"""

from __future__ import annotations

from typing import Final

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._msgpack.failures import TooDeep
from milepost.checkpoint.serde._msgpack.skim import ARRAY, EXT, MAP, head

MAX_LISTS: Final = 255
"""Lists and dicts directly inside each other."""
MAX_OBJECTS: Final = 100
"""Tuples, sets and objects inside each other."""
GUARDED: Final = 5
"""The level at which the rest is measured: up to here the product fits every usual stack."""
MAX_GUARDED: Final = 1_000
"""How deep the rest may nest from there on, all kinds together."""


def check(data: bytes) -> None:
    """Raise TooDeep if the msgpack in `data`, extensions included, nests too deep."""
    # A level of nesting takes at least a byte, so short data needs no measuring.
    if len(data) <= MAX_GUARDED:
        return
    payloads = [(0, len(data), 0)]
    while payloads:
        _measure(data, *payloads.pop(), payloads)


def _measure(
    data: bytes, position: int, end: int, base: int, payloads: list[tuple[int, int, int]]
) -> None:
    """Step through one payload; add the payloads found inside it to `payloads`.

    Malformed bytes end it without a word: ormsgpack will refuse them at the same place.
    """
    left: list[int] = []  # per open container: how many members are still to come
    while position < end:
        kind, size, position = head(data, position)
        while left and left[-1] == 0:
            left.pop()
        if left:
            left[-1] -= 1
        if kind in (ARRAY, MAP):
            left.append(size if kind == ARRAY else 2 * size)
            if base + len(left) > MAX_GUARDED:
                raise TooDeep
        elif kind == EXT:
            code, position = data[position] if position < end else 0, position + 1
            inner = base + len(left) + 1
            if code in ext.NESTED:
                if inner > MAX_GUARDED:
                    raise TooDeep
                payloads.append((position, min(position + size, end), inner))
            position += size
        else:
            position += size
