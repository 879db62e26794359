"""Items that come into milepost's store on Redis with their times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from milepost.integrations.langgraph._moving.items import Kept, Places
from milepost.store._redis.heads import Head, parsed
from milepost.store._redis.keys import Keys, member

if TYPE_CHECKING:
    from milepost.store.redis import RedisStore

_PREFIX: Final = "milepost:store"
_MINUTE: Final = 60_000_000


class OurRedisItems:
    """The store as a target. Items are put through it; their times, which no store lets anybody
    set, are written to the keys."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._keys = Keys(_PREFIX)

    def fitted(self, kept: Kept) -> Kept:
        """The item as this database can keep it."""
        return kept

    def ages(self, places: Places) -> dict[Any, int]:
        """When those of these items that are there were last changed, by namespace and key."""
        heads = {place: self._head(place) for place in places}
        return {place: head.updated for place, head in heads.items() if head is not None}

    def find(self, places: Places) -> dict[Any, Kept]:
        """Those of these items that are there, by namespace and key."""
        found: dict[Any, Kept] = {}
        for namespace, key in places:
            head = self._head((namespace, key))
            item = self._store.get(namespace, key, refresh_ttl=False)
            if head is not None and item is not None:
                times = (head.created, head.updated, head.ttl, head.expires)
                found[namespace, key] = Kept(namespace, key, item.value, *times)
        return found

    def put(self, kept: Kept) -> None:
        """Store an item with its times."""
        minutes = None if kept.ttl is None else kept.ttl / _MINUTE
        self._store.put(kept.namespace, kept.key, kept.value, index=None, ttl=minutes)
        head = self._head(kept.place)
        assert head is not None
        now = replace(
            head,
            created=kept.created,
            updated=kept.updated,
            ttl=kept.ttl,
            expires=kept.expires,
        )
        space, root = self._keys.space(kept.namespace), self._keys.root(kept.namespace[0])
        pipeline = self._store.conn.pipeline(transaction=False)
        pipeline.hset(space.heads, kept.key, now.dump())
        pipeline.zadd(space.order, {kept.key: kept.updated})
        name = member(kept.namespace, kept.key)
        if kept.expires is None:
            pipeline.zrem(root.expiry, name)
        else:
            pipeline.zadd(root.expiry, {name: kept.expires})
        pipeline.execute()

    def _head(self, place: tuple[tuple[str, ...], str]) -> Head | None:
        namespace, key = place
        stored = self._store.conn.hget(self._keys.space(namespace).heads, key)
        return None if stored is None else parsed(place, stored)
