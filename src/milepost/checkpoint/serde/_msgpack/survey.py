"""Quick checks of a value's lists and dicts, a level of nesting at a time.

They work in C loops (`map`, and the collector's own listing of what a container refers to), not
element by element, and stop at the depth at which ormsgpack stops, so a cycle ends too.
"""

from __future__ import annotations

from gc import get_referents
from typing import Any, Final

from milepost.checkpoint.serde._msgpack import depth

BUFFERS: Final = frozenset({bytearray, memoryview})
NATIVE_KEYS: Final = frozenset({str, int, float, bool, bytes, type(None)})
"""Exact key types that msgpack gives back as they were."""

_CONTAINERS: Final = frozenset({list, dict})
_PLAIN: Final = NATIVE_KEYS | _CONTAINERS


def only_native(value: Any) -> bool:
    """Whether msgpack holds every dict key in `value` exactly, and there is no buffer in it."""
    level = [value]
    types: set[type] = {type(value)}
    for _ in range(depth.MAX_LISTS + 1):
        if not BUFFERS.isdisjoint(types):
            return False
        if _CONTAINERS.isdisjoint(types):
            return True
        if dict in types:
            for container in level:
                if type(container) is dict and not NATIVE_KEYS.issuperset(map(type, container)):
                    return False
        level = get_referents(*_containers(level, types))
        types = set(map(type, level))
    return False


def may_hold_bytes(data: bytes) -> bool:
    """Whether the head of a bytes value may occur in msgpack: what ormsgpack makes of a buffer.

    Longer bytes have other heads than short ones, and fit only into longer data. The same bytes
    occur in floats and in text, so a yes says little, and only a no is certain.
    """
    size = len(data)
    return 0xC4 in data or (size > 258 and (0xC5 in data or (size > 65_540 and 0xC6 in data)))


def holds_buffer(value: Any) -> bool:
    """Whether a bytearray or memoryview is inside the lists and dicts of `value`."""
    if type(value) in BUFFERS:
        return True
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(depth.MAX_LISTS + 1):
        if not level:
            break
        members = get_referents(*level)
        types = set(map(type, members))
        if not BUFFERS.isdisjoint(types):
            return True
        if _CONTAINERS.isdisjoint(types):
            break
        level = _containers(members, types)
    return False


def _containers(members: list[Any], types: set[type]) -> list[Any]:
    # Among plain values get_referents finds the containers itself; of others it would list what
    # is none of our business.
    return members if types <= _PLAIN else [m for m in members if type(m) in _CONTAINERS]
