"""One connection to PostgreSQL, as it is used: who else uses it, and what breaks a wait off."""

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from milepost._db.operations import Batch, Execute, Queries, Query
from milepost._db.postgres.aio import AsyncPostgresEngine
from milepost._db.postgres.engine import Settings
from milepost._db.postgres.errors import connecting
from milepost._db.postgres.sync import PostgresEngine
from milepost.errors import ConnectionUnusableError, SaverError

pytestmark = pytest.mark.postgres
SETTINGS = Settings(None, False)
SLOW = Query("SELECT pg_sleep(30)", last=True)


def work(*statements: Any) -> Any:
    def operation() -> Any:
        answers = []
        for statement in statements:
            answers.append((yield statement))
        return answers

    return operation


@pytest.fixture
def connection(uri: str) -> Iterator[Any]:
    with psycopg.connect(uri, autocommit=True) as made:
        made.execute("CREATE TABLE log (id SERIAL, who TEXT)")
        yield made


@pytest.fixture
def engine(connection: Any) -> PostgresEngine:
    return PostgresEngine(connection, SETTINGS)


def run_async(uri: str, main: Any) -> Any:
    """What `main` returns of an engine and its connection, on an event loop."""

    async def go() -> Any:
        async with await psycopg.AsyncConnection.connect(uri, autocommit=True) as made:
            return await main(AsyncPostgresEngine(made, SETTINGS), made)

    return asyncio.run(go())


def running(uri: str) -> int:
    """How many statements with a long sleep the server is busy with."""
    with psycopg.connect(uri, autocommit=True) as other:
        [(count,)] = other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND state = 'active' AND query LIKE '%pg_sleep(30)%' AND pid <> pg_backend_pid()"
        ).fetchall()
    return int(count)


def until(condition: Any) -> None:
    """Wait for something that happens elsewhere."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def beside(call: Any) -> Iterator[None]:
    """While something is called in another thread."""
    thread = threading.Thread(target=call)
    thread.start()
    yield
    thread.join()


# -- the program uses the connection too


def logged(who: str) -> Any:
    return work(
        *[
            one
            for _ in range(5)
            for one in (Execute("INSERT INTO log (who) VALUES (%s)", (who,)), Query("SELECT 1"))
        ]
    )


def assert_apart(rows: list[Any]) -> None:
    """Nothing came between the five rows of a transaction."""
    names = [who for (who,) in rows]
    assert names.count("engine") == 100
    for at in range(20):
        first = [place for place, name in enumerate(names) if name == "engine"][at * 5]
        assert names[first : first + 5] == ["engine"] * 5


def test_statements_of_the_program_in_another_thread_wait_for_the_transaction(engine, connection):
    done = threading.Event()

    def program() -> None:
        while not done.is_set():
            connection.execute("INSERT INTO log (who) VALUES ('program')")

    with beside(program):
        try:
            for _ in range(20):
                engine.run(logged("engine"), write=True)
        finally:
            done.set()
    assert_apart(connection.execute("SELECT who FROM log ORDER BY id").fetchall())


def test_statements_of_the_program_in_another_task_wait_for_the_transaction(uri, connection):
    async def main(engine: Any, shared: Any) -> Any:
        done = False

        async def program() -> None:
            while not done:
                await shared.execute("INSERT INTO log (who) VALUES ('program')")

        task = asyncio.ensure_future(program())
        for _ in range(20):
            await engine.arun(logged("engine"), write=True)
        done = True
        await task
        found = await shared.execute("SELECT who FROM log ORDER BY id")
        return await found.fetchall()

    assert_apart(run_async(uri, main))


def test_what_the_server_tells_meanwhile_reaches_the_program(engine, connection):
    told: list[str] = []
    connection.add_notify_handler(lambda notify: told.append(notify.payload))
    connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
    engine.run(
        work(
            Execute("LISTEN here"),
            Execute("NOTIFY here, 'a notification'"),
            Execute("DO $$ BEGIN RAISE NOTICE 'a notice'; END $$"),
        ),
        write=True,
    )
    assert sorted(told) == ["a notice", "a notification"]


# -- waits that are broken off


def test_a_signal_cancels_the_statement_and_the_connection_stays_usable(engine, connection, uri):
    def interrupt() -> None:
        until(lambda: running(uri))
        signal.raise_signal(signal.SIGINT)

    def broken_off(*_: Any) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGINT, broken_off)
    try:
        for statements in ([SLOW], [Execute("INSERT INTO log (who) VALUES ('x')"), SLOW]):
            with beside(interrupt), pytest.raises(KeyboardInterrupt):
                engine.run(work(*statements), write=True)
            assert not running(uri)
            assert not connection.closed
    finally:
        signal.signal(signal.SIGINT, former)
    assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)


def test_what_a_signal_handler_raises_is_raised_as_it_is(engine, connection, uri):
    def interrupt() -> None:
        until(lambda: running(uri))
        signal.raise_signal(signal.SIGUSR1)

    def deadline(*_: Any) -> None:
        raise TimeoutError("deadline of the program")

    former = signal.signal(signal.SIGUSR1, deadline)
    try:
        with beside(interrupt), pytest.raises(TimeoutError, match="deadline of the program"):
            engine.run(work(SLOW), write=True)
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert connection.closed


def test_the_cancellation_of_a_task_ends_its_statement_and_keeps_the_connection(uri, connection):
    async def main(engine: Any, shared: Any) -> Any:
        for statements in ([SLOW], [Execute("INSERT INTO log (who) VALUES ('x')"), SLOW]):
            task = asyncio.ensure_future(engine.arun(work(*statements), write=True))
            while not await asyncio.to_thread(running, uri):
                assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not running(uri)
            assert not shared.closed
        return await (await shared.execute("SELECT count(*) FROM log")).fetchone()

    assert run_async(uri, main) == (0,)


def test_an_interruption_when_all_has_come_leaves_the_connection_usable(engine, connection):
    def interrupted(notify: Any) -> None:
        raise KeyboardInterrupt

    connection.execute("LISTEN here")
    connection.add_notify_handler(interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.run(work(Batch((Execute("NOTIFY here"),), last=True)), write=True)
    connection.remove_notify_handler(interrupted)
    assert engine.run(work(Query("SELECT 1")), write=False) == [[(1,)]]


def test_if_the_server_cannot_be_told_the_connection_is_closed(uri, connection, monkeypatch):
    async def refused(self: Any, **_: Any) -> None:
        raise psycopg.OperationalError("no")

    monkeypatch.setattr(psycopg.AsyncConnection, "cancel_safe", refused)

    async def main(engine: Any, shared: Any) -> Any:
        task = asyncio.ensure_future(engine.arun(work(SLOW), write=True))
        while not await asyncio.to_thread(running, uri):
            assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return shared.closed

    assert run_async(uri, main)


def test_a_connection_that_another_thread_closes_ends_the_wait(engine, connection, uri):
    def close() -> None:
        until(lambda: running(uri))
        connection.close()

    with beside(close), pytest.raises(ConnectionUnusableError):
        engine.run(work(SLOW), write=True)


def test_a_connection_that_another_task_closes_ends_the_wait(uri):
    async def main(engine: Any, shared: Any) -> None:
        task = asyncio.ensure_future(engine.arun(work(SLOW), write=True))
        while not await asyncio.to_thread(running, uri):
            assert not task.done()
        await shared.close()
        with pytest.raises(ConnectionUnusableError):
            await task

    run_async(uri, main)


# -- what is sent and read


LARGE = b"x" * 4_000_000


def test_more_than_both_ends_can_hold_is_sent_and_read_at_the_same_time(engine, uri):
    queries = Queries([Query("SELECT %s::bytea", (LARGE,)) for _ in range(16)], last=True)
    [found] = engine.run(work(queries), write=False)
    assert found == [[(LARGE,)]] * 16

    async def main(engine: Any, shared: Any) -> Any:
        return await engine.arun(work(queries), write=False)

    assert run_async(uri, main) == [found]


def test_parameters_of_other_types_are_those_of_psycopg(engine):
    values = ([1, 2], ["a", "b"], 2**70, 1.5, True, None)
    types = ("int[]", "text[]", "numeric", "float8", "bool", "text")
    for value, type in zip(values, types, strict=True):
        [[(found,)]] = engine.run(work(Query(f"SELECT %s::{type}", (value,))), write=False)
        assert found == value


def test_a_class_of_errors_that_psycopg_does_not_know_is_an_error_all_the_same(engine, connection):
    raised = Execute("DO $$ BEGIN RAISE EXCEPTION 'of its own' USING ERRCODE = 'ZZ123'; END $$")
    with pytest.raises(SaverError, match="of its own"):
        engine.run(work(Batch((raised,), last=True)), write=True)
    assert not connection.closed


def test_the_error_of_a_lost_connection_says_that_it_is_unusable(uri):
    with closing(psycopg.connect(uri, autocommit=True)) as lost:
        engine = PostgresEngine(lost, SETTINGS)
        ended = Query("SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(ConnectionUnusableError):
            engine.run(work(ended), write=False)
        assert lost.closed


@pytest.mark.parametrize("address", ["postgresql://me:pw@[::1/x", "postgres//me:pw@host/x"])
def test_an_address_that_cannot_be_read_is_quoted_without_its_password(address):
    with pytest.raises(ConnectionUnusableError) as refused, connecting():
        psycopg.connect(address)
    assert "me:***@" in str(refused.value)
    assert "pw" not in str(refused.value)
