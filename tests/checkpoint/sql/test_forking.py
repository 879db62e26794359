"""A saver or store that was made before `fork()`, as by a server that forks its workers.

Where the connection is its own, a child opens another one; where it is the user's, an error says
what to do. The parent goes on as if there had been no fork.
"""

import asyncio
import gc
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import aiosqlite
import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

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
from graphs import elsewhere, single, thread, until
from milepost._db.operations import Execute, Operation, Query
from milepost._internal import fork_guard as forking
from milepost.cache.memory import InMemoryCache
from milepost.cache.sqlite import SqliteCache
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import ForkedProcessError
from milepost.store.memory import InMemoryStore
from milepost.store.postgres import AsyncPostgresStore, PostgresStore
from milepost.store.sqlite import AsyncSqliteStore, SqliteStore

POOL = {"min_size": 1, "max_size": 2}


def backend(saver: Any) -> int:
    def ask() -> Operation[int]:
        [(pid,)] = yield Query("SELECT pg_backend_pid()", last=True)
        return int(pid)

    return saver.engine.run(ask, write=False)


def waits_for_a_lock(connection: Any) -> bool:
    """Whether a backend waits for what this connection holds."""
    found = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    )
    return found.fetchone() != (0,)


@pytest.fixture(params=["sqlite", "postgres", "pool"])
def make(request: pytest.FixtureRequest) -> Any:
    """Makes savers on one database, each with a connection of its own."""
    if request.param == "sqlite":
        return partial(SqliteSaver.from_conn_string, request.getfixturevalue("path"))
    uri = request.getfixturevalue("uri")
    with PostgresSaver.from_conn_string(uri) as saver:
        saver.setup()
    config = POOL if request.param == "pool" else None
    return partial(PostgresSaver.from_conn_string, uri, pool_config=config)


@pytest.fixture(params=["sqlite", "postgres", "pool"])
def amake(request: pytest.FixtureRequest) -> Any:
    """The same, for event loops."""
    if request.param == "sqlite":
        return partial(AsyncSqliteSaver.from_conn_string, request.getfixturevalue("path"))
    uri = request.getfixturevalue("uri")
    with PostgresSaver.from_conn_string(uri) as saver:
        saver.setup()
    config = POOL if request.param == "pool" else None
    return partial(AsyncPostgresSaver.from_conn_string, uri, pool_config=config)


# -- connections of our own


def test_parent_and_children_each_use_a_connection_of_their_own_while_a_run_goes_on(make):
    with make() as saver:
        children_run_beside(saver)


def test_the_same_on_an_event_loop(amake):
    async def main() -> None:
        in_node, go_on = asyncio.Event(), asyncio.Event()

        async def waits(state: Any) -> Any:
            in_node.set()
            await go_on.wait()
            return {"log": ["parent"]}

        async with amake() as saver, asyncio.timeout(2 * LIMIT):
            graph = single(waits).compile(checkpointer=saver)
            run = asyncio.ensure_future(graph.ainvoke({"log": []}, thread("p"), durability="sync"))
            await in_node.wait()
            child = Child(lambda: asyncio.run(aruns(saver, "c")))
            assert await aruns(saver, "beside") == DONE
            assert child.result() == DONE
            go_on.set()
            await run
            assert {info.thread_id for info in await saver.alist_threads()} == {"p", "beside", "c"}
            assert await saver.averify() == []

    asyncio.run(main())


def test_on_postgres_the_child_has_another_backend_and_the_parent_keeps_its_own(uri):
    with PostgresSaver.from_conn_string(uri) as saver:
        saver.setup()
        before = backend(saver)
        assert Child(lambda: backend(saver)).result() != before
        assert backend(saver) == before


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_child_that_leaves_the_with_block_does_not_end_the_parents_connection(uri, pipeline):
    opened = PostgresSaver.from_conn_string(uri, pipeline=pipeline)
    saver = opened.__enter__()
    saver.setup()
    before = backend(saver)

    def leave() -> None:
        opened.__exit__(None, None, None)
        gc.collect()

    def use_and_leave() -> Any:
        saver.get_tuple(thread("t"))
        leave()

    Child(leave).result()
    Child(use_and_leave).result()
    assert backend(saver) == before
    opened.__exit__(None, None, None)


def test_a_connection_that_is_in_use_by_another_thread_is_not_waited_for_in_the_child(uri):
    with PostgresSaver.from_conn_string(uri) as saver, psycopg.connect(uri) as other:
        saver.setup()
        runs(saver)
        other.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE")
        started = threading.Thread(target=runs, args=(saver, "slow"))
        started.start()
        until(
            lambda: (
                other.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                ).fetchone()
                != (0,)
            ),
            "the parent's run to wait for the table",
        )
        child = Child(lambda: backend(saver))
        assert child.result() > 0
        other.rollback()
        started.join(LIMIT)
        assert saver.get_tuple(thread("slow")) is not None


def test_steps_that_wait_for_their_commit_at_the_fork_are_not_stored_by_the_child(make):
    with make() as saver:
        runs(saver)
        turn, forked = threading.Event(), threading.Event()

        def hold() -> None:
            with saver._committer._turn:
                turn.set()
                assert forked.wait(LIMIT)

        holder = threading.Thread(target=hold)
        holder.start()
        assert turn.wait(LIMIT)
        commit = threading.Thread(target=runs, args=(saver, "waits"))
        commit.start()
        until(lambda: saver._committer._queue, "the step in the queue")
        assert Child(lambda: (runs(saver, "c"), saver.get_tuple(thread("waits")))).result() == (
            DONE,
            None,
        )
        forked.set()
        holder.join(LIMIT)
        commit.join(LIMIT)
        assert saver.get_tuple(thread("waits")) is not None


def test_a_program_that_forks_and_ends_both_processes_loses_nothing(path, uri):
    program = """
import os, sys
from typing import TypedDict
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph

class State(TypedDict):
    key: int

graph = StateGraph(State).add_node("n", lambda s: {"key": s["key"] + 1}).add_edge(START, "n")
with SqliteSaver.from_conn_string(sys.argv[1]) as lite, \\
        PostgresSaver.from_conn_string(sys.argv[2]) as pg:
    pg.setup()
    children = []
    for name in "abc":
        for saver in (lite, pg):
            graph.compile(checkpointer=saver).invoke({"key": 0}, {"configurable": {"thread_id": "p" + name}})
        pid = os.fork()
        if pid == 0:
            for saver in (lite, pg):
                graph.compile(checkpointer=saver).invoke({"key": 0}, {"configurable": {"thread_id": name}})
            sys.exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
    for saver in (lite, pg):
        found = sorted(info.thread_id for info in saver.list_threads())
        assert found == ["a", "b", "c", "pa", "pb", "pc"], found
        assert saver.verify() == []
print("done")
"""
    ended = subprocess.run(
        # Python 3.12 and later warn of every fork beside threads.
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program, path, uri],
        capture_output=True, text=True, timeout=2 * LIMIT, check=False,
    )  # fmt: skip
    assert (ended.stdout, ended.stderr) == ("done\n", "")


# -- connections of the user's


def refuses(call: Any) -> None:
    """In a child, every call is refused; in the parent it works on."""

    def in_child() -> str:
        with pytest.raises(ForkedProcessError) as refused:
            call()
        gc.collect()
        return str(refused.value)

    assert "after the fork" in Child(in_child).result()
    call()


def test_a_connection_or_a_pool_of_the_user_is_refused_on_postgres(postgres, uri):
    with psycopg.connect(uri, autocommit=True) as connection:
        refuses(partial(runs, PostgresSaver(connection)))
        refuses(partial(PostgresStore(connection).get, ("a",), "k"))
    with ConnectionPool(uri, **POOL) as pool:
        refuses(partial(runs, PostgresSaver(pool)))
        refuses(partial(PostgresStore(pool).get, ("a",), "k"))


def test_an_async_connection_or_pool_of_the_user_is_refused_on_postgres(postgres, uri):
    async def main() -> None:
        async with (
            await psycopg.AsyncConnection.connect(uri, autocommit=True) as connection,
            AsyncConnectionPool(uri, open=False, **POOL) as pool,
        ):
            for source in (connection, pool):
                saver, store = AsyncPostgresSaver(source), AsyncPostgresStore(source)
                assert await aruns(saver, type(source).__name__) == DONE

                def in_child(saver: Any = saver, store: Any = store) -> None:
                    for call in (
                        lambda: asyncio.run(aruns(saver)),
                        lambda: saver.get_tuple(thread("t")),
                        lambda: asyncio.run(store.aget(("a",), "k")),
                    ):
                        with pytest.raises(ForkedProcessError):
                            call()
                    gc.collect()

                Child(in_child).result()
                assert (await store.aget(("a",), "k")) is None
                assert await aruns(saver, f"p{type(source).__name__}") == DONE

    asyncio.run(main())


def test_a_run_that_waits_for_the_server_at_the_fork_goes_on_in_the_parent_only(postgres, uri):
    """Also if the child collects the parent's coroutines, whose clean-up would end a connection."""

    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(uri, autocommit=True) as connection:
            saver = AsyncPostgresSaver(connection)
            await aruns(saver)
            with psycopg.connect(uri) as other:
                other.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE")
                run = asyncio.ensure_future(aruns(saver, "slow"))
                await asyncio.to_thread(until, partial(waits_for_a_lock, other), "the run to wait")

                def in_child() -> None:
                    run.get_coro().close()
                    gc.collect()

                Child(in_child).wait()
                other.rollback()
            assert await asyncio.wait_for(run, LIMIT) == DONE

    asyncio.run(main())


def test_a_connection_of_the_user_is_refused_on_sqlite(path):
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        refuses(partial(runs, SqliteSaver(connection)))
        refuses(partial(SqliteStore(connection).get, ("a",), "k"))
    with SqliteSaver.from_conn_string(path) as saver:
        refuses(partial(SqliteStore(saver.conn).get, ("a",), "k"))


def test_an_aiosqlite_connection_of_the_user_is_refused_without_waiting_for_its_thread(path):
    async def main() -> None:
        async with aiosqlite.connect(path) as connection:
            saver = AsyncSqliteSaver(connection)
            assert await aruns(saver) == DONE

            def in_child() -> None:
                with pytest.raises(ForkedProcessError):
                    asyncio.run(aruns(saver))
                with pytest.raises(ForkedProcessError):
                    saver.get_tuple(thread("t"))

            Child(in_child).result()
            assert await aruns(saver, "p") == DONE

    asyncio.run(main())


@pytest.mark.parametrize("name", [":memory:", "file::memory:", "file:x?mode=memory"])
def test_a_database_in_memory_is_refused_and_the_error_says_to_use_a_file(name):
    with SqliteSaver.from_conn_string(name) as saver, SqliteStore.from_conn_string(name) as store:
        runs(saver)

        def in_child() -> None:
            with pytest.raises(ForkedProcessError, match="Use a file"):
                saver.get_tuple(thread("t"))
            with pytest.raises(ForkedProcessError, match="Use a file"):
                store.get(("a",), "k")

        Child(in_child).result()
        assert runs(saver, "u") == DONE


def test_what_is_made_after_the_fork_works(uri, path):
    def in_child() -> Any:
        with psycopg.connect(uri, autocommit=True) as connection:
            made = PostgresSaver(connection)
            made.setup()
            with closing(sqlite3.connect(path)) as lite:
                return runs(made), runs(SqliteSaver(lite))

    assert Child(in_child).result() == (DONE, DONE)


# -- SQLite's locks


def test_a_fork_waits_for_the_transaction_that_is_under_way(path):
    with SqliteSaver.from_conn_string(path) as saver:
        runs(saver)
        inside = threading.Event()

        def slow() -> Operation[None]:
            yield Execute("UPDATE threads SET status = 'idle'")
            inside.set()
            until(lambda: forking._under_way.is_set(), "the fork to wait")
            yield Execute("UPDATE threads SET status = 'idle'")

        writer = threading.Thread(target=lambda: saver.engine.run(slow, write=True))
        writer.start()
        assert inside.wait(LIMIT)
        assert Child(partial(runs, saver, "c")).result() == DONE
        writer.join(LIMIT)
        assert runs(saver, "p") == DONE


def test_a_transaction_that_takes_too_long_makes_the_childs_saver_refuse(path, monkeypatch):
    monkeypatch.setattr(forking, "PATIENCE", 0.05)
    with SqliteSaver.from_conn_string(path) as saver:
        runs(saver)
        inside, forked = threading.Event(), threading.Event()

        def slow() -> Operation[None]:
            yield Execute("UPDATE threads SET status = 'idle'")
            inside.set()
            assert forked.wait(LIMIT)

        writer = threading.Thread(target=lambda: saver.engine.run(slow, write=True))
        writer.start()
        assert inside.wait(LIMIT)

        def in_child() -> None:
            with pytest.raises(ForkedProcessError):
                saver.get_tuple(thread("t"))

        Child(in_child).result()
        forked.set()
        writer.join(LIMIT)
        assert runs(saver, "p") == DONE


def test_a_child_holds_locks_of_its_own_when_the_parent_closes_the_database(path, tmp_path):
    """Otherwise the parent would take itself for the last, and delete the log under the child."""
    closed = tmp_path / "closed"
    with SqliteSaver.from_conn_string(path) as saver:
        runs(saver)

        def in_child() -> Any:
            first = runs(saver, "c1")
            (tmp_path / "ready").touch()
            until(closed.exists, "the parent to close its connection")
            return first, runs(saver, "c2")

        child = Child(in_child)
        until((tmp_path / "ready").exists, "the child's first run")
    closed.touch()
    assert child.result() == (DONE, DONE)
    with SqliteSaver.from_conn_string(path) as again:
        assert {info.thread_id for info in again.list_threads()} == {"t", "c1", "c2"}
        assert again.verify() == []


@pytest.mark.parametrize("other", ["cache", "store", "saver"])
def test_a_child_keeps_what_it_stores_if_other_connections_of_ours_were_never_used_there(
    path, tmp_path, other
):
    closed = tmp_path / "closed"
    opened = {
        "cache": lambda: closing(SqliteCache(path=path)),
        "store": lambda: SqliteStore.from_conn_string(path),
        "saver": lambda: SqliteSaver.from_conn_string(path),
    }[other]
    with SqliteSaver.from_conn_string(path) as saver, opened() as beside:
        runs(saver)
        if other == "store":
            beside.put(("a",), "k", {"n": 1})
        elif other == "saver":
            runs(beside)

        def in_child() -> Any:
            first = runs(saver, "c1")
            (tmp_path / "ready").touch()
            until(closed.exists, "the parent to close its connections")
            return first, runs(saver, "c2")

        child = Child(in_child)
        until((tmp_path / "ready").exists, "the child's first run")
    closed.touch()
    assert child.result() == (DONE, DONE)
    with SqliteSaver.from_conn_string(path) as again:
        assert {info.thread_id for info in again.list_threads()} == {"t", "c1", "c2"}


@pytest.mark.parametrize("name", ["{}", "file:{}", "file://{}?cache=private"])
@pytest.mark.parametrize("known", [True, False])
def test_a_file_that_is_open_through_a_connection_of_the_users_is_refused_until_that_is_closed(
    path, name, known
):
    """Such a connection holds locks that only the parent has, and SQLite takes them for ours."""
    key = (("n",), "0")
    with (
        closing(sqlite3.connect(path, check_same_thread=False)) as connection,
        SqliteSaver.from_conn_string(name.format(path)) as saver,
        closing(SqliteCache(path=path)) as cache,
    ):
        runs(saver)
        store = SqliteStore(connection) if known else None
        if store is not None:
            store.put(("a",), "k", {"n": 1})
        else:
            connection.execute("SELECT count(*) FROM threads").fetchall()

        def make() -> None:
            with SqliteSaver.from_conn_string(path):
                pass

        def in_child() -> Any:
            for call in (partial(runs, saver, "c"), partial(cache.get, [key]), make):
                assert_refused(call)
            connection.close()
            return runs(saver, "c"), cache.get([key]), make()

        assert Child(in_child).result() == (DONE, {}, None)
        assert {info.thread_id for info in saver.list_threads()} == {"t", "c"}


def test_a_saver_on_a_new_connection_is_refused_while_the_one_before_the_fork_is_open(path):
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        runs(saver)

        def run_on_another() -> Any:
            with closing(sqlite3.connect(path)) as another:
                return runs(SqliteSaver(another), "c")

        def in_child() -> Any:
            assert_refused(run_on_another)
            connection.close()
            return run_on_another()

        assert Child(in_child).result() == DONE
        assert runs(saver, "p") == DONE


def assert_refused(call: Any) -> None:
    with pytest.raises(ForkedProcessError, match="Open that connection after"):
        call()


def test_a_child_that_closes_does_not_take_the_parents_log_away(path):
    opened = SqliteSaver.from_conn_string(path)
    saver = opened.__enter__()
    runs(saver)

    def use_and_leave() -> None:
        runs(saver, "c")
        opened.__exit__(None, None, None)

    Child(lambda: opened.__exit__(None, None, None)).result()
    Child(use_and_leave).result()
    assert runs(saver, "p") == DONE
    opened.__exit__(None, None, None)
    with SqliteSaver.from_conn_string(path) as again:
        assert {info.thread_id for info in again.list_threads()} == {"t", "c", "p"}


def test_a_relative_file_name_means_the_same_after_a_change_of_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SqliteSaver.from_conn_string("threads.db") as saver:
        runs(saver)

        def in_child() -> Any:
            monkeypatch.chdir("/")
            return saver.get_tuple(thread("t")) is not None

        assert Child(in_child).result()


# -- stores


@pytest.mark.parametrize("kind", ["sqlite", "engine", "postgres", "pool"])
def test_a_store_opens_its_own_connection_in_a_child(kind, path, uri):
    @contextmanager
    def opened() -> Any:
        if kind == "sqlite":
            with SqliteStore.from_conn_string(path, index=INDEX) as store:
                yield store
        elif kind == "engine":
            with SqliteSaver.from_conn_string(path) as saver:
                yield SqliteStore(saver.engine)
        else:
            settings = {"pool_config": POOL} if kind == "pool" else {}
            with PostgresStore.from_conn_string(uri, **settings) as store:
                yield store

    with opened() as store:
        assert put_and_find(store, "p") == ["p"]
        assert Child(partial(put_and_find, store, "c")).result() == ["c"]
        assert store.get(("a",), "c") is not None
        assert put_and_find(store, "q") == ["q"]


def embed(texts: Any) -> Any:
    return [[1.0, float(len(text))] for text in texts]


INDEX: Any = {"dims": 2, "embed": embed}


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "pool"])
def test_an_async_store_opens_its_own_connection_in_a_child(kind, path, uri):
    async def put_and_get(store: Any, key: str) -> Any:
        await store.aput(("a",), key, {"text": key})
        await store.start_ttl_sweeper(1)
        await store.stop_ttl_sweeper()
        return (await store.aget(("a",), key)).value

    async def main() -> None:
        made = {
            "sqlite": lambda: AsyncSqliteStore.from_conn_string(path),
            "postgres": lambda: AsyncPostgresStore.from_conn_string(uri),
            "pool": lambda: AsyncPostgresStore.from_conn_string(uri, pool_config=POOL),
        }[kind]()
        async with made as store:
            assert await put_and_get(store, "p") == {"text": "p"}
            await store.start_ttl_sweeper(60)
            child = Child(lambda: asyncio.run(put_and_get(store, "c")))
            assert child.result() == {"text": "c"}
            assert await store.aget(("a",), "c") is not None
            assert await store.stop_ttl_sweeper()

    asyncio.run(main())


def test_a_child_ends_its_loop_while_its_pool_connects(uri):
    opened: list[Any] = []
    connecting: list[asyncio.Event] = []

    async def configure(connection: Any) -> None:
        opened.append(connection)
        if connecting and len(opened) == 2:
            connecting[-1].set()
            await asyncio.sleep(3600)

    async def main() -> None:
        config = {"min_size": 2, "max_size": 2, "configure": configure}
        async with AsyncPostgresStore.from_conn_string(uri, pool_config=config) as store:

            async def put_and_get(key: str) -> Any:
                opened.clear()
                connecting.append(asyncio.Event())
                await store.aput(("a",), key, {"text": key})
                await connecting[-1].wait()
                return (await store.aget(("a",), key)).value

            def child() -> Any:
                return [asyncio.run(put_and_get(key)) for key in ("c", "d")]

            await store.aput(("a",), "p", {"text": "p"})
            assert Child(child).result() == [{"text": "c"}, {"text": "d"}]

    asyncio.run(main())


# -- a cache in a file


def test_a_cache_loses_nothing_that_a_child_has_set_when_the_parent_closes_the_file(path, tmp_path):
    keys = {who: [((who,), str(n)) for n in range(100)] for who in ("child", "parent")}
    ready, closed = tmp_path / "ready", tmp_path / "closed"
    cache: Any = SqliteCache(path=path)
    cache.set({(("n",), "0"): ("before", None)})

    def fill(who: str) -> None:
        for key in keys[who]:
            cache.set({key: (bytes(3000), None)})

    def in_child() -> None:
        cache.get([(("n",), "0")])
        ready.touch()
        until(closed.exists, "the parent to close the file")
        fill("child")

    child = Child(in_child)
    until(ready.exists, "the child to open the file")
    cache.close()
    closed.touch()
    fill("parent")
    child.result()
    assert [len(cache.get(keys[who])) for who in keys] == [100, 100]
    cache.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_cache_in_memory_is_empty_in_a_child():
    cache: Any = SqliteCache(path=":memory:")
    key = (("n",), "0")
    cache.set({key: (1, None)})

    def in_child() -> Any:
        found = cache.get([key])
        cache.set({key: (2, None)})
        return found, cache.get([key])

    assert Child(in_child).result() == ({}, {key: 2})
    assert cache.get([key]) == {key: 1}
    cache.close()


# -- memory


def test_what_is_in_memory_is_whole_in_a_child_and_its_locks_are_free():
    saver, store, cache = InMemorySaver(), InMemoryStore(), InMemoryCache()
    runs(saver)
    store.put(("a",), "k", {"n": 1})
    inside, go_on = threading.Event(), threading.Event()

    def change() -> None:
        with saver._lock, store._core._lock, cache._lock:  # type: ignore[attr-defined]
            saver.storage["half"] = {}
            inside.set()
            until(lambda: forking._under_way.is_set(), "the fork to wait")
            del saver.storage["half"]
            go_on.set()

    changing = threading.Thread(target=change)
    changing.start()
    assert inside.wait(LIMIT)

    def in_child() -> Any:
        cache.set({(("a",), "k"): (1, None)})
        found = [info.thread_id for info in saver.list_threads()]
        return "half" in saver.storage, found, runs(saver, "c"), store.get(("a",), "k").value

    assert Child(in_child).result() == (False, ["t"], DONE, {"n": 1})
    changing.join(LIMIT)
    assert go_on.is_set()
    assert runs(saver, "p") == DONE


def test_a_sweeper_is_the_parents_and_a_child_can_start_its_own(make):
    with make() as saver:
        sweepers_are_apart(saver)


def test_a_twin_with_another_serializer_works_in_a_child_too(make):
    with make() as saver:
        twin = saver.with_serde(saver.serde)
        runs(twin)
        assert Child(lambda: (runs(twin, "c"), runs(saver, "d"))).result() == (DONE, DONE)
        assert elsewhere(partial(runs, twin, "p")) == DONE
