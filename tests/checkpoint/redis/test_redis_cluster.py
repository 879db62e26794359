"""A cluster of three Valkey servers: a thread lies on one of them, threads lie on all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from graphs import line, thread
from milepost.checkpoint.redis import AsyncRedisSaver, RedisSaver
from redis_servers import DURABLE, RedisServer, free_port, started

SLOTS = ((0, 5460), (5461, 10922), (10923, 16383))


@pytest.fixture(scope="module")
def cluster() -> Iterator[list[RedisServer]]:
    """Three primaries on the loopback."""
    with ExitStack() as stack:
        servers, buses, clients = [], [], []
        for _ in SLOTS:
            buses.append(free_port())
            options = ("--cluster-enabled", "yes", "--cluster-port", str(buses[-1]))
            servers.append(started(*DURABLE, *options, tcp=True))
            stack.callback(servers[-1].close)
            clients.append(stack.enter_context(servers[-1].client()))
        for client, (first, last) in zip(clients, SLOTS, strict=True):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        for server, bus in zip(servers, buses, strict=True):
            clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", server.port, bus)
        until = time.monotonic() + 30
        while not all(map(_is_whole, clients)):
            assert time.monotonic() < until, clients[0].execute_command("CLUSTER", "INFO")
            time.sleep(0.05)
        yield servers


def _is_whole(client: Any) -> bool:
    info = str(client.execute_command("CLUSTER", "INFO"))
    return "cluster_state:ok" in info and f"cluster_known_nodes:{len(SLOTS)}" in info


NAMES = [f"t{number}" for number in range(9)]


def placed(servers: list[RedisServer]) -> list[set[str]]:
    """The threads on each server, by their keys; a mark that was only written to wait for the
    disk holds nothing of them, and the server drops it after a minute."""
    found = []
    for server in servers:
        client = server.client()
        marks = [key for key in client.keys("{*") if key.endswith(b":wait")]
        assert all(client.pttl(mark) != -1 for mark in marks)  # each expires
        keys = [key.decode() for key in client.keys("{*") if not key.endswith(b":wait")]
        found.append({key.partition("}")[0] for key in keys})
        client.close()
    return found


def test_threads_lie_on_all_servers_and_each_on_one(cluster):
    import redis

    client = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port)
    with RedisSaver(redis_client=client) as saver:
        graph = line("a", "b").compile(checkpointer=saver)
        for name in NAMES:
            graph.invoke({}, thread(name), durability="sync")
        assert saver.durability.fsynced
        on = placed(cluster)
        assert all(on)
        assert sum(map(len, on)) == len(NAMES)
        assert [info.thread_id for info in saver.list_threads()] == NAMES
        assert saver.verify() == []
        saver.copy_thread("t0", "copy-1")
        saver.copy_thread("t0", "copy-2")
        saver.prune(["copy-1"])
        moved = list(saver.dump(["t1"]))
        saver.load(moved, rename={"t1": "loaded"})
        assert saver.verify() == []
        for name in (*NAMES, "copy-1", "copy-2", "loaded"):
            saver.delete_thread(name)
        assert placed(cluster) == [set(), set(), set()]
        assert saver.list_threads() == []
    client.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_an_async_saver_serves_a_cluster_too(cluster, scripts):
    async def main() -> Any:
        import redis.asyncio

        client = redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster[0].port)
        async with AsyncRedisSaver(redis_client=client, scripts=scripts) as saver:
            graph = line("a", "b").compile(checkpointer=saver)
            runs = [graph.ainvoke({}, thread(name), durability="sync") for name in NAMES]
            await asyncio.gather(*runs)
            assert saver.durability.fsynced
            listed = [info.thread_id for info in await saver.alist_threads()]
            problems = await saver.averify()
            for name in NAMES:
                await saver.adelete_thread(name)
        await client.aclose()
        return listed, problems

    assert asyncio.run(main()) == (NAMES, [])


def test_a_thread_whose_slot_has_moved_is_found_there(cluster):
    import redis

    client = redis.RedisCluster(host="127.0.0.1", port=cluster[0].port)
    with RedisSaver(redis_client=client) as saver:
        graph = line("a", "b").compile(checkpointer=saver)
        graph.invoke({}, thread("moving"), durability="sync")
        key = "{milepost:moving}:thread"
        slot = int(client.keyslot(key))
        source = client.get_node_from_key(key)
        here = next(server for server in cluster if server.port == source.port)
        there = next(server for server in cluster if server is not here)
        one, other = here.client(), there.client()
        target = other.execute_command("CLUSTER", "MYID").decode()
        origin = one.execute_command("CLUSTER", "MYID").decode()
        other.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", origin)
        one.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
        keys = one.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
        one.execute_command("MIGRATE", "127.0.0.1", there.port, "", 0, 5000, "KEYS", *keys)
        for server in cluster:
            node = server.client()
            node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target)
            node.close()
        graph.invoke({}, thread("moving"), durability="sync")
        assert saver.verify(["moving"]) == []
        assert other.exists(key) == 1
        saver.delete_thread("moving")
        one.close()
        other.close()
    client.close()
