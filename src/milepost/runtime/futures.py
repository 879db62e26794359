"""The futures that called tasks give: one for code on threads, one for code on a loop.

Code on an event loop gets a future of that loop, so that all of asyncio works with it.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Generator
from typing import Any, Generic, TypeVar, cast

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

    def settle(self, result: Any, error: BaseException | None) -> None:
        """The task has ended; whoever cancelled the future before is told so now."""
        if not self.set_running_or_notify_cancel():
            return
        if error is None:
            self.set_result(result)
        else:
            self.set_exception(error)

    def drop(self) -> None:
        """The task has ended with something that ends the run: there is no result."""
        self.cancel()
        self.set_running_or_notify_cancel()

    def __await__(self) -> Generator[Any, None, T]:
        if self.done():
            return super().result()
        import asyncio

        return (yield from asyncio.wrap_future(self))


def new_future() -> TaskFuture[Any]:
    """A future for whoever calls a task here."""
    if loop_is_running():
        from milepost.runtime.loop_futures import LoopFuture  # with asyncio, only if needed

        # Both have what programs use; a type checker is told of one, since it cannot know where
        # a task is called.
        return cast("TaskFuture[Any]", LoopFuture())
    return TaskFuture()
