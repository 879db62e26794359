"""Many at once on an event loop: who reads at the same time shares a transaction."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from graphs import counter, thread
from milepost._db import batched_reads as sharing
from milepost._db.batched_reads import LANES, MOST, Readers, together
from milepost._db.operations import BatchableRead, Execute, Queries, Query
from milepost._db.postgres import transaction as pg_transaction
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.errors import DamagedRowError, SaverError

MANY = LANES + MOST


@asynccontextmanager
async def pooled(uri: str, size: int = 8, **settings: Any) -> AsyncIterator[Any]:
    """A saver on a pool, and the pool."""
    kwargs = {"autocommit": True, **settings}
    async with AsyncConnectionPool(uri, min_size=size, max_size=size, kwargs=kwargs) as pool:
        yield AsyncPostgresSaver(pool), pool


def with_threads(uri: str, count: int) -> None:
    """Threads 0, 1, ..., each of which has counted up to 2."""
    with PostgresSaver.from_conn_string(uri) as saver:
        saver.setup()
        for number in range(count):
            counter(saver, 2).invoke({"n": 0}, thread(str(number)))


async def read_all(saver: AsyncPostgresSaver, names: Any) -> list[Any]:
    """What reading these threads at the same time gives, be it an error."""
    reading = (saver.aget_tuple(thread(str(name))) for name in names)
    return await asyncio.gather(*reading, return_exceptions=True)


def values(found: list[Any]) -> list[int]:
    return [one.checkpoint["channel_values"]["n"] for one in found]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The async connection of each transaction, as it begins."""
    made: list[Any] = []
    transaction = pg_transaction.transaction

    def counted(connection: Any, *arguments: Any, **settings: Any) -> Any:
        if isinstance(connection, psycopg.AsyncConnection):
            made.append(connection)
        return transaction(connection, *arguments, **settings)

    monkeypatch.setattr("milepost._db.postgres.source.transaction", counted)
    return made


# -- readers


def test_threads_that_are_read_at_once_are_read_in_few_transactions(uri, begun):
    with_threads(uri, 3)

    async def go():
        async with pooled(uri) as (saver, _):
            return await read_all(saver, [number % 3 for number in range(MANY)])

    assert values(asyncio.run(go())) == [2] * MANY
    assert len(begun) == LANES + 1


def test_one_after_the_other_each_has_its_own(uri, begun):
    with_threads(uri, 1)

    async def go():
        async with pooled(uri) as (saver, _):
            return [(await read_all(saver, [0]))[0] for _ in range(3)]

    assert values(asyncio.run(go())) == [2] * 3
    assert len(begun) == 3


def test_a_state_that_takes_several_questions_is_whole_all_the_same(uri):
    with_threads(uri, 8)

    async def go():
        async with pooled(uri) as (saver, _):
            older = [[c.config async for c in saver.alist(thread(str(n)))][-1] for n in range(8)]
            alone = [await saver.aget_tuple(config) for config in older]
            # Some of them are found by a guess, the others are fetched by another query.
            at_once = [thread(str(number)) for number in range(8)]
            async with pooled(uri) as (other, _):
                reading = [other.aget_tuple(config) for config in (*at_once, *older)]
                return alone, await asyncio.gather(*reading)

    alone, shared = asyncio.run(go())
    assert values(shared[:8]) == [2] * 8
    assert shared[8:] == alone


def test_a_damaged_thread_fails_alone(uri):
    with_threads(uri, 4)
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(
            "UPDATE checkpoints SET metadata = '\\x00'::bytea || metadata WHERE thread_id = '2'"
        )

    async def go():
        async with pooled(uri) as (saver, _):
            return await read_all(saver, [0, 1, 2, 3, 0, 1, 3])

    found = asyncio.run(go())
    bad = found.pop(2)
    assert isinstance(bad, DamagedRowError)
    assert values(found) == [2] * 6


def test_a_question_that_cannot_be_sent_fails_alone(uri):
    with_threads(uri, 3)

    async def go():
        async with pooled(uri, client_encoding="latin1") as (saver, _):
            return await read_all(saver, [0, 1, 2, "\N{SNOWMAN}", 0, 1, 2])

    found = asyncio.run(go())
    assert isinstance(bad := found.pop(3), SaverError)
    assert "client_encoding" in str(bad)
    assert values(found) == [2] * 6


def test_a_connection_that_dies_is_replaced_for_all(uri):
    with_threads(uri, 3)

    async def go():
        async with pooled(uri) as (saver, _):
            await read_all(saver, range(3))
            with psycopg.connect(uri, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            return await read_all(saver, [number % 3 for number in range(MANY)])

    assert values(asyncio.run(go())) == [2] * MANY


def test_a_reader_that_is_cancelled_leaves_the_others_alone(uri):
    with_threads(uri, 3)

    async def go():
        async with pooled(uri) as (saver, _):
            tasks = [
                asyncio.ensure_future(saver.aget_tuple(thread(str(number % 3))))
                for number in range(MANY)
            ]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(go())
    assert all(isinstance(one, asyncio.CancelledError) for one in found[::2])
    assert values(found[1::2]) == [2] * (MANY // 2)


# -- how they are brought together


def drive(operation: Any, answer: Any) -> tuple[list[Any], Any]:
    """What an operation yields, and its result, if it is sent `answer` of each of them."""
    yielded: list[Any] = []
    try:
        statement = next(operation)
        while True:
            yielded.append(statement)
            statement = operation.send(answer(statement))
    except StopIteration as done:
        return yielded, done.value


def echo(statement: Queries) -> list[Any]:
    return [(query.sql, *query.parameters) for query in statement.queries]


def reader(*statements: Any) -> Any:
    def work() -> Any:
        answers = []
        for statement in statements:
            answers.append((yield statement))
        return answers

    return work


def test_what_is_wanted_at_the_same_time_is_asked_for_together_and_once():
    plan, one, two = Query("plan"), Query("q", (1,)), Query("q", (2,))
    yielded, readers = drive(
        together(
            [
                reader(Queries([plan, one], last=True)),
                reader(Queries([plan, two]), Query("more", last=True)),
            ]
        ),
        echo,
    )
    assert yielded == [Queries([plan, one, two]), Queries([Query("more", last=True)], last=True)]
    assert readers[0].result == [[("plan",), ("q", 1)]]
    assert readers[1].result == [[("plan",), ("q", 2)], ("more",)]


def test_who_does_more_than_ask_fails_alone():
    _, readers = drive(together([reader(Execute("x")), reader(Query("q"))]), echo)
    assert isinstance(readers[0].error, AssertionError)
    assert readers[1].result == [("q",)]


def test_readers_that_wait_when_the_loop_ends_are_cancelled(monkeypatch):
    monkeypatch.setattr(sharing, "LANES", 1)

    async def never(work: Any) -> Any:
        await asyncio.Event().wait()

    async def go():
        readers = Readers(never)
        tasks = [asyncio.ensure_future(readers.read(BatchableRead(reader()))) for _ in range(3)]
        await asyncio.sleep(0)
        return tasks

    assert all(task.cancelled() for task in asyncio.run(go()))


# -- the connection of a writer


def test_who_hears_that_all_is_written_finds_every_connection_in_the_pool(uri):
    async def go():
        async with pooled(uri, size=3) as (saver, pool):
            await saver.setup()
            graph = counter(saver, 5)
            await asyncio.gather(
                *(graph.ainvoke({"n": 0}, thread(str(n)), durability="sync") for n in range(8))
            )
            return pool.get_stats()["pool_available"]

    assert asyncio.run(go()) == 3


def test_a_pool_of_one_is_enough_for_readers_and_writers(uri):
    async def go():
        async with pooled(uri, size=1) as (saver, _):
            await saver.setup()
            graph = counter(saver, 10)
            runs = [graph.ainvoke({"n": 0}, thread(str(n)), durability="sync") for n in range(8)]
            return [state["n"] for state in await asyncio.gather(*runs)]

    assert asyncio.run(go()) == [10] * 8
