"""The elements of a list or dict as the accelerator packs them: many in one piece of bytes.

They come in segments: some bytes, and where in them elements begin and end. Versions of a value
share segments: one that follows another has only those of what is new, and knows how much it took
over, so that nobody has to compare them again.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias, overload

from milepost import native

if TYPE_CHECKING:
    from milepost.native import Buffer

Segment: TypeAlias = tuple[bytes, bytes]
"""Bytes, and cuts in them: numbers of eight bytes, of which the last ends the last element."""

_CUT: Final = 8
_LONGEST: Final = 1 << 16
"""Bytes of a segment that is put together from others. The accelerator makes them as long."""


class Packed(Sequence[bytes]):
    """Elements in their order."""

    __slots__ = ("_ends", "_since", "mark", "segments", "size")

    def __init__(
        self,
        segments: tuple[Segment, ...],
        size: int | None = None,
        since: tuple[object, int, int] | None = None,
    ) -> None:
        self.segments = segments
        self._ends = (
            [len(segments[0][1]) // _CUT - 1]  # small values are many
            if len(segments) == 1
            else list(accumulate(map(_count, segments)))
        )
        """How many elements there are up to the end of each segment."""
        self.size = self.span(0, len(self)) if size is None else size
        """How many bytes all of them take."""
        self.mark = object()
        """Stands for these elements where keeping all of them would keep every version alive."""
        self._since = since

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            found = list(self._between(start, stop))
            return found if step == 1 else list(self)[at]
        at += len(self) if at < 0 else 0
        for element in self._between(at, at + 1):
            return element
        raise IndexError(at)

    def __iter__(self) -> Iterator[bytes]:
        return self._between(0, len(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        if isinstance(other, Packed):
            return self.same(other)[0] == len(self)
        return all(mine == their for mine, their in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def span(self, start: int, stop: int) -> int:
        """How many bytes the elements from `start` to `stop` take."""
        return sum(
            _cut(cuts, last) - _cut(cuts, first)
            for _, cuts, first, last in self._parts(start, stop)
        )

    def pieces(self, start: int = 0, stop: int = sys.maxsize) -> list[Buffer]:
        """The bytes of the elements from `start` to `stop`, in pieces."""
        found: list[Buffer] = []
        for data, cuts, first, last in self._parts(start, stop):
            begin, end = _cut(cuts, first), _cut(cuts, last)
            found.append(data if end - begin == len(data) else memoryview(data)[begin:end])
        return found

    def join(self, head: bytes) -> bytes:
        """The bytes of all, behind a head."""
        if len(self.segments) == 1 and len(self.segments[0][0]) == self.size:
            return head + self.segments[0][0]
        return b"".join((head, *self.pieces()))

    def lengths(self) -> list[int]:
        """How long each of them is."""
        found: list[int] = []
        for _, cuts in self.segments:
            numbers = memoryview(cuts).cast("Q")
            found += [end - start for start, end in pairwise(numbers)]
        return found

    def same(self, new: Packed) -> tuple[int, int]:
        """How many elements `new` has in common from the start, and of the others from the end."""
        if new._since is not None and new._since[0] is self.mark:
            return new._since[1:]
        assert native.same is not None
        return native.same(self.segments, new.segments)

    def followed(self, first: int, last: int, new: tuple[Segment, ...]) -> Packed:
        """The first of these elements, and new ones."""
        kept = list(self.segments)
        size = self.size
        if first < len(self):
            size = self.span(0, first)
            kept = [_beginning(*part) for part in self._parts(0, first)]
        for segment in new:
            size += _size(segment)
            kept.append(segment)
            while len(kept) > 1 and _belong_together(kept[-2], kept[-1]):
                kept[-2:] = [_joined(kept[-2], kept[-1])]
        return Packed(tuple(kept), size, (self.mark, first, last))

    def _parts(self, start: int, stop: int) -> Iterator[tuple[bytes, bytes, int, int]]:
        """Segments that have elements from `start` to `stop`, and which of theirs those are."""
        at = bisect_right(self._ends, start)
        before = self._ends[at - 1] if at else 0
        while before < stop and at < len(self._ends):
            data, cuts = self.segments[at]
            end = self._ends[at]
            yield data, cuts, max(start - before, 0), min(stop, end) - before
            before, at = end, at + 1

    def _between(self, start: int, stop: int) -> Iterator[bytes]:
        for data, cuts, first, last in self._parts(start, stop):
            numbers = memoryview(cuts).cast("Q")
            begin = numbers[first]
            for end in numbers[first + 1 : last + 1]:
                yield data[begin:end]
                begin = end


def pack_elements(
    value: list[Any] | dict[Any, Any], tuples: int, base: Sequence[bytes] | None
) -> Packed | None:
    """The elements of a plain value; None if it is not one, or there is no accelerator.

    Those that `base` begins with are taken from there.
    """
    if native.after is None:
        return None
    known = base if isinstance(base, Packed) else _NOTHING
    found = native.after(value, tuples, known.segments)
    if found is None:
        return None
    if known is not _NOTHING:
        return known.followed(*found)
    segments = found[2]
    return Packed(segments, sum([len(data) for data, _ in segments]))


def cut_up(data: bytes) -> Packed | None:
    """The elements of a stored list or dict; None if it is none, or there is no accelerator."""
    cuts = None if native.cuts is None else native.cuts(data)
    if cuts is None:
        return None
    return Packed(((data, cuts),) if len(cuts) > _CUT else ())


def _count(segment: Segment) -> int:
    return len(segment[1]) // _CUT - 1


def _cut(cuts: bytes, at: int) -> int:
    return int.from_bytes(cuts[_CUT * at : _CUT * (at + 1)], sys.byteorder)


def _size(segment: Segment) -> int:
    return _cut(segment[1], _count(segment)) - _cut(segment[1], 0)


def _beginning(data: bytes, cuts: bytes, _: int, stop: int) -> Segment:
    """The first elements of a segment; if that is little of it, the rest is not kept alive."""
    end = _cut(cuts, stop)
    return data if 2 * end > len(data) else data[:end], cuts[: _CUT * (stop + 1)]


def _belong_together(one: Segment, other: Segment) -> bool:
    """Whether joining pays: a byte is then copied once for each doubling, not for each version."""
    before, after = _size(one), _size(other)
    return before <= 2 * after and before + after <= _LONGEST


def _joined(one: Segment, other: Segment) -> Segment:
    data, more = Packed((one, other)).pieces()
    start, begin = _cut(one[1], 0), _cut(other[1], 0) - len(data)
    cuts = [at - start for at in memoryview(one[1]).cast("Q")]
    cuts += [at - begin for at in memoryview(other[1]).cast("Q")[1:]]
    return b"".join((data, more)), array("Q", cuts).tobytes()


_NOTHING: Final = Packed(())
