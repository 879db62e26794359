"""The future that a called task gives."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from milepost.errors import ColourError
from milepost.workers import loop_is_running

T = TypeVar("T")


class TaskFuture(concurrent.futures.Future[T], Generic[T]):
    """The result of a called task: wait for it with `result()`, or `await` it."""

    def result(self, timeout: float | None = None) -> T:
        """The task's return value; raises what the task raised."""
        if not self.done() and loop_is_running():
            raise ColourError(
                "result() would block the event loop that the task needs: `await` the call."
            )
        return super().result(timeout)

    def __await__(self) -> Generator[Any, None, T]:
        if self.done():
            return super().result()
        import asyncio

        return (yield from asyncio.wrap_future(self))
