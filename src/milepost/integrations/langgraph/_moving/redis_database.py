"""The databases of langgraph-checkpoint-redis by their addresses, for reading only.

An address may say under which prefixes a program has kept its keys, if they are not the usual
ones: `?checkpoint_prefix=…&checkpoint_write_prefix=…&store_prefix=…`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from milepost._db.redis.client import make_client, without_parameters
from milepost.integrations.langgraph._formats.decoding import StrictSerializer
from milepost.integrations.langgraph._formats.redis_json import RedisValues
from milepost.integrations.langgraph._moving.redis_documents import Documents
from milepost.integrations.langgraph._moving.redis_items import RedisItems
from milepost.integrations.langgraph._moving.redis_threads import RedisThreads
from milepost.integrations.langgraph._moving.sources import BadAddressError

_PREFIXES: Final = {
    "checkpoint_prefix": "checkpoint",
    "checkpoint_write_prefix": "checkpoint_write",
    "store_prefix": "store",
}


@contextmanager
def their_threads(address: str, strict: StrictSerializer, serde: Any) -> Iterator[RedisThreads]:
    """The threads that langgraph-checkpoint-redis has stored."""
    url, given = without_parameters(address, _PREFIXES)
    prefixes = _PREFIXES | given
    with closing(_client(url)) as client:
        documents = Documents(client)
        checkpoints, writes = prefixes["checkpoint_prefix"], prefixes["checkpoint_write_prefix"]
        threads = RedisThreads(documents, RedisValues(strict, serde), (checkpoints, writes))
        is_there = threads.size() or threads.damaged()
        if not is_there and not any(documents.keys(prefixes["store_prefix"])):
            raise BadAddressError(
                f"No key begins with '{checkpoints}:', so langgraph-checkpoint-redis has stored no "
                "thread in this database. See that the address names the right server and the "
                "right number, as in redis://host:6379/0. If the program has chosen a "
                "checkpoint_prefix and a checkpoint_write_prefix, add them to the address: "
                "?checkpoint_prefix=…&checkpoint_write_prefix=…"
            )
        yield threads


@contextmanager
def their_items(address: str) -> Iterator[RedisItems | None]:
    """The items that its store has kept; None if there are none."""
    url, given = without_parameters(address, _PREFIXES)
    prefixes = _PREFIXES | given
    strict = StrictSerializer()
    with closing(_client(url)) as client:
        values = RedisValues(strict, strict)
        items = RedisItems(Documents(client), values, prefixes["store_prefix"])
        yield items or None


def _client(url: str) -> Any:
    # With the older protocol JSON.GET answers the same whatever the module's version is.
    return make_client(url, is_async=False, protocol=2)
