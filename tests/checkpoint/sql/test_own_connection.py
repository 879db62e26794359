"""A connection that is the user's own keeps its settings, at every moment."""

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import aiosqlite
import pytest

from graphs import line, thread
from milepost._db.sqlite import engine
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.errors import NotErasedError
from milepost.store.sqlite import SqliteStore
from milepost.store.sqlite.aio import AsyncSqliteStore

SETTINGS = {"cache_size": -1234, "busy_timeout": 4321, "temp_store": 2, "wal_autocheckpoint": 77}
LARGE = {"log": ["x" * 300_000]}
DURABLE = {"journal_mode", "synchronous", "auto_vacuum"}
"""What makes commits durable and small, as the documents say."""
LASTING = {"auto_vacuum"}
"""What a file keeps: only the first to open the file sets it."""


def changed(statements: list[str]) -> set[str]:
    """The settings that were set by these."""
    words = [one.lower().split() for one in statements]
    return {one[1].partition("=")[0] for one in words if one[0] == "pragma" and "=" in "".join(one)}


def settings(connection: sqlite3.Connection) -> dict[str, Any]:
    return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in SETTINGS}


def users(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    set_up(connection)
    return connection


def set_up(connection: sqlite3.Connection) -> None:
    for name, value in SETTINGS.items():
        connection.execute(f"PRAGMA {name}={value}")


def test_a_saver_sets_only_what_makes_commits_durable_on_the_programs_connection(path):
    with SqliteSaver.from_conn_string(path) as saver:
        line("a").compile(checkpointer=saver).invoke(LARGE, thread("t"))
    with closing(users(path)) as connection:
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        saver = SqliteSaver(connection)
        graph = line("a").compile(checkpointer=saver)
        assert graph.get_state(thread("t")).values["log"] == [*LARGE["log"], "a"]
        graph.invoke(LARGE, thread("u"))
        saver.erase(["t"])
        saver.vacuum()
        connection.set_trace_callback(None)
        assert changed(statements) == DURABLE - LASTING
        assert any("TRUNCATE" in one for one in statements)
        assert settings(connection) == SETTINGS


@pytest.mark.parametrize("aio", [True, False], ids=["aiosqlite", "sqlite3"])
def test_an_async_saver_sets_only_what_makes_commits_durable_on_the_programs_connection(path, aio):
    async def use(connection: Any, inner: sqlite3.Connection) -> None:
        statements: list[str] = []
        inner.set_trace_callback(statements.append)
        saver = AsyncSqliteSaver(connection)
        graph = line("a").compile(checkpointer=saver)
        state = await graph.aget_state(thread("t"))
        assert state.values["log"] == [*LARGE["log"], "a"]
        await graph.ainvoke(LARGE, thread("u"))
        await saver.aerase(["t"])
        inner.set_trace_callback(None)
        assert changed(statements) == DURABLE - LASTING

    async def run() -> None:
        if aio:
            connect = aiosqlite.connect(path, check_same_thread=False)
            async with connect as connection:
                async with connection.cursor() as cursor:
                    inner = cursor.connection
                set_up(inner)
                await use(connection, inner)
                assert settings(inner) == SETTINGS
        else:
            with closing(users(path)) as connection:
                await use(connection, connection)
                assert settings(connection) == SETTINGS

    with SqliteSaver.from_conn_string(path) as saver:
        line("a").compile(checkpointer=saver).invoke(LARGE, thread("t"))
    asyncio.run(run())


def test_a_store_sets_only_what_makes_commits_durable_on_the_programs_connection(path):
    with closing(users(path)) as connection:
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        store = SqliteStore(connection)
        store.setup()
        store.put(("a",), "k", {"text": "x" * 300_000})
        assert store.get(("a",), "k").value == {"text": "x" * 300_000}
        store.delete(("a",), "k")
        store.close()
        connection.set_trace_callback(None)
        assert changed(statements) == DURABLE
        assert settings(connection) == SETTINGS


def test_an_async_store_sets_only_what_makes_commits_durable_on_the_programs_connection(path):
    async def run() -> None:
        async with aiosqlite.connect(path, check_same_thread=False) as connection:
            async with connection.cursor() as cursor:
                inner = cursor.connection
            set_up(inner)
            statements: list[str] = []
            inner.set_trace_callback(statements.append)
            store = AsyncSqliteStore(connection)
            await store.setup()
            await store.aput(("a",), "k", {"text": "x" * 300_000})
            await store.aget(("a",), "k")
            inner.set_trace_callback(None)
            assert changed(statements) == DURABLE
            assert settings(inner) == SETTINGS

    asyncio.run(run())


@pytest.fixture
def erasing(path):
    """A saver on the user's own connection, which waits for others for a moment only, and a
    reader that can still see what is erased."""
    with closing(users(path)) as connection:
        saver = SqliteSaver(connection)
        line("a").compile(checkpointer=saver).invoke(LARGE, thread("t"))
        connection.execute("PRAGMA busy_timeout=100")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM threads").fetchall()
            yield saver, reader


def test_erased_text_that_others_can_still_read_is_told(erasing, path):
    saver, _ = erasing
    with pytest.raises(NotErasedError):
        saver.erase(["t"])
    assert saver.conn.execute("PRAGMA busy_timeout").fetchone() == (100,)


def test_others_can_write_while_an_older_reader_is_waited_for(erasing, path, monkeypatch):
    saver, reader = erasing
    saver.conn.execute("PRAGMA busy_timeout=60000")
    wrote: list[int] = []

    def other(_: float) -> None:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as writer:
            writer.execute("CREATE TABLE theirs (n)")
        wrote.append(1)
        reader.execute("ROLLBACK")

    monkeypatch.setattr(engine.time, "sleep", other)
    saver.erase(["t"])
    assert wrote == [1]
