"""Objects that can be listed as long as they are alive, from any thread."""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class WeakRegistry(Generic[T]):
    """Knows objects without keeping them alive.

    A WeakSet cannot be listed while another thread adds to it; here each access is one operation
    of a set.
    """

    def __init__(self) -> None:
        self._refs: set[ref[T]] = set()

    def add(self, item: T) -> None:
        """List an object from now on."""
        self._refs.add(ref(item, self._refs.discard))

    def alive(self) -> list[T]:
        """The objects that are still there."""
        return [item for found in self._refs.copy() if (item := found()) is not None]
