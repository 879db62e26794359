"""Quick checks of a value's lists and dicts, a level of nesting at a time.

They work in C loops (`map`, and the collector's own listing of what a container refers to), not
element by element, and stop at the depth at which ormsgpack stops, so a cycle ends too.
"""

from __future__ import annotations

from gc import get_referents
from itertools import compress
from typing import Any, Final

from milepost.checkpoint.serde._msgpack import depth

BUFFERS: Final = frozenset({bytearray, memoryview})
NATIVE_KEYS: Final = frozenset({str, int, float, bool, bytes, type(None)})
"""Exact key types that msgpack gives back as they were."""

_CONTAINERS: Final = frozenset({list, dict})
_PLAIN: Final = NATIVE_KEYS | _CONTAINERS
_LONG: Final = 64
_FEW: Final = 16
_SOME: Final = 64


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


def suspects(members: list[Any], encoded: list[bytes]) -> list[Any]:
    """Members among which are all whose bytes may hold those of a buffer.

    Looked for in some of them at a time: mostly there are none at all, and joining all of a long
    list would cost more than looking.
    """
    if len(encoded) <= _FEW:
        return members if may_hold_bytes(b"".join(encoded)) else []
    found: list[Any] = []
    for start in range(0, len(encoded), _SOME):
        some = encoded[start : start + _SOME]
        if may_hold_bytes(b"".join(some)):
            found += compress(members[start : start + _SOME], map(may_hold_bytes, some))
    return found


def holds_buffer(value: Any) -> bool:
    """Whether a bytearray or memoryview is inside the lists and dicts of `value`."""
    if type(value) in BUFFERS:
        return True
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(depth.MAX_LISTS + 1):
        if len(level) <= _FEW:
            level = [container for container in level if not _all_floats(container)]
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


def _all_floats(container: Any) -> bool:
    """Whether it is a long list of floats, such as an embedding: adding them up is quickest."""
    if type(container) is not list or len(container) < _LONG or type(container[0]) is not float:
        return False
    try:
        return type(sum(container)) is float
    except Exception:
        return False
