"""The difference between two encoded values, as a delta: a short list of operations.

A delta builds the new value from the old one: *take these bytes of the base* and *here are new
ones*. Values come as parts, so that the elements of a list or dict can be matched whole: a msgpack
container begins with the number of its elements, so that already one append changes both ends of
the bytes and a plain comparison of them finds nothing.

A delta speaks of bytes, not of elements. Applying a delta (`rope.py`) needs no knowledge of how
values are encoded, and cannot go wrong halfway. A delta takes no more bytes of the base than the
base has: so a value is never larger than all the rows that it is made of, and a reader can refuse
what says otherwise.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import ormsgpack

from milepost._internal import native
from milepost.checkpoint.serde._msgpack.codec import unpack_all
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Delta: TypeAlias = list[bytes | tuple[int, int]]
"""New bytes, or the start and length of a piece of the base."""
Buffer: TypeAlias = bytes | memoryview
"""Bytes, or a view of some that were not worth copying."""
DeltaOps: TypeAlias = "Sequence[Buffer | tuple[int, int]]"
"""A delta that was stored."""

_SPAN = 64
_LONGEST_SPAN = 4096
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

    def pieces(self) -> list[Buffer]:
        """The value, in pieces."""
        return [self.head, *self.elements] if self.head else list(self.elements)

    def join(self) -> bytes:
        """The value in one piece."""
        return b"".join(self.pieces())


def difference(old: Parts, new: Parts, old_size: int | None = None) -> Delta:
    """What makes `new` out of `old`; counting the old one's bytes can be spared."""
    before, after = old.elements, new.elements
    size = old.size if old_size is None else old_size
    first, last = _same(before, after)
    writer = _Writer()
    appends = first == len(before)  # the most common change
    at = size if appends else len(old.head) + sum(map(len, before[:first]))
    if old.head == new.head:
        writer.copy(0, at)
    else:
        writer.literal(new.head)
        writer.copy(len(old.head), at - len(old.head))
    _middle(writer, at, before[first : len(before) - last], after[first : len(after) - last])
    if last:
        tail = sum(map(len, before[len(before) - last :]))
        writer.copy(size - tail, tail)
    return writer.finish()


def pack(delta: Delta) -> bytes:
    """A delta as it is stored."""
    return ormsgpack.packb(delta)


def unpack(data: Buffer) -> DeltaOps:
    """The delta that `pack` was given."""
    try:
        delta = unpack_all(data) if native.unpack is None else native.unpack(data, _HOOKS, {})
        if type(delta) is not list:
            raise TypeError("it is no list of steps")
        for at, step in enumerate(delta):
            if type(step) is list and len(step) == 2:
                start, size = step
                if type(start) is int and type(size) is int:
                    delta[at] = (start, size)
                    continue
            if type(step) is not bytes:
                raise TypeError("a step is neither bytes nor a place in the base")
        return delta
    except (ValueError, TypeError) as error:
        raise DeserializationError(f"a stored difference does not decode: {error}") from error


def _refuse(code: int, data: bytes) -> Any:  # noqa: ARG001
    raise ValueError("it has an extension")


_HOOKS: Final = (_refuse,)


def cost(delta: Delta) -> int:
    """About how many bytes it takes to store."""
    total = 0
    for step in delta:
        total += len(step) + 3 if isinstance(step, bytes) else 8
    return total


def common_start(a: bytes, b: bytes) -> int:
    """How many bytes two values have in common at their start."""
    at, end = 0, min(len(a), len(b))
    for size in _spans(end):
        left, right = a[at : at + size], b[at : at + size]
        if left != right:
            return at + _alike(left, right, "big")
        at += size
    return end


def common_end(a: bytes, b: bytes, limit: int) -> int:
    """How many bytes two values have in common at their end, at most `limit`."""
    at = 0
    for size in _spans(limit):
        left = a[len(a) - at - size : len(a) - at]
        right = b[len(b) - at - size : len(b) - at]
        if left != right:
            return at + _alike(left, right, "little")
        at += size
    return limit


def _spans(total: int) -> Iterator[int]:
    """What to compare at a time: little at first, since mostly a difference comes soon."""
    size = _SPAN
    while total:
        size = min(size, total)
        yield size
        total -= size
        size = min(2 * size, _LONGEST_SPAN)


def _alike(a: bytes, b: bytes, order: Literal["big", "little"]) -> int:
    """How many bytes of two that are as long as each other are the same: with the most significant
    byte first from the start, with the least significant one from the end."""
    differs = int.from_bytes(a, order) ^ int.from_bytes(b, order)
    return len(a) - (differs.bit_length() + 7) // 8


class _Writer:
    """Collects steps, and joins neighbours that belong together."""

    def __init__(self) -> None:
        self._steps: Delta = []
        self._new: list[bytes] = []
        self.left = 0
        """Bytes of the base that `reuse` may still take."""

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

    def reuse(self, start: int, data: bytes) -> None:
        """A copy of what may have been taken before: new bytes, if all would be too many."""
        if len(data) > self.left:
            self.literal(data)
        else:
            self.left -= len(data)
            self.copy(start, len(data))

    def _flush(self) -> None:
        if self._new:
            self._steps.append(b"".join(self._new))
            self._new = []

    def finish(self) -> Delta:
        self._flush()
        return self._steps


def _same(before: Sequence[bytes], after: Sequence[bytes]) -> tuple[int, int]:
    """How many elements are the same from the start, and how many of the others from the end."""
    first = _same_from_start(before, after)
    most = min(len(before), len(after)) - first
    last = 0
    while last < most and before[-1 - last] == after[-1 - last]:
        last += 1
    return first, last


def _same_from_start(a: Sequence[bytes], b: Sequence[bytes]) -> int:
    if len(a) <= len(b) and b[: len(a)] == a:
        return len(a)  # an append; compared in one go
    for at, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return at
    return min(len(a), len(b))


def _middle(writer: _Writer, at: int, before: Sequence[bytes], after: Sequence[bytes]) -> None:
    """The elements between the first and the last change."""
    starts = list(accumulate(map(len, before), initial=at))
    writer.left = starts[-1] - at
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
            writer.reuse(starts[found], element)
        elif same_length:
            # Most likely the element at this place was edited.
            follows = n + 1
            _inside(writer, starts[n], before[n], element)
        else:
            writer.literal(element)


def _inside(writer: _Writer, at: int, old: bytes, new: bytes) -> None:
    """One element that changed: its common start and end, and what can be found between."""
    if min(len(old), len(new)) < _WORTH_COPYING:
        writer.literal(new)
        return
    end = common_end(old, new, min(len(old), len(new)))
    end = end if end >= _WORTH_COPYING else 0
    left, right = 0, 0
    stop_left, stop_right = len(old) - end, len(new) - end
    while right < stop_right:
        same = common_start(old[left:stop_left], new[right:stop_right])
        if same >= _WORTH_COPYING:
            writer.reuse(at + left, new[right : right + same])
        else:
            writer.literal(new[right : right + same])
        left, right = left + same, right + same
        found = _resync(old, new, left, right, stop_left, stop_right)
        if found is None:
            writer.literal(new[right:stop_right])
            break
        writer.literal(new[right : found[1]])
        left, right = found
    writer.reuse(at + stop_left, new[stop_right:])


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
