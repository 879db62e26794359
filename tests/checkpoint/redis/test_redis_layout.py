"""How threads lie in Redis: few keys, one tag, core commands, one script a step."""

from __future__ import annotations

import asyncio
import operator
from contextlib import suppress
from itertools import product
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import thread
from milepost.checkpoint.redis import AsyncRedisSaver, RedisSaver
from milepost.checkpoint.redis.ashallow import AsyncShallowRedisSaver
from milepost.checkpoint.redis.shallow import ShallowRedisSaver
from milepost.errors import BrokenChainError, ColourError, ConnectionUnusableError, DamagedRowError
from milepost.graph import START, StateGraph

CORE = {
    "append", "auth", "client|setinfo", "del", "eval", "evalsha", "exec", "flushall", "hdel", "hello",
    "hget", "hgetall", "hincrby", "hlen", "hmget", "hset", "hsetnx", "info", "keys", "multi", "persist",
    "pexpire", "pexpireat", "ping", "pttl", "scan", "select", "set", "time", "unlink", "unwatch", "wait",
    "waitaof", "watch", "zadd", "zlexcount", "zrangebylex", "zrem", "zrevrangebylex", "zscore",
}  # fmt: skip
"""Commands that every server has; `flushall`, `keys`, `info` and `ping` are also the tests' own."""


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


def graph(saver: Any, steps: int = 4) -> Any:
    """A line of nodes, each of which adds its name."""
    builder: Any = StateGraph(Log)
    names = [f"n{number}" for number in range(steps)]
    for name in names:
        builder.add_node(name, lambda _, name=name: {"log": [name * 40]})
    for before, after in zip([START, *names], names, strict=False):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver)


@pytest.fixture
def client(redis_server: Any) -> Any:
    made = redis_server.client()
    made.flushall()
    yield made
    made.close()


def test_all_keys_of_a_thread_share_one_tag_and_go_together(client, redis_server):
    with RedisSaver.from_conn_string(redis_server.url, checkpoint_prefix="app") as saver:
        for name in ("a", "b}c", "{d}"):
            graph(saver).invoke({"log": []}, thread(name))
        tags = {key.rpartition(b":")[0] for key in client.keys("*") if key != b"app:threads"}
        assert tags == {b"{app:a}", b"{app:b}c}", b"{app:{d}}"}
        assert len(client.keys("*")) == 3 * 3 + 1
        for name in ("a", "b}c", "{d}"):
            saver.delete_thread(name)
    assert client.keys("*") == []


def test_a_usual_step_is_one_script_and_only_core_commands_are_used(client, redis_server):
    with RedisSaver.from_conn_string(redis_server.url) as saver:
        compiled = graph(saver, steps=20)
        compiled.invoke({"log": []}, thread("warm"), durability="sync")
        client.config_resetstat()
        compiled.invoke({"log": []}, thread("t"), durability="sync")
        stats = client.info("commandstats")
        scripts = stats["cmdstat_evalsha"]["calls"]
        assert 21 <= scripts <= 24, stats  # one for each step, and those that load the thread
        saver.copy_thread("t", "u")
        saver.prune(["u"])
        saver.list_threads(metadata={"a": 1})
        list(compiled.get_state_history(thread("t")))
        assert saver.verify() == []
        used = {name.removeprefix("cmdstat_") for name in client.info("commandstats")}
    assert used - CORE - {"config|resetstat", "config"} == set()


def test_versions_of_a_growing_value_are_stored_as_differences(client, redis_server):
    with RedisSaver.from_conn_string(redis_server.url) as saver:
        compiled = graph(saver)
        for _ in range(50):
            compiled.invoke({"log": ["x" * 200]}, thread("t"))
        whole = sum(len(str(state.values)) for state in compiled.get_state_history(thread("t")))
        stored = sum(client.memory_usage(key, samples=0) for key in client.keys("{milepost:t}*"))
    assert stored < whole / 8, (stored, whole)  # samples=0: of all fields, not of five


def whole(found: Any) -> tuple[Any, ...]:
    return found.checkpoint, found.metadata, found.pending_writes


def test_a_row_with_a_flipped_bit_is_named_and_never_read_as_a_value(client, redis_server):
    with RedisSaver.from_conn_string(redis_server.url) as saver:
        graph(saver).invoke({"log": []}, thread("t"), durability="sync")
        rows = client.hgetall("{milepost:t}:rows")
        sound = [(found.config, whole(found)) for found in saver.list(thread("t"))]
    assert len(rows) >= len(sound) == 6
    for field, data in rows.items():
        places = {0, 1, len(data) // 2, len(data) - 1}
        for at, bit in product(places, (1, 16, 128)):
            flipped = data[:at] + bytes((data[at] ^ bit,)) + data[at + 1 :]
            client.hset("{milepost:t}:rows", field, flipped)
            with RedisSaver.from_conn_string(redis_server.url) as saver:
                problems = saver.verify()
                assert {problem.thread_id for problem in problems} == {"t"}, (field, at)
                saver.salvage("t")
                for config, expected in sound:
                    with suppress(DamagedRowError, BrokenChainError):
                        assert whole(saver.get_tuple(config)) == expected, (field, at)
            client.hset("{milepost:t}:rows", field, data)


def test_a_damaged_entry_is_told(client, redis_server):
    with RedisSaver.from_conn_string(redis_server.url) as saver:
        graph(saver).invoke({"log": []}, thread("t"))
        sound = client.hgetall("{milepost:t}:thread")
        for name, damaged in ((b"updated_at", b"soon"), (b"status", b"\xff")):
            client.hset("{milepost:t}:thread", name, damaged)
            for read in (saver.list_threads, lambda: saver.get_tuple(thread("t"))):
                with pytest.raises(DamagedRowError, match="thread 't'"):
                    read()
            client.hset("{milepost:t}:thread", name, sound[name])


def test_a_thread_that_is_not_listed_is_found_by_verify_and_listed_again(client, redis_server):
    with RedisSaver.from_conn_string(redis_server.url) as saver:
        graph(saver).invoke({"log": []}, thread("t"))
        client.delete("milepost:threads")
        assert saver.list_threads() == []
        assert saver.verify() == []
        assert [info.thread_id for info in saver.list_threads()] == ["t"]
        client.delete("{milepost:t}:thread")
        assert [problem.reason for problem in saver.verify(None)] != []


@pytest.mark.parametrize("kind", [ShallowRedisSaver, AsyncShallowRedisSaver])
def test_a_shallow_saver_keeps_the_latest_checkpoint(kind, client, redis_server):
    del client

    async def on_a_loop() -> Any:
        async with kind.from_conn_string(redis_server.url) as saver:
            compiled = graph(saver)
            await compiled.ainvoke({"log": []}, thread("t"))
            return await compiled.aget_state(thread("t")), await saver.aget_thread("t")

    if kind is AsyncShallowRedisSaver:
        state, info = asyncio.run(on_a_loop())
    else:
        with kind.from_conn_string(redis_server.url) as saver:
            compiled = graph(saver)
            compiled.invoke({"log": []}, thread("t"))
            state, info = compiled.get_state(thread("t")), saver.get_thread("t")
    assert len(state.values["log"]) == 4
    assert info.checkpoints == 1


def test_clients_that_cannot_serve_are_refused(redis_server):
    import redis

    with pytest.raises(ConnectionUnusableError, match="decode_responses"):
        RedisSaver(redis_client=redis_server.client(decode_responses=True))
    with pytest.raises(ColourError, match="AsyncRedisSaver"):
        RedisSaver(redis_client=redis.asyncio.Redis())
    with pytest.raises(ColourError, match="serves RedisSaver"):
        AsyncRedisSaver(redis_client=redis_server.client())
    with pytest.raises(ValueError, match="an address or a client"):
        RedisSaver()
    with pytest.raises(ValueError, match="without braces"):
        RedisSaver(redis_server.url, checkpoint_prefix="a{b")
    with pytest.raises(ValueError, match="minutes above 0"):
        RedisSaver(redis_server.url, ttl={"default_ttl": 0})
    with pytest.raises(ValueError, match="unknown keys"):
        RedisSaver(redis_server.url, ttl={"ttl": 5})
