"""Other servers than the newest: an old Redis, and one that bars scripts or more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphs import line, thread
from milepost.checkpoint.redis import AsyncRedisSaver, RedisSaver
from milepost.testing import saver_tests
from redis_servers import DURABLE, started


@pytest.fixture(scope="module")
def old_server() -> Any:
    """A Redis 6.2."""
    server = started(*DURABLE, kind="redis")
    yield server
    server.close()


def on_old_redis(old_server: Any) -> Any:
    return RedisSaver.from_conn_string(old_server.url)


GROUPS = ("put", "get_tuple", "list", "put_writes", "delete_thread", "concurrency")
test_the_contract_on_an_old_redis = pytest.mark.filterwarnings("ignore:.*WAITAOF")(
    saver_tests(on_old_redis, persistent=True, groups=GROUPS)
)


def test_an_old_redis_cannot_wait_for_its_disk_which_is_told(old_server):
    with RedisSaver.from_conn_string(old_server.url) as saver:
        with pytest.warns(RuntimeWarning, match="no WAITAOF"):
            saver.setup()
        assert not saver.durability.fsynced
        graph = line("a", "b").compile(checkpointer=saver)
        graph.invoke({}, thread("t"))
        assert saver.verify() == []


BARRED = ("-@scripting", "-@dangerous", "+info")


@pytest.mark.parametrize("rules", [("-@scripting",), ("-@scripting", "-@dangerous", "-@admin")])
def test_where_scripts_are_barred_the_saver_goes_on_without_them(redis_server, rules):
    client = redis_server.client()
    client.flushall()
    client.execute_command("ACL", "SETUSER", "app", "on", ">p", "~*", "+@all", *rules)
    url = redis_server.url.replace("unix://", "unix://app:p@")
    with RedisSaver.from_conn_string(url) as saver:
        graph = line("a", "b", "c").compile(checkpointer=saver)
        graph.invoke({}, thread("t"), durability="sync")
        assert not saver.settings.scripts
        assert saver.durability.fsynced
        with RedisSaver.from_conn_string(redis_server.url) as other:
            assert other.verify() == []
            assert len(list(other.list(thread("t")))) == 5
            line("a", "b", "c").compile(checkpointer=other).invoke({}, thread("t"))
        graph.invoke({}, thread("t"))
        assert saver.verify() == []
    client.execute_command("ACL", "DELUSER", "app")
    client.close()


def test_sync_methods_reach_an_async_saver_from_other_threads(redis_server):
    async def main() -> Any:
        async with AsyncRedisSaver.from_conn_string(redis_server.url) as saver:
            graph = line("a").compile(checkpointer=saver)
            await asyncio.to_thread(graph.invoke, {}, thread("from-outside"))
            return await saver.aget_tuple(thread("from-outside"))

    assert asyncio.run(main()) is not None
