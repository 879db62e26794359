"""The future that a called task gives to code on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from milepost.workers import runs_here

T = TypeVar("T")


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
            with suppress(RuntimeError):  # the loop was closed: nobody is waiting any more
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
        # asyncio would log an error that nobody asks for. The run knows of it.
        super().exception()
