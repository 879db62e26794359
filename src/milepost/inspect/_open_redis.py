"""Databases in Redis and Valkey."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from milepost.errors import MissingDependencyError
from milepost.inspect._database import Database
from milepost.inspect._failures import hidden
from milepost.inspect._opening_parts import serde_for
from milepost.inspect._stored import data_saver

if TYPE_CHECKING:
    from milepost.checkpoint.serde.base import SerializerProtocol


def open_redis(url: str, write: bool, serde: SerializerProtocol | None) -> Database:
    try:
        from milepost._db.redis.client import make_client
        from milepost.checkpoint.redis import RedisSaver
    except ImportError as error:
        raise MissingDependencyError(
            "Redis needs a client: pip install 'milepost[redis]'"
        ) from error
    from milepost.inspect._redis_source import RedisSource

    stack = ExitStack()
    client = make_client(url, is_async=False)
    stack.callback(client.close)
    # To read, it does not matter what the server does with its memory and its disk.
    saver = RedisSaver(
        redis_client=client, serde=serde_for(serde), allow_eviction=not write, wait_aof=write
    )
    try:
        with warnings.catch_warnings():
            if not write:
                warnings.simplefilter("ignore", RuntimeWarning)
            saver.setup()
    except BaseException:
        stack.close()
        raise

    def store(create: bool) -> Any:
        from milepost.store.redis import RedisStore

        found = RedisStore(client, serde=serde_for(serde), allow_eviction=not write)
        # There are no tables that would show whether a program keeps a store here.
        return found if create or found.list_namespaces(limit=1) else None

    reader: Any = data_saver(saver)
    return Database(
        saver,
        url=hidden(url),
        kind="redis",
        writable=write,
        open_store=store,
        source=RedisSource(reader),
        reader=reader,
        close=stack.close,
    )
