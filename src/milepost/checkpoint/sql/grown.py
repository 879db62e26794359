"""Values that only grew: each version is the beginning of the next, with a head of its own.

A list of 1,600 messages has as many versions, and a history shows many of them. Their common
elements are decoded once. Each version that is handed out gets copies, where a copy is made of
plain elements in less time than decoding takes; other elements are decoded anew.
"""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost.checkpoint.cutting import container_head
from milepost.checkpoint.rope import Rope
from milepost.checkpoint.serde import skim
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from milepost.checkpoint.codec import Codec
    from milepost.checkpoint.splice import Buffer, Parts, Steps

_Copy: TypeAlias = "Callable[[list[Any]], list[Any]]"

_LONGEST_HEAD: Final = 5
_PADDING: Final = bytes(_LONGEST_HEAD)
_USUAL_HEAD, _LIST, _DICT = 3, 0xDC, 0xDE
"""Of 16 to 65,535 elements: their number follows in two bytes."""
_SOME: Final = 64
"""Elements that are compared at a time."""
_ATOMS: Final = frozenset({str, int, float, bool, type(None), bytes})


def copier(elements: list[Any]) -> _Copy | None:
    """What makes independent copies of elements; None if these are not plain enough."""
    kinds = set(map(type, elements))
    if kinds <= _ATOMS:
        return list
    if kinds == {dict} and _ATOMS.issuperset(map(type, chain.from_iterable(_insides(elements)))):
        return _copies_of_dicts
    return None


def _insides(elements: list[dict[Any, Any]]) -> Iterable[Iterable[Any]]:
    """The keys and values of dicts, each of which is in at least one of these."""
    names = tuple(elements[0])
    if len(names) > 1 and {len(names)} == set(map(len, elements)):
        try:  # mostly all have the same keys; to look these up is the quickest way
            return [names, *map(itemgetter(*names), elements)]
        except KeyError:
            pass
    return chain(elements, map(dict.values, elements))


def _copies_of_dicts(elements: list[Any]) -> list[Any]:
    return list(map(dict.copy, elements))


class Segment:
    """What one row added: the bytes of some elements."""

    __slots__ = ("_copy", "_cuts", "_elements", "_listed", "count", "data")

    def __init__(self, data: Buffer, count: int, listed: Buffer | None = None) -> None:
        self.data = data
        self.count = count
        self._listed = listed
        """The same as a list, with its head, if it was stored so: that is read without a copy."""
        self._elements: list[Any] | None = None
        """Decoded, and shown to nobody."""
        self._copy: _Copy | None = None
        self._cuts: dict[int, int] = {}
        """Bytes, and the number of elements in so many: where an element is known to end."""

    def decode(self, size: int, count: int, codec: Codec) -> list[Any]:
        """The first elements: `count` of them, in `size` bytes."""
        if size == len(self.data) and self._listed is not None:
            return codec.decode_list(self._listed)
        return codec.decode_elements(count, memoryview(self.data)[:size])

    def holds(self, elements: Sequence[bytes], size: int) -> bool:
        """Whether its first `size` bytes are these elements."""
        stored: Any = self.data if self._listed is None else self._listed
        at = len(stored) - len(self.data)
        end = at + size
        if isinstance(stored, memoryview):
            # To compare views is slow. That of a list begins where its memory does.
            stored = bytes(stored) if self._listed is None else stored.obj
        for first in range(0, len(elements), _SOME):
            # Not all at once, which would take as much memory again.
            data = b"".join(elements[first : first + _SOME])
            if not stored.startswith(data, at):
                return False
            at += len(data)
        return at == end

    def copies(self, size: int, count: int, codec: Codec) -> list[Any]:
        """The same; what was decoded is kept, for the next who asks."""
        elements = self._elements
        if elements is None:
            elements = self.decode(len(self.data), self.count, codec)
            self._copy = copier(elements)
            if self._copy is None and count == self.count:
                return elements
            self._elements = elements if self._copy is not None else []
        if self._copy is None:
            return self.decode(size, count, codec)
        if size != len(self.data) and count != self._cuts.get(size):
            self._check(elements, size, count, codec)
        return self._copy(elements if count == self.count else elements[:count])

    def _check(self, elements: list[Any], size: int, count: int, codec: Codec) -> None:
        """That `count` elements end after `size` bytes: what follows them must begin there."""
        end, last = len(self.data), self.count
        for cut in tuple(self._cuts.items()):  # another thread may add one meanwhile
            if size <= cut[0]:
                end, last = min((end, last), cut)
        rest = memoryview(self.data)[size:end]
        if last < count or codec.decode_elements(last - count, rest) != elements[count:last]:
            raise DeserializationError("a stored list does not have as many elements as it says")
        self._cuts[size] = count


class Grown:
    """One version: its head, and as much of some segments as it had. Looks like a `Rope`."""

    __slots__ = ("_over", "count", "head", "is_list", "segments", "size")

    def __init__(
        self,
        head: bytes,
        count: int,
        size: int,
        segments: tuple[Segment, ...],
        over: int,
        *,
        is_list: bool,
    ) -> None:
        self.head = head
        self.count = count
        """Its elements."""
        self.size = size
        """Bytes after the head. Only the last segment may be longer than that."""
        self.segments = segments
        self._over = over
        """Bytes of the last segment that are not its own."""
        self.is_list = is_list

    def __len__(self) -> int:
        return len(self.head) + self.size

    def apply(self, program: Steps) -> Grown | Rope:
        """The value that `program` makes of this one."""
        if len(program) == 3:
            # A head, all of this, and new elements: what nearly every version of a list is.
            head, kept, new = program
            start = len(self.head)
            if (
                kept == (start, self.size)
                and isinstance(head, bytes)
                and not isinstance(new, tuple)
            ):
                count = self._count_in(head)
                if count is not None and count >= self.count:
                    before = self._closed() if self._over else self.segments
                    segments = (*before, Segment(new, count - self.count))
                    size = self.size + len(new)
                    return Grown(head, count, size, segments, 0, is_list=self.is_list)
        return self._beginning(program) or self.rope().apply(program)

    def read(self) -> bytes:
        """The value in one piece."""
        return b"".join(self.buffers())

    def buffers(self) -> list[Buffer]:
        """The value's pieces, none of them copied."""
        found: list[Buffer] = [self.head]
        left = self.size
        for segment in self.segments:
            data = segment.data
            found.append(data if len(data) <= left else memoryview(data)[:left])
            left -= len(data)
        return found

    def rope(self) -> Rope:
        """The value as one that can be cut anywhere."""
        return Rope([(piece, 0, len(piece)) for piece in self.buffers()])

    def elements(self, codec: Codec, *, again: bool) -> list[Any]:
        """Its elements, which nobody else has; SerdeError if they cannot be told apart.

        If other versions will be read, the segments keep what they need for that.
        """
        found: list[Any] = []
        size = self.size
        for segment in self.segments:
            whole = len(segment.data)
            count = segment.count if whole <= size else self.count - len(found)
            read = segment.copies if again else segment.decode
            found += read(min(whole, size), count, codec)
            size -= whole
        if len(found) != self.count:
            raise DeserializationError("a stored list does not have as many elements as it says")
        return found

    def begins(self, later: Parts) -> bool:
        """Whether a later version has all its elements, and perhaps more after them."""
        elements, size, at = later.elements, self.size, 0
        if self._count_in(later.head) is None or self.count > len(elements):
            return False
        for segment in self.segments:
            part = min(size, len(segment.data))
            end = self.count if part < len(segment.data) else at + segment.count
            if not segment.holds(elements[at:end], part):
                return False
            size, at = size - part, end
        return at == self.count

    def grows_from(self, base: Grown, program: Steps) -> bool:
        """Whether `program` has made it out of all of `base`, with something added."""
        kept = program[0] if len(program) == 1 else program[1]
        head, size = len(base.head), base.size
        return kept in ((head, size), (0, head + size))

    def _beginning(self, program: Steps) -> Grown | None:
        """What `program` makes, if that is a beginning of this version."""
        if len(program) == 1:
            return self if program[0] == (0, len(self)) else None
        if len(program) != 2:
            return None
        head, kept = program
        if not isinstance(head, bytes) or not isinstance(kept, tuple):
            return None
        start, size = kept
        count = self._count_in(head)
        if count is None or start != len(self.head) or not 0 <= size <= self.size:
            return None
        if count > self.count:
            return None
        return Grown(head, count, size, *self._up_to(size), is_list=self.is_list)

    def _count_in(self, head: bytes) -> int | None:
        """How many elements a head speaks of; None if it is not one of such a value."""
        if len(head) == _USUAL_HEAD and head[0] == (_LIST if self.is_list else _DICT):
            return head[1] << 8 | head[2]
        kind, count, body = skim.head(head + _PADDING, 0)
        expected = skim.ARRAY if self.is_list else skim.MAP
        return count if kind == expected and body == len(head) else None

    def _up_to(self, size: int) -> tuple[tuple[Segment, ...], int]:
        """The segments that begin within so many bytes, and what is too much of the last."""
        found = 0
        for segment in self.segments:
            if size <= 0:
                break
            size -= len(segment.data)
            found += 1
        return self.segments[:found], -size

    def _closed(self) -> tuple[Segment, ...]:
        """The segments, the last one cut where this version ends."""
        *before, last = self.segments
        count = self.count - sum(segment.count for segment in before)
        return (*before, Segment(memoryview(last.data)[: -self._over], count))


def whole(data: Buffer) -> Grown | Rope:
    """A version that is stored in full: bytes, or a view from where they begin."""
    head = container_head(bytes(data[:_LONGEST_HEAD]))
    if head is None:
        return Rope.of(data)
    kind, count, body = skim.head(head, 0)
    rest = memoryview(data)[body:]
    return Grown(
        head, count, len(rest), (Segment(rest, count, data),), 0, is_list=kind == skim.ARRAY
    )
