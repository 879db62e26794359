"""The futures that called tasks give: one for code on threads, one for code on a loop.

Code on an event loop gets a future of that loop, so that all of asyncio works with it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar, cast

from milepost._internal.threads import loop_is_running, runs_here
from milepost.errors import ColourError

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
        """The task has ended; code that cancelled the future before is notified now."""
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
        return (yield from asyncio.wrap_future(self))


class LoopFuture(asyncio.Future[T], Generic[T]):
    """A future of the running loop, which any thread may settle."""

    def result(self, timeout: float | None = None) -> T:  # noqa: ARG002 - a loop cannot wait
        """The task's return value, if it has ended; raises what the task raised."""
        if not self.done():
            raise asyncio.InvalidStateError(
                "The task has not ended, and result() would block the event loop that it needs: "
                "`await` the call."
            )
        return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:  # noqa: ARG002
        """What the task raised, if it has ended."""
        return super().exception()

    def settle(self, result: Any, error: BaseException | None) -> None:
        """The task has ended."""
        self._on_loop(partial(self._settle, result, error))

    def drop(self) -> None:
        """The task has ended with something that ends the run: there is no result."""
        self._on_loop(self.cancel)

    def _on_loop(self, call: Callable[[], object]) -> None:
        loop = self.get_loop()
        if runs_here(loop):
            call()
        else:
            with suppress(RuntimeError):  # the loop was closed: no code waits any more
                loop.call_soon_threadsafe(call)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.done():
            return
        if error is None:
            self.set_result(result)
            return
        if isinstance(error, StopIteration):
            stopped = RuntimeError("a task raised StopIteration")
            stopped.__cause__ = error
            error = stopped
        self.set_exception(error)
        # asyncio would log an error that is never read. The run handles the error.
        super().exception()


def new_future() -> TaskFuture[Any]:
    """A future for the code here that calls a task."""
    if loop_is_running():
        # Both classes have the methods that programs use. The declared type is one of them, since
        # a type checker cannot know where a task is called.
        return cast("TaskFuture[Any]", LoopFuture())
    return TaskFuture()
