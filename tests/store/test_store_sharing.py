"""One database, one connection, one pool for saver and store; encryption; the graph."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypedDict

import pytest
from embedders import Model

from milepost import END, START, StateGraph
from milepost._db.connections import lock_of
from milepost._db.sqlite.engine import open_sqlite
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.keyring import AesKeyRing
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.config import get_store
from milepost.errors import DecryptionError, FilterError, StoreError
from milepost.func import entrypoint, task
from milepost.runtime import Runtime, get_runtime
from milepost.store.base import BaseStore
from milepost.store.sqlite import SqliteStore
from milepost.store.sqlite.aio import AsyncSqliteStore

NS = ("secret",)
KEY = b"0123456789abcdef"


def keys(items):
    return [item.key for item in items]


class State(TypedDict):
    text: str


def remembering_graph(saver, store):
    def remember(state: State, *, store: BaseStore):
        seen = len(store.search(("seen",), limit=100))
        store.put(("seen",), state["text"], {"n": seen})
        return {"text": f"{seen} before"}

    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", END)
    return builder.compile(checkpointer=saver, store=store)


def run_two_threads(graph):
    first = graph.invoke({"text": "a"}, {"configurable": {"thread_id": "1"}})
    second = graph.invoke({"text": "b"}, {"configurable": {"thread_id": "2"}})
    return first["text"], second["text"]


def work_in_threads(saver, store):
    """Run graphs and use the store in many threads; what one of them did is all there."""
    graph = remembering_graph(saver, store)
    together = threading.Barrier(4)

    def work(number):
        together.wait()
        for step in range(10):
            key = f"{number}-{step}"
            graph.invoke({"text": key}, {"configurable": {"thread_id": f"{number}"}})
            store.put(("mine",), key, {"n": step})
            assert store.get(("mine",), key).value == {"n": step}

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(store.search(("seen",), limit=100)) == 40
    assert len(store.search(("mine",), limit=100)) == 40
    assert {graph.get_state({"configurable": {"thread_id": f"{n}"}}).next for n in range(4)} == {()}


async def work_in_tasks(saver, store):
    """The same in many tasks of one loop."""

    async def remember(state: State, *, store: BaseStore):
        await store.aput(("seen",), state["text"], {})
        return {"text": (await store.aget(("seen",), state["text"])).key}

    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    graph = builder.compile(checkpointer=saver, store=store)

    async def work(number):
        for step in range(5):
            key = f"{number}-{step}"
            config = {"configurable": {"thread_id": f"{number}"}}
            assert await graph.ainvoke({"text": key}, config) == {"text": key}

    await asyncio.gather(*map(work, range(4)))
    assert len(await store.asearch(("seen",), limit=100)) == 20


class TestSharing:
    def test_one_sqlite_connection(self, tmp_path):
        connection = open_sqlite(str(tmp_path / "both.db"))
        saver = SqliteSaver(connection)
        store = SqliteStore(connection)
        assert run_two_threads(remembering_graph(saver, store)) == ("0 before", "1 before")
        connection.close()

    def test_one_sqlite_engine(self, tmp_path):
        saver = SqliteSaver(open_sqlite(str(tmp_path / "both.db")))
        store = SqliteStore(saver.engine)
        assert run_two_threads(remembering_graph(saver, store)) == ("0 before", "1 before")
        saver.engine.close()

    def test_one_sqlite_connection_from_several_threads(self, tmp_path):
        connection = open_sqlite(str(tmp_path / "both.db"))
        saver, store = SqliteSaver(connection), SqliteStore(connection)
        work_in_threads(saver, store)
        connection.close()

    def test_one_postgres_connection_from_several_threads(self, postgres):
        import psycopg

        from milepost.checkpoint.postgres import PostgresSaver
        from milepost.store.postgres import PostgresStore

        with psycopg.connect(postgres, autocommit=True) as connection:
            saver, store = PostgresSaver(connection), PostgresStore(connection)
            saver.setup()
            work_in_threads(saver, store)

    def test_one_aiosqlite_connection(self, tmp_path):
        aiosqlite = pytest.importorskip("aiosqlite")

        async def play():
            async with aiosqlite.connect(tmp_path / "both.db") as connection:
                await work_in_tasks(AsyncSqliteSaver(connection), AsyncSqliteStore(connection))

        asyncio.run(play())

    def test_one_aiosqlite_engine(self, tmp_path):
        aiosqlite = pytest.importorskip("aiosqlite")

        async def play():
            async with aiosqlite.connect(tmp_path / "both.db") as connection:
                saver = AsyncSqliteSaver(connection)
                await work_in_tasks(saver, AsyncSqliteStore(saver.engine))

        asyncio.run(play())

    def test_search_by_meaning_on_an_aiosqlite_connection(self, tmp_path):
        aiosqlite = pytest.importorskip("aiosqlite")

        async def play():
            async with aiosqlite.connect(tmp_path / "both.db") as connection:
                store = AsyncSqliteStore(connection, index={"embed": Model(), "dims": 3})
                await store.aput(NS, "k", {"text": "a"})
                found = await store.asearch(NS, query="a", filter={"a.b-c": None})
                return keys(found), keys(await asyncio.to_thread(store.search, NS))

        assert asyncio.run(play()) == (["k"], ["k"])

    def test_one_sqlite_connection_for_both_on_a_loop(self, tmp_path):
        connection = open_sqlite(str(tmp_path / "both.db"))
        asyncio.run(work_in_tasks(AsyncSqliteSaver(connection), AsyncSqliteStore(connection)))
        connection.close()

    def test_one_async_postgres_connection(self, postgres):
        import psycopg

        from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
        from milepost.store.postgres.aio import AsyncPostgresStore

        async def play():
            connect = psycopg.AsyncConnection.connect
            async with await connect(postgres, autocommit=True) as connection:
                saver = AsyncPostgresSaver(connection)
                await saver.setup()
                await work_in_tasks(saver, AsyncPostgresStore(connection))

        asyncio.run(play())

    def test_a_connection_that_is_gone_leaves_nothing_behind(self):
        connection = open_sqlite(":memory:")
        store = SqliteStore(connection)
        turns = weakref.ref(lock_of(connection))
        assert store.engine.lock is SqliteSaver(connection).engine.lock is turns().lock
        del store
        gc.collect()
        assert turns() is None
        connection.close()

    def test_one_sqlite_file_and_two_connections(self, tmp_path):
        path = str(tmp_path / "both.db")
        with (
            SqliteSaver.from_conn_string(path) as saver,
            SqliteStore.from_conn_string(path) as store,
        ):
            assert run_two_threads(remembering_graph(saver, store)) == ("0 before", "1 before")
        with closing(sqlite3.connect(path)) as connection:
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        assert {"checkpoints", "milepost_items"} <= names

    def test_one_postgres_connection(self, postgres):
        from milepost.checkpoint.postgres import PostgresSaver
        from milepost.store.postgres import PostgresStore

        with PostgresSaver.from_conn_string(postgres) as saver:
            saver.setup()
            store = PostgresStore(saver.engine, index={"embed": Model(), "dims": 3})
            assert run_two_threads(remembering_graph(saver, store)) == ("0 before", "1 before")
            assert len(store.search((), query="a")) == 2

    def test_one_postgres_pool(self, postgres):
        from psycopg_pool import ConnectionPool

        from milepost.checkpoint.postgres import PostgresSaver
        from milepost.store.postgres import PostgresStore

        with ConnectionPool(postgres, min_size=1, max_size=2, open=True) as pool:
            saver, store = PostgresSaver(pool), PostgresStore(pool)
            saver.setup()
            assert run_two_threads(remembering_graph(saver, store)) == ("0 before", "1 before")

    def test_one_async_postgres_pool(self, postgres):
        from psycopg_pool import AsyncConnectionPool

        from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
        from milepost.store.postgres.aio import AsyncPostgresStore

        async def play():
            async with AsyncConnectionPool(postgres, min_size=1, max_size=2, open=False) as pool:
                saver, store = AsyncPostgresSaver(pool), AsyncPostgresStore(pool)
                await saver.setup()
                await store.setup()
                await store.aput(("seen",), "x", {})

                async def remember(state: State, *, store: BaseStore):
                    return {"text": str(len(await store.asearch(("seen",))))}

                builder = StateGraph(State)
                builder.add_node("remember", remember)
                builder.add_edge(START, "remember")
                graph = builder.compile(checkpointer=saver, store=store)
                return await graph.ainvoke({"text": ""}, {"configurable": {"thread_id": "1"}})

        assert asyncio.run(play()) == {"text": "1"}

    def test_a_schema_of_its_own(self, postgres):
        from milepost.store.postgres import PostgresStore

        with PostgresStore.from_conn_string(postgres, schema="mp_store_test") as store:
            store.put(NS, "k", {"a": 1})
            assert store.get(NS, "k").value == {"a": 1}
            rows = store.conn.execute("SELECT count(*) FROM mp_store_test.milepost_items")
            assert rows.fetchone() == (1,)
            store.conn.execute("DROP SCHEMA mp_store_test CASCADE")

    def test_pools_are_made_on_request(self, postgres):
        from milepost.store.postgres import PostgresStore

        settings = {"min_size": 1, "max_size": 3}
        with PostgresStore.from_conn_string(postgres, pool_config=settings) as store:
            store.put(NS, "k", {"a": 1})
            assert store.get(NS, "k").value == {"a": 1}

    def test_what_is_not_a_connection_is_refused(self):
        from milepost.store.postgres import PostgresStore

        with pytest.raises(TypeError, match="from_conn_string"):
            SqliteStore("file.db")
        with pytest.raises(TypeError, match="from_conn_string"):
            PostgresStore("postgresql://")


class TestEncryption:
    @pytest.fixture
    def serde(self):
        return EncryptedSerializer.from_pycryptodome_aes(key=KEY)

    def test_values_are_read_back_and_nothing_of_them_is_stored(self, stores, serde):
        store = stores.open(serde=serde, clear_fields=["kind", "place.city"])
        value = {"kind": "note", "text": "canary", "place": {"city": "Ulm", "street": "hidden"}}
        store.put(NS, "k", value)
        assert store.get(NS, "k").value == value
        assert store.search(NS)[0].value == value
        if stores.backend == "redis":
            stored = stores.stored()
            assert b"canary" not in stored
            assert b"Ulm" not in stored
        elif stores.is_durable:
            (row,) = stores.rows("SELECT data, view FROM milepost_items")
            assert b"canary" not in bytes(row[0])
            assert "canary" not in str(row[1])
            assert "hidden" not in str(row[1])
            assert "Ulm" in str(row[1])

    def test_filters_work_on_fields_that_are_declared_clear(self, stores, serde):
        store = stores.open(serde=serde, clear_fields=["kind", "place.city"])
        store.put(NS, "a", {"kind": "note", "text": "x", "place": {"city": "Ulm", "zip": 1}})
        store.put(NS, "b", {"kind": "task", "text": "x"})
        assert keys(store.search(NS, filter={"kind": "note"})) == ["a"]
        assert keys(store.search(NS, filter={"place": {"city": "Ulm"}})) == ["a"]
        assert keys(store.search(NS, filter={"place.city": {"$gt": "A"}})) == ["a"]
        for hidden in ({"text": "x"}, {"place": {"zip": 1}}, {"place": "Ulm"}):
            with pytest.raises(FilterError, match="clear_fields"):
                store.search(NS, filter=hidden)

    def test_without_clear_fields_no_filter_works(self, stores, serde):
        store = stores.open(serde=serde)
        store.put(NS, "a", {"kind": "note"})
        with pytest.raises(FilterError, match="encrypted"):
            store.search(NS, filter={"kind": "note"})
        assert len(store.search(NS)) == 1

    def test_a_value_opens_only_in_its_place(self, stores, serde):
        if stores.backend != "sqlite":
            pytest.skip("moves a row by hand")
        store = stores.open(serde=serde)
        store.put(NS, "a", {"who": "alice"})
        store.put(NS, "b", {"who": "bob"})
        connection = sqlite3.connect(stores._file)
        with connection:
            connection.execute(
                "UPDATE milepost_items SET data ="
                " (SELECT data FROM milepost_items WHERE key = 'a') WHERE key = 'b'"
            )
        connection.close()
        with pytest.raises(DecryptionError, match="another place"):
            store.get(NS, "b")
        assert store.get(NS, "a").value == {"who": "alice"}

    def test_search_by_meaning_works_too(self, stores, serde):
        store = stores.open(serde=serde, index={"embed": Model(), "dims": 3})
        store.put(NS, "a", {"text": "aaa"})
        store.put(NS, "b", {"text": "bbb"})
        assert keys(store.search(NS, query="b")) == ["b", "a"]
        assert store.reindex() == 2
        assert keys(store.search(NS, query="b")) == ["b", "a"]

    def test_one_call_seals_all_values_anew_and_the_old_key_can_go(self, stores):
        ring = AesKeyRing({"old": b"o" * 16})
        store = stores.open(serde=EncryptedSerializer(ring))
        for n in range(230):
            store.put((*NS, str(n % 3)), f"k{n}", {"n": n})
        before = [store.get((*NS, "1"), "k1"), *store.search(NS, limit=300)]
        ring.add(b"n" * 16, id="new")
        seen = []

        def traffic(done, total):
            seen.append((done, total))
            if not stores.is_async and len(seen) == 1:
                store.put((*NS, "2"), "k200", {"n": "put meanwhile"})
                store.put(NS, "new", {"n": "new"})

        first = store.reencrypt(progress=traffic)
        assert first.resealed >= 229
        assert not first
        again = store.reencrypt()
        assert again
        assert again.current >= 230
        ring.drop("old")
        now = [store.get((*NS, "1"), "k1"), *store.search(NS, limit=300)]
        untouched = [item for item in now if item in before]
        assert len(untouched) >= 229
        if not stores.is_async:
            assert store.get((*NS, "2"), "k200").value == {"n": "put meanwhile"}
        if stores.backend == "redis":
            assert b":old" not in stores.stored()
        elif stores.is_durable:
            assert not [
                1
                for (d,) in stores.rows("SELECT data FROM milepost_items")
                if b":old" in bytes(d)[:20]
            ]

    def test_an_item_that_does_not_open_is_named(self, stores, serde):
        if not stores.is_durable:
            pytest.skip("memory has no yesterday")
        stores.open(serde=serde).put(NS, "a", {"text": "aaa"})
        other = EncryptedSerializer.from_pycryptodome_aes(key=b"fedcba9876543210")
        (refused,) = stores.open(serde=other).reencrypt().refused
        assert (refused.namespace, refused.key) == (NS, "a")
        assert "aaa" not in refused.reason

    def test_a_store_that_does_not_encrypt_says_so(self, stores):
        with pytest.raises(StoreError, match="encrypt"):
            stores.open().reencrypt()

    def test_another_key_does_not_open_it(self, stores, serde):
        if not stores.is_durable:
            pytest.skip("memory has no yesterday")
        stores.open(serde=serde).put(NS, "a", {"text": "aaa"})
        other = EncryptedSerializer.from_pycryptodome_aes(key=b"fedcba9876543210")
        with pytest.raises(DecryptionError):
            stores.open(serde=other).get(NS, "a")


class Context(TypedDict):
    user_id: str


class TestTheDocumentsExample:
    """Memories of one user, in two threads."""

    def build(self, store):
        def update_memory(state: State, runtime: Runtime[Context]):
            namespace = (runtime.context["user_id"], "memories")
            runtime.store.put(namespace, state["text"], {"memory": state["text"]})
            return {}

        def call_model(state: State, runtime: Runtime[Context]):
            namespace = (runtime.context["user_id"], "memories")
            found = runtime.store.search(namespace, query=state["text"], limit=3)
            return {"text": "\n".join(item.value["memory"] for item in found)}

        builder = StateGraph(State, context_schema=Context)
        builder.add_node("call_model", call_model)
        builder.add_node("update_memory", update_memory)
        builder.add_edge(START, "update_memory")
        builder.add_edge("update_memory", "call_model")
        builder.add_edge("call_model", END)
        return builder.compile(checkpointer=InMemorySaver(), store=store)

    def build_async(self, store):
        async def update_memory(state: State, runtime: Runtime[Context]):
            namespace = (runtime.context["user_id"], "memories")
            await runtime.store.aput(namespace, state["text"], {"memory": state["text"]})
            return {}

        async def call_model(state: State):
            namespace = (get_runtime(Context).context["user_id"], "memories")
            found = await get_store().asearch(namespace, query=state["text"], limit=3)
            return {"text": "\n".join(item.value["memory"] for item in found)}

        builder = StateGraph(State, context_schema=Context)
        builder.add_sequence([update_memory, call_model])
        builder.add_edge(START, "update_memory")
        return builder.compile(checkpointer=InMemorySaver(), store=store)

    @pytest.mark.parametrize("nodes", ["sync", "async"])
    def test_works_on_every_store(self, stores, nodes):
        store = stores.open(index={"embed": Model(), "dims": 3, "fields": ["memory"]})
        graph = (self.build if nodes == "sync" else self.build_async)(store.store)

        def say(text, thread, user):
            config = {"configurable": {"thread_id": thread}}
            arguments = {"text": text}, config
            if not stores.is_async:
                return graph.invoke(*arguments, context={"user_id": user})["text"]

            async def play():
                return await graph.ainvoke(*arguments, context={"user_id": user})

            return stores.runner.run(play())["text"]

        assert say("aaa", "1", "u1") == "aaa"
        assert say("bbb", "2", "u1") == "bbb\naaa"
        assert say("ccc", "3", "u2") == "ccc"

    def test_a_task_reaches_the_store_as_well(self, stores):
        store = stores.open()

        @task
        def remember(text):
            get_store().put(("seen",), text, {})
            return len(get_store().search(("seen",)))

        @entrypoint(checkpointer=InMemorySaver(), store=store.store)
        def flow(text, *, store: BaseStore):
            return remember(text).result(), store is get_store()

        def say(text):
            config = {"configurable": {"thread_id": text}}
            if not stores.is_async:
                return flow.invoke(text, config)

            async def play():
                return await flow.ainvoke(text, config)

            return stores.runner.run(play())

        assert [say("a"), say("b")] == [(1, True), (2, True)]


class TestWhatIsNoStore:
    """Refused when the graph is made, not when a node first looks for a memory."""

    @pytest.mark.parametrize(
        ("wrong", "advice"),
        [
            (SqliteStore.from_conn_string(":memory:"), "`with SqliteStore.from_conn_string"),
            (AsyncSqliteStore.from_conn_string(":memory:"), "`async with AsyncSqliteStore"),
            (SqliteStore, r"not the class SqliteStore: pass SqliteStore\(...\)"),
            ("memory.db", "not str"),
        ],
        ids=["not entered", "not entered, async", "class", "address"],
    )
    def test_is_refused_with_advice(self, wrong, advice):
        with pytest.raises(TypeError, match=advice):
            StateGraph(State).add_node("n", dict).add_edge(START, "n").compile(store=wrong)
        with pytest.raises(TypeError, match=advice):
            entrypoint(store=wrong)
