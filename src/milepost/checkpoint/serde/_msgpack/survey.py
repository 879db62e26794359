"""Quick checks of a value's lists and dicts, a level of nesting at a time.

They work in C loops (`map`, `chain`), not element by element, and stop at the depth at which
ormsgpack stops, so a cycle ends too.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.serde._msgpack import depth

if TYPE_CHECKING:
    from collections.abc import Iterator

BUFFERS: Final = frozenset({bytearray, memoryview})
NATIVE_KEYS: Final = frozenset({str, int, float, bool, bytes, type(None)})
"""Exact key types that msgpack gives back as they were."""

_CONTAINERS: Final = frozenset({list, dict})


def only_native(value: Any) -> bool:
    """Whether msgpack holds every dict key in `value` exactly, and there is no buffer in it."""
    for level, types in _levels(value):
        if not BUFFERS.isdisjoint(types):
            return False
        dicts = (member for member in level if type(member) is dict) if dict in types else ()
        if not all(NATIVE_KEYS.issuperset(map(type, keys)) for keys in dicts):
            return False
    return True


def may_hold_bytes(data: bytes) -> bool:
    """Whether the head of a bytes value may occur in msgpack: what ormsgpack makes of a buffer.

    Longer bytes have other heads than short ones, and fit only into longer data. The same bytes
    occur in floats and in text, so a yes says little, and only a no is certain.
    """
    size = len(data)
    return 0xC4 in data or (size > 258 and (0xC5 in data or (size > 65_540 and 0xC6 in data)))


def holds_buffer(value: Any) -> bool:
    """Whether a bytearray or memoryview is inside the lists and dicts of `value`."""
    return any(not BUFFERS.isdisjoint(types) for _, types in _levels(value))


def _levels(value: Any) -> Iterator[tuple[list[Any], set[type]]]:
    """The value, what is in it, what is in that, and so on, each with the types of its members.

    Not by `gc.get_referents`: since Python 3.13 it does not list what is in an object's `__dict__`.
    """
    level = [value]
    for _ in range(depth.MAX_LISTS + 1):
        types = set(map(type, level))
        yield level, types
        if _CONTAINERS.isdisjoint(types):
            break
        lists = [member for member in level if type(member) is list]
        dicts = [member for member in level if type(member) is dict]
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, dicts))]
