"""The contract of a store: memory that threads share.

A store of your own needs two methods, `batch` and `abatch`; everything else is made of them. Say
with `supports_ttl`, `supports_versions` and `supports_order` what it can do beyond the basics:
what it cannot do is refused, not ignored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from milepost.errors import InvalidNamespaceError, VersionConflict
from milepost.store._core.namespaces import check, check_put, validate_op_namespace
from milepost.store._core.records import (
    NOT_PROVIDED,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    NamespaceMatchType,
    NamespacePath,
    NotProvided,
    Op,
    Order,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from milepost.store._vectors.embeddings import (
    AEmbeddingsFunc,
    Embeddings,
    EmbeddingsFunc,
    ensure_embeddings,
)
from milepost.store._vectors.paths import get_text_at_path, tokenize_path

__all__ = [
    "NOT_PROVIDED",
    "AEmbeddingsFunc",
    "BaseStore",
    "Embeddings",
    "EmbeddingsFunc",
    "GetOp",
    "IndexConfig",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "NamespaceMatchType",
    "NamespacePath",
    "NotProvided",
    "Op",
    "Order",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
    "VersionConflict",
    "ensure_embeddings",
    "get_text_at_path",
    "tokenize_path",
    "validate_op_namespace",
]


class BaseStore(ABC):
    """Values under keys, in namespaces that nest like directories.

    Examples:
        >>> from milepost.store.memory import InMemoryStore
        >>> store = InMemoryStore()
        >>> store.put(("users", "ada"), "city", {"name": "Paris"})
        >>> store.get(("users", "ada"), "city").value
        {'name': 'Paris'}
    """

    supports_ttl: bool = False
    supports_versions: bool = False
    supports_order: bool = False
    ttl_config: TTLConfig | None = None

    __slots__ = ("__weakref__",)

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out several operations at once, and return a result for each.

        Reads come first: they see the store as it was before the writes in the same batch. Of
        several writes to one key the last one counts. If one operation is refused, none is done.

        Args:
            ops: The operations.

        Examples:
            >>> from milepost.store.base import GetOp, PutOp
            >>> put = PutOp(("users", "bob"), "city", {"name": "Rome"})
            >>> found, _ = store.batch([GetOp(("users", "ada"), "city"), put])
            >>> found.value
            {'name': 'Paris'}
        """

    @abstractmethod
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch`, for use on an event loop."""

    # -- one operation

    async def _one(self, op: Op) -> Result:
        """The result of one operation; a store may put several into one batch."""
        return (await self.abatch([op]))[0]

    def get(
        self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """The item under this key, or None.

        Args:
            namespace: Where it is.
            key: The key.
            refresh_ttl: Whether reading renews its lifetime, in place of the store's setting.

        Raises:
            InvalidNamespaceError: Such a namespace cannot exist.

        Examples:
            >>> store.get(("users", "ada"), "street") is None
            True
        """
        return cast("Item | None", self.batch([self._get(namespace, key, refresh_ttl)])[0])

    def search(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
        order: Order | None = None,
    ) -> list[SearchItem]:
        """Items whose namespace begins with these labels.

        Args:
            namespace_prefix: The labels.
            query: Ranks items by meaning, and only items that were embedded are found. This needs a
                store with an `index`, without which the query is ignored and scores are None.
            filter: Tests of fields of the value: `{"kind": "note", "stars": {"$gte": 4}}`.
            limit: How many at most.
            offset: How many to skip.
            refresh_ttl: Whether reading renews their lifetimes, in place of the store's setting.
            order: Sorts what is not ranked, the same in all stores; by default a store in memory
                gives the oldest first, and one in a database the last updated first.

        Raises:
            InvalidNamespaceError: Such a namespace cannot exist.
            FilterError: A filter cannot be understood.

        Examples:
            >>> [item.key for item in store.search(("users",), filter={"name": "Paris"})]
            ['city']
        """
        refresh, order = self._refresh(refresh_ttl), self._order(order)
        op = SearchOp(check(namespace_prefix), filter, limit, offset, query, refresh, order)
        return cast("list[SearchItem]", self.batch([op])[0])

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | None | NotProvided = NOT_PROVIDED,
        if_version: int | None = None,
    ) -> None:
        """Store a value, or replace the one that is there.

        Args:
            namespace: Where it is put.
            key: The key.
            value: The value: a dict.
            index: The paths to embed in place of the store's `fields`; with False the item is not
                found by meaning, but by everything else.
            ttl: Minutes until it expires; None for never.
            if_version: The version that the caller has read (0 for: there is none).

        Raises:
            InvalidNamespaceError: Nothing can be put there.
            InvalidKeyError: No item can have this key.
            VersionConflict: The item is at another version by now; nothing has changed.

        Examples:
            >>> item = store.get(("users", "ada"), "city")
            >>> store.put(("users", "ada"), "city", {"name": "Rome"}, if_version=item.version)
        """
        namespace = check_put(namespace)
        self.batch([self._put(namespace, key, value, index, ttl, if_version)])

    def delete(
        self, namespace: tuple[str, ...], key: str, *, if_version: int | None = None
    ) -> None:
        """Remove an item, if it is there.

        Args:
            namespace: Where it is.
            key: The key.
            if_version: The version that the caller has read.

        Raises:
            InvalidNamespaceError: Such a namespace cannot exist.
            VersionConflict: The item is at another version by now; nothing has changed.

        Examples:
            >>> store.delete(("users", "ada"), "city")
            >>> store.get(("users", "ada"), "city") is None
            True
        """
        self.batch([self._put(check(namespace), key, None, None, None, if_version)])

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """Namespaces that have items, sorted.

        Args:
            prefix: What they begin with; `*` is any one label.
            suffix: What they end with; `*` is any one label.
            max_depth: Deeper ones are cut to this depth, and listed once.
            limit: How many at most.
            offset: How many to skip.

        Raises:
            InvalidNamespaceError: Such a namespace cannot exist.

        Examples:
            >>> store.list_namespaces(prefix=("users",))
            [('users', 'ada')]
        """
        op = ListNamespacesOp(_conditions(prefix, suffix), max_depth, limit, offset)
        return cast("list[tuple[str, ...]]", self.batch([op])[0])

    # -- the same on an event loop

    async def aget(
        self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """`get`, for use on an event loop."""
        return cast("Item | None", await self._one(self._get(namespace, key, refresh_ttl)))

    async def asearch(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
        order: Order | None = None,
    ) -> list[SearchItem]:
        """`search`, for use on an event loop."""
        refresh, order = self._refresh(refresh_ttl), self._order(order)
        op = SearchOp(check(namespace_prefix), filter, limit, offset, query, refresh, order)
        return cast("list[SearchItem]", await self._one(op))

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | None | NotProvided = NOT_PROVIDED,
        if_version: int | None = None,
    ) -> None:
        """`put`, for use on an event loop."""
        namespace = check_put(namespace)
        await self._one(self._put(namespace, key, value, index, ttl, if_version))

    async def adelete(
        self, namespace: tuple[str, ...], key: str, *, if_version: int | None = None
    ) -> None:
        """`delete`, for use on an event loop."""
        await self._one(self._put(check(namespace), key, None, None, None, if_version))

    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """`list_namespaces`, for use on an event loop."""
        op = ListNamespacesOp(_conditions(prefix, suffix), max_depth, limit, offset)
        return cast("list[tuple[str, ...]]", await self._one(op))

    # -- from arguments to operations
    #
    # Namespaces are checked before `batch`: a store may put what several callers ask for into one
    # batch, and what is wrong with one of them fails for this caller alone.

    def _refresh(self, asked: bool | None) -> bool:
        if asked is not None:
            return asked
        return self.ttl_config is None or bool(self.ttl_config.get("refresh_on_read", True))

    def _get(self, namespace: tuple[str, ...], key: str, refresh_ttl: bool | None) -> GetOp:
        return GetOp(check(namespace), key, self._refresh(refresh_ttl))

    def _order(self, order: Order | None) -> Order | None:
        if order is not None and not self.supports_order:
            raise NotImplementedError(
                f"{type(self).__name__} cannot sort as asked. Sort the results, or leave out order."
            )
        return order

    def _put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any] | None,
        index: Literal[False] | list[str] | None,
        ttl: float | None | NotProvided,
        if_version: int | None,
    ) -> PutOp:
        if isinstance(ttl, NotProvided):
            ttl = (self.ttl_config or {}).get("default_ttl")
        elif ttl is not None and not self.supports_ttl:
            raise NotImplementedError(
                f"TTL is not supported by {type(self).__name__}. Use a store that supports TTL, "
                "or set ttl=None."
            )
        if if_version is not None and not self.supports_versions:
            raise NotImplementedError(
                f"{type(self).__name__} does not count versions, so it cannot refuse a lost "
                "update. Leave out if_version, or use a store of milepost's."
            )
        return PutOp(namespace, key, value, index, ttl, if_version)


def _ensure_ttl(
    ttl_config: TTLConfig | None, ttl: float | None | NotProvided = NOT_PROVIDED
) -> float | None:
    """The lifetime that was asked for, or the one that the settings of a store give.

    Under this name, since the stores of langgraph-checkpoint-aws import it.
    """
    if isinstance(ttl, NotProvided):
        return (ttl_config or {}).get("default_ttl")
    return ttl


def _conditions(
    prefix: NamespacePath | None, suffix: NamespacePath | None
) -> tuple[MatchCondition, ...] | None:
    begins = (MatchCondition("prefix", check(prefix)),) if prefix else ()
    ends = (MatchCondition("suffix", check(suffix)),) if suffix else ()
    return begins + ends or None
