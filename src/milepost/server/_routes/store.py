"""The store: items in namespaces."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from milepost.server._assistants import NAMESPACE
from milepost.server._errors import not_found, refused
from milepost.server._json import wire
from milepost.server._records import FoundItem, Item, Limit, Offset
from milepost.server._routing import Call, Empty, Routes
from milepost.store.base import BaseStore
from milepost.store.base import Item as StoredItem

routes = Routes("Store")

Label = Annotated[str, Meta(min_length=1, pattern=r"^[^.]+\Z")]
Name = Annotated[str, Meta(min_length=1)]


class Key(msgspec.Struct, kw_only=True):
    """Which item."""

    namespace: Annotated[list[Label], Meta(min_length=1)]
    key: Name


class Put(Key, kw_only=True):
    """An item to store."""

    value: dict[str, Any]
    index: bool | list[str] | None = None
    """False: do not embed. A list: embed these paths."""
    ttl: Annotated[float, Meta(gt=0)] | None = None
    """Minutes until it goes."""


class KeyQuery(msgspec.Struct, kw_only=True):
    """Which item; the labels of the namespace are joined by dots."""

    key: Name
    namespace: Name
    refresh_ttl: bool | None = None


class Search(msgspec.Struct, kw_only=True):
    """Which items."""

    namespace_prefix: list[Label] = []
    filter: dict[str, Any] | None = None
    limit: Limit = 10
    offset: Offset = 0
    query: str | None = None
    refresh_ttl: bool | None = None


class Found(msgspec.Struct):
    """Items that were found."""

    items: list[FoundItem]


class NamespaceSearch(msgspec.Struct, kw_only=True):
    """Which namespaces."""

    prefix: list[Label] | None = None
    suffix: list[Label] | None = None
    max_depth: Limit | None = None
    limit: Limit = 100
    offset: Offset = 0


class Namespaces(msgspec.Struct):
    """Namespaces that were found."""

    namespaces: list[list[str]]


@routes.route("PUT", "/store/items", writes=True, status=204)
def put_item(call: Call[Put, Empty]) -> None:
    """Store an item."""
    body = call.body
    _refuse_assistants(body.namespace)
    store = _needed(call.server.database.store_to_write())
    if body.ttl is not None and not store.supports_ttl:
        raise refused("This store keeps items for good: leave `ttl` out.")
    if body.index is True:
        raise refused("index is false, or a list of paths: leave it out for the store's own.")
    more: dict[str, Any] = {} if body.ttl is None else {"ttl": body.ttl}
    store.put(tuple(body.namespace), body.key, body.value, index=body.index, **more)


@routes.get("/store/items")
def get_item(call: Call[Empty, KeyQuery]) -> Item | None:
    """An item; null if there is none."""
    query = call.query
    labels = tuple(query.namespace.split("."))
    found = _store(call).get(labels, query.key, refresh_ttl=_refresh(call, query.refresh_ttl))
    return None if found is None else Item(**_shown(found))


@routes.route("DELETE", "/store/items", writes=True, status=204)
def delete_item(call: Call[Key, Empty]) -> None:
    """Remove an item."""
    _refuse_assistants(call.body.namespace)
    _store(call).delete(tuple(call.body.namespace), call.body.key)


@routes.route("POST", "/store/items/search")
def search_items(call: Call[Search, Empty]) -> Found:
    """Items by what they hold, or with `query` by what they mean."""
    body = call.body
    found = _store(call).search(
        tuple(body.namespace_prefix),
        query=body.query,
        filter=body.filter,
        limit=body.limit,
        offset=body.offset,
        refresh_ttl=_refresh(call, body.refresh_ttl),
    )
    return Found([FoundItem(**_shown(item), score=item.score) for item in found])


@routes.route("POST", "/store/namespaces")
def list_namespaces(call: Call[NamespaceSearch, Empty]) -> Namespaces:
    """Namespaces that hold items."""
    body = call.body
    found = _store(call).list_namespaces(
        prefix=tuple(body.prefix) if body.prefix else None,
        suffix=tuple(body.suffix) if body.suffix else None,
        max_depth=body.max_depth,
        limit=body.limit,
        offset=body.offset,
    )
    return Namespaces([list(labels) for labels in found])


def _refuse_assistants(namespace: list[str]) -> None:
    if tuple(namespace[:1]) == NAMESPACE:
        raise refused("Assistants are changed at /assistants, not in the store.")


def _store(call: Call[Any, Any]) -> BaseStore:
    return _needed(call.server.database.store)


def _needed(store: BaseStore | None) -> BaseStore:
    if store is None:
        raise not_found("This database has no store.")
    return store


def _refresh(call: Call[Any, Any], wanted: bool | None) -> bool | None:
    """Whether reading lets items live longer: not on a server that only reads."""
    return wanted if call.server.write else False


def _shown(item: StoredItem) -> dict[str, Any]:
    return {
        "namespace": list(item.namespace),
        "key": item.key,
        "value": wire(item.value),
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
    }
