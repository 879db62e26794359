"""What a writer puts into an extension, checked before anything is made of it.

Stored bytes may hold any value where a writer would have put a certain one, and some are far
larger than their bytes: a range of a billion numbers takes twelve of them, and a copy of its
members takes gigabytes. So each reader says which types belong where, and gets nothing else. They
are exact: a subclass may run code of its own when it is used.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde.registry import Reader

Kinds: TypeAlias = frozenset[type] | None
"""The types that a member may have; None for all that can be stored."""

ANY: Final = None
BYTES: Final = frozenset({bytes})
FIELDS: Final = frozenset({dict})
LIST: Final = frozenset({list})
NUMBER: Final = frozenset({int})
TEXT: Final = frozenset({str})

_MOST_BITS: Final = 1 << 19
_MOST_ALIKE: Final = 1_000


def check(payload: Any, *kinds: Kinds, least: int | None = None) -> list[Any]:
    """`payload`, which must be a list of one member for each of `kinds`, or of the first ones."""
    if type(payload) is not list:
        raise TypeError(f"a {type(payload).__qualname__} where a list was written")
    if not (len(kinds) if least is None else least) <= len(payload) <= len(kinds):
        raise ValueError(f"{len(payload)} members where {len(kinds)} were written")
    for member, allowed in zip(payload, kinds, strict=False):
        if allowed is not None and type(member) not in allowed:
            expected = " or ".join(sorted(kind.__qualname__ for kind in allowed))
            raise TypeError(f"a {type(member).__qualname__} where {expected} was written")
    return payload


def check_all(members: Sequence[Any], allowed: frozenset[type]) -> None:
    """Check that all members have one of these types."""
    if not allowed.issuperset(map(type, members)):
        raise TypeError("a member has a type that was not written there")


def fixed(make: Callable[..., Any], *kinds: Kinds, least: int | None = None) -> Reader:
    """A reader of so many members, which are given to `make`."""

    def read(data: bytes, level: Level) -> Any:
        return make(*check(level.unpack(data), *kinds, least=least))

    return read


def listed(make: Callable[[list[Any]], Any]) -> Reader:
    """A reader of any number of members, which are given to `make` in a list."""

    def read(data: bytes, level: Level) -> Any:
        members = level.unpack(data)
        if type(members) is not list:
            raise TypeError(f"a {type(members).__qualname__} where a list was written")
        return make(members)

    return read


def is_quick(*numbers: int) -> bool:
    """Whether dividing these numbers by each other takes little time: it grows with the product of
    their sizes. What divides them refuses others, in writing and in reading."""
    return all(number.bit_length() <= _MOST_BITS for number in numbers)


def is_spread(keys: Collection[Any]) -> bool:
    """Whether putting these into a set or dict takes little time: not if many have the same hash,
    which an attacker cannot choose for texts, but can for numbers."""
    return len(keys) <= _MOST_ALIKE or max(Counter(map(hash, keys)).values()) <= _MOST_ALIKE
