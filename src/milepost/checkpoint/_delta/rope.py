"""A value as pieces of others.

A chain of differences is applied without building each value in between: a large one is copied
once, not once for each row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from milepost.checkpoint._delta.diff import Buffer, DeltaOps

Piece: TypeAlias = "tuple[Buffer, int, int]"
"""Source, start and length."""

_length = itemgetter(2)


class Rope:
    """The pieces, and where each of them ends."""

    __slots__ = ("_ends", "_pieces")

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._ends = list(accumulate(map(_length, pieces)))

    @classmethod
    def of(cls, data: Buffer) -> Rope:
        """A value in one piece."""
        return cls([(data, 0, len(data))])

    @classmethod
    def joining(cls, buffers: Iterable[Buffer]) -> Rope:
        """A value in several. Empty ones are left out: a piece is a byte, at least."""
        return cls([(data, 0, len(data)) for data in buffers if data])

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def apply(self, delta: DeltaOps) -> Rope:
        """The value that `delta` makes of this one."""
        return spliced(delta, self.cut, len(self))

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

    def cut(self, start: int, length: int) -> Sequence[Piece]:
        """The pieces of some of its bytes."""
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


def spliced(delta: DeltaOps, cut: Callable[[int, int], Sequence[Piece]], size: int) -> Rope:
    """The value that `delta` makes of one of this size, which can be cut."""
    pieces: list[Piece] = []
    left = size
    for step in delta:
        if isinstance(step, tuple):
            pieces += cut(*step)
            left -= step[1]
            if left < 0:  # a short chain of such differences could describe any size
                raise DeserializationError(
                    f"a stored difference takes more bytes of a value than the {size} it has"
                )
        elif step:
            pieces.append((step, 0, len(step)))
    return Rope(pieces)
