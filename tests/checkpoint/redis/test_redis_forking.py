"""A saver or store on Redis that was made before `fork()`.

redis-py gives a child connections of its own, also on a client that the user has made; on an event
loop milepost sees to that. The parent goes on as if there had been no fork.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

pytest.importorskip("redis")
import redis
import redis.asyncio

from forks import (
    DONE,
    LIMIT,
    Child,
    aruns,
    children_run_beside,
    put_and_find,
    runs,
    sweepers_are_apart,
)
from graphs import single, thread, two_nodes
from milepost.cache.redis import RedisCache
from milepost.checkpoint.redis import AsyncRedisSaver, RedisSaver
from milepost.errors import ForkedProcessError
from milepost.store.redis import AsyncRedisStore, RedisStore


def in_loop(work: Any) -> Any:
    """What a child does on a loop of its own, until nothing of the parent's loop is left."""
    result = asyncio.run(work())
    gc.collect()
    return result


@pytest.fixture(params=["own", "user's"])
def saver(request: pytest.FixtureRequest, redis_url: str) -> Iterator[RedisSaver]:
    if request.param == "own":
        with RedisSaver.from_conn_string(redis_url) as own:
            yield own
        return
    with closing(redis.Redis.from_url(redis_url)) as client:
        yield RedisSaver(redis_client=client)


def test_parent_and_children_each_use_connections_of_their_own_while_a_run_goes_on(saver):
    children_run_beside(saver)


def test_a_thread_that_a_child_has_gone_on_with_is_read_as_it_is_now(saver):
    """What the parent remembers of it is checked against what is stored."""
    runs(saver, "t")
    assert Child(partial(runs, saver, "t")).result() == {"foo": "b", "bar": ["a", "b", "a", "b"]}
    graph = two_nodes().compile(checkpointer=saver)
    assert graph.get_state(thread("t")).values == {"foo": "b", "bar": ["a", "b", "a", "b"]}
    assert runs(saver, "t")["bar"] == ["a", "b"] * 3


def test_a_child_that_leaves_the_with_block_does_not_end_the_parents_connections(redis_url):
    with RedisSaver.from_conn_string(redis_url) as saver:
        runs(saver)
        Child(lambda: saver.__exit__(None, None, None)).result()
        assert runs(saver, "p") == DONE


def test_a_sweeper_is_the_parents_and_a_child_can_start_its_own(redis_url):
    with RedisSaver.from_conn_string(redis_url) as saver:
        sweepers_are_apart(saver)


@pytest.mark.parametrize("kind", ["own", "user's"])
def test_a_child_uses_an_async_saver_on_a_loop_of_its_own(kind, redis_url):
    """The loops share what waits for their sockets, so a child must leave the parent's alone."""

    async def main() -> None:
        client = redis.asyncio.Redis.from_url(redis_url)
        made = (
            AsyncRedisSaver.from_conn_string(redis_url)
            if kind == "own"
            else AsyncRedisSaver.from_conn_string(redis_client=client)
        )
        async with made as saver:
            assert await aruns(saver, "before") == DONE
            child = Child(partial(in_loop, partial(aruns, saver, "c")))
            assert await aruns(saver, "beside") == DONE
            assert child.result() == DONE
            assert await aruns(saver, "after") == DONE
            threads = {info.thread_id for info in await saver.alist_threads()}
            assert threads == {"before", "c", "beside", "after"}
            assert await saver.averify() == []
        await client.aclose()

    asyncio.run(main())


def test_an_async_run_goes_on_in_the_parent_while_a_child_ends(redis_url):
    async def main() -> None:
        in_node, go_on = asyncio.Event(), asyncio.Event()

        async def waits(_: Any) -> Any:
            in_node.set()
            await go_on.wait()
            return {"log": ["parent"]}

        async with AsyncRedisSaver.from_conn_string(redis_url) as saver, asyncio.timeout(2 * LIMIT):
            graph = single(waits).compile(checkpointer=saver)
            run = asyncio.ensure_future(graph.ainvoke({"log": []}, thread("p"), durability="sync"))
            await in_node.wait()
            child = Child(partial(in_loop, partial(aruns, saver, "c")))
            assert child.result() == DONE
            go_on.set()
            assert await run == {"log": ["parent"]}

    asyncio.run(main())


# -- stores and caches


def test_a_store_and_a_cache_open_their_own_connections_in_a_child(redis_url):
    with (
        RedisStore.from_conn_string(redis_url) as store,
        closing(redis.Redis.from_url(redis_url)) as client,
    ):
        cache = RedisCache(client)
        assert put_and_find(store, "p") == ["p"]
        cache.set({(("ns",), "p"): (1, None)})

        def in_child() -> Any:
            cache.set({(("ns",), "c"): (2, None)})
            return put_and_find(store, "c"), cache.get([(("ns",), "p")])

        assert Child(in_child).result() == (["c"], {(("ns",), "p"): 1})
        assert store.get(("a",), "c") is not None
        assert cache.get([(("ns",), "c")]) == {(("ns",), "c"): 2}
        assert put_and_find(store, "q") == ["q"]


def test_an_async_store_opens_its_own_connection_in_a_child(redis_url):
    async def put_and_get(store: Any, key: str) -> Any:
        async with asyncio.timeout(LIMIT):
            await store.aput(("a",), key, {"text": key})
            return (await store.aget(("a",), key)).value

    async def main() -> None:
        async with AsyncRedisStore.from_conn_string(redis_url) as store:
            assert await put_and_get(store, "p") == {"text": "p"}
            child = Child(partial(in_loop, partial(put_and_get, store, "c")))
            assert child.result() == {"text": "c"}
            assert await put_and_get(store, "q") == {"text": "q"}
            assert await store.aget(("a",), "c") is not None

    asyncio.run(main())


def test_a_program_that_forks_and_ends_both_processes_loses_nothing(redis_url):
    program = """
import os, sys
from typing import TypedDict
from milepost.checkpoint.redis import RedisSaver
from milepost.graph import START, StateGraph

class State(TypedDict):
    key: int

graph = StateGraph(State).add_node("n", lambda s: {"key": s["key"] + 1}).add_edge(START, "n")

def run(saver, name):
    graph.compile(checkpointer=saver).invoke({"key": 0}, {"configurable": {"thread_id": name}})

with RedisSaver.from_conn_string(sys.argv[1]) as saver:
    children = []
    for name in "abc":
        run(saver, "p" + name)
        pid = os.fork()
        if pid == 0:
            run(saver, name)
            sys.exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
    found = sorted(info.thread_id for info in saver.list_threads())
    assert found == ["a", "b", "c", "pa", "pb", "pc"], found
    assert saver.verify() == []
print("done")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, redis_url],
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == ("done\n", 0), ended.stderr


def test_the_parents_loop_goes_on_after_a_child_has_let_go_of_its_connections(redis_url):
    """In a program of its own, where a warning is no error and connections are finalized: what a
    child closes on the parent's loop would no longer wake the parent."""
    program = """
import asyncio, gc, os, sys
from milepost.checkpoint.redis import AsyncRedisSaver
from milepost.store.redis import AsyncRedisStore

async def use(saver, store, name):
    async with asyncio.timeout(10):
        await asyncio.gather(*[saver.aget_tuple({"configurable": {"thread_id": name}})] * 3)
        await store.aput(("a",), name, {})
        return [item.key for item in await store.asearch(("a",))]

async def main():
    url = sys.argv[1]
    async with (
        AsyncRedisSaver.from_conn_string(url) as saver,
        AsyncRedisStore.from_conn_string(url) as store,
    ):
        await use(saver, store, "p")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                assert asyncio.run(use(saver, store, "c")) == ["c", "p"]
                gc.collect()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert await use(saver, store, "q") == ["q", "c", "p"]

asyncio.run(main())
print("done")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, redis_url],
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("done\n", "")


def test_an_async_cluster_client_from_before_the_fork_is_refused(redis_cluster):
    """redis-py has no way to leave the connections of one alone."""

    async def main() -> None:
        options: Any = {"connection_args": {"cluster": True}, "wait_aof": False}
        async with AsyncRedisSaver.from_conn_string(redis_cluster.url, **options) as saver:
            await aruns(saver, "before")

            def refused() -> str:
                with pytest.raises(ForkedProcessError) as told:
                    in_loop(partial(aruns, saver, "c"))
                return str(told.value)

            assert "after the fork" in Child(refused).result()
            assert await aruns(saver, "after") == DONE

    asyncio.run(main())


def test_a_sync_cluster_client_is_used_in_a_child(redis_cluster):
    options: Any = {"connection_args": {"cluster": True}, "wait_aof": False}
    redis_cluster.flush()
    with RedisSaver.from_conn_string(redis_cluster.url, **options) as saver:
        assert runs(saver, "before") == DONE
        assert Child(partial(runs, saver, "c")).result() == DONE
        assert runs(saver, "after") == DONE
