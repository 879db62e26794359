"""Items on Redis: those that the store of langgraph-checkpoint-redis has kept, and where they go.

An item of that store is a document `store:ID`. Its namespace is one text, in which what a search
would take for a sign has a backslash before it. When it expires is known to the server alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from milepost.integrations.langgraph._moving.items import MINUTE, ItemPlace, Refuse, StoredItem
from milepost.integrations.langgraph._moving.redis_documents import Documents, Found, RedisValues
from milepost.store._redis.layout import Head, Keys, member, parsed

if TYPE_CHECKING:
    from milepost.store.redis import RedisStore

_PAGE: Final = 200
_SECOND: Final = 1_000_000


class RedisItems:
    """The items, for reading only."""

    def __init__(self, documents: Documents, values: RedisValues, prefix: str) -> None:
        self._documents = documents
        self._values = values
        self._keys = sorted(documents.keys(prefix))

    def __bool__(self) -> bool:
        return bool(self._keys)

    def pages(self, refuse: Refuse) -> Iterator[list[StoredItem]]:
        """All items. `refuse` is called for each that cannot be read."""
        todo = iter(self._keys)
        while keys := list(islice(todo, _PAGE)):
            left = self._documents.milliseconds_left(keys)
            now = int(time.time() * _SECOND)
            page: list[StoredItem] = []
            for found in self._documents.read(keys):
                ends = None if found.key not in left else now + left[found.key] * 1000
                try:
                    page.append(self._item(found, ends))
                except Exception as error:
                    # Whatever is wrong, it is wrong with this item alone.
                    reason = found.damage or f"{type(error).__name__}: {error}"
                    refuse(f"item at key '{found.key}': it cannot be read ({reason})")
            yield page

    def _item(self, found: Found, ends: int | None) -> StoredItem:
        document = found.fields["$"]
        created, updated = int(document["created_at"]), int(document["updated_at"])
        # The server counts whole seconds from the last change, or from the last use.
        ttl = None if ends is None else max(1, round((ends - updated) / _SECOND)) * _SECOND
        return StoredItem(
            tuple(re.sub(r"\\(.)", r"\1", document["prefix"]).split(".")),
            document["key"],
            self._value(document["value"]),
            created,
            updated,
            ttl,
            None if ttl is None else updated + ttl,
        )

    def _value(self, stored: Any) -> dict[str, Any]:
        if isinstance(stored, dict) and stored.keys() == {"__serde_type__", "__serde_data__"}:
            kind, data = stored["__serde_type__"], stored["__serde_data__"]
            if kind == "json":
                stored = self._values.json(data)
            else:
                stored = self._values.encoded(kind, bytes.fromhex(data))
        if not isinstance(stored, dict):
            raise TypeError(f"its value is {type(stored).__name__}, not an object")
        return stored


_PREFIX: Final = "milepost:store"


class OurRedisItems:
    """The store as a target. Items are put through it; their times, which no store lets anybody
    set, are written to the keys."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._keys = Keys(_PREFIX)

    def fitted(self, kept: StoredItem) -> StoredItem:
        """The item as this database can keep it."""
        return kept

    def change_times(self, places: Iterable[ItemPlace]) -> dict[ItemPlace, int]:
        """When the items at these places were last changed; missing ones are left out."""
        heads = {place: self._head(place) for place in places}
        return {place: head.updated for place, head in heads.items() if head is not None}

    def find(self, place: ItemPlace) -> StoredItem | None:
        """The item at a place; None if there is none."""
        head, item = self._head(place), self._store.get(*place, refresh_ttl=False)
        if head is None or item is None:
            return None
        times = (head.created, head.updated, head.ttl, head.expires)
        return StoredItem(place[0], place[1], item.value, *times)

    def put(self, kept: StoredItem) -> None:
        """Store an item with its times."""
        minutes = None if kept.ttl is None else kept.ttl / MINUTE
        self._store.put(kept.namespace, kept.key, kept.value, index=None, ttl=minutes)
        head = self._head(kept.place)
        assert head is not None
        created, updated, ttl, expires = kept[3:]
        now = replace(head, created=created, updated=updated, ttl=ttl, expires=expires)
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

    def _head(self, place: ItemPlace) -> Head | None:
        namespace, key = place
        return parsed(place, self._store.conn.hget(self._keys.space(namespace).heads, key))
