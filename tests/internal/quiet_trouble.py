"""Trouble that no error tells of: a log line is all that there is."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import httpx
from canary import Told
from database_trouble import RedisClient, one
from langchain_core.callbacks import BaseCallbackHandler
from redis import ResponseError
from typing_extensions import TypedDict

from milepost._db.redis.commands import Confirmed
from milepost._db.redis.engine import RedisEngine
from milepost._db.redis.guarded import reading
from milepost.cache.redis import RedisCache
from milepost.cache.sqlite import SqliteCache
from milepost.checkpoint._redis.rows import Keys
from milepost.checkpoint._redis.server import Settings, check_server
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.graph import START, StateGraph
from milepost.pregel.remote import RemoteGraph
from milepost.server import create_app
from milepost.store.redis import RedisStore
from milepost.store.sqlite import SqliteStore
from milepost.types import TracePolicy

NAME = (("node",), "canary")


class Unreachable(Exception):
    """What a client of Redis raises."""


def a_cached_result_cannot_be_read(stage: Any) -> None:
    cache: Any = SqliteCache(path=stage.path)
    cache.set({NAME: ("canary", None)})
    cache._engine.connection.execute("UPDATE milepost_cache SET kind = 'canary'")
    assert cache.get([NAME]) == {}
    cache.close()


def a_server_of_a_cache_is_away(stage: Any) -> None:
    class Client:
        def execute_command(self, *command: Any) -> Any:
            raise Unreachable("canary")

    errors: Any = SimpleNamespace(ConnectionError=Unreachable, ValkeyError=Unreachable)
    before = sys.modules.get("valkey.exceptions")
    sys.modules["valkey.exceptions"] = errors
    try:
        cache: Any = RedisCache(Client())
        assert cache.get([NAME]) == {}
    finally:
        del sys.modules["valkey.exceptions"]
        if before is not None:
            sys.modules["valkey.exceptions"] = before


def a_serializer_has_no_allowlist(stage: Any) -> None:
    class Own:
        def dumps_typed(self, obj: Any) -> Any: ...
        def loads_typed(self, data: Any) -> Any: ...

    saver: Any = InMemorySaver(serde=Own())
    assert saver.with_allowlist([("canary", "Canary")]) is saver


@dataclass
class Order:
    note: str


def a_stored_type_is_not_allowed(stage: Any) -> None:
    registry = TypeRegistry()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stored = JsonPlusSerializer(registry=registry).dumps_typed(Order("canary"))
        only = JsonPlusSerializer(registry=registry, allowed_msgpack_modules=[])
        assert only.loads_typed(stored) == {"note": "canary"}


def a_server_sends_nothing(stage: Any) -> None:
    runs = SimpleNamespace(stream=lambda **_: iter(()))
    graph = RemoteGraph("agent", sync_client=SimpleNamespace(runs=runs))
    assert graph.invoke({"key": "canary"}) is None


def a_distance_is_not_known_to_sqlite(stage: Any) -> None:
    index: Any = {"dims": 1, "embed": lambda texts: [[1.0]], "distance_type": "l2"}
    with SqliteStore.from_conn_string(stage.path, index=index):
        pass


def a_distance_is_not_known_to_redis(stage: Any) -> None:
    index: Any = {"dims": 1, "embed": lambda texts: [[1.0]], "distance_type": "l2"}
    RedisStore(RedisClient(), index=index)


def a_server_bars_scripts(stage: Any) -> None:
    refusal = ResponseError("NOPERM User canary has no permissions to run the 'evalsha' command")
    engine = RedisEngine(RedisClient(refusal), owner="RedisStore")
    with suppress(AttributeError):  # the client has no transactions
        engine.run(one(reading([b"canary"], [])))


def a_server_cannot_tell_what_is_on_its_disk(stage: Any) -> None:
    writer = RedisStore(RedisClient(), fsync=True)._core.writer  # type: ignore[attr-defined]
    waiting = writer.commit(reading([b"canary"], []))
    next(waiting)
    with suppress(StopIteration):
        waiting.send(Confirmed([1], -1, -1))


def a_server_with_threads_may_evict_them(stage: Any) -> None:
    looking = check_server(Settings(Keys("canary"), ttl=1.0))
    next(looking)
    with suppress(StopIteration):
        looking.send([[{"maxmemory_policy": "volatile-lru"}, {"aof_enabled": 1}, [1, 0]]])


def a_trace_policy_fails(stage: Any) -> None:
    def process(value: Any) -> Any:
        raise Unreachable("canary")

    policy = TracePolicy(process_inputs=process)
    builder = StateGraph(dict).add_node("node", lambda state: {}, trace_policy=policy)
    graph = builder.add_edge(START, "node").compile()
    graph.invoke({"key": "canary"}, {"callbacks": [BaseCallbackHandler()]})


def a_request_fails(stage: Any) -> None:
    app = create_app(InMemorySaver(), token=None)

    def threads(*_: Any) -> None:
        raise Unreachable("canary")

    stage.patch.setattr(app.state.server.database.source, "threads", threads)

    async def ask() -> Any:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/ok", params={"check_db": True}, headers={"key": "canary"})

    answer = asyncio.run(ask())
    assert answer.status_code == 500
    assert answer.json() == {"detail": "The server failed with Unreachable."}


class Opaque:
    """A type whose schema cannot be made."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        raise Unreachable("cannot read the vault with canary")


class Odd(TypedDict):
    opaque: Opaque


def asked_for_schemas(stage: Any, schema: Any) -> None:
    stage.patch.setattr("milepost.server._graphs._warned", set())
    graph = StateGraph(schema).add_node("node", lambda state: state).add_edge(START, "node")
    app = create_app(InMemorySaver(), token=None, graphs={"odd": graph.compile()})

    async def ask() -> Any:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [await client.get("/assistants/odd/schemas") for _ in range(2)]

    assert [answer.status_code for answer in asyncio.run(ask())] == [200, 200]


def a_type_has_no_schema(stage: Any) -> None:
    asked_for_schemas(stage, Odd)


def an_annotated_type_has_no_schema(stage: Any) -> None:
    asked_for_schemas(stage, Annotated[Odd, "canary"])


QUIET_TROUBLE: dict[Callable[[Any], None], list[Told]] = {
    a_cached_result_cannot_be_read: [
        (
            "milepost.storage",
            "WARNING",
            "A cached result of node cannot be read (DeserializationError), so it counts as "
            "missing.",
        )
    ],
    a_request_fails: [
        ("milepost.server", "WARNING", "The request GET /ok has failed: Unreachable.")
    ],
    a_type_has_no_schema: [
        (
            "milepost.server",
            "WARNING",
            "There is no JSON schema of quiet_trouble.Odd as a whole (Unreachable): clients are "
            "told its keys.",
        )
    ],
    an_annotated_type_has_no_schema: [
        (
            "milepost.server",
            "WARNING",
            "There is no JSON schema of quiet_trouble.Odd as a whole (Unreachable): clients are "
            "told its keys.",
        )
    ],
    a_trace_policy_fails: [
        ("milepost.run", "WARNING", "A function of a TracePolicy has failed: Unreachable.")
    ],
    a_server_of_a_cache_is_away: [
        (
            "milepost.storage",
            "WARNING",
            "RedisCache.get() could not use its server (Unreachable); it goes on without the "
            "cache.",
        )
    ],
    a_serializer_has_no_allowlist: [
        (
            "milepost.storage",
            "WARNING",
            "Own has no list of allowed types, so with_allowlist() changes nothing.",
        )
    ],
    a_stored_type_is_not_allowed: [
        (
            "milepost.storage",
            "WARNING",
            "The stored type 'quiet_trouble:Order' is blocked: it is not allowed.",
        )
    ],
    a_server_sends_nothing: [
        ("milepost.run", "WARNING", "RemoteGraph 'agent' got no values from its server.")
    ],
    a_distance_is_not_known_to_sqlite: [
        (
            "milepost.store",
            "WARNING",
            "A store in SQLite ranks by cosine; distance_type is for PostgreSQL.",
        )
    ],
    a_distance_is_not_known_to_redis: [
        (
            "milepost.store",
            "WARNING",
            "A store in Redis ranks by cosine; distance_type is for PostgreSQL.",
        )
    ],
    a_server_with_threads_may_evict_them: [
        (
            "milepost.storage",
            "WARNING",
            "Redis may evict threads with a TTL before their time (volatile-lru).",
        )
    ],
    a_server_bars_scripts: [
        ("milepost.storage", "WARNING", "RedisStore may run no scripts; it uses transactions.")
    ],
    a_server_cannot_tell_what_is_on_its_disk: [
        (
            "milepost.store",
            "WARNING",
            "The server cannot tell when a write is on its disk (WAITAOF needs Redis 7.2 or "
            "Valkey, and appendonly yes): what it promises is its appendfsync.",
        )
    ],
}
