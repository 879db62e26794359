"""The driver for asyncio: carries out the effects of the engine's generators on the running loop.

A step's only async task is awaited right here, unless its events are streamed while it runs.
Several tasks become asyncio tasks; sync nodes run on worker threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar

from milepost._engine import leases
from milepost._engine.drivers.async_standby import AsyncStandby
from milepost._engine.drivers.effects import (
    AFTER_EVENTS,
    Abandoned,
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
    TaskGenerator,
    Tell,
    is_deep,
    is_sync_only,
)
from milepost._engine.drivers.run_driver import NOT_STORED, Ended, RunDriver, has_left, sorted_out
from milepost._engine.drivers.timeouts import within
from milepost._engine.streaming.events import Event, EventStream
from milepost._engine.superstep.task import outcome_of, raise_own_cancellation
from milepost._engine.write_behind import QUEUE_LIMIT, WriteBehindQueue
from milepost._internal.asyncio_tools import (
    InContext,
    call_in_thread,
    in_thread,
    on_its_own_stack,
    see_through,
    setter,
    to_the_end,
)
from milepost._internal.generators import adrive
from milepost._internal.threads import runs_here

if TYPE_CHECKING:
    from milepost._engine.superstep.plan import Task
    from milepost._engine.thread_writer import ThreadWriter

R = TypeVar("R")


class AsyncDriver:
    """Carries out the effects of one run."""

    def __init__(self, events: EventStream | None = None) -> None:
        self.events = events or EventStream()
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the run; None before the run begins."""
        self._ended: deque[Ended] = deque()
        self._standby = AsyncStandby(self._ended, self.carry_out)
        self._news = asyncio.Event()
        """Set when a task has ended or there is an event to deliver."""
        self._waiting: deque[tuple[Task, TaskGenerator]] = deque()
        """Tasks that are still to be started."""
        self._running: set[asyncio.Task[Any]] = set()
        self._at_once: int | None = None
        self.result: Any = None
        self._writer: asyncio.Task[None] | None = None

    # -- running generators

    async def run(self, generator: EffectGenerator[R]) -> R:
        """Run a generator to its end and return its result."""
        async for _event in self.stream(lambda: generator):
            pass
        result: R = self.result
        return result

    async def stream(
        self,
        begin: Callable[[], EffectGenerator[Any]],
        show: Callable[[Event], Any] = lambda event: event,
    ) -> AsyncGenerator[Any, None]:
        """Run a generator to its end, and yield its events as they come; see `result`.

        A consumer iterates over this generator itself. A loop that ends closes all open
        generators at once: of two nested generators, one would find the other running.
        """
        loop = self.loop = asyncio.get_running_loop()
        generator = begin()
        if self.events.flows_during_nodes:
            self.events.wake = setter(loop, self._news)
        undelivered, standby = self.events.undelivered, self._standby
        steps: RunDriver[Any] = RunDriver(generator, self._ended_now)
        cancelled = False
        answered = True
        effect: Effect[Any] | None = None
        try:
            for effect in steps:
                answered = False
                if steps.reason is not None and steps.is_stopped_at(effect):
                    continue
                try:
                    if type(effect) is Await:
                        while True:
                            self._news.clear()
                            self.events.woken = False  # before looking: later events wake again
                            while undelivered:
                                shown = show(undelivered.popleft())
                                standby.leave()
                                yield shown
                                await standby.come_back()
                            if self._ended or not await self._wait_for_news(effect.deadline):
                                break
                        steps.answer = self._collect()
                    else:
                        while undelivered and type(effect) in AFTER_EVENTS:
                            shown = show(undelivered.popleft())
                            standby.leave()
                            yield shown
                            await standby.come_back()
                        method = _CARRY_OUT.get(type(effect), AsyncDriver._call_method)
                        work = method(self, effect)
                        steps.answer = await (to_the_end(work) if cancelled else work)
                    answered = True
                    while undelivered:
                        shown = show(undelivered.popleft())
                        standby.leave()
                        yield shown
                        await standby.come_back()
                except BaseException as failure:
                    if has_left(failure, standby.is_away):
                        raise
                    await to_the_end(standby.come_back())
                    if isinstance(failure, asyncio.CancelledError):
                        # The run ends now, and saves what it has. Another cancellation must not
                        # keep it from doing so.
                        cancelled = True
                        await to_the_end(self._stop_tasks())
                    steps.fail(failure, effect, answered=answered)
        except BaseException as failure:
            if has_left(failure, standby.is_away):
                # Perhaps while a cancellation is handled: a loop that ends may cancel the task that
                # closes this generator.
                if runs_here(loop):  # otherwise the generator was dropped: nothing can be awaited
                    try:
                        await self._wind_up(steps, None if answered else effect)
                    finally:
                        undelivered.clear()  # no consumer is left
                raise
            if not isinstance(failure, Exception):
                raise
            # Events from before the failure are still delivered.
            try:
                while undelivered:
                    yield show(undelivered.popleft())
            except GeneratorExit:
                if isinstance(failure, NOT_STORED):
                    raise failure from None
                raise
            raise
        finally:
            standby.stop()
            if self._running and runs_here(loop):
                await to_the_end(self._stop_tasks())
        if steps.reason is not None:
            raise steps.reason
        self.result = steps.result
        while undelivered:
            yield show(undelivered.popleft())

    async def _wind_up(self, steps: RunDriver[Any], effect: Effect[Any] | None) -> None:
        """Let a run that is stopped early save what it has, without starting more.

        `effect` is what the run still waits for.
        """
        await to_the_end(self._standby.come_back())
        await to_the_end(self._stop_tasks())
        steps.abandon(effect)
        with suppress(Abandoned):
            for following in steps:
                if not steps.is_stopped_at(following):
                    try:
                        steps.answer = await to_the_end(self.carry_out(following))
                    except BaseException as failure:
                        steps.error = failure

    async def _stop_tasks(self) -> None:
        self._waiting.clear()
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)

    def carry_out(self, effect: Effect[R]) -> Coroutine[Any, Any, R]:
        """Do what an effect says, and return its result."""
        return _CARRY_OUT.get(type(effect), AsyncDriver._call_method)(self, effect)

    # -- savers and caches

    async def _call_method(self, effect: MethodCall[R]) -> R:
        if is_sync_only(effect.target):
            return await in_thread(effect.call)
        return await effect.acall()

    async def _list(self, effect: ListCheckpoints) -> Cursor:
        if not is_sync_only(effect.saver):
            return aiter(effect.acall())

        async def listed() -> AsyncIterator[Any]:
            items = iter(await in_thread(effect.call))
            while (found := await in_thread(next, items, None)) is not None:
                yield found

        return listed()

    async def _next(self, effect: NextCheckpoint) -> Any:
        return await anext(effect.cursor, None)

    # -- saving

    async def _save(self, effect: Save) -> None:
        writer = effect.writer
        if not writer.deferred:
            # A commit that has begun goes on to its end, even if the run is cancelled.
            storing = writer.astore(effect.steps, self.carry_out)
            await (storing if writer.steadfast else see_through(storing))
            return
        while True:
            queue, is_new = writer.open_queue()
            if is_new:
                queue.loop = self.loop
                self._writer = worker = asyncio.create_task(self._write_behind(writer, queue))
                _background.add(worker)
                worker.add_done_callback(_background.discard)
            queue.raise_error()
            if queue.add(effect.steps):
                break
        await self._wait_for(queue, QUEUE_LIMIT)

    async def _write_behind(self, writer: ThreadWriter, queue: WriteBehindQueue) -> None:
        """The background writer: stores whatever waits, several steps at once if it lags."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        cancelled: asyncio.CancelledError | None = None
        while True:
            woken.clear()
            steps = queue.take(setter(loop, woken))
            if not steps:
                if queue.closed or (cancelled is not None and queue.abandon()):
                    break
                try:
                    await woken.wait()
                except asyncio.CancelledError as error:
                    # A loop that ends cancels all of its tasks. Steps that the run stores
                    # after that get a new writer.
                    cancelled = error
                continue
            while True:
                try:
                    await writer.astore(steps, self.carry_out)
                except asyncio.CancelledError as error:
                    cancelled = error  # perhaps stored: storing again is safe
                    continue
                except BaseException as error:
                    queue.stored(error)
                    if not isinstance(error, Exception):
                        raise
                else:
                    queue.stored()
                break
        if cancelled is not None:
            raise cancelled

    async def leave(self) -> None:
        """Wait, at most a second, until the background writer of the run has ended."""
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=1.0)

    @staticmethod
    async def _wait_for(queue: WriteBehindQueue, limit: int) -> None:
        if queue.unstored <= limit and queue.error is None:
            return
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        if queue.is_above(limit, setter(loop, ready)):
            await ready.wait()
        queue.raise_error()

    async def _flush(self, effect: Flush) -> None:
        writer = effect.writer
        queue = writer.queue
        if queue is None:
            return
        try:
            await see_through(self._wait_for(queue, 0))
        finally:
            if effect.last:
                queue.close()
                writer.queue = None

    async def _keep_claim(self, effect: KeepClaim) -> None:
        leases.keep(effect.saver, effect.thread_id, effect.fence)

    # -- tasks

    async def _start(self, effect: Start) -> Sequence[Task]:
        # A step's only task runs right here if no event is due before it ends.
        if len(effect.tasks) == 1 and not (effect.beside_driver or self.events.flows_during_nodes):
            task, generator = effect.tasks[0]
            await adrive(generator, self.carry_out)
            return (task,)
        self._at_once = effect.at_once
        self._standby.keep = effect.keep
        self._waiting.extend(effect.tasks)
        self._start_queued()
        return ()

    def _start_queued(self) -> None:
        while self._waiting and (self._at_once is None or len(self._running) < self._at_once):
            self._run_apart(*self._waiting.popleft())

    def spawn(self, task: Task, generator: TaskGenerator, ended: Callable[[], None]) -> None:
        """Start a task that a running task has called."""
        context = contextvars.copy_context()
        assert self.loop is not None
        # Not in that context: an eager task factory begins the task at once, which enters it.
        self.loop.call_soon_threadsafe(self._run_apart, task, generator, ended, context)

    def _run_apart(
        self,
        task: Task,
        generator: TaskGenerator,
        ended: Callable[[], None] | None = None,
        context: contextvars.Context | None = None,
    ) -> None:
        async def work() -> BaseException | None:
            # Returned, not raised: SystemExit or KeyboardInterrupt would end the loop.
            try:
                await adrive(generator, self.carry_out)
            except BaseException as error:
                return error
            return None

        def finished(running: asyncio.Task[BaseException | None]) -> None:
            # Not at the end of `work`: a task that is cancelled at once never begins.
            self._running.discard(running)
            crash = asyncio.CancelledError() if running.cancelled() else running.result()
            self._ended.append((task, outcome_of(task, crash, ended)))
            self._standby.look()
            self._news.set()
            self._start_queued()

        running = asyncio.create_task(work(), context=context)
        self._running.add(running)
        running.add_done_callback(finished)
        if task.cancellation is not None:
            task.cancellation.bind(partial(_cancel, running))

    async def _wait_for_news(self, deadline: float | None) -> bool:
        """Wait until a task has ended or there is an event; False if tasks were stopped instead."""
        if deadline is None:
            await self._news.wait()
            return True
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await self._news.wait()
        except TimeoutError:
            await to_the_end(self._stop_tasks())
            # Tasks that crashed did so because they were stopped.
            ended = [item for item in self._ended if item[1] is None]
            self._ended.clear()
            self._ended.extend(ended)
            return False
        return True

    def _collect(self) -> list[Task]:
        """The tasks that have ended by now."""
        items = list(self._ended)
        self._ended.clear()
        ended, crashed = sorted_out(items)
        self._ended.extend(crashed)
        return ended

    def _ended_now(self) -> list[Task]:
        """The tasks that have ended by now, after the run was stopped early."""
        ended = [task for task, crash in self._ended if crash is None]
        self._ended.clear()
        return ended

    async def _pause(self, effect: Pause) -> None:
        await asyncio.sleep(effect.seconds)

    async def _tell(self, effect: Tell) -> Any:
        return await (effect.acall or effect.call)()

    async def _call(self, effect: Call) -> Any:
        callee = effect.callee
        context = effect.context
        variables = context.entered()
        try:
            arguments = callee.arguments(context) if callee.inject else {}
            if callee.aio is None:
                assert callee.sync is not None
                call = partial(callee.sync, effect.argument, **arguments)
                work: Any = await call_in_thread(variables, call)
                if type(work) is not CoroutineType:
                    return work
            else:
                work = variables.run(callee.aio, effect.argument, **arguments)
                if effect.timeout is not None:
                    work = within(work, effect.timeout, effect)
            if context.run.depth and is_deep(context.run.depth):
                return await on_its_own_stack(InContext(work, variables))
            return await InContext(work, variables)
        except asyncio.CancelledError as error:
            running = asyncio.current_task()
            if running is None or not running.cancelling():
                raise_own_cancellation(error, context)
            raise


def _cancel(running: asyncio.Task[Any]) -> None:
    """Cancel a task, from any thread."""
    loop = running.get_loop()
    if runs_here(loop):
        running.cancel()
    else:
        with suppress(RuntimeError):  # the loop was closed, and the task with it
            loop.call_soon_threadsafe(running.cancel)


_background: set[asyncio.Task[None]] = set()
"""Background writers; asyncio itself keeps only weak references to tasks."""

_CARRY_OUT: dict[type, Callable[[AsyncDriver, Any], Coroutine[Any, Any, Any]]] = {
    Start: AsyncDriver._start,
    Save: AsyncDriver._save,
    Flush: AsyncDriver._flush,
    KeepClaim: AsyncDriver._keep_claim,
    Call: AsyncDriver._call,
    Pause: AsyncDriver._pause,
    Tell: AsyncDriver._tell,
    ListCheckpoints: AsyncDriver._list,
    NextCheckpoint: AsyncDriver._next,
}
"""Effect → method. `stream` itself carries out `Await`, `_call_method` all others."""
