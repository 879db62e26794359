"""Ways to wait on an event loop that asyncio does not have, or has at a higher price."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from milepost._internal import threads

T = TypeVar("T")


class InContext:
    """Awaits a coroutine in a context of its own, as a new asyncio task would, at less cost."""

    __slots__ = ("_context", "_work")

    def __init__(self, work: Any, context: contextvars.Context) -> None:
        self._work = work
        self._context = context

    def __await__(self) -> Generator[Any, Any, Any]:
        run, work = self._context.run, self._work
        if not hasattr(work, "send"):
            work = _steps_of(work)
        step, sent = work.send, None
        while True:
            try:
                waited = run(step, sent)
            except StopIteration as done:
                return done.value
            try:
                step, sent = work.send, (yield waited)
            except BaseException as error:
                step, sent = work.throw, error


def _steps_of(awaitable: Any) -> Generator[Any, Any, Any]:
    return (yield from awaitable.__await__())


def setter(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> Callable[[], None]:
    """A function that sets an event of a loop from any thread."""

    def set_event() -> None:
        if asyncio._get_running_loop() is loop:
            event.set()
        else:
            loop.call_soon_threadsafe(event.set)

    return set_event


def in_thread(
    function: Callable[..., T], /, *arguments: Any, **keywords: Any
) -> Coroutine[Any, Any, T]:
    """Call a sync function on a worker thread, in a copy of this context.

    Not with `asyncio.to_thread`: that has a few threads for the whole program, and if all of them
    wait for something that has to be called this way, they wait for ever.
    """
    return call_in_thread(contextvars.copy_context(), partial(function, *arguments, **keywords))


async def call_in_thread(context: contextvars.Context, call: Callable[[], T]) -> T:
    """Call something on a worker thread, in a context."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):
            future.set_exception(RuntimeError("a node raised StopIteration"))
        else:
            future.set_exception(error)

    def job() -> None:
        result, error = None, None
        try:
            result = context.run(call)
        except BaseException as failure:
            error = failure
        with suppress(RuntimeError):  # the loop was closed, and with it the waiting caller
            loop.call_soon_threadsafe(settle, result, error)

    try:
        threads.submit(job)
    except RuntimeError:
        if threads.may_start():
            raise
        job()  # the interpreter exits and starts no thread: the call is made here
    return await future


async def on_its_own_stack(work: Awaitable[T]) -> T:
    """Await something in a task of its own, whose calls do not lie on top of these."""

    async def carried() -> tuple[T | None, BaseException | None]:
        # Returned: an exit or an interrupt would leave the loop.
        try:
            return await work, None
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                raise
            return None, error

    # Made here: what an eager task factory makes begins on this stack.
    result, error = await asyncio.Task(carried(), loop=asyncio.get_running_loop())
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


async def see_through(work: Awaitable[T]) -> T:
    """Await something to its end, even if cancelled meanwhile; then raise the cancellation."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _end_of(task)
        raise


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await something, however often that is cancelled."""
    task = asyncio.ensure_future(work)
    await _end_of(task)
    return task.result()


async def _end_of(task: asyncio.Future[Any]) -> None:
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    # Read, so that asyncio does not report an error that was never retrieved.
    _ = task.cancelled() or task.exception()
