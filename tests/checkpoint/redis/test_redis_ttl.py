"""Threads that expire: as a whole, by a default or by their own time, and not if they are pinned."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from graphs import line, thread
from milepost.checkpoint.redis import AsyncRedisSaver, RedisSaver
from milepost.errors import CheckpointNotFoundError, ThreadConflict

KEYS = ("{milepost:t}:thread", "{milepost:t}:rows", "{milepost:t}:index")


@pytest.fixture
def client(redis_server: Any) -> Any:
    made = redis_server.client()
    made.flushall()
    yield made
    made.close()


def ends(client: Any) -> set[int]:
    """When the keys of the thread expire."""
    return {client.execute_command("PEXPIRETIME", key) for key in KEYS}


@pytest.mark.parametrize("scripts", [True, False])
def test_every_step_sets_the_expiry_of_the_whole_thread(client, redis_server, scripts):
    ttl = {"default_ttl": 10}
    with RedisSaver.from_conn_string(redis_server.url, ttl=ttl, scripts=scripts) as saver:
        graph = line("a", "b").compile(checkpointer=saver)
        graph.invoke({}, thread("t"), durability="sync")
        first = ends(client)
        assert len(first) == 1
        assert 590 < max(first) / 1000 - time.time() <= 600
        time.sleep(0.01)
        graph.get_state(thread("t"))
        assert ends(client) == first
        graph.invoke({}, thread("t"))
        assert min(ends(client)) > max(first)


@pytest.mark.parametrize("scripts", [True, False])
def test_reading_counts_as_use_if_that_is_wanted(client, redis_server, scripts):
    ttl = {"default_ttl": 10, "refresh_on_read": True}
    with RedisSaver.from_conn_string(redis_server.url, ttl=ttl, scripts=scripts) as saver:
        graph = line("a").compile(checkpointer=saver)
        graph.invoke({}, thread("t"))
        first = ends(client)
        time.sleep(0.01)
        graph.get_state(thread("t"))
        assert min(ends(client)) > max(first)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_thread_may_have_a_time_of_its_own_or_be_pinned(client, redis_server, scripts):
    ttl = {"default_ttl": 10}
    with RedisSaver.from_conn_string(redis_server.url, ttl=ttl, scripts=scripts) as saver:
        graph = line("a").compile(checkpointer=saver)
        graph.invoke({}, thread("t"))
        saver.threads.set_ttl("t", 60)
        graph.invoke({}, thread("t"))
        assert 3590 < max(ends(client)) / 1000 - time.time() <= 3600
        saver.threads.pin("t")
        assert ends(client) == {-1}
        graph.invoke({}, thread("t"))
        assert ends(client) == {-1}
        with pytest.raises(CheckpointNotFoundError, match="'nobody'"):
            saver.threads.pin("nobody")


@pytest.mark.parametrize("scripts", [True, False])
def test_another_saver_without_a_default_leaves_the_expiry_whole(client, redis_server, scripts):
    with RedisSaver.from_conn_string(redis_server.url, ttl={"default_ttl": 10}) as saver:
        saver.create_thread("t")
    with RedisSaver.from_conn_string(redis_server.url, scripts=scripts) as saver:
        line("a").compile(checkpointer=saver).invoke({}, thread("t"))
    [moment] = ends(client)
    assert 590 < moment / 1000 - time.time() <= 600


@pytest.mark.parametrize("scripts", [True, False])
def test_a_thread_that_is_pinned_while_it_is_read_stays_pinned(client, redis_server, scripts):
    ttl = {"default_ttl": 10, "refresh_on_read": True}
    with (
        RedisSaver.from_conn_string(redis_server.url, ttl=ttl, scripts=scripts) as saver,
        RedisSaver.from_conn_string(redis_server.url) as other,
    ):
        line("a").compile(checkpointer=saver).invoke({}, thread("t"))
        attempt = saver.server.redis.attempt
        pins = iter([lambda: other.threads.pin("t")])

        def late(effect: Any) -> Any:
            if "PEXPIRE" in repr(effect):
                for pin in pins:
                    pin()
            return attempt(effect)

        saver.server.redis.attempt = late
        assert list(saver.list(thread("t")))
        assert next(pins, None) is None, "the read counted as use"
        assert ends(client) == {-1}


@pytest.mark.parametrize("scripts", [True, False])
def test_a_write_that_comes_late_leaves_no_part_of_a_thread(client, redis_server, scripts):
    """The time to live is counted from the write on, and not from what was read before it."""
    ttl = {"default_ttl": 0.5 / 60}
    with RedisSaver.from_conn_string(redis_server.url, ttl=ttl, scripts=scripts) as saver:
        attempt = saver.server.redis.attempt

        def late(effect: Any) -> Any:
            if "PEXPIRE" in repr(effect):
                time.sleep(0.6)
            return attempt(effect)

        saver.server.redis.attempt = late
        saver.create_thread("t")
        assert client.hgetall(KEYS[0]).keys() != {b"rev", b"seq"}
        assert client.execute_command("PEXPIRETIME", KEYS[0]) != -1


def test_an_expired_thread_is_gone_from_listings_and_can_be_begun_again(client, redis_server):
    ttl = {"default_ttl": 0.2 / 60}
    with RedisSaver.from_conn_string(redis_server.url, ttl=ttl) as saver:
        graph = line("a", "b").compile(checkpointer=saver)
        graph.invoke({}, thread("t"))
        assert client.zrange("milepost:threads", 0, -1) == [b"t"]
        time.sleep(0.3)
        assert saver.list_threads() == []
        assert client.keys("*") == []
        assert saver.get_tuple(thread("t")) is None
        graph.invoke({}, thread("t"))
        assert saver.verify() == []


def test_a_run_whose_thread_expires_meanwhile_is_refused(client, redis_server):
    with RedisSaver.from_conn_string(redis_server.url, ttl={"default_ttl": 0.1 / 60}) as saver:
        graph = line("a", "b").compile(checkpointer=saver)

        def slow(_state: Any) -> Any:
            time.sleep(0.3)

        from milepost.graph import START, MessagesState, StateGraph

        builder: Any = StateGraph(MessagesState)
        builder.add_node("slow", slow)
        builder.add_edge(START, "slow")
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(ThreadConflict, match="deleted"):
            graph.invoke({"messages": []}, thread("t"), durability="sync")
    assert client.exists(*KEYS) == 0


def test_the_async_saver_has_the_same(client, redis_server):
    async def main() -> Any:
        ttl = {"default_ttl": 10, "refresh_on_read": False}
        async with AsyncRedisSaver.from_conn_string(redis_server.url, ttl=ttl) as saver:
            await saver.asetup()
            await line("a").compile(checkpointer=saver).ainvoke({}, thread("t"))
            first = ends(client)
            await saver.threads.apin("t")
            return first, ends(client)

    first, then = asyncio.run(main())
    assert len(first) == 1
    assert max(first) > 0
    assert then == {-1}
