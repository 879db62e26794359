"""Savers and stores behind a real PgBouncer in transaction mode: three sessions of the server serve
all connections, and each transaction gets another one."""

import asyncio
import contextlib
import operator
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.graph import START, StateGraph
from milepost.store.postgres import PostgresStore
from milepost.store.postgres.aio import AsyncPostgresStore

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(
        shutil.which("pgbouncer") is None, reason="apt-get install pgbouncer runs these"
    ),
]
THREADS, TURNS = 8, 5
SAFE: dict[str, Any] = {"pooler_safe": True, "schema": "agents"}
POOL: dict[str, Any] = {"max_size": 4, "kwargs": {"prepare_threshold": None}}


class State(TypedDict):
    turns: Annotated[list[int], operator.add]


def take_turn(state: State) -> Any:
    return {"turns": [len(state["turns"])]}


BUILDER = StateGraph(State).add_node("turn", take_turn).add_edge(START, "turn")
EXPECTED = [list(range(TURNS))] * THREADS


def thread(number: int) -> Any:
    return {"configurable": {"thread_id": str(number)}}


@pytest.fixture(scope="module")
def bouncer_port(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("bouncer")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    sockets = Path(urlsplit(server.get_uri()).query.removeprefix("host="))
    owner = pwd.getpwuid(sockets.stat().st_uid).pw_name
    for above in (folder, *folder.parents[:-1]):
        with contextlib.suppress(PermissionError):
            above.chmod(above.stat().st_mode | 0o011)
    (folder / "users.txt").write_text('"postgres" ""\n')
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={sockets} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {folder}/users.txt\n"
        "pool_mode = transaction\ndefault_pool_size = 3\nserver_reset_query =\n"
    )
    as_owner = ["-u", owner] if os.geteuid() == 0 else []
    process = subprocess.Popen(["pgbouncer", "-q", *as_owner, str(settings)])
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.05)
    yield port
    process.terminate()
    process.wait(20)


@pytest.fixture
def pooled(bouncer_port: int, uri: str) -> Iterator[str]:
    """The address of an empty database behind the pooler."""
    yield f"postgresql://postgres@127.0.0.1:{bouncer_port}{urlsplit(uri).path}"
    end_sessions(uri)  # so that the database can be emptied


def end_sessions(uri: str) -> None:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )


def assert_nothing_is_left_on_sessions(pooled: str) -> None:
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection:
        seen = set()
        for _ in range(20):
            pid, prepared, path, locks = connection.execute(
                "SELECT pg_backend_pid(), (SELECT count(*) FROM pg_prepared_statements),"
                " current_setting('search_path'),"
                " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"
            ).fetchone()
            assert (prepared, locks) == (0, 0)
            assert "agents" not in path
            seen.add(pid)
        assert seen


def all_threads(graph: Any) -> list[list[int]]:
    def turns(number: int) -> list[int]:
        for _ in range(TURNS):
            found = graph.invoke({"turns": []}, thread(number))
        return list(found["turns"])

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(turns, range(THREADS)))


async def all_threads_async(graph: Any) -> list[list[int]]:
    async def turns(number: int) -> list[int]:
        for _ in range(TURNS):
            found = await graph.ainvoke({"turns": []}, thread(number))
        return list(found["turns"])

    return list(await asyncio.gather(*map(turns, range(THREADS))))


def test_many_threads_share_few_sessions(pooled):
    with PostgresSaver.from_conn_string(pooled, **SAFE) as saver:
        saver.setup()
        assert all_threads(BUILDER.compile(checkpointer=saver)) == EXPECTED
    with ConnectionPool(pooled, **POOL) as pool:  # type: ignore[var-annotated]
        graph = BUILDER.compile(checkpointer=PostgresSaver(pool, **SAFE))
        again = all_threads(graph)
        assert again == [list(range(2 * TURNS))] * THREADS
        assert graph.checkpointer.admin.verify() == []
    assert_nothing_is_left_on_sessions(pooled)


def test_many_threads_share_few_sessions_on_an_event_loop(pooled):
    async def main() -> None:
        async with AsyncPostgresSaver.from_conn_string(pooled, **SAFE) as saver:
            await saver.setup()
            assert await all_threads_async(BUILDER.compile(checkpointer=saver)) == EXPECTED
        async with AsyncConnectionPool(pooled, **POOL) as pool:  # type: ignore[var-annotated]
            graph = BUILDER.compile(checkpointer=AsyncPostgresSaver(pool, **SAFE))
            again = await all_threads_async(graph)
            assert again == [list(range(2 * TURNS))] * THREADS

    asyncio.run(main())
    assert_nothing_is_left_on_sessions(pooled)


def test_items_of_a_store_behind_the_pooler(pooled):
    def embed(texts: Any) -> list[list[float]]:
        return [[float(len(text) == place) for place in range(20)] for text in texts]

    index = {"dims": 20, "embed": embed, "fields": ["text"]}
    settings: dict[str, Any] = {**SAFE, "index": index}
    with PostgresStore.from_conn_string(pooled, **settings) as store:
        store.setup()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda n: store.put(("u", str(n)), "k", {"text": "x" * n}), range(1, 20)))
        found = store.search(("u",), query="xxxx", limit=1)
        assert [item.namespace[1] for item in found] == ["4"]

    async def main() -> None:
        async with AsyncPostgresStore.from_conn_string(pooled, **settings) as store:
            numbers = range(1, 20)
            got = await asyncio.gather(*(store.aget(("u", str(n)), "k") for n in numbers))
            assert [item.value["text"] for item in got if item] == ["x" * n for n in numbers]

    asyncio.run(main())
    assert_nothing_is_left_on_sessions(pooled)


def test_a_run_goes_on_when_the_pooler_has_lost_its_server(pooled, uri):
    with PostgresSaver.from_conn_string(pooled, **SAFE) as saver:
        saver.setup()

        def cut(state: State) -> Any:
            end_sessions(uri)
            return {"turns": [len(state["turns"])]}

        builder = StateGraph(State).add_node("a", cut).add_node("b", cut)
        graph = builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)
        assert graph.invoke({"turns": []}, thread(1), durability="sync")["turns"] == [0, 1]
        steps = [found.metadata["step"] for found in saver.list(thread(1))]
        assert steps == [2, 1, 0, -1]
