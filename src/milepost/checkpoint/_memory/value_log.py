"""Versions of a value as slices of growing logs.

A *log* holds the bytes of versions that only grow, each byte once, mostly as the elements of lists
and dicts. A version is a *slice*: a head of its own, followed by a piece of the log. A version that
appends is a longer slice of the same log. Any other change begins a new log, and the log before it
is kept as its difference from the new one. So the newest version is read directly, and an older one
through the differences since. After many differences, or if they would cost more than the value, a
log stays whole.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost.checkpoint._delta.diff import Buffer, Delta, Parts, cost, difference
from milepost.checkpoint._delta.encode import Encoded, Typed
from milepost.checkpoint._delta.split import place_in, split_like

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SMALL: Final = 256
"""Bytes below which a value is stored whole."""
_MOST_CHANGES: Final = 64
"""So many differences may follow each other before a log stays whole."""
_ELEMENT_COST: Final = 48
"""About the bytes that an element takes besides its data."""


class Log:
    """The bytes of versions that only grow, or their difference from those of a newer log."""

    __slots__ = ("delta", "elements", "newer", "size", "spent")

    def __init__(self, elements: Sequence[bytes], size: int) -> None:
        self.elements = elements
        """In one piece, if they are smaller than their objects. Empty if there is a newer log."""
        self.size = size
        self.newer: Log | None = None
        self.delta: Delta = []
        """What makes these bytes out of those of the newer log, which still may grow."""
        self.spent = 0.0
        """What the differences from this log cost, of what a whole log would."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Log:
        twin = memo[id(self)] = Log(self.elements, self.size)
        twin.newer, twin.delta = deepcopy(self.newer, memo), self.delta
        twin.spent = self.spent
        return twin

    def read(self) -> bytes:
        """The bytes in one piece."""
        line = [self]
        while (newer := line[-1].newer) is not None:
            line.append(newer)
        data = b"".join(line.pop().elements)
        for log in reversed(line):
            whole = memoryview(data)
            data = b"".join(
                step if isinstance(step, bytes) else whole[step[0] : step[0] + step[1]]
                for step in log.delta
            )
        return data

    def follow(self, newer: Log, delta: Delta) -> None:
        """Keep only the difference from a newer log."""
        self.newer, self.delta, self.elements = newer, delta, ()

    def keep(self, size: int) -> None:
        """Keep the first bytes, as a log that needs no other one."""
        self.elements, self.size = [self.read()[:size]], size
        self.newer, self.delta = None, []


class Slice:
    """A version of a value, or a part of one."""

    __slots__ = ("end", "head", "kind", "log", "start")

    def __init__(self, kind: str, head: bytes, log: Log, start: int, end: int) -> None:
        self.kind = kind
        self.head = head
        self.log = log
        self.start = start
        self.end = end

    @property
    def body(self) -> Buffer:
        """The bytes without the head."""
        return memoryview(self.log.read())[self.start : self.end]

    @property
    def encoded(self) -> Encoded:
        """The value, with elements that a later version may share; it may have fewer of them."""
        return Encoded(self.kind, Parts(self.head, self.log.elements), len(self.head) + self.end)


StoredValue: TypeAlias = Typed | Slice
"""A value in memory."""


def keep(new: Encoded, base: StoredValue | None) -> Slice:
    """The stored form of the version that follows `base`."""
    kind, (head, elements), size = new
    size -= len(head)
    kept = elements if size >= _ELEMENT_COST * len(elements) else [b"".join(elements)]
    log = Log(kept, size)
    if isinstance(base, Slice) and base.log.newer is None and base.end == base.log.size:
        before = base.log
        if _begins_with(elements, before.elements):  # the usual change
            if (base.kind, base.head, base.end) == (kind, head, size):
                return base
            log = before
            log.elements, log.size = kept, size
        elif bool(base.head) == bool(head):
            old = before.elements
            if head and len(old) == 1:  # perhaps several elements in one piece
                old = split_like(base.head + old[0], new.parts).elements
            _supersede(before, log, old, elements)
    return Slice(kind, head, log, 0, size)


def part(kept: Slice, new: Encoded, write: Encoded) -> Slice | None:
    """A write as a slice of the version that contains it; None if the version does not."""
    delta = place_in(new, write)
    if delta is None:
        return None
    if len(delta) == 1:
        return kept
    head, place = delta
    assert isinstance(head, bytes)
    assert isinstance(place, tuple)
    start = place[0] - len(kept.head)
    return Slice(write.kind, head, kept.log, start, start + place[1])


def share(kept: Slice, piece: Slice) -> bool:
    """Let a value that contains `piece` share its bytes; whether that saves bytes."""
    if kept.log is piece.log or kept.log.newer or piece.log.newer:
        return False
    data, body = kept.log.read(), bytes(piece.body)
    at = data.find(body)
    if at < 0 or 2 * len(body) < len(data):
        return False
    kept.log.follow(piece.log, [data[:at], (piece.start, len(body)), data[at + len(body) :]])
    return True


def whole(new: Encoded) -> Typed:
    """A value in one piece, without a log."""
    return (new.kind, new.parts.join())


def read(kept: StoredValue) -> Typed:
    """The value, as its serializer gave it."""
    if not isinstance(kept, Slice):
        return kept
    log = kept.log
    newest = log.newer is None and kept.start == 0 and kept.end == log.size
    return kept.kind, b"".join((kept.head, *(log.elements if newest else (kept.body,))))


def size_of(kept: Iterable[StoredValue]) -> int:
    """The bytes of some values. Bytes that values share count once."""
    sizes: dict[int, int] = {}
    heads = 0
    for one in kept:
        if not isinstance(one, Slice):
            sizes[id(one[1])] = len(one[1])
            continue
        heads += len(one.head)
        log: Log | None = one.log
        while log is not None and id(log) not in sizes:
            sizes[id(log)] = 0
            own = (step for step in (*log.elements, *log.delta) if isinstance(step, bytes))
            sizes.update((id(data), len(data)) for data in own)
            log = log.newer
    return heads + sum(sizes.values())


def release(kept: Iterable[Slice]) -> None:
    """Free what only removed versions have used. No other slices may use the logs of `kept`."""
    used: dict[Log, int] = {}
    for one in kept:
        used[one.log] = max(one.end, used.get(one.log, 0))
    for log in used:
        if log.newer in used:
            ends = (sum(step) for step in log.delta if isinstance(step, tuple))
            used[log.newer] = max(used[log.newer], *ends, 0)
    for log, size in used.items():
        if log.newer not in used and (log.newer is not None or size < log.size):
            log.keep(size)


def _begins_with(elements: Sequence[bytes], before: Sequence[bytes]) -> bool:
    if len(before) == 1:  # perhaps several elements in one piece
        return b"".join(elements).startswith(before[0])
    return elements[: len(before)] == before


def _supersede(log: Log, newer: Log, old: Sequence[bytes], new: Sequence[bytes]) -> None:
    """Keep a log as its difference from a newer one, unless that takes too much."""
    delta = difference(Parts(b"", new), Parts(b"", old))
    spent = log.spent + max(cost(delta) / newer.size, 1 / _MOST_CHANGES)
    if spent <= 1:
        log.follow(newer, delta)
        newer.spent = spent
