"""What goes wrong outside of a saver or store is a typed error that says what to do."""

import asyncio
import copy
import itertools
import pickle
import shutil
import socket
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from test_damage import fill

from graphs import thread, two_nodes
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import (
    ConnectionUnusableError,
    DamagedRowError,
    DatabaseBusyError,
    MilepostError,
    ProcessBoundError,
    ReadOnlyError,
)
from milepost.store.memory import InMemoryStore
from milepost.store.postgres import AsyncPostgresStore, PostgresStore
from milepost.store.sqlite import AsyncSqliteStore, SqliteStore

DONE = {"foo": "b", "bar": ["a", "b"]}


def runs(saver: Any, thread_id: str = "t") -> Any:
    graph = two_nodes().compile(checkpointer=saver)
    graph.invoke({"foo": ""}, thread(thread_id), durability="sync")
    return graph.get_state(thread(thread_id)).values


# -- the registry


@pytest.mark.parametrize("damage", ["{not json", "[1]", "3", ""])
def test_damaged_metadata_of_a_thread_is_reported_and_named(sqlite, damage):
    for name in ("a", "b"):
        runs(sqlite, name)
    sqlite.conn.execute("UPDATE threads SET metadata = ? WHERE thread_id = 'b'", (damage,))
    for call in (
        lambda: list(sqlite.list_threads()),
        lambda: sqlite.get_thread("b"),
    ):
        with pytest.raises(DamagedRowError, match="thread 'b' in the registry"):
            call()
    [problem] = sqlite.verify()
    assert (problem.thread_id, problem.table, problem.key) == ("b", "threads", "b")
    assert "metadata" in problem.reason
    assert sqlite.get_tuple(thread("b")) is not None
    sqlite.set_thread_metadata("b", {"owner": "x"})
    assert sqlite.verify() == []
    assert [info.thread_id for info in sqlite.list_threads()] == ["a", "b"]


def test_damaged_metadata_of_a_thread_is_reported_and_named_on_postgres(postgres):
    runs(postgres, "b")
    postgres.conn.execute("UPDATE threads SET metadata = '[1]'")
    with pytest.raises(DamagedRowError, match="thread 'b' in the registry"):
        list(postgres.list_threads())
    assert [problem.table for problem in postgres.verify()] == ["threads"]


def test_other_threads_are_dumped_and_sealed_beside_a_damaged_entry(sqlite):
    runs(sqlite, "a")
    sqlite.conn.execute("UPDATE threads SET metadata = 'x'")
    assert sqlite.verify(["a"])[0].thread_id == "a"
    assert len(list(sqlite.dump(["a"]))) > 2


# -- cells of another type

TABLES = {
    "checkpoints": ("checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "complete",
        "metadata_type", "metadata", "frame", "led"),
    "checkpoint_blobs": ("checkpoint_ns", "channel", "version", "base_channel", "base", "level",
        "type", "blob"),
    "checkpoint_large": ("data",),
    "checkpoint_writes": ("checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel",
        "task_path", "base", "type", "blob"),
    "threads": ("head", "status", "created_at", "updated_at", "metadata", "owner"),
}  # fmt: skip
OTHERS = (7, 1.5, "text", b"\xff\0bytes")


SEALED = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")


@pytest.fixture(scope="module", params=[None, SEALED], ids=["plain", "sealed"])
def serde(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def filled(tmp_path_factory, serde) -> Path:
    path = tmp_path_factory.mktemp("filled") / "threads.db"
    with SqliteSaver.from_conn_string(str(path), serde=serde) as saver:
        fill(saver)
        saver.set_thread_metadata("t", {"owner": "x", "tags": ["a"]})
    return path


@pytest.mark.parametrize("which", ["", " WHERE nth() % 2 = 0"])
@pytest.mark.parametrize("table", TABLES)
def test_a_cell_of_another_type_is_a_typed_error_and_verify_returns(
    filled, serde, path, table, which
):
    for column in TABLES[table]:
        for other in OTHERS:
            shutil.copy(filled, path)
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.create_function("nth", 0, itertools.count().__next__)
                with suppress(sqlite3.IntegrityError):
                    connection.execute(
                        f"UPDATE OR IGNORE {table} SET {column} = ?{which}", (other,)
                    )
            with SqliteSaver.from_conn_string(path, serde=serde) as saver:
                assert isinstance(saver.verify(), list)
                for call in (
                    lambda: saver.get_tuple(thread("t")).checkpoint["channel_values"],
                    lambda: [(f.metadata, f.pending_writes, f.checkpoint["channel_values"])
                        for f in saver.list(thread("t"))],
                    lambda: saver.get_thread("t"),
                    lambda: list(saver.list_threads(metadata={"owner": "x"})),
                    lambda: saver.salvage("t"),
                    lambda: saver.copy_thread("t", "u"),
                    lambda: list(saver.dump()),
                    lambda: saver.prune(["t"]),
                ):  # fmt: skip
                    with suppress(MilepostError):
                        call()


STORED = {
    "milepost_items": ("kind", "data", "view", "created", "updated", "idx"),
    "milepost_store_meta": ("value",),
    "milepost_vectors_1": ("item", "vector"),
}


@pytest.mark.parametrize("table", STORED)
def test_a_cell_of_another_type_in_a_store_is_a_typed_error(path, tmp_path, table):
    settings: Any = {"index": {"dims": 2, "embed": lambda texts: [[1.0, 2.0] for _ in texts]}}
    filled = str(tmp_path / "filled.db")
    with SqliteStore.from_conn_string(filled, **settings) as store:
        for n in range(4):
            store.put(("a", "b"), f"k{n}", {"text": "x" * n, "n": n}, ttl=50)
    for column in STORED[table]:
        for other in OTHERS:
            shutil.copy(filled, path)
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(f"UPDATE {table} SET {column} = ?", (other,))
            with SqliteStore.from_conn_string(path, **settings) as store:
                for call in (
                    lambda: store.get(("a", "b"), "k1"),
                    lambda: store.search(("a",), filter={"n": 1}),
                    lambda: store.search(("a",), query="x"),
                    lambda: store.put(("a", "b"), "k2", {"n": 3}),
                    lambda: store.sweep_ttl(),
                ):
                    with suppress(MilepostError):
                        call()


# -- PostgreSQL: busy, slow, away


def test_an_exhausted_pool_is_busy_and_is_not_waited_for_longer_than_it_says(postgres, uri):
    runs(postgres)
    with (
        ConnectionPool(uri, min_size=1, max_size=1, timeout=0.2) as pool,
        pool.connection(),
    ):
        started = time.monotonic()
        for call in (
            lambda: PostgresSaver(pool).get_tuple(thread("t")),
            lambda: PostgresStore(pool).get(("a",), "k"),
        ):
            with pytest.raises(DatabaseBusyError, match="max_size or timeout"):
                call()
        assert time.monotonic() - started < 15  # it was 20 seconds each


def test_an_exhausted_pool_on_an_event_loop_is_busy_and_is_not_waited_for_longer_than_it_says(
    postgres, uri
):
    async def main() -> None:
        async with (
            AsyncConnectionPool(uri, min_size=1, max_size=1, timeout=0.2, open=False) as pool,
            pool.connection(),
        ):
            saver = AsyncPostgresSaver(pool)
            async with asyncio.timeout(15):
                with pytest.raises(DatabaseBusyError, match="max_size or timeout"):
                    await saver.aget_tuple(thread("t"))
                with pytest.raises(DatabaseBusyError, match="max_size or timeout"):
                    await two_nodes().compile(checkpointer=saver).ainvoke({"foo": ""}, thread("u"))

    asyncio.run(main())


def test_a_statement_timeout_is_told_as_one(postgres, uri):
    runs(postgres)
    with psycopg.connect(uri) as other, psycopg.connect(
        uri, autocommit=True, options="-c statement_timeout=100"
    ) as connection:  # fmt: skip
        other.execute("LOCK TABLE checkpoints IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DatabaseBusyError, match="statement_timeout"):
            PostgresSaver(connection).get_tuple(thread("t"))
        other.rollback()
        assert PostgresSaver(connection).get_tuple(thread("t")) is not None


def closed_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("kind", [PostgresSaver, PostgresStore])
def test_a_server_that_refuses_is_told_with_what_to_look_at(kind):
    opened = kind.from_conn_string(f"postgresql://u:hush@127.0.0.1:{closed_port()}/db")
    with pytest.raises(ConnectionUnusableError, match="server runs") as refused:
        opened.__enter__()
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("kind", [AsyncPostgresSaver, AsyncPostgresStore])
def test_a_server_that_refuses_is_told_on_an_event_loop_with_what_to_look_at(kind):
    async def main() -> None:
        opened = kind.from_conn_string(f"postgresql://u:hush@127.0.0.1:{closed_port()}/db")
        with pytest.raises(ConnectionUnusableError, match="server runs"):
            await opened.__aenter__()

    asyncio.run(main())


# -- SQLite that can only be read


@pytest.fixture(params=["WAL", "DELETE"])
def readable(request, path) -> str:
    """A database with a thread and an item, left by its writers."""
    with SqliteSaver.from_conn_string(path) as saver:
        runs(saver)
        SqliteStore(saver.engine).put(("a",), "k", {"n": 1})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={request.param}")
    return path


@pytest.mark.parametrize("how", ["mode=ro", "immutable=1"])
def test_a_database_that_can_only_be_read_is_read(readable, how):
    with SqliteSaver.from_conn_string(f"file:{readable}?{how}") as saver:
        graph = two_nodes().compile(checkpointer=saver)
        assert graph.get_state(thread("t")).values == DONE
        assert len(list(graph.get_state_history(thread("t")))) == 4
        assert [info.thread_id for info in saver.list_threads()] == ["t"]
        assert saver.verify() == []
        for call in (lambda: runs(saver, "u"), lambda: saver.delete_thread("t")):
            with pytest.raises(ReadOnlyError, match="open the file for writing"):
                call()
        store = SqliteStore(saver.engine)
        assert store.get(("a",), "k").value == {"n": 1}
        assert [item.key for item in store.search(("a",))] == ["k"]
        with pytest.raises(ReadOnlyError):
            store.put(("a",), "l", {"n": 2})


def test_a_database_that_can_only_be_read_is_read_by_async_savers_and_stores(readable):
    async def main() -> None:
        name = f"file:{readable}?mode=ro"
        async with AsyncSqliteSaver.from_conn_string(name) as saver:
            graph = two_nodes().compile(checkpointer=saver)
            assert (await graph.aget_state(thread("t"))).values == DONE
            with pytest.raises(ReadOnlyError):
                await graph.ainvoke({"foo": ""}, thread("u"))
        async with AsyncSqliteStore.from_conn_string(name) as store:
            assert (await store.aget(("a",), "k")).value == {"n": 1}
            with pytest.raises(ReadOnlyError):
                await store.adelete(("a",), "k")

    asyncio.run(main())


def test_a_replica_of_postgres_is_read_and_says_that_it_takes_no_writes(postgres, uri):
    runs(postgres, "t")
    replica = f"{uri}&options=-c%20default_transaction_read_only%3Don"
    with PostgresSaver.from_conn_string(replica) as saver:
        saver.setup()
        graph = two_nodes().compile(checkpointer=saver)
        assert graph.get_state(thread("t")).values == DONE
        assert saver.verify() == []
        for call in (lambda: runs(saver, "u"), lambda: saver.delete_thread("t")):
            with pytest.raises(ReadOnlyError, match="connect to the primary"):
                call()


def test_a_new_file_that_cannot_be_written_to_says_so(path):
    sqlite3.connect(path).close()
    with (
        SqliteSaver.from_conn_string(f"file:{path}?mode=ro") as saver,
        pytest.raises(ReadOnlyError, match="open the file for writing"),
    ):
        saver.get_tuple(thread("t"))


# -- other processes


@pytest.mark.parametrize("send", [pickle.dumps, copy.deepcopy])
def test_a_saver_or_store_is_not_pickled_or_deep_copied(send, path, postgres, uri):
    with SqliteSaver.from_conn_string(path) as sqlite, PostgresStore.from_conn_string(uri) as store:
        things = [sqlite, SqliteStore(sqlite.engine), postgres, store]
        if send is pickle.dumps:  # what is in memory can be copied
            things += [InMemorySaver(), InMemoryStore()]
        for thing in things:
            with pytest.raises(ProcessBoundError, match="in the other process") as refused:
                send(thing)
            assert type(thing).__name__ in str(refused.value)
            assert isinstance(refused.value, TypeError)
        assert runs(sqlite.with_serde(sqlite.serde)) == DONE
