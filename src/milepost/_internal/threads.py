"""Threads that run tasks, and a loop in a thread for async nodes under `invoke`.

A thread pool of a fixed size would deadlock when graphs run inside graphs, and one for each run
would pay for starting threads again and again. These threads are shared by the whole process,
one is added whenever all are busy, and an idle one goes away after a while.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_NAME = "milepost-task"
_IDLE_SECONDS = 10.0
_EXIT_SECONDS = 10.0
"""How long async nodes have to end when the interpreter exits."""


class _Worker:
    __slots__ = ("jobs",)

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                with _lock:
                    if self in _idle:
                        _idle.remove(self)
                        return
                continue  # a job was handed over in the very moment
            job()
            del job
            with _lock:
                _idle.append(self)


_idle: list[_Worker] = []
_lock = threading.Lock()


_may_start = True


def start_no_more() -> None:
    """The interpreter exits: threads still run, but a new one may be refused."""
    global _may_start
    _may_start = False


def may_start() -> bool:
    """Whether threads can be started."""
    return _may_start


def check_running() -> None:
    """Raise if threads have stopped for good: waiting for them would never end."""
    if sys.is_finalizing():
        raise RuntimeError("The interpreter is shutting down: no thread runs any more.")


def submit(job: Callable[[], None]) -> None:
    """Run `job` on an idle thread, or on a new one. It must not raise."""
    check_running()
    with _lock:
        worker = _idle.pop() if _idle else None
    if worker is None:
        worker = _Worker()
        worker.jobs.put(job)
        threading.Thread(target=worker.run, name=_NAME, daemon=True).start()
    else:
        worker.jobs.put(job)


def is_worker() -> bool:
    """Whether this thread is one of those that run tasks."""
    return threading.current_thread().name == _NAME


def call_on_another_thread(call: Callable[[], T]) -> T:
    """Call something on another thread, which has a stack of its own, and wait for it."""
    ended: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def job() -> None:
        try:
            ended.put((call(), None))
        except BaseException as error:
            ended.put((None, error))

    submit(job)
    result, error = ended.get()
    if error is not None:
        raise error
    found: T = result
    return found


def _forget_threads() -> None:
    """A forked child has none of its parent's threads."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


class Cancellation:
    """Lets any thread ask for the end of some work, whatever carries that out at the moment."""

    __slots__ = ("_lock", "_stop", "asked")

    def __init__(self) -> None:
        self.asked = False
        self._stop: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def ask(self) -> None:
        """The work is not wanted any more."""
        with self._lock:
            self.asked = True
            stop = self._stop
        if stop is not None:
            stop()

    def bind(self, stop: Callable[[], object] | None) -> None:
        """From now on `stop` ends the work, from any thread; None: nothing does."""
        with self._lock:
            self._stop = stop
        if self.asked and stop is not None:
            stop()


class LoopThread:
    """An event loop of its own, for async code that sync code has to wait for."""

    def __init__(self) -> None:
        import asyncio

        self._loop = asyncio.new_event_loop()
        self._done = threading.Event()
        submit(self._serve)

    def _serve(self) -> None:
        import asyncio

        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            if pending:
                self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()
            self._done.set()

    def run(self, work: Coroutine[Any, Any, Any], cancellation: Cancellation | None = None) -> Any:
        """Wait for a coroutine that runs on the loop, in this thread's context."""
        import asyncio

        async def carried() -> tuple[Any, BaseException | None]:
            running = asyncio.current_task()
            assert running is not None
            if cancellation is not None:
                cancellation.bind(partial(self._loop.call_soon_threadsafe, running.cancel))
            # SystemExit and KeyboardInterrupt would end the loop instead of reaching the caller.
            try:
                return await work, None
            except (SystemExit, KeyboardInterrupt) as error:
                return None, error
            except asyncio.CancelledError as error:
                asked = cancellation is not None and cancellation.asked
                if running.cancelling() and not asked:
                    raise
                return None, error
            finally:
                if cancellation is not None:
                    cancellation.bind(None)

        future = asyncio.run_coroutine_threadsafe(carried(), self._loop)
        try:
            result, error = future.result()
        except BaseException:
            future.cancel()
            raise
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Cancel what is left, and end the loop."""
        if sys.is_finalizing():
            return  # its thread runs no more
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._done.wait(None if may_start() else _EXIT_SECONDS)


def loop_is_running() -> bool:
    """Whether this thread is inside a running event loop."""
    return _running_loop() is not None


def runs_here(loop: object) -> bool:
    """Whether it is this loop that this thread is inside."""
    return _running_loop() is loop


def _running_loop() -> object | None:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        running: object = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return running
