"""Quick looks at a value's lists and dicts, a level of nesting at a time.

They do their work in C loops (`map`, `extend`), not element by element, and stop at the depth at
which ormsgpack stops, so a cycle ends too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.serde import depth

if TYPE_CHECKING:
    from collections.abc import Iterator

BUFFERS: Final = frozenset({bytearray, memoryview})
NATIVE_KEYS: Final = frozenset({str, int, float, bool, bytes, type(None)})
"""Exact key types that msgpack gives back as they were."""

_CONTAINERS = frozenset({list, dict})


def keys_are_native(value: Any) -> bool:
    """Whether every dict in `value` has only keys that msgpack holds exactly."""
    for level in _levels(value):
        for container in level:
            if type(container) is dict and not NATIVE_KEYS.issuperset(map(type, container)):
                return False
    return True


def may_hold_buffer(value: Any) -> bool:
    """Whether a bytearray or memoryview is among the elements of `value`."""
    if type(value) in BUFFERS:
        return True
    for level in _levels(value):
        for container in level:
            members = container.values() if type(container) is dict else container
            if not BUFFERS.isdisjoint(map(type, members)):
                return True
    return False


def _levels(value: Any) -> Iterator[list[Any]]:
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(depth.MAX_LISTS + 1):
        if not level:
            return
        yield level
        members: list[Any] = []
        for container in level:
            members.extend(container.values() if type(container) is dict else container)
        level = [member for member in members if type(member) in _CONTAINERS]
