"""Items that the store of langgraph-checkpoint-redis has kept.

An item is a document `store:ID`. Its namespace is one text, in which what a search would take for
a sign has a backslash before it. When it expires is known to the server alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from milepost.integrations.langgraph._formats.redis_json import RedisValues
from milepost.integrations.langgraph._moving.items import Kept, Refuse
from milepost.integrations.langgraph._moving.redis_documents import Documents, Found

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

    def pages(self, refuse: Refuse | None = None) -> Iterator[list[Kept]]:
        """All items. `refuse` is told about each that cannot be read."""
        todo = iter(self._keys)
        while keys := list(islice(todo, _PAGE)):
            left = self._documents.milliseconds_left(keys)
            now = int(time.time() * _SECOND)
            page: list[Kept] = []
            for found in self._documents.whole(keys):
                ends = None if found.key not in left else now + left[found.key] * 1000
                try:
                    page.append(self._kept(found, ends))
                except Exception as error:
                    if refuse is None:
                        raise
                    # Whatever is wrong, it is wrong with this item alone.
                    reason = found.damage or f"{type(error).__name__}: {error}"
                    refuse(f"item at key '{found.key}': it cannot be read ({reason})")
            yield page

    def _kept(self, found: Found, ends: int | None) -> Kept:
        document = found.fields["$"]
        created, updated = int(document["created_at"]), int(document["updated_at"])
        # The server counts whole seconds from the last change, or from the last use.
        ttl = None if ends is None else max(1, round((ends - updated) / _SECOND)) * _SECOND
        return Kept(
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
