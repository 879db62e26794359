"""RedisCache on a cluster, on a full server, and with lifetimes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("redis")
import redis
import redis.asyncio

from milepost.cache.redis import RedisCache
from valkey_servers import RedisServer

ENTRIES = {((f"graph{n % 3}", "{a}node"), f"}}key{n}"): (n, None) for n in range(30)}


def test_a_cluster_holds_it(valkey_cluster):
    valkey_cluster.flush()
    with redis.RedisCluster.from_url(valkey_cluster.url) as client:
        cache: RedisCache[Any] = RedisCache(client, prefix="p:")
        cache.set(ENTRIES)
        wanted = [*ENTRIES, (("no",), "such")]
        assert cache.get(wanted) == {name: n for name, (n, _) in ENTRIES.items()}
        cache.clear([("graph1", "{a}node")])
        assert len(cache.get(wanted)) == 20
        cache.clear()
        assert cache.get(wanted) == {}


def test_a_cluster_holds_it_for_async_methods(valkey_cluster):
    valkey_cluster.flush()

    async def play() -> None:
        client = redis.asyncio.RedisCluster.from_url(valkey_cluster.url)
        cache: RedisCache[Any] = RedisCache(client)
        await cache.aset(ENTRIES)
        assert len(await cache.aget(list(ENTRIES))) == 30
        await cache.aclear()
        assert await cache.aget(list(ENTRIES)) == {}
        await client.aclose()

    asyncio.run(play())


def test_the_server_drops_what_has_expired(valkey_url):
    with redis.Redis.from_url(valkey_url) as client:
        cache: RedisCache[Any] = RedisCache(client)
        name = (("a",), "k")
        cache.set({name: (1, 100)})
        (key,) = client.keys()
        assert 99_000 < client.pttl(key) <= 100_000
        cache.set({name: (2, None)})
        assert client.pttl(key) == -1
        cache.set({name: (3, 0)})
        assert cache.get([name]) == {}


def test_a_full_server_is_a_cache_that_keeps_nothing(caplog):
    server = RedisServer().start()
    try:
        with server.client() as client:
            cache: RedisCache[Any] = RedisCache(client)
            client.config_set("maxmemory", "100kb")
            cache.set({(("a",), "k"): ("x" * 1000, None)})
            assert cache.get([(("a",), "k")]) == {}
    finally:
        server.close()
    assert "goes on without the cache" in caplog.text
