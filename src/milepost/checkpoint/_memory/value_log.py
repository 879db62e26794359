"""Versions of a value as pieces of one growing string of bytes.

A *log* holds the bytes of all versions of a channel, each byte once. A version is a *slice*: a head
of its own, followed by spans of the log. A version that appends is one longer span. A window that
moves is one shifted span. An edit in the middle is three spans: before the edit, the new bytes at
the end of the log, and behind the edit. No version is a delta from another, so there are no chains:
each version is read directly, and each can be dropped.

An edited version costs its spans besides its new bytes. When the spans would cost more than the
value, the value gets a new log.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from milepost.checkpoint._delta.diff import Delta, Parts, cost, difference
from milepost.checkpoint._delta.encode import Encoded, Typed
from milepost.checkpoint._delta.split import place_in, split_like

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SMALL: Final = 256
"""Bytes below which a value is stored whole."""
_ELEMENTS_AT_ONCE: Final = 64
"""Elements that are compared in one call."""
_MAX_LOG: Final = 2**32 - 1
"""Bytes. The ends of a span are numbers of four bytes."""
_SPAN_COST: Final = 4
"""Times the number of spans squared: about the bytes that a series of edits has spent on spans."""


class Log:
    """The bytes of all versions, in the order in which they came."""

    __slots__ = ("data", "lengths", "tip")

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.tip = b""
        """The spans of the version that was stored last."""
        self.lengths: list[int] = []
        """The lengths of that version's elements."""

    def slice(
        self, kind: str, head: bytes, spans: array[int], lengths: list[int] | None = None
    ) -> Slice:
        """A version or a part of one. `lengths` are given for the latest version."""
        found = Slice(kind, head, self, spans.tobytes())
        if lengths is not None:
            self.tip, self.lengths = found.packed, lengths
        return found


class Slice:
    """A version of a value, or a part of one."""

    __slots__ = ("head", "kind", "log", "packed")

    def __init__(self, kind: str, head: bytes, log: Log, packed: bytes) -> None:
        self.kind = kind
        self.head = head
        self.log = log
        self.packed = packed
        """The spans as bytes, which take less memory than an array: there are many slices."""

    @property
    def spans(self) -> array[int]:
        """Start and end of each span, one after the other."""
        return array("I", self.packed)

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        spans = self.spans
        return zip(spans[::2], spans[1::2], strict=True)

    def read(self) -> Typed:
        return (self.kind, _joined(self.head, self.log, self.spans))


StoredValue: TypeAlias = Typed | Slice
"""A value in memory."""


def keep(
    new: Encoded, base: StoredValue | None, *, shared: bool
) -> tuple[StoredValue, Slice | None]:
    """The stored form of the version that follows `base`.

    If `base` was stored whole and shares bytes with the new version, a slice to replace `base` is
    returned too. `shared`: a write is to be stored as a part of the new version.
    """
    if not isinstance(base, Slice):
        return _store_after_whole(new, base, shared)
    if base.kind == new.kind and bool(base.head) == bool(new.parts.head):
        found = _appended(base, new) or _spliced(base, new)
        if found is not None:
            return found, None
    return _fresh(new, shared), None


def _store_after_whole(
    new: Encoded, base: Typed | None, shared: bool
) -> tuple[StoredValue, Slice | None]:
    if base is None or base[0] != new.kind or len(base[1]) < SMALL:
        return _fresh(new, shared), None
    kind, data = base
    if not new.parts.head and data == new.parts.elements[0]:
        return base, None
    old = split_like(data, new.parts) if new.parts.head else Parts(b"", [data])
    delta = _worthwhile(old.elements, new) if bool(old.head) == bool(new.parts.head) else None
    if delta is None:
        return _fresh(new, shared), None
    body = data[len(old.head) :]
    spans = array("I", (0, len(body)))
    again = Log(bytearray(body)).slice(kind, old.head, spans)
    return _applied(again, new, delta, _lengths(new)) or _fresh(new, shared), again


def part(kept: StoredValue, new: Encoded, write: Encoded) -> StoredValue | None:
    """A write as a slice of the version that contains it; None if the version does not."""
    delta = place_in(new, write)
    if delta is None:
        return None
    if len(delta) == 1:
        return kept
    if not isinstance(kept, Slice):
        return None
    head, place = delta
    assert isinstance(head, bytes)
    assert isinstance(place, tuple)
    start = place[0] - len(kept.head)
    spans = array("I")
    for span in _cut(kept.spans, list(_ends(kept)), start, place[1]):
        _join(spans, *span)
    return kept.log.slice(write.kind, head, spans)


def around(kept: Typed, piece: Slice) -> Slice | None:
    """A whole value that contains `piece`, as a slice of the piece's log, if that saves bytes."""
    kind, data = kept
    log, spans = piece.log, piece.spans
    size = sum(end - start for start, end in piece.pairs)
    if not size or 2 * size < len(data):
        return None
    if len(spans) == 2:  # mostly: then `find` needs no copy of the piece
        with memoryview(log.data) as all, all[spans[0] : spans[1]] as body:
            at = data.find(body)
    else:
        at = data.find(_joined(b"", log, spans))
    tail = data[at + size :]
    if at < 0 or len(log.data) + len(tail) > _MAX_LOG:
        return None
    _join(spans, len(log.data), len(log.data) + len(tail))
    log.data += tail
    return log.slice(kind, data[:at], spans)


def whole(new: Encoded) -> Typed:
    """A value in one piece, without a log."""
    return (new.kind, new.parts.join())


def read(kept: StoredValue) -> Typed:
    """The value, as its serializer gave it."""
    return kept.read() if isinstance(kept, Slice) else kept


def size_of(kept: Iterable[StoredValue]) -> int:
    """The bytes of some values. Bytes that values share count once."""
    logs: dict[int, Log] = {}
    wholes: dict[int, bytes] = {}
    heads = 0
    for one in kept:
        if isinstance(one, Slice):
            logs[id(one.log)] = one.log
            heads += len(one.head)
        else:
            wholes[id(one[1])] = one[1]
    return heads + sum(len(log.data) for log in logs.values()) + sum(map(len, wholes.values()))


def compacted(kept: Iterable[Slice]) -> Mapping[int, Slice]:
    """New slices for those whose log is mostly unused, by the identity of the old slice."""
    by_log: dict[int, list[Slice]] = {}
    for one in kept:
        by_log.setdefault(id(one.log), []).append(one)
    moved: dict[int, Slice] = {}
    for slices in by_log.values():
        log = slices[0].log
        used = _union(pair for one in slices for pair in one.pairs)
        if 2 * sum(end - start for start, end in used) > len(log.data):
            continue
        starts = [start for start, _ in used]
        offsets = list(accumulate((end - start for start, end in used), initial=0))
        data = bytearray().join(log.data[start:end] for start, end in used)
        new = Log(data)
        for one in slices:
            spans = array("I")
            for start, end in one.pairs:
                at = bisect_right(starts, start) - 1
                shift = offsets[at] - starts[at]
                _join(spans, start + shift, end + shift)
            lengths = log.lengths if one.packed is log.tip else None
            moved[id(one)] = new.slice(one.kind, one.head, spans, lengths)
    return moved


# -- how a version gets its spans


def _fresh(new: Encoded, shared: bool) -> StoredValue:
    parts = new.parts
    if not parts.head or not shared or new.size > _MAX_LOG:
        return whole(new)
    data = bytearray().join(parts.elements)
    spans = array("I", (0, len(data)))
    return Log(data).slice(new.kind, parts.head, spans, _lengths(new))


def _appended(base: Slice, new: Encoded) -> Slice | None:
    """The version as `base` with elements added at its end, which is the usual change."""
    log, spans, elements = base.log, base.spans, new.parts.elements
    if log.tip is not base.packed or not new.parts.head:
        return None
    count = len(log.lengths)
    if len(elements) < count:
        return None
    if len(spans) == 2:
        at, end = spans
        size = end - at
        for first in range(0, count, _ELEMENTS_AT_ONCE):
            # In pieces, since one joined copy would take as much memory as the value.
            piece = b"".join(elements[first : min(first + _ELEMENTS_AT_ONCE, count)])
            if not log.data.startswith(piece, at):
                return None
            at += len(piece)
        if at != end:
            return None
    else:
        before = b"".join(elements[:count])
        size = len(before)
        if before != _joined(b"", log, spans):
            return None
    added = elements[count:]
    delta: Delta = [(0, size), b"".join(added)]
    found = _applied(base, new, delta if added else delta[:1], log.lengths)
    if found is not None:
        log.lengths.extend(map(len, added))
    return found


def _spliced(base: Slice, new: Encoded) -> Slice | None:
    """The version as a delta of `base`, for any other change."""
    log, head = base.log, new.parts.head
    old: Sequence[bytes]
    if head and log.tip is base.packed:
        old = _elements(base, log.lengths)
    elif not head:
        old = [_joined(b"", log, base.spans)]
    else:
        cut = split_like(_joined(base.head, log, base.spans), new.parts)
        if not cut.head:
            return None
        old = cut.elements
    delta = _worthwhile(old, new)
    return None if delta is None else _applied(base, new, delta, _lengths(new))


def _elements(of: Slice, lengths: Sequence[int]) -> list[bytes]:
    """The elements of a version, cut by their lengths."""
    spans = of.spans
    # A version of one span needs no joined copy.
    whole = of.log.data if len(spans) == 2 else _joined(b"", of.log, spans)
    start = spans[0] if len(spans) == 2 else 0
    ends = accumulate(lengths, initial=start)
    with memoryview(whole) as data:
        return [bytes(data[at:end]) for at, end in pairwise(ends)]


def _lengths(new: Encoded) -> list[int]:
    return list(map(len, new.parts.elements))


def _worthwhile(old: Sequence[bytes], new: Encoded) -> Delta | None:
    delta = difference(Parts(b"", old), Parts(b"", new.parts.elements))
    return delta if cost(delta) * 4 <= new.size * 3 else None


def _applied(base: Slice, new: Encoded, delta: Delta, lengths: list[int]) -> Slice | None:
    """The version that `delta` makes of `base`; None if it would have too many spans."""
    log, before = base.log, base.spans
    ends: list[int] | None = None
    at = len(log.data)
    spans = array("I")
    literals = []
    for step in delta:
        if isinstance(step, bytes):
            literals.append(step)
            if at + len(step) > _MAX_LOG:
                return None
            _join(spans, at, at + len(step))
            at += len(step)
        elif len(before) == 2:
            start = before[0] + step[0]
            _join(spans, start, start + step[1])
        else:
            ends = ends or list(_ends(base))
            for span in _cut(before, ends, *step):
                _join(spans, *span)
    if len(spans) > 6 and _SPAN_COST * (len(spans) // 2) ** 2 > new.size:
        return None
    for literal in literals:
        log.data += literal
    return log.slice(new.kind, new.parts.head, spans, lengths)


def _joined(head: bytes, log: Log, spans: array[int]) -> bytes:
    with memoryview(log.data) as data:
        if len(spans) == 2:
            with data[spans[0] : spans[1]] as piece:
                return b"".join((head, piece))
        pieces = [data[start:end] for start, end in zip(spans[::2], spans[1::2], strict=True)]
        try:
            return b"".join((head, *pieces))
        finally:
            for piece in pieces:
                piece.release()


def _ends(of: Slice) -> Iterator[int]:
    """The end of each span as an offset in the value, without its head."""
    return accumulate(end - start for start, end in of.pairs)


def _cut(spans: array[int], ends: list[int], start: int, length: int) -> Iterator[tuple[int, int]]:
    """A piece of a value as spans of its log."""
    at = bisect_right(ends, start)
    while length > 0:
        last = spans[2 * at + 1]
        first = last - (ends[at] - start)
        taken = min(last - first, length)
        yield first, first + taken
        start, length, at = start + taken, length - taken, at + 1


def _join(spans: array[int], start: int, end: int) -> None:
    if start == end:
        return
    if spans and spans[-1] == start:
        spans[-1] = end
    else:
        spans.extend((start, end))


def _union(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of spans, in order and without overlaps."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(set(pairs)):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
