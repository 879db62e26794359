"""What is special about the store on Redis: its servers, its keys, its scripts."""

from __future__ import annotations

import asyncio
import logging
import math
import multiprocessing
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("redis")
import redis
from embedders import Model

from milepost.errors import (
    ConnectionUnusableError,
    ForeignDatabaseError,
    OutcomeUnknownError,
    StorageFullError,
    VersionConflict,
)
from milepost.store.base import GetOp, PutOp, SearchOp
from milepost.store.redis import AsyncRedisStore, RedisStore
from redis_servers import RedisServer, lose_an_answer

NS = ("users", "ann")
INDEX = {"embed": Model(), "dims": 3, "fields": ["text"], "model": "one"}


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisStore]:
    with RedisStore.from_conn_string(redis_url) as opened:
        yield opened


def keys(items: Any) -> list[str]:
    return [item.key for item in items]


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_what_was_acknowledged_is_there_after_the_server_was_killed(fsync):
    """With everysec the store waits for the disk itself."""
    server = RedisServer(appendonly="yes", appendfsync=fsync).start()
    try:
        with RedisStore.from_conn_string(server.url, fsync=fsync != "always") as store:
            for round in range(3):
                for number in range(5):
                    store.put(NS, f"{round}-{number}", {"n": number}, ttl=60)
                store.delete(NS, f"{round}-0")
                server.kill()
                server.start()
                assert len(store.search(NS, limit=100)) == 4 * (round + 1)
            version = store.get(NS, "0-1").version
            store.put(NS, "0-1", {"n": "again"}, if_version=version)
    finally:
        server.close()


def test_a_server_that_cannot_tell_what_is_on_its_disk_is_named_once(caplog):
    caplog.set_level(logging.WARNING, "milepost.store")
    server = RedisServer().start()
    try:
        with RedisStore.from_conn_string(server.url, fsync=True) as store:
            store.put(NS, "a", {})
            store.put(NS, "b", {})
    finally:
        server.close()
    assert [record.getMessage().count("appendfsync") for record in caplog.records] == [1]


def test_scripts_that_the_server_forgot_are_loaded_again(store, redis_server):
    store.put(NS, "k", {"n": 1})
    with redis_server.client() as client:
        client.script_flush()
    store.put(NS, "k", {"n": 2})
    with redis_server.client() as client:
        client.script_flush()
    assert store.get(NS, "k").value == {"n": 2}


def test_where_scripts_are_barred_it_works_all_the_same(redis_server, redis_url):
    with redis_server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "plain", "on", "nopass", "~*", "+@all", "-@scripting"
        )
    url = f"{redis_url}?username=plain&password=x"
    with RedisStore.from_conn_string(url, index=INDEX) as store:
        store.batch([PutOp(NS, "a", {"text": "aaa"}), PutOp(("other",), "b", {"text": "b"}, ttl=5)])
        version = store.get(NS, "a").version
        with pytest.raises(VersionConflict):
            store.put(NS, "a", {}, if_version=version - 1)
        store.put(NS, "a", {"text": "ab"}, if_version=version)
        assert keys(store.search((), query="b")) == ["b", "a"]
        store.delete(NS, "a")
        assert store.list_namespaces() == [("other",)]
        assert store.engine.scripts is False


def add(url: str, times: int) -> None:
    with RedisStore.from_conn_string(url) as store:
        for _ in range(times):
            while True:
                item = store.get(NS, "counter")
                with suppress(VersionConflict):
                    value = {"n": item.value["n"] + 1}
                    store.put(NS, "counter", value, if_version=item.version)
                    break


def test_versioned_puts_of_several_processes_all_count(store, redis_url):
    store.put(NS, "counter", {"n": 0})
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=add, args=(redis_url, 20)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    assert store.get(NS, "counter").value == {"n": 40}


class TestALostAnswer:
    """The last command of a put is its script: what comes before it reads."""

    def opened(self, url: str) -> RedisStore:
        store = RedisStore(redis.Redis.from_url(url))
        store.put(NS, "k", {"n": 1})
        return store

    def test_of_a_versioned_put_is_made_good(self, redis_url):
        store = self.opened(redis_url)
        version = store.get(NS, "k").version
        lose_an_answer(store.engine, after=1)
        store.put(NS, "k", {"n": 2}, if_version=version)
        item = store.get(NS, "k")
        assert item.value == {"n": 2}
        store.put(NS, "k", {"n": 3}, if_version=item.version)
        store.conn.close()

    def test_of_a_put_that_others_have_replaced_since_is_reported_as_unknown(self, redis_url):
        store, other = self.opened(redis_url), RedisStore(redis.Redis.from_url(redis_url))
        version = store.get(NS, "k").version
        execute, left = store.conn.execute_command, [2]

        def lossy(*args: Any, **options: Any) -> Any:
            reply = execute(*args, **options)
            left[0] -= 1
            if left[0] == 0:
                other.put(NS, "k", {"n": "other"})
                raise redis.ConnectionError("the connection is lost")
            return reply

        store.conn.execute_command = lossy
        with pytest.raises(OutcomeUnknownError, match="'k'"):
            store.put(NS, "k", {"n": 2}, if_version=version)
        assert store.get(NS, "k").value == {"n": "other"}
        store.conn.close()
        other.conn.close()

    def test_of_a_plain_put_leads_to_one_put(self, redis_url):
        store = self.opened(redis_url)
        lose_an_answer(store.engine, after=1)
        store.put(NS, "k", {"n": 2})
        with redis.Redis.from_url(redis_url) as client:
            assert client.hget("milepost:store:{users}:m", "seq") == b"2"
        store.conn.close()


def test_dropped_connections_are_replaced(redis_server, redis_url):
    async def play() -> None:
        async with AsyncRedisStore.from_conn_string(redis_url) as store:
            for number in range(5):
                await store.aput(NS, "k", {"n": number})
                with redis_server.client() as client:
                    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                assert (await store.aget(NS, "k")).value == {"n": number}

    asyncio.run(play())


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_a_full_memory_still_lets_items_be_read_renewed_deleted_and_swept(kind):
    server = RedisServer(kind, maxmemory_policy="noeviction").start()
    now = [1000.0]
    try:
        with RedisStore.from_conn_string(server.url, clock=lambda: now[0]) as store:
            for key in ("read", "deleted"):
                store.put(NS, key, {"key": key}, ttl=10)
            store.put(NS, "swept", {}, ttl=1)
            with server.client() as client:
                client.config_set("maxmemory", "1")
            with pytest.raises(StorageFullError, match="maxmemory"):
                store.put(NS, "new", {})
            now[0] += 9 * 60
            assert store.get(NS, "read").value == {"key": "read"}
            store.delete(NS, "deleted")
            assert store.sweep_ttl() == 1
            now[0] += 9 * 60
            assert keys(store.search(NS)) == ["read"]
    finally:
        server.close()


def test_a_full_memory_stores_nothing_of_a_batch_and_what_is_there_stays():
    server = RedisServer(maxmemory_policy="noeviction").start()
    try:
        with RedisStore.from_conn_string(server.url) as store:
            store.put(NS, "k", {"n": 1})
            with server.client() as client:
                client.config_set("maxmemory", "100kb")
            with pytest.raises(StorageFullError, match="maxmemory"):
                store.batch([PutOp(NS, "k", {"n": 2}), PutOp(NS, "new", {"text": "x" * 10_000})])
            assert store.get(NS, "k").value == {"n": 1}
            assert store.get(NS, "new") is None
            with server.client() as client:
                client.config_set("maxmemory", "0")
            store.put(NS, "k", {"n": 2})
            assert keys(store.search(NS)) == ["k"]
    finally:
        server.close()


def test_a_server_that_evicts_any_key_is_refused_unless_told_otherwise():
    server = RedisServer(maxmemory="50mb", maxmemory_policy="allkeys-lru").start()
    try:
        refused = pytest.raises(ConnectionUnusableError, match="allkeys-lru")
        with RedisStore.from_conn_string(server.url) as store, refused:
            store.put(NS, "k", {})
        with RedisStore.from_conn_string(server.url, allow_eviction=True) as store:
            store.put(NS, "k", {})
    finally:
        server.close()


HOSTILE = [
    "{a}",
    "}{",
    "{",
    "{}x{y}",
    "*",
    "a:b",
    "%7B",
    "ключ",
    "\U0001f4be",
    "line\nbreak",
    "with space",
    "!",
    "\x01\xff",
]


def test_hostile_names_are_kept_apart_and_found_again(store):
    places = [((root, label), key) for root in HOSTILE[:6] for label in HOSTILE for key in HOSTILE]
    store.batch([PutOp(ns, key, {"at": [*ns, key]}) for ns, key in places])
    found = store.batch([GetOp(ns, key) for ns, key in places])
    assert [item.value["at"] for item in found] == [[*ns, key] for ns, key in places]
    for root in HOSTILE[:6]:
        assert len(store.search((root,), limit=1000)) == len(HOSTILE) ** 2
    assert len(store.list_namespaces(limit=1000)) == 6 * len(HOSTILE)
    for bad in ("a\0b", "\ud800"):
        with pytest.raises(ValueError, match="NUL"):
            store.put(("x", bad), "k", {})
        with pytest.raises(ValueError, match="NUL"):
            store.put(NS, bad, {})


def test_two_prefixes_are_two_stores(redis_url):
    opened = RedisStore.from_conn_string
    with (
        opened(redis_url, store_prefix="one") as one,
        opened(redis_url, store_prefix="{2}") as two,
    ):
        one.put(NS, "k", {"n": 1})
        two.put(NS, "k", {"n": 2})
        assert [item.value["n"] for item in one.search(())] == [1]
        assert [item.value["n"] for item in two.search(())] == [2]


def test_a_key_of_another_program_is_not_touched(redis_url, redis_server):
    with redis_server.client() as client:
        client.set("milepost:store:{users}:m", b"mine")
    refused = pytest.raises(ForeignDatabaseError, match="prefix")
    with RedisStore.from_conn_string(redis_url) as store, refused:
        store.put(NS, "k", {})
    with redis_server.client() as client:
        assert client.get("milepost:store:{users}:m") == b"mine"


def test_a_delete_of_nothing_leaves_no_key(store, redis_server):
    store.delete(NS, "k")
    store.batch([PutOp(("other",), "k", None), PutOp(NS, "k", None, if_version=0)])
    with redis_server.client() as client:
        assert client.keys() == []


class TestASweep:
    def test_leaves_nothing_of_what_has_expired_not_even_the_root(self, redis_url, redis_server):
        now = [1_700_000_000.0]
        with RedisStore.from_conn_string(redis_url, index=INDEX, clock=lambda: now[0]) as store:
            store.batch([PutOp((str(n % 3), "x"), str(n), {"text": "a"}, ttl=1) for n in range(9)])
            old = store.get(("0", "x"), "0", refresh_ttl=False).version
            now[0] += 61
            assert store.search((), query="a") == []
            assert store.sweep_ttl() == 9
            with redis_server.client() as client:
                left = sorted(client.keys())
            assert left == [b"milepost:store:{!}:meta"]
            now[0] -= 3600
            store.put(("0", "x"), "0", {"text": "b"})
            assert store.get(("0", "x"), "0").version > old
            assert keys(store.search((), query="a")) == ["0"]

    def test_runs_in_the_background(self, redis_url, redis_server):
        with RedisStore.from_conn_string(redis_url) as store:
            store.put(NS, "k", {}, ttl=0.0001)
            done = store.start_ttl_sweeper(0.0002)
            with redis_server.client() as client:
                for _ in range(2000):
                    if not client.exists("milepost:store:{users}:h:users.ann."):
                        break
                    done.exception(0.01) if done.done() else store.get(NS, "other")
                assert not client.exists("milepost:store:{users}:h:users.ann.")
            assert store.stop_ttl_sweeper(30)


class TestReadsBesideWrites:
    def test_a_batch_sees_one_moment_of_several_roots(self, redis_url):
        """Between any two commands of the batch somebody moves an item."""
        reader, writer = (RedisStore(redis.Redis.from_url(redis_url)) for _ in range(2))
        writer.put(("left",), "x", {"n": 0})
        execute, moves = reader.conn.execute_command, [0]

        def nosy(*args: Any, **options: Any) -> Any:
            if moves[0] < 5:
                moves[0] += 1
                here, there = ("left", "right") if moves[0] % 2 else ("right", "left")
                writer.batch([PutOp((here,), "x", None), PutOp((there,), "x", {})])
            return execute(*args, **options)

        reader.conn.execute_command = nosy
        for _ in range(3):
            moves[0] = 0
            left, right = reader.batch([SearchOp(("left",)), SearchOp(("right",))])
            assert len(left) + len(right) == 1
        reader.conn.close()
        writer.conn.close()

    def test_a_search_ends_though_others_write_all_the_time(self, redis_url):
        reader, writer = (RedisStore(redis.Redis.from_url(redis_url)) for _ in range(2))
        writer.batch([PutOp(NS, str(n), {"n": n}) for n in range(50)])
        execute = reader.conn.execute_command

        def nosy(*args: Any, **options: Any) -> Any:
            writer.put(NS, "49", {"n": 49})
            return execute(*args, **options)

        reader.conn.execute_command = nosy
        assert len(reader.search(NS, filter={"n": {"$lt": 25}}, limit=100)) == 25
        reader.conn.close()
        writer.conn.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_cluster_holds_it(redis_cluster, kind):
    redis_cluster.flush()
    url = redis_cluster.url.replace("redis://", "redis+cluster://")
    ops = [
        PutOp((f"user-{n}", "notes"), f"k{m}", {"text": "ab"[m] * 3, "n": n})
        for n in range(12)
        for m in (0, 1)
    ]
    if kind == "sync":
        with RedisStore.from_conn_string(url, index=INDEX) as store:
            store.batch(ops)
            check_cluster(store.search, store.batch, store.list_namespaces)
            store.put(("user-1", "notes"), "k0", {"text": "c"}, ttl=0.00001)
            time.sleep(0.01)  # longer than it lives
            assert store.sweep_ttl() == 1
            assert store.reindex() == 23
    else:

        async def play() -> None:
            async with AsyncRedisStore.from_conn_string(url, index=INDEX) as store:
                await store.abatch(ops)
                found = await store.asearch((), query="b", limit=100)
                assert [item.key for item in found] == ["k1"] * 12 + ["k0"] * 12
                assert len(await store.alist_namespaces()) == 12
                await store.adelete(("user-1", "notes"), "k0")
                assert len(await store.asearch(("user-1",))) == 1

        asyncio.run(play())
    slots = [node.client() for node in redis_cluster.nodes]
    assert all(client.dbsize() > 0 for client in slots)
    for client in slots:
        client.close()


def check_cluster(search: Any, batch: Any, list_namespaces: Any) -> None:
    assert len(search((), limit=100)) == 24
    assert keys(search((), query="b", limit=100)) == ["k1"] * 12 + ["k0"] * 12
    assert len(search(("user-3",), filter={"n": 3})) == 2
    assert len(list_namespaces()) == 12
    places = [(f"user-{n}", "notes") for n in range(12)]
    assert keys(batch([GetOp(ns, "k1") for ns in places])) == ["k1"] * 12
    wrong = [PutOp(places[0], "k0", None, if_version=1), PutOp(places[1], "k0", None)]
    with pytest.raises(VersionConflict):
        batch(wrong)
    assert len(search((), limit=100)) == 24


def test_a_conflict_between_two_scripts_in_a_cluster_says_what_was_stored(redis_cluster):
    redis_cluster.flush()
    url = redis_cluster.url.replace("redis://", "redis+cluster://")
    with RedisStore.from_conn_string(url) as store, RedisStore.from_conn_string(url) as other:
        store.batch([PutOp(("a",), "k", {"n": 1}), PutOp(("b",), "k", {"n": 1})])
        versions = [store.get((root,), "k").version for root in "ab"]
        commit, left = store._core.writer.commit, [1]

        def slow(run: Any) -> Any:
            answer = yield from commit(run)
            if left.pop():
                left.append(0)
                other.put(("b",), "k", {"n": "other"})
            else:
                left.append(0)
            return answer

        store._core.writer.commit = slow
        puts = zip("ab", versions, strict=True)
        with pytest.raises(VersionConflict, match="writes below 'a' were stored"):
            store.batch(
                [PutOp((root,), "k", {"n": 2}, if_version=version) for root, version in puts]
            )
        assert [store.get((root,), "k").value["n"] for root in "ab"] == [2, "other"]


def test_the_oldest_server_will_do(old_redis):
    with old_redis.client() as client:
        client.flushall()
    with RedisStore.from_conn_string(old_redis.url, index=INDEX) as store:
        store.put(NS, "a", {"text": "aaa"}, ttl=5)
        store.put(NS, "b", {"text": "b"})
        assert keys(store.search(NS, query="a")) == ["a", "b"]
        assert store.reindex() == 2
        assert keys(store.search(NS, query="b", filter={"text": "b"})) == ["b"]


def test_an_async_store_is_made_in_the_ways_that_programs_know(redis_url, monkeypatch):
    async def play() -> None:
        client = redis.asyncio.Redis.from_url(redis_url)
        for store in (AsyncRedisStore(redis_client=client), AsyncRedisStore(client)):
            await store.setup()
            await store.aput(NS, "k", {})
            await store.aclose()
        assert await client.ping()
        await client.aclose()
        monkeypatch.setenv("REDIS_URL", redis_url)
        async with AsyncRedisStore(store_prefix="other", vector_prefix="v") as store:
            assert await store.aget(NS, "k") is None
        monkeypatch.delenv("REDIS_URL")
        with pytest.raises(ValueError, match="REDIS_URL"):
            AsyncRedisStore()

    asyncio.run(play())
    with pytest.raises(TypeError, match="from_conn_string"):
        RedisStore(redis_url)


def test_a_copy_of_vectors_does_not_keep_what_was_deleted_for_ever(redis_url, monkeypatch):
    monkeypatch.setattr("milepost.store._redis.vectors._MAX_DELETED_ITEMS", 0)
    with RedisStore.from_conn_string(redis_url, index=INDEX) as store:
        store.batch([PutOp(NS, str(n), {"text": "ab"[n % 2]}) for n in range(10)])
        assert len(store.search(NS, query="a", limit=20)) == 10
        store.batch([PutOp(NS, str(n), None) for n in range(8)])
        assert keys(store.search(NS, query="a")) == ["8", "9"]
        assert store._core._ranker._copies.seen("users")[2] == 2


def test_a_search_ends_and_finds_the_others_where_a_vector_is_damaged(redis_url):
    with RedisStore.from_conn_string(redis_url, index=INDEX) as store:
        store.batch([PutOp(NS, str(n), {"text": "a" * n}) for n in range(1, 9)])
        vectors = store._core.keys.root("users").vectors
        with redis.Redis.from_url(redis_url) as client:
            [field] = [name for name in client.hkeys(vectors) if name.endswith(b"8")]
            whole = client.hget(vectors, field)
            client.hset(vectors, field, whole[:-12] + struct.pack("<3f", math.nan, 1, 1))
        assert keys(store.search(NS, query="a", limit=20, filter={"text": "aa"})) == ["2"]
        assert sorted(keys(store.search(NS, query="a", limit=20)))[:7] == list("1234567")


def test_a_search_goes_deeper_where_the_first_it_finds_do_not_count(redis_url):
    now = [1_700_000_000.0]
    with RedisStore.from_conn_string(redis_url, clock=lambda: now[0]) as store:
        store.batch([PutOp(("r", "old"), f"b{n}", {"good": True}) for n in range(50)])
        store.batch([PutOp(("r", "new"), f"a{n:03}", {"good": n < 100}) for n in range(300)])
        found = keys(store.search(("r",), filter={"good": True}, limit=10, offset=5))
        assert found == [f"a{n:03}" for n in range(94, 84, -1)]
        store.batch([PutOp(("r", "new"), f"a{n:03}", {}, ttl=1) for n in range(100, 300)])
        now[0] += 61
        assert keys(store.search(("r",), limit=3)) == ["a099", "a098", "a097"]
        assert len(store.search(("r",), limit=1000)) == 150
