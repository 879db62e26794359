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
    from collections.abc import Callable

    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde.registry import TypeRegistry

_FEW: Final = 4
"""Lists with fewer elements are not worth it."""
_ELEMENT: Final = 50
"""Bytes that an element takes besides those of its stored form and of its copy."""
_SAMPLE: Final = 16
"""Elements that are weighed to estimate what all of them take."""


class CopiedList:
    """Copies of the elements of a list, and about what they and the bytes take."""

    __slots__ = ("_bytes", "_counted", "_each", "_owner", "_registered", "elements")

    def __init__(self, registry: TypeRegistry) -> None:
        self.elements: list[Any] = []
        """Only copied from. The accelerator fills it and brings it up to date."""
        self._registered = registry.changes
        self._owner: object = None
        self._bytes = self._counted = 0
        self._each = 0.0

    def is_valid(self, registry: TypeRegistry) -> bool:
        """Whether the bytes still mean the same: classes may have been registered since."""
        return self._registered == registry.changes

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return self._bytes + int(self._each * len(self.elements))

    def belongs_to(self, owner: object, size: int) -> None:
        """Bind the copies to the owner of the encoded list, which has `size` bytes.

        The owner stays alive as long as the copies do, so that no other object gets its id.
        """
        self._owner, self._bytes = owner, size
        count = len(self.elements)
        if count and not self._counted <= count < 2 * self._counted:
            some = self.elements[:: max(1, count // _SAMPLE)]
            self._each = sum(map(_weight, some)) / len(some) + _ELEMENT
            self._counted = count


class Copies:
    """Decoded lists by the object that owns their bytes; together they take at most `limit` bytes.

    The least recently used are dropped first. A list that was only written, or read once, has no
    copy. After a second read, a copy is made when the next version is encoded or read.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._copies: OrderedDict[int, CopiedList] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, owner: object, registry: TypeRegistry) -> CopiedList | None:
        """Remove and return the copies of an owner, for the version that follows it."""
        with self._lock:
            found = self._pop(id(owner))
        return found if found is not None and found.is_valid(registry) else None

    def keep(self, owner: object, size: int, copied: CopiedList) -> None:
        """Keep copies of the list whose `size` bytes an owner has."""
        copied.belongs_to(owner, size)
        with self._lock:
            self._pop(id(owner))
            self._copies[id(owner)] = copied
            self.size += copied.size
            while self.size > self.limit:
                self._pop(next(iter(self._copies)))

    def read(self, owner: object, size: int, level: Level, decode: Callable[[], Any]) -> Any:
        """The list whose `size` bytes an owner has, in objects that only this caller gets."""
        registry = level.registry
        assert native.copies is not None
        assert native.elements is not None
        with self._lock:  # a version that follows would change the copies
            found = self._copies.get(id(owner))
            if found is not None and found.elements and found.is_valid(registry):
                self._copies.move_to_end(id(owner))
                copies = native.copies(found.elements, registry.models)
                if copies is not None:
                    return copies
        value = decode()
        if type(value) is list and len(value) >= _FEW and 4 * size < self.limit:
            copied = self.take(owner, registry)
            if copied is None:
                copied = CopiedList(registry)
            elif not native.elements(value, level.tuples, None, registry.models, copied.elements):
                copied.elements.clear()
            self.keep(owner, size, copied)
        return value

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
