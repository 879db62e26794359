"""The parts of an operation on a store: what it writes and reads, and how that is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attack.operation import Ask, Context, Steps, ask
from attack.store_model import ITEMS, KINDS, MODELS, NAMESPACES, ROOT, TWIN_SPACE, ItemKey, value_of
from attack.store_session import session_of
from milepost.store.base import GetOp, PutOp, SearchOp

ALL = 1000
"""A limit above the number of items: what a search does not find then is not there."""
TTLS = (0.05, 0.3, 1.0)
"""Seconds."""

Write = dict[str, Any]
Read = dict[str, Any]


def write_of(context: Context, item: ItemKey, token: str | None, **more: Any) -> Write:
    """A put of what the token says, or a delete."""
    draw, session = context.random, session_of(context)
    if token is not None and str(item) in session.last and draw.random() < 0.3:
        # It says the same as before, and only its other fields change.
        token += "~" + session.last[str(item)].rpartition("~")[2]
    write: Write = {"item": str(item), "token": token, "index": True, "ttl": None, **more}
    if token is not None and "index" not in more and draw.random() < 0.15:
        write["index"] = False
    if token is not None and "ttl" not in more and draw.random() < 0.3:
        write["ttl"] = draw.choice(TTLS)
    if "if_version" not in more:
        # Often of a moment ago, and refused then.
        known = session.versions.get(str(item), 0) if draw.random() < 0.3 else None
        write["if_version"] = known
    return write


def put_op(write: Write) -> PutOp:
    item, token = ITEMS[write["item"]], write["token"]
    ttl = None if write["ttl"] is None else write["ttl"] / 60
    return PutOp(
        item.namespace,
        item.key,
        None if token is None else value_of(token),
        None if write["index"] else False,
        ttl,
        write["if_version"],
    )


def get_read(item: ItemKey, *, refresh: bool) -> Read:
    return {"scope": "get", "items": [str(item)], "refresh": refresh}


def read_op(read: Read) -> GetOp | SearchOp:
    if read["scope"] == "search":
        return search_op(read)
    item = ITEMS[read["items"][0]]
    return GetOp(item.namespace, item.key, read["refresh"])


def search_read(context: Context, *, query: str | None) -> Read:
    draw = context.random
    return {
        "scope": "search",
        "prefix": list(draw.choice([(ROOT,), TWIN_SPACE, *NAMESPACES])),
        "kind": draw.randrange(KINDS) if draw.random() < 0.3 else None,
        "query": query,
        "refresh": draw.random() < 0.3,
    }


def search_op(read: Read) -> SearchOp:
    condition = None if read["kind"] is None else {"kind": read["kind"]}
    return SearchOp(tuple(read["prefix"]), condition, ALL, 0, read["query"], read["refresh"])


def seen(items: Any) -> dict[str, list[Any]]:
    """What was found, for the history: the token says all, if the value is what it says."""
    found = {}
    for item in items if isinstance(items, list) else [items]:
        if item is not None:
            token = str(item.value.get("token"))
            if item.value != value_of(token):
                token = f"garbled: {item.value!r}"[:300]
            where = str(ItemKey(item.namespace, item.key))
            found[where] = [token, item.version, getattr(item, "score", None)]
    return found


def record(
    context: Context,
    operation: str,
    asking: Callable[[Any], Ask],
    *,
    writes: Sequence[Write] = (),
    reads: Sequence[Read] = (),
    found: Callable[[Any], list[Any]] | None = None,
    model: str | None = None,
    store: Any = None,
    **more: Any,
) -> Steps:
    """Call the worker's store, or another one, and record that; whether it went well.

    `found` makes of the result what each of the reads has found.
    """
    session = session_of(context)
    model = model or session.model
    arguments = {
        "clock": session.clock(),
        "model": model,
        "writes": [*writes],
        "reads": [*reads],
        **more,
    }
    try:
        with context.recorder.call(f"store_{operation}", **arguments) as call:
            if store is None:
                store = yield ask(session, "open", model)
            result = yield asking(store)
            views = [] if found is None else found(result)
            call.result = {"clock": more.get("clock") or session.clock(), "found": views}
    except Exception as error:
        if type(error).__name__ == "IndexMismatchError":
            session.model = another_model(context, model)
        return False
    for read, view in zip(reads, views, strict=False):
        session.remember(read, view)
    session.tokens += [write["token"] for write in writes if write["token"] is not None]
    return True


def another_model(context: Context, model: str) -> str:
    """A program that is told of another model is deployed again, with that or a third one."""
    return context.random.choice([name for name in MODELS if name != model])
