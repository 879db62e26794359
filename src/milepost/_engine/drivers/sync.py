"""The driver for sync code: carries out the effects of the engine's generators with threads.

A step's only task runs right here, in the caller's thread, unless its events are streamed while it
runs. Several tasks run on threads (`thread_pool.py`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar

from milepost._engine import leases
from milepost._engine.context.task_context import find_context
from milepost._engine.drivers.effects import (
    AFTER_EVENTS,
    Await,
    Call,
    Cursor,
    Effect,
    EffectGenerator,
    Flush,
    KeepClaim,
    ListCheckpoints,
    MethodCall,
    NextCheckpoint,
    Pause,
    Save,
    Start,
    Tell,
    is_async_only,
    is_deep,
)
from milepost._engine.drivers.run_driver import NOT_STORED, RunDriver, has_left
from milepost._engine.drivers.standby import Standby
from milepost._engine.drivers.thread_pool import TaskThreadPool
from milepost._engine.streaming.events import Event, EventStream
from milepost._engine.superstep.task import raise_own_cancellation
from milepost._engine.write_behind import QUEUE_LIMIT, WriteBehindQueue
from milepost._internal import threads
from milepost._internal.generators import drive
from milepost.errors import ColourError

if TYPE_CHECKING:
    from milepost._engine.superstep.plan import Task
    from milepost._engine.thread_writer import ThreadWriter

R = TypeVar("R")


class SyncDriver:
    """Carries out the effects of one run."""

    loop = None
    """Tasks run on threads."""

    def __init__(self, events: EventStream | None = None) -> None:
        self.events = events or EventStream()
        self._pool = TaskThreadPool(self.carry_out, hurried=bool(self.events.modes))
        self._standby = Standby(self._pool.unreceived, self.carry_out)
        self._pool.on_end = self._standby.look
        self.spawn = self._pool.spawn
        """Starts a task that a running task has called."""
        self._lock = threading.Lock()
        self._loop: threads.LoopThread | None = None
        if self.events.flows_during_nodes:
            self.events.wake = self._pool.wake

    # -- running generators

    def run(self, generator: EffectGenerator[R]) -> R:
        """Run a generator to its end and return its result."""
        return drive(self.stream(generator), lambda _event: None)

    def stream(
        self, generator: EffectGenerator[R], show: Callable[[Event], Any] = lambda event: event
    ) -> Generator[Any, None, R]:
        """Run a generator to its end, and yield its events as they come."""
        events = self.events
        undelivered, standby = events.undelivered, self._standby
        steps: RunDriver[R] = RunDriver(generator, self._pool.ended)
        is_finalizing = sys.is_finalizing  # bound now: modules may be empty by then
        try:
            for effect in steps:
                answered = False
                if steps.reason is not None and steps.is_stopped_at(effect):
                    continue
                try:
                    if type(effect) is Await:
                        ended = None
                        while ended is None:
                            events.woken = False  # before looking: later events wake again
                            while undelivered:
                                shown = show(undelivered.popleft())
                                standby.leave()
                                yield shown
                                standby.come_back()
                            ended = self._pool.wait(effect.deadline)
                        steps.answer = ended
                    else:
                        while undelivered and type(effect) in AFTER_EVENTS:
                            shown = show(undelivered.popleft())
                            standby.leave()
                            yield shown
                            standby.come_back()
                        method = _CARRY_OUT.get(type(effect), SyncDriver._call_method)
                        steps.answer = method(self, effect)
                    answered = True
                    while undelivered:
                        shown = show(undelivered.popleft())
                        standby.leave()
                        yield shown
                        standby.come_back()
                except BaseException as failure:
                    left = has_left(failure, standby.is_away)
                    if left and is_finalizing():  # no thread runs that could be awaited
                        raise
                    standby.come_back()
                    if left:
                        self._leave(steps, None if answered else effect)
                        raise
                    if not isinstance(failure, Exception):
                        self._pool.dismiss()
                    steps.fail(failure, effect, answered=answered)
        except Exception as failure:
            # Events from before the failure are still delivered.
            try:
                while undelivered:
                    yield show(undelivered.popleft())
            except GeneratorExit:
                if isinstance(failure, NOT_STORED):
                    raise failure from None
                raise
            raise
        except BaseException as failure:
            if isinstance(generator, GeneratorType) and generator.gi_frame is not None:
                # Between two effects: the run does not know of the error.
                steps.error = steps.reason = failure
                self._wind_up(steps)
            raise
        finally:
            self._close_loop()
        if steps.reason is not None:
            raise steps.reason
        while undelivered:
            yield show(undelivered.popleft())
        return steps.result

    def _leave(self, steps: RunDriver[Any], effect: Effect[Any] | None) -> None:
        """The consumer has gone: what runs is waited for, and stored. `effect` is what the run
        still waits for."""
        try:
            self._pool.finish()
        finally:
            steps.abandon(effect)
            try:
                self._wind_up(steps)
            finally:
                self.events.undelivered.clear()

    def _wind_up(self, steps: RunDriver[Any]) -> None:
        """Let a run that is stopped early save what it has, without starting more."""
        self._pool.dismiss()
        assert steps.reason is not None
        with suppress(type(steps.reason)):
            for effect in steps:
                if not steps.is_stopped_at(effect):
                    try:
                        steps.answer = self.carry_out(effect)
                    except BaseException as failure:
                        steps.error = failure

    def carry_out(self, effect: Effect[R]) -> R:
        """Do what an effect says, and return its result."""
        result: R = _CARRY_OUT.get(type(effect), SyncDriver._call_method)(self, effect)
        return result

    # -- savers and caches

    def _call_method(self, effect: MethodCall[R]) -> R:
        if not is_async_only(effect.target):
            return effect.call()
        result: R = self._await(effect.acall(), f"{type(effect.target).__name__} is async only")
        return result

    def _list(self, effect: ListCheckpoints) -> Cursor:
        if not is_async_only(effect.saver):
            return iter(effect.call())

        async def collect() -> list[Any]:
            return [found async for found in effect.acall()]

        reason = f"{type(effect.saver).__name__} is async only"
        return iter(self._await(collect(), reason))

    def _next(self, effect: NextCheckpoint) -> Any:
        return next(effect.cursor, None)

    # -- saving

    def _save(self, effect: Save) -> None:
        writer = effect.writer
        if not writer.deferred:
            writer.store(effect.steps, self.carry_out)
            return
        while True:
            queue, is_new = writer.open_queue()
            if is_new:
                try:
                    threads.submit(partial(self._write_behind, writer, queue))
                except RuntimeError:  # no thread can be started: perhaps Python exits
                    writer.queue = None
                    writer.store(effect.steps, self.carry_out)
                    return
            queue.raise_error()
            if queue.add(effect.steps):
                break
        self._wait_for(queue, QUEUE_LIMIT)

    def _write_behind(self, writer: ThreadWriter, queue: WriteBehindQueue) -> None:
        """The background worker: stores whatever waits, several steps at once if it lags."""
        # Not an Event, here and below: Ctrl-C inside one may leave it locked for ever.
        woken: SimpleQueue[None] = SimpleQueue()
        driver = SyncDriver()
        try:
            while True:
                steps = queue.take(partial(woken.put, None))
                if not steps:
                    if queue.closed:
                        return
                    woken.get()
                    continue
                try:
                    writer.store(steps, driver.carry_out)
                except BaseException as error:
                    queue.stored(error)
                else:
                    queue.stored()
        finally:
            driver._close_loop()

    @staticmethod
    def _wait_for(queue: WriteBehindQueue, limit: int) -> None:
        if queue.unstored <= limit and queue.error is None:
            return
        ready: SimpleQueue[None] = SimpleQueue()
        if queue.is_above(limit, partial(ready.put, None)):
            threads.check_running()
            ready.get()
        queue.raise_error()

    def _flush(self, effect: Flush) -> None:
        writer = effect.writer
        queue = writer.queue
        if queue is None:
            return
        if queue.unstored and queue.loop is not None and threads.runs_here(queue.loop):
            raise ColourError(
                f"Steps of thread '{writer.thread_id}' are still being saved by this event loop, "
                "which a sync call would block. Use the async method: aget_state, aupdate_state."
            )
        try:
            self._wait_for(queue, 0)
        except (KeyboardInterrupt, SystemExit):
            # A first interrupt must not lose steps whose results the run has streamed.
            self._wait_for(queue, 0)
            raise
        finally:
            if effect.last:
                queue.close()
                writer.queue = None

    def _keep_claim(self, effect: KeepClaim) -> None:
        leases.keep(effect.saver, effect.thread_id, effect.fence)

    # -- tasks

    def _start(self, effect: Start) -> Sequence[Task]:
        # A step's only task runs right here if no event is due before it ends.
        if len(effect.tasks) == 1 and not (effect.beside_driver or self.events.flows_during_nodes):
            task, generator = effect.tasks[0]
            drive(generator, self.carry_out)
            return (task,)
        self._standby.keep = effect.keep
        self._pool.start(effect.tasks, effect.at_once)
        return ()

    def _pause(self, effect: Pause) -> None:
        time.sleep(effect.seconds)

    def _tell(self, effect: Tell) -> Any:
        return effect.call()

    def _call(self, effect: Call) -> Any:
        callee = effect.callee
        context = effect.context
        variables = context.entered()
        try:
            arguments = callee.arguments(context) if callee.inject else {}
            if callee.sync is None or (effect.timeout is not None and callee.aio is not None):
                assert callee.aio is not None
                work = variables.run(callee.aio, effect.argument, **arguments)
                if effect.timeout is not None:
                    from milepost._engine.drivers.timeouts import within

                    work = within(work, effect.timeout, effect)
                cancellation = context.task.cancellation
                reason = f"node '{callee.name}' is async"
                return variables.run(self._await, work, reason, cancellation)
            if context.run.depth and is_deep(context.run.depth):
                call = partial(variables.run, callee.sync, effect.argument, **arguments)
                result = threads.call_on_another_thread(call)
            else:
                result = variables.run(callee.sync, effect.argument, **arguments)
            if type(result) is CoroutineType:
                return variables.run(self._await, result, f"node '{callee.name}' is async")
            return result
        except BaseException as error:
            if not context.task.was_cancelled:
                raise_own_cancellation(error, context)
            raise

    def _await(
        self, work: Any, reason: str, cancellation: threads.Cancellation | None = None
    ) -> Any:
        """Wait for async work from sync code."""
        if threads.loop_is_running():
            if hasattr(work, "close"):
                work.close()
            raise ColourError(
                f"{reason}, and this thread is inside a running event loop, which a sync call "
                "would block. Use the async method: ainvoke, astream, aget_state, ..."
            )
        if self._loop is None:
            with self._lock:
                if self._loop is None:
                    self._loop = threads.LoopThread()

        return self._loop.run(work, cancellation)

    def _close_loop(self) -> None:
        if self._loop is not None:
            self._loop.close()
            self._loop = None


class SyncReader(SyncDriver):
    """Carries out the effects of a generator that starts no tasks and streams no events."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: threads.LoopThread | None = None

    def run(self, generator: EffectGenerator[R]) -> R:
        """Run a generator to its end and return its result."""
        try:
            return drive(generator, self.carry_out)
        except BaseException as failure:
            if not isinstance(failure, Exception):
                generator.throw(failure)  # `drive` leaves an interrupt to its caller
            raise
        finally:
            self._close_loop()


def wait_for(work: Coroutine[Any, Any, R], reason: str) -> R:
    """Wait for async work from sync code, on the loop of the sync run around it if there is one.

    What belongs to a loop, such as a client that several tools share, lives as long as that run.
    """
    context = find_context()
    driver = None if context is None else context.run.subtasks.driver
    if context is not None and isinstance(driver, SyncDriver):
        result: R = driver._await(work, reason, context.task.cancellation)
        return result
    reader = SyncReader()
    try:
        result = reader._await(work, reason)
    finally:
        reader._close_loop()
    return result


_CARRY_OUT: dict[type, Callable[[SyncDriver, Any], Any]] = {
    Start: SyncDriver._start,
    Save: SyncDriver._save,
    Flush: SyncDriver._flush,
    KeepClaim: SyncDriver._keep_claim,
    Call: SyncDriver._call,
    Pause: SyncDriver._pause,
    Tell: SyncDriver._tell,
    ListCheckpoints: SyncDriver._list,
    NextCheckpoint: SyncDriver._next,
}
"""Effect → method. `stream` itself carries out `Await`, `_call_method` all others."""
