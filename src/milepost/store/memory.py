"""A store in this process: for tests, demos and short-lived programs.

It keeps to the rules of the stores on disk. Values are kept as bytes, so that nothing that a
program does to its objects later changes what was stored; what cannot be read back exactly is
refused; expired items are not returned; versions are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

from milepost._internal.fork_guard import ProcessBound
from milepost.checkpoint.serde.base import SerializerProtocol
from milepost.store._core.api import Upkeep
from milepost.store._core.core import Deserializer
from milepost.store._core.records import IndexConfig, Item, Op, PutOp, Result, TTLConfig
from milepost.store._core.ttl import Clock
from milepost.store._memory.core import MemoryCore
from milepost.store.base import BaseStore

__all__ = ["InMemoryStore"]

_NO_SETTINGS: Final = (None, None, None)


class InMemoryStore(Upkeep, ProcessBound, BaseStore):
    """Keeps items in memory. Sync and async methods can be mixed, from any thread.

    Args:
        index: Enables search by meaning.
        ttl: How long items live.
        serde: How values are written.
        clear_fields: The fields that filters may see when `serde` encrypts.
        clock: Gives the time in seconds, for tests.
        deserializer: Makes the values of items from their JSON text.

    Examples:
        >>> from milepost.store.memory import InMemoryStore
        >>> store = InMemoryStore()
        >>> store.put(("users", "ada"), "city", {"name": "Paris"})
        >>> store.get(("users", "ada"), "city").value
        {'name': 'Paris'}
    """

    _core: MemoryCore

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        clear_fields: Sequence[str] | None = None,
        clock: Clock | None = None,
        deserializer: Deserializer | None = None,
    ) -> None:
        self._settings: dict[str, Any] = {
            "index": index,
            "ttl": ttl,
            "serde": serde,
            "clear_fields": clear_fields,
            "clock": clock,
            "deserializer": deserializer,
        }
        super().__init__(MemoryCore(**self._settings))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A store with the same settings and a copy of the items."""
        twin = self.__copy__()
        memo[id(self)] = twin
        InMemoryStore.__init__(twin, **self._settings)
        self._core.copy_to(twin._core)
        return twin

    # Puts that ask for nothing special take a short cut, and so does a get of an item that is there
    # and cannot expire: there is nothing to decide.

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        if self._put_plain(ops):
            return [None] * len(ops)
        return super().batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        if self._core.embedder is not None:
            return await super().abatch(ops)
        # Nothing to wait for: the answer is in this process.
        return InMemoryStore.batch(self, ops)

    def _put_plain(self, ops: Sequence[Op]) -> bool:
        """Whether the operations are puts without settings, which have been done then."""
        puts = [op[:3] for op in ops if type(op) is PutOp and op[3:] == _NO_SETTINGS]
        return len(puts) == len(ops) and self._core.put_plain(puts)

    def get(
        self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        return self._core.get_plain(namespace, key) or super().get(
            namespace, key, refresh_ttl=refresh_ttl
        )

    async def aget(
        self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        return self.get(namespace, key, refresh_ttl=refresh_ttl)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop_ttl_sweeper()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.stop_ttl_sweeper()
