"""The difference between two encoded values, as a short program.

A program builds the new value from the old one: *take these bytes of the base* and *here are new
ones*. Values come as parts, so that the elements of a list or dict can be matched whole: a msgpack
container begins with the number of its elements, so that already one append changes both ends of
the bytes and a plain comparison of them finds nothing.

A program speaks of bytes, not of elements. Applying it needs no knowledge of how values are
encoded, and cannot go wrong halfway.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import ormsgpack

from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Program: TypeAlias = list[bytes | tuple[int, int]]
"""New bytes, or the start and length of a piece of the base."""
Buffer: TypeAlias = bytes | memoryview
"""Bytes, or a view of some that were not worth copying."""

_length = itemgetter(2)

_CHUNK = 4096
_WORTH_COPYING = 16
"""A piece of the base shorter than this is cheaper repeated than referred to."""
_RESYNC = (1, 2, 3, 5, 9)
"""How far behind a mismatch to look for the old bytes again: lengths of msgpack heads."""


class Parts(NamedTuple):
    """An encoded value, cut where a later version may differ."""

    head: bytes
    elements: Sequence[bytes]

    @property
    def size(self) -> int:
        """The length of the whole."""
        return len(self.head) + sum(map(len, self.elements))

    def join(self) -> bytes:
        """The value in one piece."""
        return self.head + b"".join(self.elements)


def difference(old: Parts, new: Parts, old_size: int | None = None) -> Program:
    """What makes `new` out of `old`; counting the old one's bytes can be spared."""
    program = _Writer()
    if old.head == new.head:
        program.copy(0, len(old.head))
    else:
        program.literal(new.head)
    before, after = old.elements, new.elements
    first = _same_from_start(before, after)
    last = _same_from_end(before, after, first)
    at = len(old.head)
    if first == len(before):
        size = (old.size if old_size is None else old_size) - at
    else:
        size = sum(map(len, before[:first]))
    program.copy(at, size)
    at += size
    _middle(program, at, before[first : len(before) - last], after[first : len(after) - last])
    if last:
        tail = sum(map(len, before[len(before) - last :]))
        program.copy((old.size if old_size is None else old_size) - tail, tail)
    return program.finish()


class Rope:
    """A value as pieces of others.

    A chain of differences is applied without building each value in between: a large one is
    copied once, not once for each row.
    """

    __slots__ = ("_ends", "_pieces")

    def __init__(self, pieces: Sequence[tuple[Buffer, int, int]]) -> None:
        self._pieces = pieces
        """Source, start and length."""
        self._ends = list(accumulate(map(_length, pieces)))

    @classmethod
    def of(cls, data: Buffer) -> Rope:
        """A value in one piece."""
        return cls([(data, 0, len(data))])

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def apply(self, program: Program) -> Rope:
        """The value that `program` makes of this one."""
        pieces: list[tuple[Buffer, int, int]] = []
        for step in program:
            if isinstance(step, bytes):
                pieces.append((step, 0, len(step)))
            else:
                pieces += self._cut(*step)
        return Rope(pieces)

    def start(self, size: int) -> bytes:
        """The first bytes of the value."""
        return b"".join(Rope(self._cut(0, min(size, len(self)))).buffers())

    def read(self) -> bytes:
        """The value in one piece."""
        buffers = self.buffers()
        if len(buffers) == 1 and isinstance(buffers[0], bytes):
            return buffers[0]
        return b"".join(buffers)

    def buffers(self) -> list[Buffer]:
        """The value's pieces, none of them copied."""
        return [
            source if length == len(source) else memoryview(source)[at : at + length]
            for source, at, length in self._pieces
        ]

    def _cut(self, start: int, length: int) -> Sequence[tuple[Buffer, int, int]]:
        end = start + length
        if start < 0 or length < 0 or end > len(self):
            raise DeserializationError(
                f"a stored difference refers to bytes {start} to {end} of a value that has "
                f"{len(self)}"
            )
        if not length:
            return ()
        first, last = bisect_right(self._ends, start), bisect_left(self._ends, end)
        # What lies between is taken over as it is: mostly that is all but the ends of a chain.
        found = list(self._pieces[first : last + 1])
        source, offset, size = found[-1]
        found[-1] = (source, offset, size - (self._ends[last] - end))
        source, offset, size = found[0]
        skipped = start - (self._ends[first - 1] if first else 0)
        found[0] = (source, offset + skipped, size - skipped)
        return found


def apply(base: bytes, program: Program) -> bytes:
    """The value that `program` makes of `base`."""
    return Rope.of(base).apply(program).read()


def pack(program: Program) -> bytes:
    """A program as it is stored."""
    return ormsgpack.packb(program)


def unpack(data: Buffer) -> Program:
    """The program that `pack` was given."""
    try:
        return [
            step if isinstance(step, bytes) else (int(step[0]), int(step[1]))
            for step in ormsgpack.unpackb(data)
        ]
    except (ValueError, TypeError, IndexError) as error:
        raise DeserializationError(f"a stored difference does not decode: {error}") from error


def cost(program: Program) -> int:
    """About how many bytes it takes to store."""
    return sum(len(step) + 3 if isinstance(step, bytes) else 8 for step in program)


def common_start(a: bytes, b: bytes) -> int:
    """How many bytes two values have in common at their start."""
    end = min(len(a), len(b))
    at = 0
    while at < end and a[at : at + _CHUNK] == b[at : at + _CHUNK]:
        at += _CHUNK
    if at >= end:
        return end
    low, high = at, min(at + _CHUNK, end)
    while low < high:
        middle = (low + high + 1) // 2
        if a[at:middle] == b[at:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_end(a: bytes, b: bytes, limit: int) -> int:
    """How many bytes two values have in common at their end, at most `limit`."""
    at = 0
    while at < limit:
        step = min(_CHUNK, limit - at)
        if a[len(a) - at - step : len(a) - at] != b[len(b) - at - step : len(b) - at]:
            break
        at += step
    else:
        return limit
    low, high = at, min(at + _CHUNK, limit)
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - at] == b[len(b) - middle : len(b) - at]:
            low = middle
        else:
            high = middle - 1
    return low


class _Writer:
    """Collects steps, and joins neighbours that belong together."""

    def __init__(self) -> None:
        self._steps: Program = []
        self._new: list[bytes] = []

    def literal(self, data: bytes) -> None:
        if data:
            self._new.append(data)

    def copy(self, start: int, length: int) -> None:
        if not length:
            return
        if not self._new and self._steps:
            before = self._steps[-1]
            if not isinstance(before, bytes) and before[0] + before[1] == start:
                self._steps[-1] = (before[0], before[1] + length)
                return
        self._flush()
        self._steps.append((start, length))

    def _flush(self) -> None:
        if self._new:
            self._steps.append(b"".join(self._new))
            self._new = []

    def finish(self) -> Program:
        self._flush()
        return self._steps


def _same_from_start(a: Sequence[bytes], b: Sequence[bytes]) -> int:
    if len(a) <= len(b) and b[: len(a)] == a:
        return len(a)  # an append; compared in one go
    for at, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return at
    return min(len(a), len(b))


def _same_from_end(a: Sequence[bytes], b: Sequence[bytes], first: int) -> int:
    most = min(len(a), len(b)) - first
    for at in range(most):
        if a[-1 - at] != b[-1 - at]:
            return at
    return most


def _middle(program: _Writer, at: int, before: Sequence[bytes], after: Sequence[bytes]) -> None:
    """The elements between the first and the last change."""
    if not before:
        for element in after:
            program.literal(element)
        return
    starts = list(accumulate(map(len, before), initial=at))
    places: dict[bytes, int] = {}
    for n, element in enumerate(before):
        places.setdefault(element, n)
    same_length = len(before) == len(after)
    follows = 0
    for n, element in enumerate(after):
        if follows < len(before) and before[follows] == element:
            found: int | None = follows  # runs of equal elements stay runs
        else:
            found = places.get(element)
        if found is not None:
            follows = found + 1
            program.copy(starts[found], len(element))
        elif same_length:
            # Most likely the element at this place was edited.
            follows = n + 1
            _inside(program, starts[n], before[n], element)
        else:
            program.literal(element)


def _inside(program: _Writer, at: int, old: bytes, new: bytes) -> None:
    """One element that changed: its common start and end, and what can be found between."""
    for step in _pieces(old, new):
        if isinstance(step, bytes):
            program.literal(step)
        else:
            program.copy(at + step[0], step[1])


def _pieces(old: bytes, new: bytes) -> Iterator[bytes | tuple[int, int]]:
    if min(len(old), len(new)) < _WORTH_COPYING:
        yield new
        return
    end = common_end(old, new, min(len(old), len(new)))
    end = end if end >= _WORTH_COPYING else 0
    left, right = 0, 0
    stop_left, stop_right = len(old) - end, len(new) - end
    while right < stop_right:
        same = common_start(old[left:stop_left], new[right:stop_right])
        if same:
            yield (left, same) if same >= _WORTH_COPYING else new[right : right + same]
            left, right = left + same, right + same
        found = _resync(old, new, left, right, stop_left, stop_right)
        if found is None:
            yield new[right:stop_right]
            break
        yield new[right : found[1]]
        left, right = found
    if end:
        yield (stop_left, end)


def _resync(
    old: bytes, new: bytes, left: int, right: int, stop_left: int, stop_right: int
) -> tuple[int, int] | None:
    """Where the two go on alike after a mismatch, if that is near: a count that has changed."""
    for skip in _RESYNC:
        start = left + skip
        probe = old[start : start + _WORTH_COPYING]
        if start + _WORTH_COPYING > stop_left:
            return None
        found = new.find(probe, right, min(right + 2 * _WORTH_COPYING, stop_right))
        if found > right:
            return start, found
    return None
