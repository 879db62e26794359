"""Documents of a Redis server with RedisJSON, by their keys.

Needs SCAN and JSON.GET alone: nothing depends on a search index, which may lag behind or have been
dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from milepost._db.redis.commands import literally
from milepost._db.redis.errors import named
from milepost.integrations.langgraph._moving.sources import BadAddressError

_PAGE: Final = 200
"""Documents that are asked for at once."""


class Found(NamedTuple):
    """What was asked of one key."""

    key: str
    fields: dict[str, Any]
    """Path → what is there; paths to nothing are left out."""
    damage: str | None = None
    """Why there is no document to read, if that is so."""


class Documents:
    """The documents that a client can reach."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def keys(self, prefix: str) -> Iterator[str]:
        """Each key that begins with `prefix:`, once: SCAN may give one several times."""
        seen: set[str] = set()
        for raw in self._client.scan_iter(match=f"{literally(prefix)}:*", count=1000):
            key = raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw
            if key not in seen:
                seen.add(key)
                yield key

    def fields(self, keys: Iterable[str], *paths: str) -> Iterator[Found]:
        """Some parts of each document, in the order of the keys; one that is gone is left out."""
        todo = iter(keys)
        while page := list(islice(todo, _PAGE)):
            pipeline = self._client.pipeline(transaction=False)
            for key in page:
                pipeline.execute_command("JSON.GET", key, *paths)
            replies = pipeline.execute(raise_on_error=False)
            for key, reply in zip(page, replies, strict=True):
                if (found := _found(key, paths, reply)) is not None:
                    yield found

    def read(self, keys: Iterable[str]) -> Iterator[Found]:
        """Complete documents: each is in `fields` under its path, `$`."""
        yield from self.fields(keys, "$")

    def milliseconds_left(self, keys: list[str]) -> Mapping[str, int]:
        """Of keys that expire: how long they have left."""
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.pttl(key)
        return {key: left for key, left in zip(keys, pipeline.execute(), strict=True) if left >= 0}


def _found(key: str, paths: tuple[str, ...], reply: Any) -> Found | None:
    if reply is None:
        return None
    if isinstance(reply, Exception):
        if "unknown command" in str(reply).lower():
            raise BadAddressError(
                "This server does not know JSON.GET. langgraph-checkpoint-redis keeps its threads "
                "in the module RedisJSON: name the server that it wrote to, with that module."
            ) from reply
        if isinstance(reply, named("ResponseError")) and "WRONGTYPE" in str(reply):
            return Found(key, {}, "it is no JSON document")
        raise reply
    try:
        parsed = json.loads(reply)
        answers = {paths[0]: parsed} if len(paths) == 1 else parsed
        fields = {path: answers[path][0] for path in paths if answers.get(path)}
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        return Found(key, {}, f"its document cannot be parsed: {error}")
    return Found(key, fields)
