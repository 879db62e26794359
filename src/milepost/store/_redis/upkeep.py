"""Upkeep of a store on Redis: deleting expired items, sealing all values with another key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from milepost._db.redis.commands import RedisEffects, chunks, command
from milepost._db.redis.guarded import Guard, guarded, is_done, reading
from milepost._internal.progress import Progress, report
from milepost.store._core import namespaces
from milepost.store._core.core import Resealed
from milepost.store._core.records import Namespace
from milepost.store._core.tasks import StoreRequests, Transact, Write
from milepost.store._redis.change import Batch
from milepost.store._redis.layout import Place, RedisItem, from_member, item_at, sealed
from milepost.store._redis.read import heads_and_bodies

if TYPE_CHECKING:
    from milepost.store._redis.core import RedisCore

SWEPT_AT_ONCE: Final = 1000
"""Expired items that one script deletes."""
_RESEALED_AT_ONCE: Final = 100
"""Items whose values are read, sealed and replaced together."""


def spaces_of(core: RedisCore, root: str) -> RedisEffects[list[Namespace]]:
    """All namespaces below a root that have items."""
    names = yield command("ZRANGE", core.keys.root(root).spaces, 0, -1)
    return [namespaces.from_text(name.decode()) for name in names]


def names_in(core: RedisCore, space: Namespace) -> RedisEffects[list[str]]:
    names = yield command("HKEYS", core.keys.space(space).heads)
    return [name.decode() for name in names]


def items_at(core: RedisCore, places: Sequence[Place]) -> RedisEffects[list[RedisItem]]:
    """The places that have an item. All places are below one root."""
    keys, commands = heads_and_bodies(core.keys, places)
    replies = (yield reading(keys, commands))[1:] if commands else []
    found = map(item_at, places, replies[::2], replies[1::2])
    return [one for one in found if one is not None]


# -- expiry


def delete_expired(core: RedisCore) -> StoreRequests[int]:
    """Delete expired items, and remove empty roots. Returns the number of deleted items."""
    now = core.stamps.now()
    total = 0
    roots: list[str] = yield Transact(core.reader.roots, write=False)
    for root in roots:
        while True:
            swept: int = yield Transact(partial(_swept, core, root, now), write=True)
            total += swept
            if swept < SWEPT_AT_ONCE:
                break
    # Last, since this needs memory, which the server may not have before all are swept.
    for root in roots:
        yield Transact(partial(_dropped, core, root), write=True)
    return total


def _swept(core: RedisCore, root: str, now: int) -> RedisEffects[int]:
    expiry = core.keys.root(root).expiry
    names = yield command("ZRANGEBYSCORE", expiry, "-inf", now, "LIMIT", 0, SWEPT_AT_ONCE)
    if not names:
        return 0
    group = [Write(*from_member(name), None, "", (), None, None, None) for name in names]
    batch = Batch([group], {}, now, only_expired=True)
    yield from core.writer.write(batch, None)
    return batch.written


def _dropped(core: RedisCore, root: str) -> RedisEffects[None]:
    keys = core.keys.root(root)
    registered = yield from core.notebook.token(root)
    answer = yield reading(
        list(keys), [command("HMGET", keys.meta, "root", "deleted"), command("ZCARD", keys.spaces)]
    )
    (token, deleted), spaces = answer[1:]
    if registered is None or token is None or spaces:
        return
    # The floor comes first, so that a root that is added again gets versions above these.
    yield from core.notebook.raise_floor(int(deleted or 0))
    guards = [
        Guard(("HGET", keys.meta, "root"), token),
        Guard(("HGET", keys.meta, "deleted"), deleted),
        Guard(("ZCARD", keys.spaces), b"0"),
    ]
    answer = yield guarded(list(keys), guards, [command("UNLINK", *keys)])
    if is_done(answer):
        yield from core.notebook.unregister(root, registered)


# -- keys


def reseal_all(core: RedisCore, progress: Progress | None) -> StoreRequests[Resealed]:
    """Seal all values again. Returns how many were, and which could not be."""
    done = Resealed()
    seen = 0
    for root in (yield Transact(core.reader.roots, write=False)):
        for space in (yield Transact(partial(spaces_of, core, root), write=False)):
            names: list[str] = yield Transact(partial(names_in, core, space), write=False)
            for some in chunks([(space, name) for name in names], _RESEALED_AT_ONCE):
                read: list[RedisItem] = yield Transact(partial(items_at, core, some), write=False)
                again = core.reseal([(one, one.row) for one in read], done)
                if changes := [(one, sealed(new)) for one, new in again]:
                    done.resealed += yield Transact(partial(_replaced, core, changes), write=True)
                seen += len(read)
                report(progress, seen, None)
    return done


def _replaced(core: RedisCore, changes: Sequence[tuple[RedisItem, bytes]]) -> RedisEffects[int]:
    """Replace values of items, except of items that have changed since. Returns the number."""
    keys, guards, commands = [], [], []
    for one, body in changes:
        space = core.keys.space(one.row.namespace)
        keys += [space.heads, space.bodies]
        guards.append(Guard(("HGET", space.heads, one.row.key), one.head.stored))
        commands.append(command("HSET", space.bodies, one.row.key, body))
    answer = yield from core.writer.commit(guarded(list(dict.fromkeys(keys)), guards, commands))
    if is_done(answer):
        return len(changes)
    if len(changes) == 1:
        # The item was put meanwhile, with the newest key; or its lifetime was renewed, and the next
        # call seals it.
        return 0
    count = 0
    for change in changes:
        count += yield from _replaced(core, [change])
    return count
