"""The thread in which a SQLite database is used on behalf of event loops.

Answers go back to a loop in batches, since waking it costs more than most statements do. asyncio
is imported where it is used: a program without an event loop need not load it.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

R = TypeVar("R")


class Worker:
    """A thread that is started when it is first needed, and ends when it is closed."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._thread: threading.Thread | None = None
        self._closing = False

    async def call(self, job: Callable[[], R]) -> R:
        """Call something in the thread, and wait for its result."""
        import asyncio

        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        with self._condition:
            if self._thread is None:
                self._closing = False
                self._thread = threading.Thread(
                    target=self._serve, name="milepost-sqlite", daemon=True
                )
                self._thread.start()
            self._jobs.append((job, future))
            self._condition.notify()
        return await future

    async def see_through(self, job: Callable[[], R]) -> R:
        """`call`; a cancellation waits until what was begun so far has ended."""
        import asyncio

        try:
            return await self.call(job)
        except asyncio.CancelledError:
            await self._catch_up()
            raise

    async def _catch_up(self) -> None:
        """Wait until what was begun so far has ended, even if the caller is cancelled meanwhile."""
        import asyncio

        ended = asyncio.ensure_future(self.call(_nothing))
        while not ended.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(ended)

    def close(self) -> None:
        """End the thread, when it has done what it was given."""
        with self._condition:
            thread = self._thread
            self._closing = True
            self._condition.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _serve(self) -> None:
        while True:
            with self._condition:
                while not self._jobs:
                    if self._closing:
                        self._thread = None
                        return
                    self._condition.wait()
                jobs = list(self._jobs)
                self._jobs.clear()
            answers: dict[asyncio.AbstractEventLoop, list[tuple[Any, Any, Any]]] = {}
            for job, future in jobs:
                result, error = None, None
                try:
                    result = job()
                except BaseException as failure:
                    error = failure
                answers.setdefault(future.get_loop(), []).append((future, result, error))
            for loop, settled in answers.items():
                with suppress(RuntimeError):  # the loop has ended, and with it its callers
                    loop.call_soon_threadsafe(_settle, settled)
            del jobs, answers


def _nothing() -> None:
    pass


def _settle(answers: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for future, result, error in answers:
        if future.done():
            continue  # cancelled while it waited
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):  # a future does not take it
            stray = RuntimeError("a job raised StopIteration")
            stray.__cause__ = error
            future.set_exception(stray)
        else:
            future.set_exception(error)
