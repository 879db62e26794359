"""Async batching: what is asked for in one tick of an event loop is done together.

The first caller in a tick arranges for the batch to start when the tick ends; later callers of the
tick join the batch. The batch runs in a task of its own, and each caller waits for a future of its
own. So a caller that is cancelled leaves the batch, and the others do not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Batcher(Generic[T]):
    """Collects what is asked for, for one event loop at a time.

    `run` is given all of it, and returns a result or an error for each.
    """

    def __init__(self, run: Callable[[Sequence[T]], Awaitable[list[Any]]]) -> None:
        self._run = run
        self._waiting: dict[asyncio.AbstractEventLoop, list[tuple[T, asyncio.Future[Any]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """A loop keeps only weak references to its tasks."""

    async def submit(self, asked: T) -> Any:
        """The result, once the batch has run."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        waiting = self._waiting.get(loop)
        if waiting is None:
            self._waiting[loop] = waiting = []
            loop.call_soon(self._start, loop)
        waiting.append((asked, future))
        return await future

    async def settle(self) -> None:
        """Wait for the batches that are under way on this loop."""
        loop = asyncio.get_running_loop()
        while going := [task for task in self._tasks if task.get_loop() is loop]:
            await asyncio.wait(going)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = [entry for entry in self._waiting.pop(loop) if not entry[1].done()]
        if waiting:
            task = loop.create_task(self._carry_out(waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, waiting: list[tuple[T, asyncio.Future[Any]]]) -> None:
        results: list[Any] | None = None
        try:
            results = await self._run([asked for asked, _ in waiting])
        except Exception as error:
            results = [error] * len(waiting)
        finally:
            # Also when the loop is being torn down: no caller may be left waiting for ever.
            _settle([future for _, future in waiting], results)


def _settle(futures: list[asyncio.Future[Any]], results: list[Any] | None) -> None:
    for at, future in enumerate(futures):
        if future.done():
            continue  # its caller was cancelled
        if results is None:
            future.cancel()
        elif isinstance(results[at], Exception):
            future.set_exception(results[at])
        else:
            future.set_result(results[at])
