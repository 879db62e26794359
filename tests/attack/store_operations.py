"""What workers do to a store.

Each call is recorded as what it writes and what it reads, whatever its method is, so that checks
know two kinds of things only:

    a write   {"item", "token" (None deletes), "index", "ttl", "if_version"}
    a read    {"scope", "items" or "prefix", "kind", "query", "refresh"}, and for each read in the
              result what it found: {item: [token, version, score]}
"""

from __future__ import annotations

from typing import Any

from attack.operation import Ask, Context, Operation, Steps, ask, pause, plain
from attack.store_calls import (
    ALL,
    Read,
    Write,
    another_model,
    get_read,
    put_op,
    read_op,
    record,
    search_op,
    search_read,
    seen,
    write_of,
)
from attack.store_model import FIRST_MODEL, ITEMS, MODELS, PAIR, ROOT, SINGLES, ItemKey, text_of
from attack.store_session import clock, session_of, settings
from milepost.store.base import GetOp

DATABASES = ("sqlite", "sqlite-encrypted", "postgres", "postgres-pool")

# -- one item


def put(context: Context) -> Steps:
    write = write_of(context, context.random.choice(SINGLES), context.token())
    op = put_op(write)

    def asking(store: Any) -> Ask:
        where, value = (op.namespace, op.key), op.value
        return ask(store, "put", *where, value, op.index, ttl=op.ttl, if_version=op.if_version)

    yield from record(context, "put", asking, writes=[write])


def cancelled_put(context: Context) -> Steps:
    """A put whose caller does not wait. Others that are stored with it must not notice."""
    write = write_of(context, context.random.choice(SINGLES), context.token())
    op, after = put_op(write), context.random.choice([0.0, 0.001, 0.01])

    def asking(store: Any) -> Ask:
        return Ask(store, "batch", ([op],), {}, "cancel", after=after)

    yield from record(context, "batch", asking, writes=[write], cancels=True)


def update(context: Context) -> Steps:
    """Read an item and put it with its version, as programs do that may not lose an update."""
    item = context.random.choice(SINGLES)
    if (yield from _get(context, item, refresh=False)):
        version = session_of(context).versions[str(item)]
        write = write_of(context, item, context.token(), if_version=version)
        ops = [put_op(write)]
        yield from record(context, "batch", lambda store: ask(store, "batch", ops), writes=[write])


def delete(context: Context) -> Steps:
    item = context.random.choice(SINGLES)
    write = write_of(context, item, None)

    def asking(store: Any) -> Ask:
        return ask(store, "delete", item.namespace, item.key, if_version=write["if_version"])

    yield from record(context, "delete", asking, writes=[write])


def get(context: Context) -> Steps:
    item = context.random.choice(list(ITEMS.values()))
    yield from _get(context, item, refresh=context.random.random() < 0.4)


def _get(context: Context, item: ItemKey, *, refresh: bool) -> Steps:
    def asking(store: Any) -> Ask:
        return ask(store, "get", item.namespace, item.key, refresh_ttl=refresh)

    read = get_read(item, refresh=refresh)
    return (yield from record(context, "get", asking, reads=[read], found=lambda one: [seen(one)]))


# -- several items


def batch(context: Context) -> Steps:
    """Reads and writes in one transaction."""
    draw = context.random
    items = draw.sample(SINGLES, draw.randint(2, 4))
    writes = [
        write_of(context, item, None if draw.random() < 0.2 else context.token())
        for item in items[: draw.randint(1, len(items))]
    ]
    reads = [get_read(item, refresh=draw.random() < 0.3) for item in items[draw.randint(0, 1) :]]
    if draw.random() < 0.3:
        reads.append(search_read(context, query=None))
    yield from _batch(context, writes, reads)


def twins(context: Context) -> Steps:
    """Both twins are put or deleted in one batch, or read in one."""
    draw = context.random
    if draw.random() < 0.5:
        token = None if draw.random() < 0.3 else context.token()
        alike = {"index": True, "ttl": None, "if_version": None}
        writes = [{"item": str(twin), "token": token, **alike} for twin in PAIR]
        yield from _batch(context, writes, [])
    else:
        yield from _batch(context, [], [get_read(twin, refresh=False) for twin in PAIR])


def _batch(context: Context, writes: list[Write], reads: list[Read]) -> Steps:
    ops = [*map(read_op, reads), *map(put_op, writes)]
    order = list(range(len(ops)))
    context.random.shuffle(order)

    def asking(store: Any) -> Ask:
        return ask(store, "batch", [ops[at] for at in order])

    def found(results: list[Any]) -> list[Any]:
        return [seen(results[order.index(at)]) for at in range(len(reads))]

    yield from record(context, "batch", asking, writes=writes, reads=reads, found=found)


def search(context: Context) -> Steps:
    """By namespace and field."""
    yield from _search(context, search_read(context, query=None))


def meaning(context: Context) -> Steps:
    """By what a text means: all that is below a prefix, nearest first."""
    token = context.random.choice([context.token(), *session_of(context).tokens])
    yield from _search(context, search_read(context, query=text_of(token)))


def _search(context: Context, read: Read, **more: Any) -> Steps:
    op = search_op(read)

    def asking(store: Any) -> Ask:
        return ask(
            store,
            "search",
            op.namespace_prefix,
            query=op.query,
            filter=op.filter,
            limit=op.limit,
            refresh_ttl=op.refresh_ttl,
        )

    found = lambda items: [seen(items)]  # noqa: E731
    return (yield from record(context, "search", asking, reads=[read], found=found, **more))


def namespaces(context: Context, **more: Any) -> Steps:
    def asking(store: Any) -> Ask:
        return ask(store, "list_namespaces", prefix=(ROOT,), limit=ALL)

    def found(listed: Any) -> list[Any]:
        return [{"/".join(namespace): None for namespace in listed}]

    reads = [{"scope": "namespaces", "refresh": False}]
    yield from record(context, "namespaces", asking, reads=reads, found=found, **more)


# -- upkeep


def setup(context: Context) -> Steps:
    yield from record(context, "setup", lambda store: ask(store, "setup"))


def sweep(context: Context) -> Steps:
    yield from record(
        context, "sweep", lambda store: ask(store, "sweep_ttl"), found=lambda count: [count]
    )


def sweeper(context: Context) -> Steps:
    """Let the sweeper run for a moment."""
    every, until = context.random.choice([0.01, 0.05]), context.random.choice([0.05, 0.5])
    model = session_of(context).model

    def starting(store: Any) -> Ask:
        return plain(store, "start_ttl_sweeper", every / 60)

    if (yield from record(context, "start_sweeper", starting, model=model)):
        yield pause(until)
        yield from record(
            context,
            "stop_sweeper",
            lambda store: plain(store, "stop_ttl_sweeper", 20.0),
            found=lambda ended: [bool(ended)],
            model=model,
        )


class BrokenOff(Exception):
    """What the progress of a reindex raises to end it early."""


def reindex(context: Context) -> Steps:
    """Make all vectors again, with the worker's model."""
    yield from _reindex(context, session_of(context).model)


def deploy(context: Context) -> Steps:
    """Change to another model, as a new release of a program does at its start."""
    session = session_of(context)
    session.model = another_model(context, session.model)
    yield from _reindex(context, session.model)


def _reindex(context: Context, model: str, **more: Any) -> Steps:
    breaks = "how" not in more and context.random.random() < 0.1
    size = context.random.choice([1, 2, 5, 100])

    def progress(*_done: int) -> None:
        if breaks:
            raise BrokenOff

    def asking(store: Any) -> Ask:
        return ask(store, "reindex", progress=progress, batch_size=size)

    found = lambda done: [done]  # noqa: E731
    yield from record(context, "reindex", asking, found=found, model=model, **more)


def reencrypt(context: Context) -> Steps:
    def found(done: Any) -> list[Any]:
        return [done.resealed, done.current, len(done.refused)]

    yield from record(context, "reencrypt", lambda store: ask(store, "reencrypt"), found=found)


OPERATIONS = [
    Operation("store_put", put, ("store.put",), 8),
    Operation("store_cancelled_put", cancelled_put, ("store.batch",), 1),
    Operation("store_update", update, ("store.get", "store.batch"), 4),
    Operation("store_delete", delete, ("store.delete",), 3),
    Operation("store_get", get, ("store.get",), 4),
    Operation("store_batch", batch, ("store.batch",), 4),
    Operation("store_twins", twins, ("store.batch",), 3),
    Operation("store_search", search, ("store.search",), 3),
    Operation("store_meaning", meaning, ("store.search",), 5),
    Operation("store_namespaces", namespaces, ("store.list_namespaces",), 1),
    Operation("store_setup", setup, ("store.setup",), 0.2, DATABASES),
    Operation("store_sweep", sweep, ("store.sweep_ttl",), 1.5),
    Operation("store_sweeper", sweeper, ("store.start_ttl_sweeper", "store.stop_ttl_sweeper"), 0.5),
    Operation("store_reindex", reindex, ("store.reindex",), 0.7),
    Operation("store_deploy", deploy, ("store.reindex",), 0.4, DATABASES),
    Operation("store_reencrypt", reencrypt, ("store.reencrypt",), 1, ("sqlite-encrypted",)),
]
SETTINGS: dict[str, Any] = {"index": MODELS[FIRST_MODEL].index(), "clock": clock}


# -- quiet moments


def observe(context: Context) -> Steps:
    """All that is there, in every way in which a store can be asked.

    The stores are new, and their clock stands still, so that nothing expires between two looks.
    """
    session = session_of(context)
    now, first = session.clock(), session.model
    for model in (first, *(name for name in MODELS if name != first)):
        with context.place.store(**settings(context.place, model, lambda: now)) as store:
            frozen = context.place.name != "memory"
            same = {"store": store, "model": model, "clock": now, "frozen": frozen}
            if (yield from _by_meaning(context, **same)):
                yield from _in_other_ways(context, **same)
                yield from _reindex(context, how="reindex", **same)
                yield from _by_meaning(context, **same)
                session.model = model
                return


def _by_meaning(context: Context, **same: Any) -> Steps:
    """Whether the store can be asked with this model."""
    read = {**_ALL, "query": text_of(context.token())}
    return (yield from _search(context, read, how="by meaning", **same))


def _in_other_ways(context: Context, **same: Any) -> Steps:
    gets = [GetOp(item.namespace, item.key, False) for item in ITEMS.values()]

    def asking(store: Any) -> Ask:
        return ask(store, "batch", gets)

    def found(results: Any) -> list[Any]:
        return [seen(results)]

    reads = [{"scope": "get", "items": list(ITEMS), "refresh": False}]
    yield from record(context, "batch", asking, reads=reads, found=found, how="by key", **same)
    yield from _search(context, _ALL, how="by search", **same)
    yield from namespaces(context, how="by namespace", **same)


_ALL: Read = {"scope": "search", "prefix": [ROOT], "kind": None, "query": None, "refresh": False}
