"""Threads that go from one saver to another, and are sealed with another key."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphs import line, thread
from milepost.checkpoint.redis import AsyncRedisSaver, RedisSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.keyring import AesKeyRing
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import DecryptionError


@pytest.fixture
def client(redis_server: Any) -> Any:
    made = redis_server.client()
    made.flushall()
    yield made
    made.close()


def ring(**keys: bytes) -> EncryptedSerializer:
    return EncryptedSerializer(AesKeyRing(keys))


def shown(saver: Any, name: str) -> Any:
    graph = line("a", "b").compile(checkpointer=saver)
    return [(state.values, state.next) for state in graph.get_state_history(thread(name))]


def test_threads_go_from_sqlite_to_redis_and_back(client, redis_server):
    del client
    with (
        SqliteSaver.from_conn_string(":memory:") as lite,
        RedisSaver.from_conn_string(redis_server.url) as saver,
        SqliteSaver.from_conn_string(":memory:") as back,
    ):
        graph = line("a", "b").compile(checkpointer=lite)
        for _ in range(3):
            graph.invoke({}, thread("t"))
        lite.set_thread_metadata("t", {"owner": "me"})
        assert saver.load(lite.dump()) == ["t"]
        assert shown(saver, "t") == shown(lite, "t")
        assert saver.verify() == []
        assert [info.thread_id for info in saver.list_threads(metadata={"owner": "me"})] == ["t"]
        line("a", "b").compile(checkpointer=saver).invoke({}, thread("t"))
        assert back.load(saver.dump()) == ["t"]
        assert shown(back, "t") == shown(saver, "t")


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_everything_is_sealed_with_the_newest_key_and_older_ones_can_go(
    client, redis_server, colour
):
    del client
    old, new = b"o" * 32, b"n" * 32
    with RedisSaver.from_conn_string(redis_server.url, serde=ring(old=old)) as saver:
        graph = line("a", "b").compile(checkpointer=saver)
        for name in ("t", "u"):
            graph.invoke({}, thread(name))
        before = shown(saver, "t")

    async def on_a_loop(serde: Any) -> Any:
        async with AsyncRedisSaver.from_conn_string(redis_server.url, serde=serde) as saver:
            return await saver.areencrypt(), await saver.areencrypt()

    both = ring(old=old, new=new)
    if colour == "async":
        done, again = asyncio.run(on_a_loop(both))
    else:
        with RedisSaver.from_conn_string(redis_server.url, serde=both) as saver:
            done, again = saver.reencrypt(), saver.reencrypt()
    assert done.resealed > 5
    assert done.refused == []
    assert again.resealed == 0
    with RedisSaver.from_conn_string(redis_server.url, serde=ring(new=new)) as saver:
        assert shown(saver, "t") == before
        assert saver.verify() == []
    with (
        RedisSaver.from_conn_string(redis_server.url, serde=ring(old=old)) as saver,
        pytest.raises(DecryptionError),
    ):
        shown(saver, "t")


def test_a_sealed_row_that_was_moved_to_another_thread_is_not_read(client, redis_server):
    serde = ring(k=b"k" * 32)
    with RedisSaver.from_conn_string(redis_server.url, serde=serde) as saver:
        graph = line("a", "b").compile(checkpointer=saver)
        graph.invoke({}, thread("t"))
        for part in ("thread", "rows", "index"):
            client.copy(f"{{milepost:t}}:{part}", f"{{milepost:x}}:{part}")
        with pytest.raises(DecryptionError):
            graph.get_state(thread("x"))
        saver.copy_thread("t", "u")
        assert shown(saver, "u") == shown(saver, "t")
