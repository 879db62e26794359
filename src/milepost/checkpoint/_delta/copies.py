"""Copies of lists, kept beside their bytes while a conversation goes on.

Of a list that a program hands back, nearly all elements are those that it was given. With copies of
them, what has not changed is found without encoding it, and the next reader gets copies of the
copies, which takes a fraction of the time of decoding. Reading the bytes gives the same, so copies
can be dropped at any time. They take as much room again as the bytes, and more: so there are only
those of the lists that were used last.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from milepost._internal import native

if TYPE_CHECKING:
    from milepost.checkpoint.serde.registry import TypeRegistry

_FEW: Final = 4
"""Lists with fewer elements are not worth it."""
_SAMPLE: Final = 16
"""Elements that are looked at to tell what all of them take."""


class CopiedList:
    """Copies of the elements of a list, and about what they take."""

    __slots__ = ("_counted", "_each", "_registered", "elements", "owner")

    def __init__(self, elements: list[Any], registry: TypeRegistry) -> None:
        self.elements = elements
        """Only copied from, and brought up to date by the accelerator."""
        self.owner: object = None
        """What has the bytes. It stays alive as long as the copies, so its id is not another's."""
        self._registered = registry.changes
        self._each = 0.0
        self._counted = 0

    def is_valid(self, registry: TypeRegistry) -> bool:
        """Whether the bytes still mean the same: classes may have been registered since."""
        return self._registered == registry.changes

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return int(self._each * len(self.elements))

    def weigh(self) -> None:
        """Look at some elements again, if there are far more than when that was done."""
        count = len(self.elements)
        if not self._counted <= count < 2 * self._counted:
            some = self.elements[:: max(1, count // _SAMPLE)]
            self._each, self._counted = sum(map(_weight, some)) / len(some), count


class Copies:
    """The copies of lists, by what has their bytes. Those that were not used for long are dropped:
    all together take at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._copies: OrderedDict[int, CopiedList] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, owner: object, size: int, registry: TypeRegistry) -> CopiedList | None:
        """The copies of what has so many bytes, for the version that follows it; none, if there
        would not be enough room for them."""
        with self._lock:
            found = self._pop(id(owner))
        if found is not None and found.is_valid(registry):
            return found
        return CopiedList([], registry) if 4 * size < self.limit else None

    def keep(self, owner: object, copied: CopiedList) -> None:
        """Keep the copies that belong to an owner."""
        if len(copied.elements) < _FEW:
            return
        copied.weigh()
        copied.owner = owner
        with self._lock:
            self._pop(id(owner))
            self._copies[id(owner)] = copied
            self.size += copied.size
            while self.size > self.limit:
                self._pop(next(iter(self._copies)))

    def value(self, owner: object, registry: TypeRegistry) -> list[Any] | None:
        """The list that an owner has the bytes of, for this caller alone; None if it has to be
        decoded."""
        if native.copies is None:
            return None
        with self._lock:  # a version that follows would change the copies
            found = self._copies.get(id(owner))
            if found is None or not found.is_valid(registry):
                return None
            self._copies.move_to_end(id(owner))
            return native.copies(found.elements, registry.models)

    def clear(self) -> None:
        """Drop all of them."""
        with self._lock:
            self._copies.clear()
            self.size = 0

    def _pop(self, key: int) -> CopiedList | None:
        found = self._copies.pop(key, None)
        if found is not None:
            self.size -= found.size
        return found


def _weight(value: Any) -> int:
    """The bytes of a copy. Keys of dicts are mostly shared, and not counted."""
    cls = type(value)
    if cls is dict:
        return sys.getsizeof(value) + sum(map(_weight, value.values()))
    if cls in (list, tuple):
        return sys.getsizeof(value) + sum(map(_weight, value))
    fields = getattr(value, "__dict__", None)
    if fields is not None:
        given = sys.getsizeof(value.__pydantic_fields_set__)
        return sys.getsizeof(value) + given + _weight(fields)
    return 0 if value is None or cls is bool else sys.getsizeof(value)
