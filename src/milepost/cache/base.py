"""The contract of a cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from milepost._internal import log
from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

ValueT = TypeVar("ValueT")
Namespace: TypeAlias = tuple[str, ...]
FullKey: TypeAlias = tuple[Namespace, str]


class BaseCache(ABC, Generic[ValueT]):
    """Keeps values under a namespace and a key, until they expire or are cleared.

    Args:
        serde: Turns values into bytes and back.

    Examples:
        >>> from milepost.cache.memory import InMemoryCache
        >>> cache = InMemoryCache()
        >>> cache.set({(("cities",), "paris"): ({"people": 2_000_000}, 60)})
        >>> cache.get([(("cities",), "paris")])
        {(('cities',), 'paris'): {'people': 2000000}}
    """

    serde: SerializerProtocol = JsonPlusSerializer()

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        if serde is not None:
            self.serde = serde

    @abstractmethod
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """The values that are there and have not expired.

        Args:
            keys: Pairs of a namespace and a key.
        """

    @abstractmethod
    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """`get`, for use on an event loop."""

    @abstractmethod
    def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        """Store values, each with its time to live in seconds.

        Args:
            pairs: Namespace and key → the value, and its time to live in seconds or `None`.
        """

    @abstractmethod
    async def aset(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        """`set`, for use on an event loop."""

    @abstractmethod
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Drop everything in these namespaces; everything at all for None.

        Args:
            namespaces: Which; `None` for all.
        """

    @abstractmethod
    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """`clear`, for use on an event loop."""

    def _decoded(self, rows: Iterable[tuple[FullKey, tuple[str, bytes]]]) -> dict[FullKey, Any]:
        """The values of entries that other programs may have written, except of those that cannot
        be read: their nodes run.

        `rows` are the namespace and key of each entry, the tag of its stored form, and its bytes.
        """
        values: dict[FullKey, Any] = {}
        for name, stored in rows:
            try:
                values[name] = self.serde.loads_typed(stored)
            except Exception as error:  # whatever a serializer of the program's own raises
                message = "A cached result of %s cannot be read (%s), so it counts as missing."
                log.warning(log.STORAGE, message, "/".join(name[0]), error)
        return values
