"""Our stores for their graphs, and theirs for ours.

Both libraries have the same four operations. Here they are turned from one's records into the
other's, and the results back.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from langgraph.store import base as theirs

from milepost._internal.asyncio_tools import in_thread
from milepost.store import base as ours


def as_langgraph_store(store: ours.BaseStore) -> theirs.BaseStore:
    """A LangGraph store that keeps its items in one of milepost's.

    LangGraph's API has neither versions of items nor an order for searches; use
    the milepost store itself for them.

    Args:
        store: Where items are kept.

    Examples:
        >>> from milepost.integrations.langgraph import as_langgraph_store
        >>> from milepost.store.memory import InMemoryStore
        >>> store = as_langgraph_store(InMemoryStore())
        >>> store.put(("users", "ada"), "city", {"name": "Paris"})
        >>> store.get(("users", "ada"), "city").value
        {'name': 'Paris'}
    """
    if not isinstance(store, ours.BaseStore):
        raise TypeError(f"as_langgraph_store needs a milepost store, not {type(store).__name__}.")
    return AdaptedStore(store)


def from_langgraph_store(store: theirs.BaseStore) -> ours.BaseStore:
    """A milepost store that keeps its items in one of LangGraph's stores.

    Such a store has no versions, so `if_version` is refused, and no order but its own.

    Args:
        store: Where items are kept.

    Examples:
        >>> from langgraph.store.memory import InMemoryStore
        >>> from milepost.integrations.langgraph import from_langgraph_store
        >>> store = from_langgraph_store(InMemoryStore())
        >>> store.put(("users", "ada"), "city", {"name": "Paris"})
        >>> store.get(("users", "ada"), "city").value
        {'name': 'Paris'}
    """
    if not isinstance(store, theirs.BaseStore):
        raise TypeError(
            f"from_langgraph_store needs a store of LangGraph's, not {type(store).__name__}."
        )
    return ForeignStore(store)


class AdaptedStore(theirs.BaseStore):
    """A milepost store with LangGraph's base class. Made by `as_langgraph_store`."""

    def __init__(self, store: ours.BaseStore) -> None:
        self._store = store
        self.supports_ttl = store.supports_ttl
        self.ttl_config = cast("Any", store.ttl_config)

    def batch(self, ops: Iterable[theirs.Op]) -> list[theirs.Result]:
        return _results(self._store.batch(map(_our_op, ops)), ours, theirs)

    async def abatch(self, ops: Iterable[theirs.Op]) -> list[theirs.Result]:
        return _results(await self._store.abatch(map(_our_op, ops)), ours, theirs)


class ForeignStore(ours.BaseStore):
    """A LangGraph store behind milepost's contract. Made by `from_langgraph_store`."""

    def __init__(self, store: theirs.BaseStore) -> None:
        self._store = store
        self.supports_ttl = store.supports_ttl
        self.ttl_config = cast("Any", store.ttl_config)

    def batch(self, ops: Iterable[ours.Op]) -> list[ours.Result]:
        return _results(self._store.batch([_their_op(op) for op in ops]), theirs, ours)

    async def abatch(self, ops: Iterable[ours.Op]) -> list[ours.Result]:
        wanted = [_their_op(op) for op in ops]
        try:
            found = await self._store.abatch(wanted)
        except NotImplementedError:
            found = await in_thread(self._store.batch, wanted)
        return _results(found, theirs, ours)


def _our_op(op: theirs.Op) -> ours.Op:
    match op:
        case theirs.GetOp():
            return ours.GetOp(*op)
        case theirs.SearchOp():
            return ours.SearchOp(*op)
        case theirs.ListNamespacesOp():
            conditions = tuple(ours.MatchCondition(*c) for c in op.match_conditions or ())
            return ours.ListNamespacesOp(conditions or None, op.max_depth, op.limit, op.offset)
        case theirs.PutOp():
            return ours.PutOp(op.namespace, op.key, op.value, op.index, op.ttl)


def _their_op(op: ours.Op) -> theirs.Op:
    match op:
        case ours.GetOp():
            return theirs.GetOp(*op)
        case ours.SearchOp():
            if op.order is not None:
                raise _beyond("order=")
            return theirs.SearchOp(
                op.namespace_prefix, op.filter, op.limit, op.offset, op.query, op.refresh_ttl
            )
        case ours.ListNamespacesOp():
            conditions = tuple(theirs.MatchCondition(*c) for c in op.match_conditions or ())
            return theirs.ListNamespacesOp(conditions or None, op.max_depth, op.limit, op.offset)
        case ours.PutOp():
            if op.if_version is not None:
                raise _beyond("if_version=")
            value = None if op.value is None else dict(op.value)
            return theirs.PutOp(op.namespace, op.key, value, op.index, op.ttl)


def _beyond(option: str) -> NotImplementedError:
    return NotImplementedError(
        f"LangGraph's stores cannot do {option}; use one of milepost's stores for it."
    )


def _results(found: Iterable[Any], source: Any, target: Any) -> list[Any]:
    """What one library's store has answered, with the other's items. A library is its module."""

    def turned(one: Any) -> Any:
        if isinstance(one, list):
            return [turned(member) for member in one]
        if not isinstance(one, source.Item):
            return one
        fields = {
            "namespace": one.namespace,
            "key": one.key,
            "value": one.value,
            "created_at": _aware(one.created_at),
            "updated_at": _aware(one.updated_at),
        }
        if isinstance(one, source.SearchItem):
            return target.SearchItem(**fields, score=one.score)
        return target.Item(**fields)

    return [turned(one) for one in found]


def _aware(moment: datetime) -> datetime:
    """LangGraph's SQLite store gives UTC without saying so."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
