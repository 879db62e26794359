"""A StopIteration from anywhere but the end of an operation is a failure like any other.

A driver that takes it for the end would commit what the operation had done so far.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from milepost._db.engine import Transaction, drive
from milepost._db.group_commit import Committer
from milepost._db.operations import Execute, LinkedRows, Operation, Query
from milepost._internal.generators import GeneratorDriver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.store.memory import InMemoryStore

LIMIT = 20.0
"""Seconds that end what hangs."""
ADD = "INSERT INTO threads (thread_id, status, created_at, updated_at, metadata) VALUES ({0}, 'idle', 1, 1, '{{}}')"


class Exhausted(Sequence[Any]):
    """Parameters that raise StopIteration when they are read, as an exhausted iterator does."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, at: Any) -> Any:
        raise StopIteration

    def __iter__(self) -> Any:
        raise StopIteration


def half_done(place: str) -> Operation[None]:
    yield Execute(ADD.format(place), ("first",))
    yield Execute(ADD.format(place), Exhausted())


def half_followed() -> Operation[None]:
    def onward(row: tuple[Any, ...]) -> Any:
        raise StopIteration

    yield Execute(ADD.format("?"), ("first",))
    yield LinkedRows("SELECT thread_id FROM threads WHERE thread_id = ?", ("first",), onward)


def count() -> Operation[int]:
    [(found,)] = yield Query("SELECT count(*) FROM threads", last=True)
    return int(found)


def test_half_an_operation_is_not_committed_on_sqlite(sqlite):
    sqlite.setup()
    for work in (half_followed, lambda: half_done("?")):
        with pytest.raises(RuntimeError, match="StopIteration"):
            sqlite.engine.run(work, write=True)
        assert sqlite.engine.run(count, write=False) == 0


def test_half_an_operation_is_not_committed_on_postgres(postgres):
    with pytest.raises(RuntimeError, match="StopIteration"):
        postgres.engine.run(lambda: half_done("%s"), write=True)
    assert postgres.engine.run(count, write=False) == 0


def test_half_an_operation_is_not_committed_on_an_event_loop_and_nobody_waits_for_ever(path, uri):
    async def on(saver: Any, place: str) -> None:
        async with saver as opened, asyncio.timeout(LIMIT):
            await opened.setup()
            with pytest.raises(RuntimeError, match="StopIteration"):
                await opened.engine.arun(lambda: half_done(place), write=True)
            assert await opened.engine.arun(count, write=False) == 0

    asyncio.run(on(AsyncSqliteSaver.from_conn_string(path), "?"))
    asyncio.run(on(AsyncPostgresSaver.from_conn_string(uri), "%s"))


def test_a_job_of_the_sqlite_thread_that_raises_it_is_answered(path):
    async def main() -> None:
        def job() -> None:
            raise StopIteration

        async with AsyncSqliteSaver.from_conn_string(path) as saver, asyncio.timeout(LIMIT):
            with pytest.raises(RuntimeError, match="StopIteration"):
                await saver.engine.in_worker(job)
            assert await saver.aget_tuple({"configurable": {"thread_id": "t"}}) is None

    asyncio.run(main())


# -- the other drivers


def refuse(*_: Any, **__: Any) -> Any:
    raise StopIteration


class Refusing:
    run = staticmethod(refuse)


def test_a_program_of_transactions_is_told_of_it():
    def program() -> Any:
        yield Transaction(count)
        return "done"

    with pytest.raises(RuntimeError, match="StopIteration"):
        drive(Refusing(), program())  # type: ignore[arg-type]


class Storing:
    def steps(self, steps: Sequence[Any]) -> Operation[Any]:
        raise AssertionError("nothing is stored")

    def settle(self, steps: Sequence[Any], outcome: Any) -> None:
        pass


def test_a_group_commit_is_told_of_it():
    committer = Committer(Storing())
    [error] = committer.commit(committer.add(["a step"]), refuse)
    assert isinstance(error, StopIteration)


def test_a_store_whose_embedding_raises_it_does_not_return():
    store = InMemoryStore(index={"dims": 2, "embed": refuse})
    with pytest.raises((RuntimeError, StopIteration)):
        store.put(("a",), "k", {"text": "x"})
    assert store.get(("a",), "k") is None


def test_a_stepper_ends_with_its_program_only():
    def program() -> Any:
        yield 1
        yield 2
        return 3

    def carry_out() -> None:
        for _ in steps:
            refuse()

    steps = GeneratorDriver(program())
    with pytest.raises(StopIteration):
        carry_out()
    assert not hasattr(steps, "result")
    assert list(steps) == [2]
    assert steps.result == 3
