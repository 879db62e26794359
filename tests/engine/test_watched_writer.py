"""Observers are told when steps are stored, once more if a cancelled writer stores them again."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from milepost._engine.observers import RunObserver, StoredStep
from milepost._engine.thread_writer import WatchedThreadWriter
from milepost.checkpoint._contract.step_saver import Fence, StepCommit, TaskWrites
from savers import WholeSaver


class Told(RunObserver):
    def __init__(self) -> None:
        self.outcomes: list[tuple[int, str]] = []

    @contextmanager
    def commit(self, steps: Sequence[StoredStep]) -> Iterator[None]:
        writes = sum(step.writes for step in steps)
        try:
            yield
        except BaseException as error:
            self.outcomes.append((writes, type(error).__name__))
            raise
        self.outcomes.append((writes, "stored"))


def test_observers_follow_the_storing_that_comes_after_a_cancelled_one():
    async def story() -> None:
        writer = WatchedThreadWriter(WholeSaver(), "t", "async", Fence(None))
        step = StepCommit("t", "", "1", [TaskWrites("a", "", "a", [("k", 1)])], None, writer.fence)
        prepared = writer.watched(writer.prepare(step), [told], step)

        async def cancelled(_: Any) -> None:
            raise asyncio.CancelledError

        async def carry_out(_: Any) -> None:
            return None

        with pytest.raises(asyncio.CancelledError):
            await writer.astore([prepared], cancelled)
        await writer.astore([prepared], carry_out)

    told = Told()
    asyncio.run(story())
    assert told.outcomes == [(1, "CancelledError"), (1, "stored")]
