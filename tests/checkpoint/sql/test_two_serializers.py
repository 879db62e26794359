"""Two savers with different serializers on one engine (`with_serde`, `as_langgraph`)."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from graphs import PATIENCE, counter, thread
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RUNS = 4
STEPS = 5


@asynccontextmanager
async def opened(kind: str, uri: str, path: str) -> AsyncIterator[Any]:
    if kind == "sqlite":
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            yield saver
    elif kind == "pool":
        async with AsyncConnectionPool(uri, kwargs={"autocommit": True}) as pool:
            yield AsyncPostgresSaver(pool)
    else:
        async with AsyncPostgresSaver.from_conn_string(uri) as saver:
            yield saver


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["connection", "pool", "sqlite"])
def test_twins_commit_at_the_same_time_on_an_event_loop(uri, path, kind, durability):
    async def count(saver: Any, name: str) -> Any:
        graph = counter(saver, STEPS)
        return await graph.ainvoke({"n": 0}, thread(name), durability=durability)

    async def both() -> None:
        async with opened(kind, uri, path) as saver:
            await saver.setup()
            twin = saver.with_serde(JsonPlusSerializer())
            runs = [count(one, f"{n}{one is twin}") for n in range(RUNS) for one in (saver, twin)]
            results.extend(await asyncio.gather(*runs))
            problems.extend(await saver.averify())

    results: list[Any] = []
    problems: list[Any] = []
    # In a thread that a test can leave behind: a commit that has begun cannot be cancelled.
    worker = threading.Thread(target=lambda: asyncio.run(both()), daemon=True)
    worker.start()
    worker.join(PATIENCE)
    assert not worker.is_alive(), "it hangs"
    assert results == [{"n": STEPS}] * RUNS * 2
    assert problems == []


@pytest.mark.parametrize("kind", ["connection", "pool", "sqlite"])
def test_twins_commit_at_the_same_time_in_threads(uri, path, kind):
    def count(saver: Any, name: str) -> None:
        results.append(counter(saver, STEPS).invoke({"n": 0}, thread(name), durability="sync"))

    if kind == "sqlite":
        opened = SqliteSaver.from_conn_string(path)
    elif kind == "pool":
        opened = ConnectionPool(uri, kwargs={"autocommit": True})
    else:
        opened = PostgresSaver.from_conn_string(uri)
    results: list[Any] = []
    with opened as source:
        saver = PostgresSaver(source) if kind == "pool" else source
        saver.setup()
        twin = saver.with_serde(JsonPlusSerializer())
        runs = [
            threading.Thread(target=count, args=(one, f"{n}{one is twin}"), daemon=True)
            for n in range(RUNS)
            for one in (saver, twin)
        ]
        for run in runs:
            run.start()
        for run in runs:
            run.join(PATIENCE)
            assert not run.is_alive(), "it hangs"
        assert results == [{"n": STEPS}] * RUNS * 2
        assert saver.verify() == []
