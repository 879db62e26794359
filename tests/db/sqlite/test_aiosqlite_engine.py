"""An aiosqlite connection that the program uses too."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from milepost._db.operations import Execute, Query
from milepost._db.sqlite.aio import AiosqliteEngine
from milepost.errors import ConnectionUnusableError


def work(*statements: Any) -> Any:
    def operation() -> Any:
        answers = []
        for statement in statements:
            answers.append((yield statement))
        return answers

    return operation


def run(path: Path, main: Any) -> Any:
    """What `main` returns of an engine and its connection, on an event loop."""

    async def go() -> Any:
        async with aiosqlite.connect(path / "file.db", isolation_level=None) as connection:
            await connection.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, who TEXT)")
            engine = AiosqliteEngine(connection, owner="a test", synchronous="NORMAL")
            return await main(engine, connection)

    return asyncio.run(go())


def test_nothing_of_the_program_comes_between_the_statements_of_a_transaction(tmp_path):
    ours = work(*[Execute("INSERT INTO log (who) VALUES ('engine')") for _ in range(5)])

    async def main(engine: Any, connection: Any) -> Any:
        done = False

        async def program() -> None:
            while not done:
                await connection.execute_fetchall("INSERT INTO log (who) VALUES ('program')")

        task = asyncio.ensure_future(program())
        for _ in range(20):
            await engine.arun(ours, write=True)
        done = True
        await task
        return await connection.execute_fetchall("SELECT who FROM log ORDER BY id")

    names = [who for (who,) in run(tmp_path, main)]
    places = [place for place, name in enumerate(names) if name == "engine"]
    assert len(places) == 100
    assert len(names) > 100
    for first in places[::5]:
        assert names[first : first + 5] == ["engine"] * 5


def test_callbacks_of_the_program_see_only_its_own_rows(tmp_path):
    async def main(engine: Any, connection: Any) -> Any:
        seen: list[Any] = []

        def factory(cursor: Any, row: Any) -> Any:
            seen.append(row)
            return row

        connection.row_factory = factory
        assert await engine.arun(work(Query("SELECT 5")), write=False) == [[(5,)]]
        await connection.execute_fetchall("SELECT 6")
        return seen

    assert run(tmp_path, main) == [(6,)]


def test_a_file_is_rewritten_in_the_connections_thread(tmp_path):
    traced: list[tuple[str, str]] = []

    async def main(engine: Any, connection: Any) -> tuple[Any, str]:
        await connection.execute("INSERT INTO log (who) VALUES (zeroblob(100000))")
        await connection.execute("DELETE FROM log")

        def trace(statement: str) -> None:
            traced.append((statement, threading.current_thread().name))

        await connection.set_trace_callback(trace)
        await engine.avacuum()
        await connection.set_trace_callback(None)
        [(free,)] = await connection.execute_fetchall("PRAGMA freelist_count")
        return free, await connection._execute(lambda: threading.current_thread().name)

    free, thread = run(tmp_path, main)
    assert free == 0
    assert ("VACUUM", thread) in traced
    assert thread != threading.current_thread().name


@pytest.mark.parametrize("error", [KeyError("x"), ValueError("a connection"), StopIteration(1)])
def test_what_an_operation_raises_is_raised(tmp_path, error):
    def operation() -> Any:
        yield Query("SELECT 1")
        raise error

    async def main(engine: Any, connection: Any) -> None:
        expected = RuntimeError if isinstance(error, StopIteration) else type(error)
        with pytest.raises(expected):
            await engine.arun(operation, write=True)
        assert await engine.arun(work(Query("SELECT 2")), write=False) == [[(2,)]]

    run(tmp_path, main)


@pytest.mark.parametrize("used", [True, False])
def test_a_connection_that_is_closed_says_so(tmp_path, used):
    async def main(engine: Any, connection: Any) -> None:
        if used:
            await engine.arun(work(Query("SELECT 1")), write=False)
        await connection.close()
        with pytest.raises(ConnectionUnusableError, match="closed" if used else "not open"):
            await engine.arun(work(Query("SELECT 1")), write=False)

    run(tmp_path, main)
