"""The thread in which a SQLite database is used on behalf of event loops.

Results go back to a loop in batches, since waking a loop costs more than most statements. asyncio
is imported inside functions, so that a program without an event loop does not load asyncio.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

R = TypeVar("R")
_Job: TypeAlias = "tuple[Callable[[], Any], asyncio.Future[Any]]"


class Worker:
    """A thread that starts with the first job, and ends with `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        """The jobs of the thread; None ends the thread."""

    def call(self, job: Callable[[], R]) -> asyncio.Future[R]:
        """Call `job` in the thread; the future belongs to the loop that runs here."""
        import asyncio

        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._thread is None:
                self._jobs = SimpleQueue()
                self._thread = threading.Thread(
                    target=_serve, args=(self._jobs,), name="milepost-sqlite", daemon=True
                )
                self._thread.start()
            self._jobs.put((job, future))
        return future

    async def see_through(self, job: Callable[[], R]) -> R:
        """`call`, except that a cancellation waits until the job has ended."""
        import asyncio

        try:
            return await self.call(job)
        except asyncio.CancelledError:
            from milepost._internal.asyncio_tools import see_through

            await see_through(self.call(_nothing))
            raise

    def close(self) -> None:
        """End the thread after the jobs that it was given."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._jobs.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _serve(waiting: SimpleQueue[_Job | None]) -> None:
    while _do_what_waits(waiting):
        pass


def _do_what_waits(waiting: SimpleQueue[_Job | None]) -> bool:
    """Do all waiting jobs, or wait for one; False after the last job."""
    jobs = [waiting.get()]
    while not waiting.empty():
        jobs.append(waiting.get())
    answers: dict[asyncio.AbstractEventLoop, list[tuple[Any, Any, Any]]] = {}
    for each in jobs:
        if each is None:
            break
        job, future = each
        result, error = None, None
        try:
            result = job()
        except BaseException as failure:
            error = failure
        answers.setdefault(future.get_loop(), []).append((future, result, error))
    for loop, settled in answers.items():
        with suppress(RuntimeError):  # the loop has ended: no caller waits
            loop.call_soon_threadsafe(_settle, settled)
    return each is not None


def _nothing() -> None:
    pass


def _settle(answers: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for future, result, error in answers:
        if future.done():
            continue  # cancelled while it waited
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):  # a future refuses a StopIteration
            stray = RuntimeError("a job raised StopIteration")
            stray.__cause__ = error
            future.set_exception(stray)
        else:
            future.set_exception(error)
