"""Versions of a list or dict that only grows: the elements of each are a prefix of the next.

A list of 1,600 messages has as many versions, and a history shows many of them. The elements that
versions share are decoded once. Each caller gets copies of plain elements, since copying is faster
than decoding. Other elements are decoded again for each caller.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost.checkpoint._delta.rope import Rope, spliced
from milepost.checkpoint._delta.split import container_head
from milepost.checkpoint.serde._msgpack import skim
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from milepost.checkpoint._delta.diff import Buffer, DeltaOps
    from milepost.checkpoint._delta.encode import Codec
    from milepost.checkpoint._delta.rope import Piece

_Copy: TypeAlias = "Callable[[list[Any], int], list[Any]]"

_LONGEST_HEAD: Final = 5
_PADDING: Final = bytes(_LONGEST_HEAD)
_USUAL_HEAD, _LIST, _DICT = 3, 0xDC, 0xDE
"""Length and first byte of the msgpack head of 16 to 65,535 elements."""
_SHORT_LIST: Final = 0x90
"""The msgpack head of a list of up to 15 elements, minus their number."""
_OBJECTS: Final = frozenset(bytes([head]) for head in (0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)))
"""The first bytes of elements that are msgpack extensions, not plain values."""
_ATOMS: Final = frozenset({str, int, float, bool, type(None), bytes})


def copier(elements: list[Any]) -> _Copy | None:
    """A function that copies the first elements; None if the elements are not plain enough."""
    kinds = set(map(type, elements))
    if kinds <= _ATOMS:
        return _first
    if kinds == {dict}:
        members = chain.from_iterable(chain(elements, map(dict.values, elements)))
        if _ATOMS.issuperset(map(type, members)):
            return _copies_of_dicts
    return None


def _first(elements: list[Any], count: int) -> list[Any]:
    return elements[:count]


def _copies_of_dicts(elements: list[Any], count: int) -> list[Any]:
    return list(map(dict.copy, elements[:count]))


class SharedList:
    """The bytes of elements, in the pieces that the rows of a chain have added.

    Several versions share it. Elements are added only before it is shared with a caller.
    """

    __slots__ = (
        "_copy",
        "_cuts",
        "_elements",
        "_origin",
        "_rope",
        "count",
        "ends",
        "is_list",
        "pieces",
    )

    def __init__(
        self,
        pieces: list[Buffer],
        ends: list[int],
        count: int,
        *,
        is_list: bool,
        origin: ListVersion | None = None,
    ) -> None:
        self.pieces = pieces
        self.ends = ends
        """The offset of the end of each piece, in bytes."""
        self.count = count
        self.is_list = is_list
        self._origin = origin
        """The version that this list branched from. Common elements are decoded once."""
        self._elements: list[Any] | None = None
        """The decoded elements, which callers get copies of; empty if they cannot be copied."""
        self._copy: _Copy | None = None
        self._cuts: dict[int, int] = {}
        """Offset in bytes → number of elements up to it: places where an element ends for sure."""
        self._rope: Rope | None = None

    def add(
        self, heads: Sequence[bytes], counts: Sequence[int], pieces: Sequence[Buffer]
    ) -> list[ListVersion]:
        """Add pieces; return the versions, each with one piece more and with its head and count."""
        ends = list(accumulate(map(len, pieces), initial=self.ends[-1]))[1:]
        self.pieces += pieces
        self.ends += ends
        self.count = counts[-1]
        return list(map(ListVersion, repeat(self), heads, counts, ends))

    def up_to(self, size: int) -> list[Buffer]:
        """The pieces of the first `size` bytes."""
        last = bisect_left(self.ends, size)
        found = self.pieces[: last + 1]
        over = self.ends[last] - size
        if over:
            found[-1] = memoryview(found[-1])[:-over]
        return found

    @property
    def rope(self) -> Rope:
        """All pieces as a rope, which can be cut anywhere."""
        if self._rope is None:
            self._rope = Rope.joining(self.pieces)
        return self._rope

    def copies(self, version: ListVersion, codec: Codec) -> list[Any]:
        """The elements of one version. Decoded elements are kept for the next call."""
        if self._elements is None:
            if self.pieces and self.pieces[0][:1] in _OBJECTS:
                self._elements = []  # they cannot be copied
            else:
                fresh = self._learn(codec)
                if fresh is not None and version.is_all:
                    return fresh
        elements = self._first(version, codec)
        if elements is None or self._copy is None:
            return codec.decode_elements(version.count, self.up_to(version.size))
        return self._copy(elements, version.count)

    def _learn(self, codec: Codec) -> list[Any] | None:
        """Decode the elements. Return them if they cannot be copied, for this first caller."""
        line = [self]
        while (origin := line[-1]._origin) is not None and not origin.is_all:
            if origin.shared._elements is not None:
                break  # it is decoded
            line.append(origin.shared)
        fresh = None
        for shared in reversed(line):
            origin = shared._origin
            first = None if origin is None else origin.shared._first(origin, codec)
            size, count = (0, 0) if origin is None else (origin.size, origin.count)
            decoded = [] if first is None else first[:count]
            if first is None and count:
                decoded = codec.decode_elements(count, shared.up_to(size))
            rest = Rope(shared.rope.cut(size, shared.ends[-1] - size)).buffers()
            elements = decoded + codec.decode_elements(shared.count - count, rest)
            copy = shared._copy = copier(elements)
            shared._cuts[size] = count
            shared._elements = [] if copy is None else elements
            if copy is not None and origin is not None and origin.shared._elements is None:
                origin.shared._copy, origin.shared._elements = copy, decoded
            fresh = elements if copy is None and first is None else None
        return fresh

    def _first(self, version: ListVersion, codec: Codec) -> list[Any] | None:
        """The shared elements, which begin with the version's; None if they cannot be copied."""
        elements, size, count = self._elements, version.size, version.count
        if elements is None or self._copy is None:
            return None
        if not version.is_all and count != self._cuts.get(size):
            self._check(elements, size, count, codec)
        return elements

    def _check(self, elements: list[Any], size: int, count: int, codec: Codec) -> None:
        """Raise unless `count` elements end after `size` bytes: the next ones must begin there."""
        end, last = self.ends[-1], self.count
        for cut in tuple(self._cuts.items()):  # a copy, since another thread may add a cut
            if size <= cut[0]:
                end, last = min((end, last), cut)
        rest = Rope(self.rope.cut(size, end - size)).buffers()
        if last < count or codec.decode_elements(last - count, rest) != elements[count:last]:
            raise DeserializationError("a stored list does not have as many elements as it says")
        self._cuts[size] = count


class ListVersion:
    """One version: its head, and a prefix of a SharedList. Has the methods of a `Rope`."""

    __slots__ = ("count", "head", "shared", "size")

    def __init__(self, shared: SharedList, head: bytes, count: int, size: int) -> None:
        self.shared = shared
        self.head = head
        self.count = count
        """The number of elements."""
        self.size = size
        """Bytes after the head."""

    def __len__(self) -> int:
        return len(self.head) + self.size

    @property
    def is_all(self) -> bool:
        """Whether this version has all elements of the SharedList."""
        shared = self.shared
        return self.size == shared.ends[-1] and self.count == shared.count

    @property
    def is_list(self) -> bool:
        """Whether the value is a list, not a dict."""
        return self.shared.is_list

    def apply(self, delta: DeltaOps) -> ListVersion | Rope:
        """The value that `delta` makes of this one."""
        [made] = follow(self, [delta])
        return made

    def additions(self, deltas: Sequence[DeltaOps], first: int) -> list[tuple[bytes, int, Buffer]]:
        """Head, number of elements and new bytes of each delta from index `first` on. Ends at the
        first delta that does more than add elements to the version before."""
        found: list[tuple[bytes, int, Buffer]] = []
        start, size, most = len(self.head), self.size, self.count
        for at in range(first, len(deltas)):
            delta = deltas[at]
            if len(delta) != 3:
                break
            head, kept, new = delta
            if kept != (start, size) or not isinstance(head, bytes) or isinstance(new, tuple):
                break
            count = self._count_in(head)
            if count is None or count < most:
                break
            found.append((head, count, new))
            start, size, most = len(head), size + len(new), count
        return found

    def branch(self) -> SharedList:
        """A new SharedList with the elements of this version, for additions."""
        shared, size = self.shared, self.size
        ends = [*shared.ends[: bisect_left(shared.ends, size)], size]
        pieces, is_list = shared.up_to(size), shared.is_list
        return SharedList(pieces, ends, self.count, is_list=is_list, origin=self)

    def changed(self, delta: DeltaOps) -> ListVersion | Rope:
        """The value that `delta` makes of this version, for a delta that does not only add."""
        beginning = self._beginning(delta)
        return spliced(delta, self._cut, len(self)) if beginning is None else beginning

    def read(self) -> bytes:
        """The value in one piece."""
        return b"".join(self.buffers())

    def buffers(self) -> list[Buffer]:
        """The value's pieces, none of them copied."""
        return [self.head, *self.shared.up_to(self.size)]

    def elements(self, codec: Codec) -> list[Any]:
        """The elements, for this caller alone; SerdeError if the bytes do not match the count."""
        return self.shared.copies(self, codec)

    def grows_from(self, base: ListVersion, delta: DeltaOps) -> bool:
        """Whether `delta`, which made this version, keeps all of `base` and only adds."""
        kept = delta[0] if len(delta) == 1 else delta[1]
        head, size = len(base.head), base.size
        return kept in ((head, size), (0, head + size))

    def _count_in(self, head: bytes) -> int | None:
        """The number of elements in a head; None if it is not the head of such a container."""
        if len(head) == _USUAL_HEAD and head[0] == (_LIST if self.shared.is_list else _DICT):
            return head[1] << 8 | head[2]
        if len(head) == 1 and _SHORT_LIST <= head[0] < _SHORT_LIST + 16 and self.shared.is_list:
            return head[0] - _SHORT_LIST
        kind, count, body = skim.head(head + _PADDING, 0)
        expected = skim.ARRAY if self.shared.is_list else skim.MAP
        return count if kind == expected and body == len(head) else None

    def _beginning(self, delta: DeltaOps) -> ListVersion | None:
        """The value that `delta` makes, if its elements are a prefix of this version's."""
        if len(delta) == 1:
            return self if delta[0] == (0, len(self)) else None
        if len(delta) != 2:
            return None
        head, kept = delta
        if not isinstance(head, bytes) or not isinstance(kept, tuple):
            return None
        start, size = kept
        count = self._count_in(head)
        if count is None or start != len(self.head) or not 0 <= size <= self.size:
            return None
        return None if count > self.count else ListVersion(self.shared, head, count, size)

    def _cut(self, start: int, length: int) -> Sequence[Piece]:
        at = start - len(self.head)
        if at >= 0 and start + length <= len(self):
            return self.shared.rope.cut(at, length)
        return Rope.joining(self.buffers()).cut(start, length)


def follow(base: ListVersion | Rope, deltas: Sequence[DeltaOps]) -> list[ListVersion | Rope]:
    """The versions that deltas make, each from the version before."""
    found: list[ListVersion | Rope] = []
    version = base
    while len(found) < len(deltas):
        at = len(found)
        if not isinstance(version, ListVersion):
            found.append(version.apply(deltas[at]))
        elif added := version.additions(deltas, at):
            heads, counts, pieces = zip(*added, strict=True)
            found += version.branch().add(heads, counts, pieces)
        else:
            found.append(version.changed(deltas[at]))
        version = found[-1]
    return found


def whole(data: Buffer) -> ListVersion | Rope:
    """A version from the bytes of a full row."""
    head = container_head(bytes(data[:_LONGEST_HEAD]))
    if head is None:
        return Rope.of(data)
    kind, count, body = skim.head(head, 0)
    rest = memoryview(data)[body:]
    shared = SharedList([rest], [len(rest)], count, is_list=kind == skim.ARRAY)
    return ListVersion(shared, head, count, len(rest))
