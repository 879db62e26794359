"""The driver for sync code: carries out the effects of runtime generators with threads.

A step's only task runs right here, in the caller's thread, unless somebody wants events while it
runs. Several tasks run on threads (`crew.py`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar

from milepost import workers
from milepost.errors import ColourError
from milepost.runtime.colour import is_async_only
from milepost.runtime.crew import Crew
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
from milepost.runtime.task import raise_own_cancellation
from milepost.stepper import Stepper

if TYPE_CHECKING:
    from milepost.runtime.plan import Task

R = TypeVar("R")


class SyncDriver:
    """Carries out the effects of one run."""

    def __init__(self, feed: Feed | None = None) -> None:
        self.feed = feed or Feed()
        self._crew = Crew(self._perform, hurried=bool(self.feed.modes))
        self._lock = threading.Lock()
        self._loop: workers.LoopThread | None = None
        self.feed.may_wait = True
        if self.feed.flows_during_nodes:
            self.feed.wake = self._crew.wake

    # -- running programs

    def run(self, program: RunProgram[R]) -> R:
        """Run a program to its end and return its result."""
        parts = self.stream(program)
        while True:
            try:
                next(parts)
            except StopIteration as done:
                result: R = done.value
                return result

    def stream(self, program: RunProgram[R]) -> Generator[Part, None, R]:
        """Run a program to its end, and yield its events as they come."""
        pending = self.feed.parts
        steps: Stepper[Effect, R] = Stepper(program)
        is_finalizing = sys.is_finalizing  # by then modules may have been emptied
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
                            yield pending.popleft()
                        steps.answer = self._start(effect)
                    elif type(effect) is Await:
                        while pending:
                            yield pending.popleft()
                        while (item := self._crew.wait()) is None:
                            while pending:
                                yield pending.popleft()
                        steps.answer = self._crew.collect(item)
                    else:
                        steps.answer = self._carry_out(effect)
                    answered = True
                    while pending:
                        yield pending.popleft()
                except GeneratorExit:
                    if not is_finalizing():  # no thread runs then that could be waited for
                        if not answered and not self._take_ended(steps, effect):
                            steps.error = Abandoned()
                        try:
                            self._wind_up(steps, Abandoned())
                        finally:
                            pending.clear()  # nobody is left to hear of it
                    raise
                except BaseException as failure:
                    if not isinstance(failure, Exception):
                        self._crew.dismiss()
                        if answered or self._take_ended(steps, effect):
                            struck = failure
                            continue
                    steps.error = failure
        except Exception:
            # What was said before the failure still counts.
            while pending:
                yield pending.popleft()
            raise
        except BaseException as struck:
            if isinstance(program, GeneratorType) and program.gi_frame is not None:
                # Between two effects: the program has not heard of it.
                steps.error = struck
                self._wind_up(steps, struck)
            raise
        finally:
            if self._loop is not None:
                self._loop.close()
                self._loop = None
        if struck is not None:
            raise struck
        while pending:
            yield pending.popleft()
        return steps.result

    def _take_ended(self, steps: Stepper[Effect, Any], effect: Effect) -> bool:
        """Hand over tasks that ended just before the run was broken off: they are done."""
        if type(effect) is not Await or not (ended := self._crew.ended()):
            return False
        steps.answer = ended
        return True

    def _wind_up(self, steps: Stepper[Effect, Any], reason: BaseException) -> None:
        """The run is broken off: let the program save what it has, without starting more."""
        self._crew.dismiss()
        with suppress(type(reason)):
            for following in steps:
                if isinstance(following, STARTING):
                    if not self._take_ended(steps, following):
                        steps.error = reason
                else:
                    try:
                        steps.answer = self._carry_out(following)
                    except BaseException as failure:
                        steps.error = failure

    def _carry_out(self, effect: Effect) -> Any:
        kind = type(effect)
        if kind is Save:
            return self._save(effect)  # type: ignore[arg-type]
        if kind is Ask:
            return self.ask(effect)  # type: ignore[arg-type]
        if kind is Flush:
            return self._flush(effect)  # type: ignore[arg-type]
        if kind is Listing:
            return self._open_list(effect)  # type: ignore[arg-type]
        if kind is Next:
            return next(effect.cursor, None)  # type: ignore[union-attr]
        raise AssertionError(f"unknown effect {effect!r}")

    # -- savers, stores and caches

    def ask(self, effect: Ask) -> Any:
        """Call a method, in the colour that its owner has."""
        target = effect.target
        if is_async_only(target):
            method = getattr(target, f"a{effect.method}")
            return self._await(
                method(*effect.arguments, **effect.keywords),
                f"{type(target).__name__} is async only",
            )
        return getattr(target, effect.method)(*effect.arguments, **effect.keywords)

    def _open_list(self, effect: Listing) -> Iterator[Any]:
        target = effect.target
        if not is_async_only(target):
            return iter(target.list(*effect.arguments, **effect.keywords))

        async def collect() -> list[Any]:
            return [found async for found in target.alist(*effect.arguments, **effect.keywords)]

        return iter(self._await(collect(), f"{type(target).__name__} is async only"))

    def _ask_all(self, program: Generator[Ask, Any, None]) -> None:
        steps = Stepper(program)
        for effect in steps:
            try:
                steps.answer = self.ask(effect)
            except Exception as error:
                steps.error = error

    # -- saving

    def _save(self, effect: Save) -> None:
        ledger = effect.ledger
        if ledger.instant:
            ledger.store_now(effect.steps)
            return
        backlog = ledger.backlog
        if effect.wait:
            if backlog is not None:
                self._wait_for(backlog, 0)
            self._store(ledger, effect.steps)
            return
        while True:
            backlog, is_new = ledger.open_backlog()
            if is_new:
                try:
                    workers.submit(partial(self._write_behind, ledger, backlog))
                except RuntimeError:  # no thread can be started: the interpreter exits, maybe
                    ledger.backlog = None
                    self._store(ledger, effect.steps)
                    return
            backlog.raise_error()
            if backlog.add(effect.steps):
                break
        self._wait_for(backlog, BACKLOG_LIMIT)

    def _store(self, ledger: Ledger, steps: Sequence[Any]) -> None:
        if ledger.native is not None:
            ledger.store_now(steps)
        else:
            self._ask_all(ledger.store(steps))

    def _write_behind(self, ledger: Ledger, backlog: Backlog) -> None:
        """The background writer: stores whatever waits, several steps at once if it lags."""
        # Not an Event, here and below: Ctrl-C inside one may leave it locked for ever.
        woken: SimpleQueue[None] = SimpleQueue()
        driver = SyncDriver()
        try:
            while True:
                steps = backlog.take(partial(woken.put, None))
                if not steps:
                    if backlog.closed:
                        return
                    woken.get()
                    continue
                try:
                    driver._store(ledger, steps)
                except BaseException as error:
                    backlog.stored(error)
                else:
                    backlog.stored()
        finally:
            if driver._loop is not None:
                driver._loop.close()

    @staticmethod
    def _wait_for(backlog: Backlog, limit: int) -> None:
        if backlog.unstored <= limit and backlog.error is None:
            return
        ready: SimpleQueue[None] = SimpleQueue()
        if backlog.is_above(limit, partial(ready.put, None)):
            workers.check_running()
            ready.get()
        backlog.raise_error()

    def _flush(self, effect: Flush) -> None:
        ledger = effect.ledger
        backlog = ledger.backlog
        if backlog is None:
            return
        if backlog.unstored and backlog.loop is not None and workers.runs_here(backlog.loop):
            raise ColourError(
                f"Steps of thread '{ledger.thread_id}' are still being saved by this event loop, "
                "which a sync call would block. Use the async method: aget_state, aupdate_state."
            )
        try:
            self._wait_for(backlog, 0)
        except (KeyboardInterrupt, SystemExit):
            # What the run has shown is not given up for the first one.
            self._wait_for(backlog, 0)
            raise
        finally:
            if effect.last:
                backlog.close()
                ledger.backlog = None

    # -- tasks

    def _start(self, effect: Start) -> Sequence[Task]:
        tasks = effect.tasks
        if len(tasks) == 1 and not effect.apart and not self.feed.flows_during_nodes:
            task, program = tasks[0]
            self._perform(program)
            return (task,)
        self._crew.start(tasks, effect.at_once)
        return ()

    def spawn(self, task: Task, program: TaskProgram, ended: Callable[[], None]) -> None:
        """Start a task that a running task has called."""
        self._crew.spawn(task, program, ended)

    def _perform(self, program: TaskProgram) -> None:
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
                    given = self._call(effect)
                elif type(effect) is Pause:
                    time.sleep(effect.seconds)
                else:
                    given = self.ask(effect)  # type: ignore[arg-type]
            except Exception as failure:
                step, given = program.throw, failure

    def _call(self, effect: Call) -> Any:
        callee = effect.callee
        scope = effect.scope
        if scope.task.started is None:
            scope.task.started = time.time()
        context = inside(scope)
        try:
            if callee.sync is None or (effect.timeout is not None and callee.aio is not None):
                assert callee.aio is not None
                arguments = callee.arguments(scope)
                work = context.run(callee.aio, effect.argument, **arguments)
                if effect.timeout is not None:
                    from milepost.runtime.timeouts import within

                    work = within(work, effect.timeout, effect)
                cancellation = scope.task.cancellation
                reason = f"node '{callee.name}' is async"
                return context.run(self._await, work, reason, cancellation)
            arguments = callee.arguments(scope) if callee.inject else {}
            if scope.session.depth and is_deep(scope.session.depth):
                call = partial(context.run, callee.sync, effect.argument, **arguments)
                result = workers.elsewhere(call)
            else:
                result = context.run(callee.sync, effect.argument, **arguments)
            if type(result) is CoroutineType:
                return context.run(self._await, result, f"node '{callee.name}' is async")
            return result
        except BaseException as error:
            if not scope.task.was_cancelled:
                raise_own_cancellation(error, scope.task.name)
            raise

    def _await(
        self, work: Any, reason: str, cancellation: workers.Cancellation | None = None
    ) -> Any:
        """Wait for async work from sync code."""
        if workers.loop_is_running():
            if hasattr(work, "close"):
                work.close()
            raise ColourError(
                f"{reason}, and this thread is inside a running event loop, which a sync call "
                "would block. Use the async method: ainvoke, astream, aget_state, ..."
            )
        if self._loop is None:
            with self._lock:
                if self._loop is None:
                    self._loop = workers.LoopThread()

        return self._loop.run(work, cancellation)
