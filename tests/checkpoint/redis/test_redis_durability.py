"""What a server may do to a saver: be killed, fill up, fall back to a replica, evict, drop clients."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from graphs import line, thread
from milepost._db.redis import commands
from milepost.checkpoint.redis import AsyncRedisSaver, RedisSaver
from milepost.errors import (
    BrokenChainError,
    ConnectionUnusableError,
    OutcomeUnknownError,
    ReadOnlyError,
    SaverError,
    StorageFullError,
    ThreadConflict,
)
from milepost.graph import START, MessagesState, StateGraph

LONG = bool(os.environ.get("MILEPOST_LONG"))
KILLS = 40 if LONG else 4
AOF = ("--appendonly", "yes", "--appendfsync")


def counting(saver: Any, steps: int, acknowledged: list[int], at: Any = None) -> Any:
    """Node n counts to n; when it runs, step n - 1 was acknowledged."""

    def node(number: int) -> Any:
        def count(_state: Any) -> Any:
            acknowledged.append(number)
            if at is not None:
                at(number)
            return {"messages": [("user", f"{number} " + "x" * 100)]}

        return count

    builder: Any = StateGraph(MessagesState)
    for number in range(steps):
        builder.add_node(f"n{number}", node(number))
        builder.add_edge(START if number == 0 else f"n{number - 1}", f"n{number}")
    return builder.compile(checkpointer=saver)


@pytest.fixture
def impatient(monkeypatch: Any) -> None:
    """A saver gives up at once when its server does not answer."""
    monkeypatch.setattr("milepost._db.redis.engine.RETRY_SECONDS", 0.0)


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_nothing_acknowledged_is_lost_when_the_server_is_killed(new_server, fsync, impatient):
    server = new_server(*AOF, fsync)
    steps = 12 if fsync == "always" else 4
    for number in range(KILLS if fsync == "always" else max(1, KILLS // 4)):
        acknowledged: list[int] = []
        name, runs = f"t{number}", 0
        with RedisSaver.from_conn_string(server.url) as saver:
            graph = counting(saver, steps, acknowledged)
            delay = 0.003 * (number + 1) if fsync == "always" else 1.2
            killer = threading.Timer(delay, server.kill)
            killer.start()
            with suppress(SaverError):
                for runs in range(1000):  # noqa: B007
                    acknowledged.clear()
                    graph.invoke({"messages": []}, thread(name), durability="sync")
            killer.join()
        server.start()
        with RedisSaver.from_conn_string(server.url) as saver:
            graph = counting(saver, steps, [])
            state = graph.get_state(thread(name))
            found = (state.metadata or {"step": -2})["step"] + 2
            # A run stores its input, its start and each node. Where node n has been called, what
            # came before it was acknowledged.
            begun = acknowledged[-1] + 2 if acknowledged else 0
            assert found >= runs * (steps + 2) + begun, (found, runs, acknowledged)
            assert saver.verify() == []
            if state.next:
                graph.invoke(None, thread(name))
            assert not graph.get_state(thread(name)).next
            saver.delete_thread(name)


def test_a_server_that_was_killed_in_a_step_is_waited_for_and_the_run_goes_on(new_server):
    server = new_server()

    def restart(number: int) -> None:
        if number == 2:
            server.kill()
            server.start()

    with RedisSaver.from_conn_string(server.url) as saver:
        graph = counting(saver, 5, [], restart)
        assert len(graph.invoke({"messages": []}, thread("t"), durability="sync")["messages"]) == 5
        assert saver.verify() == []


@pytest.mark.parametrize("scripts", [True, False])
def test_a_server_that_comes_back_a_little_later_is_waited_for(new_server, scripts):
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    server = new_server()

    def restart(number: int) -> None:
        if number == 2:
            server.kill()
            threading.Timer(0.4, server.start).start()

    client = redis.Redis(unix_socket_path=server.socket, retry=Retry(NoBackoff(), 0))
    with RedisSaver(redis_client=client, scripts=scripts) as saver:
        graph = counting(saver, 5, [], restart)
        assert len(graph.invoke({"messages": []}, thread("t"), durability="sync")["messages"]) == 5
        assert saver.verify() == []
    client.close()


def test_no_server_at_the_address_is_told(tmp_path):
    saver = RedisSaver(f"unix://{tmp_path}/nothing")
    with saver, pytest.raises(ConnectionUnusableError, match="See that the server runs"):
        saver.setup()


def test_connections_that_are_dropped_in_every_step_change_nothing(new_server):
    server = new_server()
    client = server.client()

    def drop(_number: int) -> None:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    with RedisSaver.from_conn_string(server.url) as saver:
        graph = counting(saver, 8, [], drop)
        found = graph.invoke({"messages": []}, thread("t"), durability="sync")
        assert len(found["messages"]) == 8
        assert len(list(graph.get_state_history(thread("t")))) == 10
        assert saver.verify() == []
    client.close()


def test_a_step_whose_reply_was_lost_is_stored_once(new_server):
    from milepost._db.redis.guarded import _SCRIPT
    from milepost.checkpoint._redis.scripts import WRITE

    server = new_server()
    with RedisSaver.from_conn_string(server.url) as saver:
        client = saver.engine.client
        once = client.execute_command

        def twice(*command: Any, **options: Any) -> Any:
            if {WRITE.sha, _SCRIPT.sha} & {*command[:2]}:
                once(*command, **options)
            return once(*command, **options)

        saver.settings.fsyncs = False
        saver.settings.is_ready = True
        client.execute_command = twice
        graph = counting(saver, 6, [])
        assert len(graph.invoke({"messages": []}, thread("t"), durability="sync")["messages"]) == 6
        client.execute_command = once
        graph.invoke({"messages": []}, thread("u"), durability="sync")
        writes = [once("HGET", f"{{milepost:{name}}}:thread", "seq") for name in "tu"]
        assert writes[0] == writes[1]
        assert saver.verify() == []


def test_a_server_without_a_file_is_told_of_once_and_in_durability(new_server):
    server = new_server("--appendonly", "no")
    with RedisSaver.from_conn_string(server.url) as saver:
        assert saver.durability.fsynced is None
        with pytest.warns(RuntimeWarning, match="no append-only file"):
            saver.setup()
        assert saver.durability.fsynced is False
        assert "memory" in saver.durability.promise
        line("a").compile(checkpointer=saver).invoke({}, thread("t"))  # not told again
    with RedisSaver.from_conn_string(server.url, wait_aof=False) as saver:
        saver.setup()  # a warning would be an error here


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random"])
def test_a_server_that_evicts_threads_is_refused(new_server, policy):
    server = new_server("--appendonly", "no", "--maxmemory-policy", policy)
    with RedisSaver.from_conn_string(server.url, wait_aof=False) as saver:
        graph = line("a").compile(checkpointer=saver)
        with pytest.raises(SaverError, match=f"{policy}.*noeviction"):
            graph.invoke({}, thread("t"))
    options = {"wait_aof": False, "allow_eviction": True}
    with RedisSaver.from_conn_string(server.url, **options) as saver:
        line("a").compile(checkpointer=saver).invoke({}, thread("t"))


def test_a_full_memory_stops_a_run_with_a_typed_error_and_loses_nothing(new_server):
    server = new_server("--appendonly", "no", "--maxmemory-policy", "noeviction")
    client = server.client()

    def fill(number: int) -> None:
        if number == 2:
            client.config_set("maxmemory", "1")

    with RedisSaver.from_conn_string(server.url, wait_aof=False) as saver:
        graph = counting(saver, 4, [], fill)
        with pytest.raises(StorageFullError, match="wrote nothing of this call"):
            graph.invoke({"messages": []}, thread("t"), durability="sync")
        assert graph.get_state(thread("t")).next == ("n2",)
        assert saver.verify() == []
        assert saver.prune(["t"]).checkpoints > 0  # which makes room
        client.config_set("maxmemory", "0")
        fill_no_more = counting(saver, 4, [])
        assert len(fill_no_more.invoke(None, thread("t"))["messages"]) == 4
    client.close()


# -- replicas


@pytest.fixture
def pair(new_server: Any) -> Any:
    """A primary and its replica, on ports."""
    options = (*AOF, "no", "--repl-diskless-sync-delay", "0")
    first = new_server(*options, tcp=True)
    second = new_server(*options, tcp=True)
    replica = second.client()
    replica.replicaof("127.0.0.1", first.port)
    until = time.monotonic() + 20
    while replica.info("replication").get("master_link_status") != "up":
        assert time.monotonic() < until
        time.sleep(0.02)
    yield first, second, replica
    replica.close()


def test_a_step_waits_for_as_many_replicas_as_were_asked_for(pair):
    first, _, replica = pair
    options = {"wait_aof": False, "wait_replicas": 1}
    with RedisSaver.from_conn_string(first.url, **options) as saver:
        counting(saver, 3, []).invoke({"messages": []}, thread("t"), durability="sync")
        assert saver.durability.replicas == 1
        assert replica.exists("{milepost:t}:thread") == 1


def test_replicas_that_do_not_answer_make_the_outcome_unknown(new_server, monkeypatch):
    """They are waited for longer than the client waits for one reply."""
    monkeypatch.setattr(commands, "WAITS", 2)
    server = new_server("--appendonly", "no")
    options = {"wait_aof": False, "wait_replicas": 1}
    with RedisSaver.from_conn_string(f"{server.url}?socket_timeout=1.5", **options) as saver:
        graph = line("a").compile(checkpointer=saver)
        with pytest.raises(OutcomeUnknownError, match="1 replicas"):
            graph.invoke({}, thread("t"), durability="sync")


class Promotion:
    """A fail-over to a replica that has not heard of the last steps."""

    def __init__(self, first: Any, second: Any, replica: Any) -> None:
        self.first, self.second, self.replica = first, second, replica
        self.client = first.client()

    def cut(self) -> None:
        """From now on the replica hears nothing."""
        self.replica.replicaof("NO", "ONE")

    def point(self, saver: Any) -> None:
        """The saver's clients find the replica where the primary was."""
        self.first.kill()
        pool = saver.engine.client.connection_pool
        pool.connection_kwargs["path"] = self.second.socket
        pool.disconnect()
        pool.reset()


def test_a_run_that_goes_on_after_a_lost_tail_gets_a_typed_error(pair):
    promotion = Promotion(*pair)
    with RedisSaver.from_conn_string(pair[0].url, wait_aof=False) as saver:

        def fail_over(number: int) -> None:
            if number == 3:
                saver.engine.client.wait(1, 5000)
                promotion.cut()
            if number == 6:
                promotion.point(saver)

        graph = counting(saver, 9, [], fail_over)
        with pytest.raises(BrokenChainError, match="lost the last steps of thread 't'"):
            graph.invoke({"messages": []}, thread("t"), durability="sync")
        # The loss was told; what is left can be gone on from.
        assert graph.get_state(thread("t")).next == ("n3",)
        assert saver.verify() == []
        assert len(counting(saver, 9, []).invoke(None, thread("t"))["messages"]) == 9


def test_a_run_whose_whole_thread_was_lost_is_refused(pair):
    promotion = Promotion(*pair)
    with RedisSaver.from_conn_string(pair[0].url, wait_aof=False) as saver:
        promotion.cut()

        def fail_over(number: int) -> None:
            if number == 3:
                promotion.point(saver)

        graph = counting(saver, 5, [], fail_over)
        with pytest.raises(ThreadConflict, match="deleted"):
            graph.invoke({"messages": []}, thread("t"), durability="sync")


def test_a_saver_that_has_seen_a_later_head_does_not_read_an_older_one_in_silence(pair):
    promotion = Promotion(*pair)
    with RedisSaver.from_conn_string(pair[0].url, wait_aof=False) as saver:
        graph = counting(saver, 2, [])
        graph.invoke({"messages": []}, thread("t"))
        saver.engine.client.wait(1, 5000)
        promotion.cut()
        graph.invoke({"messages": []}, thread("t"))
        promotion.point(saver)
        with pytest.raises(BrokenChainError, match="lost the last steps of thread 't'"):
            graph.get_state(thread("t"))
        assert len(graph.get_state(thread("t")).values["messages"]) == 2


def test_a_replica_refuses_writes(pair):
    _, second, _ = pair
    with RedisSaver.from_conn_string(second.url, wait_aof=False) as saver:
        graph = line("a").compile(checkpointer=saver)
        with pytest.raises(ReadOnlyError, match="replica"):
            graph.invoke({}, thread("t"))


# -- clients


def test_erased_text_is_nowhere_in_the_files_of_the_server(new_server):
    server = new_server()
    with RedisSaver.from_conn_string(server.url) as saver:
        builder: Any = StateGraph(MessagesState)
        builder.add_node("tell", lambda _: {"messages": [("user", "a secret of mine")]})
        builder.add_edge(START, "tell")
        builder.compile(checkpointer=saver).invoke({"messages": []}, thread("t"))
        assert _is_in_files(server, b"a secret of mine")
        saver.erase(["t"])
        assert not _is_in_files(server, b"a secret of mine")


def _is_in_files(server: Any, text: bytes) -> bool:
    found = []
    for folder, _, names in os.walk(server.folder):
        for name in names:
            if name not in ("s", "log"):
                with open(os.path.join(folder, name), "rb") as file:
                    found.append(text in file.read())
    return any(found)


KILLED = """
import sys, time
from milepost.checkpoint.redis import RedisSaver
from milepost.graph import START, MessagesState, StateGraph
with RedisSaver.from_conn_string(sys.argv[1]) as saver:
    builder = StateGraph(MessagesState)
    for number in range(200):
        builder.add_node(f"n{number}", lambda _, n=number: (print(n, flush=True), {"messages": []})[1])
        builder.add_edge(START if number == 0 else f"n{number - 1}", f"n{number}")
    builder.compile(checkpointer=saver).invoke(
        {"messages": []}, {"configurable": {"thread_id": "t"}}, durability="sync")
"""


def test_what_a_killed_client_had_acknowledged_is_there_and_goes_on_elsewhere(redis_server):
    redis_server.client().flushall()
    command = [sys.executable, "-c", KILLED, redis_server.url]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout as lines:
        reached = next(int(text) for text in lines if int(text) >= 20)
        child.kill()
        rest = [int(text) for text in lines if text.endswith("\n")]
    child.wait(10)
    reached = max([reached, *rest])
    with RedisSaver.from_conn_string(redis_server.url) as saver:
        graph = counting(saver, 200, [])
        state = graph.get_state(thread("t"))
        assert int(state.next[0][1:]) in (reached, reached + 1)
        assert saver.verify() == []
        graph.invoke(None, thread("t"))
        assert not graph.get_state(thread("t")).next


def test_a_cancelled_commit_comes_to_its_end_and_leaves_the_client_usable(new_server):
    server = new_server()

    async def main() -> Any:
        async with AsyncRedisSaver.from_conn_string(server.url) as saver:
            graph = counting(saver, 30, [])
            cancelled = 0
            for number in range(10):
                task = asyncio.ensure_future(
                    graph.ainvoke({"messages": []}, thread(f"t{number}"), durability="sync")
                )
                await asyncio.sleep(0.002 * number)
                task.cancel()
                try:
                    await task  # on a quick machine the last of them may have ended before
                except asyncio.CancelledError:
                    cancelled += 1
                if (await graph.aget_state(thread(f"t{number}"))).next:
                    await graph.ainvoke(None, thread(f"t{number}"))
            assert cancelled
            return await saver.averify()

    assert asyncio.run(main()) == []
