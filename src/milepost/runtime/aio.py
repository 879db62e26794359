"""The driver for asyncio: carries out the effects of runtime generators on the running loop.

A step's only async task is awaited right here, unless somebody wants events while it runs.
Several tasks become asyncio tasks; sync nodes run on worker threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.awaiting import (
    InContext,
    apart,
    in_thread,
    on_its_own_stack,
    see_through,
    setter,
    to_the_end,
)
from milepost.runtime.colour import is_sync_only
from milepost.runtime.effects import (
    STARTING,
    Abandoned,
    Ask,
    Await,
    Call,
    Effect,
    Flush,
    Listing,
    Next,
    Pause,
    RunProgram,
    Save,
    Start,
    TaskEffect,
    TaskProgram,
    is_deep,
)
from milepost.runtime.saving import BACKLOG_LIMIT, Backlog, Ledger
from milepost.runtime.scope import inside
from milepost.runtime.stream import Feed, Part
from milepost.runtime.task import outcome_of, raise_own_cancellation
from milepost.runtime.timeouts import within
from milepost.stepper import Stepper
from milepost.workers import runs_here

if TYPE_CHECKING:
    from milepost.runtime.plan import Task

R = TypeVar("R")


class AsyncDriver:
    """Carries out the effects of one run."""

    def __init__(self, feed: Feed | None = None) -> None:
        self.feed = feed or Feed()
        self.loop: asyncio.AbstractEventLoop | None = None
        """The one that the run is on, once that has begun."""
        self._ended: deque[tuple[Task, BaseException | None]] = deque()
        self._news = asyncio.Event()
        """Set when a task has ended or the feed has something."""
        self._queue: deque[tuple[Task, TaskProgram]] = deque()
        self._running: set[asyncio.Task[Any]] = set()
        self._at_once: int | None = None
        self.result: Any = None
        self._writer: asyncio.Task[None] | None = None

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        assert self.loop is not None
        return self.loop

    # -- running programs

    async def run(self, program: RunProgram[R]) -> R:
        """Run a program to its end and return its result."""
        async for _part in self.stream(lambda: program):
            pass
        result: R = self.result
        return result

    async def stream(
        self,
        begin: Callable[[], RunProgram[Any]],
        show: Callable[[Part], Any] = lambda part: part,
    ) -> AsyncGenerator[Any, None]:
        """Run a program to its end, and yield its events as they come; see `result`.

        This is what a consumer iterates over, with no generator around it: a loop that ends
        closes all that are open at once, and one of two would find the other at work.
        """
        loop = self.loop = asyncio.get_running_loop()
        program = begin()
        if self.feed.flows_during_nodes:
            self.feed.wake = setter(loop, self._news)
        pending = self.feed.parts
        steps: Stepper[Effect, Any] = Stepper(program)
        carry_out = self._carry_out
        answered = True
        effect: Effect | None = None
        struck: BaseException | None = None
        """What is to end the run as soon as it has stored the tasks that have ended."""
        try:
            for effect in steps:
                answered = False
                if struck is not None and isinstance(effect, STARTING):
                    if not self._take_ended(steps, effect):
                        steps.error, struck = struck, None
                    continue
                try:
                    if type(effect) is Start:
                        while pending:
                            yield show(pending.popleft())
                        steps.answer = await self._start(effect)
                    elif type(effect) is Await:
                        while pending:
                            yield show(pending.popleft())
                        while not self._ended:
                            self._news.clear()
                            while pending:
                                yield show(pending.popleft())
                            if not self._ended:
                                await self._news.wait()
                        steps.answer = self._collect()
                    else:
                        steps.answer = await carry_out(effect)
                    answered = True
                    while pending:
                        yield show(pending.popleft())
                except GeneratorExit:
                    raise
                except BaseException as failure:
                    if isinstance(failure, asyncio.CancelledError):
                        # The program ends now, and saves what it has. Whoever asks for that again
                        # must not keep it from doing so.
                        carry_out = self._carry_out_anyway
                        await to_the_end(self._stop_tasks())
                    if isinstance(failure, Exception):
                        steps.error = failure
                    elif answered or self._take_ended(steps, effect):
                        struck = failure
                    else:
                        steps.error = failure
        except GeneratorExit:
            # Perhaps while a cancellation is dealt with: a loop that ends may cancel the very task
            # that closes this generator.
            if runs_here(loop):  # if not, the generator was dropped, and nothing can be awaited
                try:
                    await self._wind_up(steps, None if answered else effect)
                finally:
                    pending.clear()  # nobody is left to hear of it
            raise
        except Exception:
            # What was said before the failure still counts.
            while pending:
                yield show(pending.popleft())
            raise
        finally:
            if self._running and runs_here(loop):
                await to_the_end(self._stop_tasks())
        if struck is not None:
            raise struck
        self.result = steps.result
        while pending:
            yield show(pending.popleft())

    async def _wind_up(self, steps: Stepper[Effect, Any], effect: Effect | None) -> None:
        """The run is broken off: let the program save what it has, without starting more.

        `effect` is what it still waits for.
        """
        await to_the_end(self._stop_tasks())
        if effect is not None and not self._take_ended(steps, effect):
            steps.error = Abandoned()
        with suppress(Abandoned):
            for following in steps:
                if isinstance(following, STARTING):
                    if not self._take_ended(steps, following):
                        steps.error = Abandoned()
                else:
                    try:
                        steps.answer = await self._carry_out_anyway(following)
                    except BaseException as failure:
                        steps.error = failure

    def _take_ended(self, steps: Stepper[Effect, Any], effect: Effect) -> bool:
        """Hand over tasks that ended just before the run was broken off: they are done."""
        if type(effect) is not Await:
            return False
        ended = [task for task, crash in self._ended if crash is None]
        self._ended.clear()
        if ended:
            steps.answer = ended
        return bool(ended)

    async def _stop_tasks(self) -> None:
        self._queue.clear()
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)

    async def _carry_out(self, effect: Effect) -> Any:
        kind = type(effect)
        if kind is Save:
            return await self._save(effect)  # type: ignore[arg-type]
        if kind is Ask:
            return await self.ask(effect)  # type: ignore[arg-type]
        if kind is Flush:
            return await self._flush(effect)  # type: ignore[arg-type]
        if kind is Listing:
            return self._open_list(effect)  # type: ignore[arg-type]
        if kind is Next:
            return await anext(effect.cursor, None)  # type: ignore[union-attr]
        raise AssertionError(f"unknown effect {effect!r}")

    async def _carry_out_anyway(self, effect: Effect) -> Any:
        """Carry it out, whoever is cancelled meanwhile."""
        return await to_the_end(self._carry_out(effect))

    # -- savers, stores and caches

    async def ask(self, effect: Ask) -> Any:
        """Call a method, in the colour that its owner has."""
        target = effect.target
        if is_sync_only(target):
            method = getattr(target, effect.method)
            return await in_thread(method, *effect.arguments, **effect.keywords)
        return await getattr(target, f"a{effect.method}")(*effect.arguments, **effect.keywords)

    def _open_list(self, effect: Listing) -> AsyncIterator[Any]:
        target = effect.target
        if not is_sync_only(target):
            return aiter(target.alist(*effect.arguments, **effect.keywords))

        async def listed() -> AsyncIterator[Any]:
            cursor = iter(await in_thread(target.list, *effect.arguments, **effect.keywords))
            while (found := await in_thread(next, cursor, None)) is not None:
                yield found

        return listed()

    async def _ask_all(self, program: Generator[Ask, Any, None]) -> None:
        steps = Stepper(program)
        for effect in steps:
            try:
                steps.answer = await self.ask(effect)
            except Exception as error:
                steps.error = error

    # -- saving

    async def _save(self, effect: Save) -> None:
        ledger = effect.ledger
        if ledger.instant:
            ledger.store_now(effect.steps)
            return
        backlog = ledger.backlog
        if effect.wait:
            if backlog is not None:
                await self._wait_for(backlog, 0)
            # Once begun, a commit is seen through: a cancelled run keeps what it has saved.
            storing = self._store(ledger, effect.steps)
            await (storing if ledger.steadfast else see_through(storing))
            return
        while True:
            backlog, is_new = ledger.open_backlog()
            if is_new:
                backlog.loop = self._loop
                self._writer = writer = asyncio.create_task(self._write_behind(ledger, backlog))
                _background.add(writer)
                writer.add_done_callback(_background.discard)
            backlog.raise_error()
            if backlog.add(effect.steps):
                break
        await self._wait_for(backlog, BACKLOG_LIMIT)

    def _store(self, ledger: Ledger, steps: Sequence[Any]) -> Coroutine[Any, Any, None]:
        if ledger.native is not None:
            return ledger.astore_now(steps)
        return self._ask_all(ledger.store(steps))

    async def _write_behind(self, ledger: Ledger, backlog: Backlog) -> None:
        """The background writer: stores whatever waits, several steps at once if it lags."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        cancelled: asyncio.CancelledError | None = None
        while True:
            woken.clear()
            steps = backlog.take(setter(loop, woken))
            if not steps:
                if backlog.closed or (cancelled is not None and backlog.desert()):
                    break
                try:
                    await woken.wait()
                except asyncio.CancelledError as error:
                    # Whoever ends the loop cancels all of its tasks. What the run has left to
                    # store when it is closed after that gets a writer of its own.
                    cancelled = error
                continue
            while True:
                try:
                    await self._store(ledger, steps)
                except asyncio.CancelledError as error:
                    cancelled = error  # nobody knows how far it came: to store it again is safe
                    continue
                except BaseException as error:
                    backlog.stored(error)
                    if not isinstance(error, Exception):
                        raise
                else:
                    backlog.stored()
                break
        if cancelled is not None:
            raise cancelled

    async def leave(self) -> None:
        """Wait until nothing of the run is left on the loop."""
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=1.0)

    @staticmethod
    async def _wait_for(backlog: Backlog, limit: int) -> None:
        if backlog.unstored <= limit and backlog.error is None:
            return
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        if backlog.is_above(limit, setter(loop, ready)):
            await ready.wait()
        backlog.raise_error()

    async def _flush(self, effect: Flush) -> None:
        ledger = effect.ledger
        backlog = ledger.backlog
        if backlog is None:
            return
        try:
            await see_through(self._wait_for(backlog, 0))
        finally:
            if effect.last:
                backlog.close()
                ledger.backlog = None

    # -- tasks

    async def _start(self, effect: Start) -> Sequence[Task]:
        tasks = effect.tasks
        if len(tasks) == 1 and not effect.apart and not self.feed.flows_during_nodes:
            task, program = tasks[0]
            await self._perform(program)
            return (task,)
        self._at_once = effect.at_once
        self._queue.extend(tasks)
        self._start_queued()
        return ()

    def _start_queued(self) -> None:
        while self._queue and (self._at_once is None or len(self._running) < self._at_once):
            self._run_apart(*self._queue.popleft())

    def spawn(self, task: Task, program: TaskProgram, ended: Callable[[], None]) -> None:
        """Start a task that a running task has called."""
        context = contextvars.copy_context()
        self._loop.call_soon_threadsafe(
            lambda: self._run_apart(task, program, ended, context), context=context
        )

    def _run_apart(
        self,
        task: Task,
        program: TaskProgram,
        ended: Callable[[], None] | None = None,
        context: contextvars.Context | None = None,
    ) -> None:
        async def work() -> BaseException | None:
            # Returned: an exit or an interrupt would leave the loop.
            try:
                await self._perform(program)
            except BaseException as error:
                return error
            return None

        def finished(running: asyncio.Task[BaseException | None]) -> None:
            # Not at the end of `work`, which never begins if it is cancelled before.
            self._running.discard(running)
            crash = asyncio.CancelledError() if running.cancelled() else running.result()
            self._ended.append((task, outcome_of(task, crash, ended)))
            self._news.set()
            self._start_queued()

        running = self._loop.create_task(work(), context=context)
        self._running.add(running)
        running.add_done_callback(finished)
        if task.cancellation is not None:
            task.cancellation.bind(partial(self._cancel, running))

    def _cancel(self, running: asyncio.Task[Any]) -> None:
        """Cancel a task, from any thread."""
        if runs_here(self._loop):
            running.cancel()
        else:
            with suppress(RuntimeError):  # the loop was closed, and the task with it
                self._loop.call_soon_threadsafe(running.cancel)

    def _collect(self) -> list[Task]:
        """The tasks that have ended by now.

        What one of them crashed with is raised when no other is left: those are done, and can be
        saved.
        """
        ended = [task for task, crash in self._ended if crash is None]
        crashed = [item for item in self._ended if item[1] is not None]
        self._ended.clear()
        if ended:
            self._ended.extend(crashed)
        elif crashed:
            crash = crashed[0][1]
            assert crash is not None
            raise crash
        return ended

    async def _perform(self, program: TaskProgram) -> None:
        """Carry out a task's own effects."""
        # Without a Stepper: this is gone through three times in the smallest step.
        send = program.send
        step: Callable[[Any], TaskEffect] = send
        given: Any = None
        while True:
            try:
                effect = step(given)
            except StopIteration:
                return
            step, given = send, None
            try:
                if type(effect) is Call:
                    given = await self._call(effect)
                elif type(effect) is Pause:
                    await asyncio.sleep(effect.seconds)
                else:
                    given = await self.ask(effect)  # type: ignore[arg-type]
            except Exception as failure:
                step, given = program.throw, failure

    async def _call(self, effect: Call) -> Any:
        callee = effect.callee
        scope = effect.scope
        if scope.task.started is None:
            scope.task.started = time.time()
        context = inside(scope)
        try:
            arguments = callee.arguments(scope) if callee.inject else {}
            if callee.aio is None:
                assert callee.sync is not None
                if effect.routes or callee.quick:
                    result = context.run(callee.sync, effect.argument, **arguments)
                else:
                    call = partial(callee.sync, effect.argument, **arguments)
                    result = await apart(context, call)
                if type(result) is not CoroutineType:
                    return result
                work: Any = result
            else:
                work = context.run(callee.aio, effect.argument, **arguments)
            if effect.timeout is not None and callee.aio is not None:
                work = within(work, effect.timeout, effect)
            if scope.session.depth and is_deep(scope.session.depth):
                return await on_its_own_stack(InContext(work, context))
            return await InContext(work, context)
        except asyncio.CancelledError as error:
            running = asyncio.current_task()
            if running is None or not running.cancelling():
                raise_own_cancellation(error, scope.task.name)
            raise


_background: set[asyncio.Task[None]] = set()
"""Background writers; asyncio itself keeps only weak references to tasks."""
