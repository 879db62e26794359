"""Versions of a value as pieces of one growing log.

A *log* holds the bytes of all versions of a channel, each byte once, in chunks: mostly the elements
of lists and dicts, as they were added. A version is a *slice*: a head of its own, followed by spans
of the log, which begin and end where chunks do. A version that appends is one longer span. A window
that moves is one shifted span. An edit in the middle is three spans: before the edit, the new bytes
at the end of the log, and behind the edit. No version is a delta from another, so there are no
chains: each version is read directly, and each can be dropped.

An edited version costs its spans besides its new bytes. When the spans would cost more than the
value, the value gets a new log.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from milepost.checkpoint._delta.diff import Delta, Parts, cost, difference
from milepost.checkpoint._delta.encode import Encoded, Typed
from milepost.checkpoint._delta.split import place_in, split_like
from milepost.checkpoint.serde._msgpack import skim

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SMALL: Final = 256
"""Bytes below which a value is stored whole."""
_MAX_LOG: Final = 2**32 - 1
"""Bytes. The ends of a span are numbers of four bytes."""
_SPAN_COST: Final = 4
"""Times the number of spans squared: about the bytes that a series of edits has spent on spans."""
_CHUNK_COST: Final = 48
"""About the bytes that a chunk takes besides its data."""


Spans: TypeAlias = "array[int]"
"""Start and end of each span, one after the other."""


class Log:
    """The bytes of all versions, in the order in which they came."""

    __slots__ = ("chunks", "ends")

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.chunks: list[bytes] = []
        self.ends = array("I")
        """Where each chunk ends."""
        self.add(chunks)

    @property
    def size(self) -> int:
        return self.ends[-1] if self.ends else 0

    def add(self, chunks: Sequence[bytes]) -> None:
        ends = accumulate(map(len, chunks), initial=self.size)
        self.chunks += chunks
        self.ends.extend(islice(ends, 1, None))

    def split(self, at: int) -> None:
        """Let a chunk end at a place where a span begins or ends."""
        n = bisect_left(self.ends, at)
        if at and self.ends[n] != at:
            chunk = self.chunks[n]
            rest = at - self.ends[n]
            self.chunks[n : n + 1] = chunk[:rest], chunk[rest:]
            self.ends.insert(n, at)

    def read(self, spans: Spans) -> Sequence[bytes]:
        """The bytes of spans, as chunks, which may be those of the log itself."""
        chunks, ends = self.chunks, self.ends
        if len(spans) == 2 and spans[0] == 0 and spans[1] == ends[-1]:
            return chunks
        found: list[bytes] = []
        for start, end in _pairs(spans):
            found += chunks[bisect_right(ends, start) : bisect_left(ends, end) + 1]
        return found


class Slice:
    """A version of a value, or a part of one."""

    __slots__ = ("head", "kind", "log", "packed")

    def __init__(self, kind: str, head: bytes, log: Log, spans: Spans) -> None:
        self.kind = kind
        self.head = head
        self.log = log
        self.packed = spans.tobytes()
        """The spans as bytes, which take less memory than an array: there are many slices."""

    @property
    def spans(self) -> Spans:
        return array("I", self.packed)

    @property
    def parts(self) -> Parts:
        """The value in chunks: mostly its elements. An edited element may be in several chunks, and
        one chunk may have several small elements."""
        return Parts(self.head, self.log.read(self.spans))

    @property
    def encoded(self) -> Encoded:
        """The value, as a later version is compared with it."""
        size = len(self.head) + sum(end - start for start, end in _pairs(self.spans))
        return Encoded(self.kind, self.parts, size)


StoredValue: TypeAlias = Typed | Slice
"""A value in memory."""


def keep(
    new: Encoded, base: StoredValue | None, *, shared: bool
) -> tuple[StoredValue, Slice | None]:
    """The stored form of the version that follows `base`.

    If `base` was stored whole and shares bytes with the new version, a slice to replace `base` is
    returned too. `shared`: a write is to be stored as a part of the new version.
    """
    before = base
    if before is not None and not isinstance(before, Slice):
        if before == whole(new):
            return before, None
        before = _sliced(new, before)
    if before is not None and before.kind == new.kind:
        found = _following(before, new)
        if found is not None:
            return found, before if before is not base else None
    return _fresh(new) if shared and new.parts.head else whole(new), None


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
    spans = array("I")
    _take(spans, kept, _ends(kept.spans), place[0] - len(kept.head), place[1])
    return Slice(write.kind, head, kept.log, spans)


def around(kept: Typed, piece: Slice) -> Slice | None:
    """A whole value that contains `piece`, as a slice of the piece's log, if that saves bytes."""
    kind, data = kept
    log, spans = piece.log, piece.spans
    body = b"".join(piece.parts.elements)
    at = data.find(body)
    tail = data[at + len(body) :]
    if 2 * len(body) < len(data) or at < 0 or log.size + len(tail) > _MAX_LOG:
        return None
    if tail:
        _join(spans, log.size, log.size + len(tail))
        log.add([tail])
    return Slice(kind, data[:at], log, spans)


def whole(new: Encoded) -> Typed:
    """A value in one piece, without a log."""
    return (new.kind, new.parts.join())


def read(kept: StoredValue) -> Typed:
    """The value, as its serializer gave it."""
    return (kept.kind, kept.parts.join()) if isinstance(kept, Slice) else kept


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
    return heads + sum(log.size for log in logs.values()) + sum(map(len, wholes.values()))


def compacted(kept: Iterable[Slice]) -> Mapping[int, Slice]:
    """New slices for those whose log is mostly unused, by the identity of the old slice."""
    by_log: dict[int, list[Slice]] = {}
    for one in kept:
        by_log.setdefault(id(one.log), []).append(one)
    moved: dict[int, Slice] = {}
    for slices in by_log.values():
        log = slices[0].log
        used = _union(pair for one in slices for pair in _pairs(one.spans))
        if 2 * sum(end - start for start, end in used) > log.size:
            continue
        starts = [start for start, _ in used]
        offsets = list(accumulate((end - start for start, end in used), initial=0))
        new = Log(log.read(array("I", chain(*used))))
        for one in slices:
            spans = array("I")
            for start, end in _pairs(one.spans):
                at = bisect_right(starts, start) - 1
                shift = offsets[at] - starts[at]
                _join(spans, start + shift, end + shift)
            moved[id(one)] = Slice(one.kind, one.head, new, spans)
    return moved


# -- how a version gets its spans


def _fresh(new: Encoded) -> StoredValue:
    """A version in a log of its own."""
    if new.size > _MAX_LOG:
        return whole(new)
    head, elements = new.parts
    return Slice(new.kind, head, Log(_chunks(elements)), array("I", (0, new.size - len(head))))


def _sliced(new: Encoded, base: Typed) -> Slice | None:
    """A large value that was stored whole, as a slice to be compared with the next version."""
    kind, data = base
    if len(data) < SMALL:
        return None
    parts = split_like(data, new.parts) if new.parts.head else Parts(b"", [data])
    found = _fresh(Encoded(kind, parts, len(data)))
    return found if isinstance(found, Slice) else None


def _following(base: Slice, new: Encoded) -> Slice | None:
    """The version as a change of `base`; None if that would not save enough."""
    head, elements = new.parts
    if bool(head) != bool(base.head):
        return None
    parts = base.parts
    count = skim.head(base.head, 0)[1] if head else 1
    old = parts.elements if head else [parts.join()]
    in_elements = len(old) == count
    before = elements[:count]
    if old == before or (not in_elements and b"".join(old) == b"".join(before)):
        return _appended(base, new, elements[count:])
    if not in_elements:
        parts = split_like(parts.join(), new.parts)
        if parts.head != base.head:
            return None  # a slice of `around`, whose head is more than that of a container
        old = parts.elements
    delta = difference(Parts(b"", old), Parts(b"", elements))
    return _applied(base, new, delta) if cost(delta) * 4 <= new.size * 3 else None


def _appended(base: Slice, new: Encoded, added: Sequence[bytes]) -> Slice | None:
    """The version as `base` with elements added at its end, which is the usual change."""
    log, spans = base.log, base.spans
    if added:
        at = log.size
        end = at + sum(map(len, added))
        if end > _MAX_LOG:
            return None
        _join(spans, at, end)
        if _are_too_many(spans, new):
            return None
        log.add(_chunks(added))
    return Slice(new.kind, new.parts.head, log, spans)


def _applied(base: Slice, new: Encoded, delta: Delta) -> Slice | None:
    """The version that `delta` makes of `base`; None if it would have too many spans."""
    log, base_ends = base.log, _ends(base.spans)
    ends = list(accumulate(map(len, new.parts.elements)))
    done, at = 0, log.size
    spans = array("I")
    chunks: list[bytes] = []
    for step in delta:
        if isinstance(step, bytes):
            if at + len(step) > _MAX_LOG:
                return None
            _join(spans, at, at + len(step))
            at += len(step)
            chunks += _chunks(_cut_at(ends, step, done))
            done += len(step)
        else:
            _take(spans, base, base_ends, *step)
            done += step[1]
    if _are_too_many(spans, new):
        return None
    if chunks:
        log.add(chunks)
    return Slice(new.kind, new.parts.head, log, spans)


def _are_too_many(spans: Spans, new: Encoded) -> bool:
    """Whether spans would cost more than the value."""
    return len(spans) > 6 and _SPAN_COST * (len(spans) // 2) ** 2 > new.size


def _chunks(elements: Sequence[bytes]) -> Sequence[bytes]:
    """Elements as chunks of a log; in one piece, if they are smaller than their objects."""
    size = sum(map(len, elements))
    return elements if size >= _CHUNK_COST * len(elements) else [b"".join(elements)]


def _cut_at(ends: list[int], data: bytes, start: int) -> list[bytes]:
    """The bytes of a value from `start` on, cut where its elements end."""
    inside = ends[bisect_right(ends, start) : bisect_left(ends, start + len(data))]
    places = [0, *(end - start for end in inside), len(data)]
    return [data[at:end] for at, end in pairwise(places)]


def _pairs(spans: Spans) -> Iterator[tuple[int, int]]:
    return zip(spans[::2], spans[1::2], strict=True)


def _ends(spans: Spans) -> list[int]:
    """The end of each span as an offset in the value, without its head."""
    return list(accumulate(end - start for start, end in _pairs(spans)))


def _take(spans: Spans, base: Slice, ends: list[int], start: int, length: int) -> None:
    """Add the spans of a piece of `base`, whose spans have these `ends`."""
    before = base.spans
    at = bisect_right(ends, start)
    first = before[2 * at + 1] - (ends[at] - start)
    base.log.split(first)
    while start + length > ends[at]:
        _join(spans, first, before[2 * at + 1])
        length -= ends[at] - start
        start, at = ends[at], at + 1
        first = before[2 * at]
    base.log.split(first + length)
    _join(spans, first, first + length)


def _join(spans: Spans, start: int, end: int) -> None:
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
