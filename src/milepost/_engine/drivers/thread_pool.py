"""Runs the tasks of a step side by side, on threads, and hands back those that have ended.

One thread takes the tasks one after the other. While tasks wait that no thread has begun, the
number of threads doubles every half millisecond. Slow tasks soon run at once. Quick tasks do not
cause further threads, whose start would take longer than the tasks.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost._engine.drivers.effects import Effect, TaskGenerator
from milepost._engine.drivers.run_driver import Ended, sorted_out
from milepost._engine.superstep.task import outcome_of
from milepost._internal import threads
from milepost._internal.generators import drive

if TYPE_CHECKING:
    from milepost._engine.superstep.plan import Task

Item: TypeAlias = "Ended | None"
"""A task that has ended; None only wakes the thread that waits."""

_MAX_AT_ONCE = 64
"""Tasks of one step that run at once if the config does not say."""
_WAIT_BEFORE_GROWING = 0.0005
"""Seconds that tasks wait for the existing threads before threads are added."""


def _nothing() -> None:
    pass


class TaskThreadPool:
    """The threads of one run. The driver's thread hands out tasks and collects ended ones."""

    def __init__(self, carry_out: Callable[[Effect[Any]], Any], *, hurried: bool) -> None:
        self._carry_out = carry_out
        self._hurried = hurried
        """Whether threads of the pool add threads, since a slow consumer of events may hold
        up the driver's thread."""
        self._mailbox: SimpleQueue[Item] = SimpleQueue()
        self.unreceived: dict[Task, None] = {}
        """The tasks that have ended, and that the run has not received."""
        self.on_end: Callable[[], None] = _nothing
        """Called, in the thread of the task, when a task has ended."""
        self._begun = self._received = 0
        """How many tasks have begun, and of how many the end was received."""
        self._queue: deque[tuple[Task, TaskGenerator]] = deque()
        self._running = 0
        self._at_once = _MAX_AT_ONCE
        self._more_at = 0.0
        """When threads are added, if tasks still wait for one."""
        self._lock = threading.Lock()

    def start(self, tasks: Sequence[tuple[Task, TaskGenerator]], at_once: int | None) -> None:
        """Begin with the tasks of a step."""
        self._at_once = at_once or _MAX_AT_ONCE
        self._queue.extend(tasks)
        self._add_thread()
        self._more_at = time.monotonic() + _WAIT_BEFORE_GROWING

    def dismiss(self) -> None:
        """Drop the tasks that have not begun."""
        self._queue.clear()

    def finish(self) -> None:
        """Drop the tasks that have not begun, and wait for those that run."""
        self.dismiss()
        # A process that exits does not wait for a node. A thread that runs a task does not wait for
        # others, which may wait for that task: where the garbage collector closes a stream.
        if not threads.may_start() or threads.is_worker():
            return
        items: list[Item] = []
        try:
            while len(items) < self._begun - self._received:
                if (item := self._mailbox.get()) is not None:
                    items.append(item)
        finally:
            for item in items:
                self._mailbox.put(item)

    def spawn(self, task: Task, generator: TaskGenerator, ended: Callable[[], None]) -> None:
        """Begin a task that a running task has called."""
        context = contextvars.copy_context()
        with self._lock:
            self._begun += 1
        threads.submit(lambda: context.run(self._run, task, generator, ended))

    def wake(self) -> None:
        """Let `wait` return, though no task has ended."""
        self._mailbox.put(None)

    def wait(self, deadline: float | None) -> list[Task] | None:
        """Wait for a task that ends; None if `wake` was called instead.

        At the deadline no more tasks are begun. Running tasks cannot be stopped: their results
        are dropped.
        """
        try:
            item = self._next_item(deadline)
        except Empty:
            self.dismiss()
            return self.ended()
        return None if item is None else self.collect(item)

    def _next_item(self, deadline: float | None) -> Item:
        """The next task that ends; raises Empty at the deadline."""
        while self._queue and self._running < self._at_once:
            left = self._more_at - time.monotonic()
            if left > 0:
                with suppress(Empty):
                    return self._mailbox.get(timeout=left)
            for _ in range(max(1, self._running)):
                self._add_thread()
            self._more_at = time.monotonic() + _WAIT_BEFORE_GROWING
        if deadline is None:
            return self._mailbox.get()
        return self._mailbox.get(timeout=max(0.0, deadline - time.monotonic()))

    def collect(self, item: Ended) -> list[Task]:
        """The tasks that have ended by now, `item` among them."""
        items = [item, *self._waiting()]
        self._received += len(items)
        ended, crashed = sorted_out(items)
        self._received -= len(crashed)
        for each in crashed:
            self._mailbox.put(each)
        for task in ended:
            self.unreceived.pop(task, None)
        return ended

    def ended(self) -> list[Task]:
        """The tasks that have ended by now, after the caller has stopped waiting for them."""
        items = self._waiting()
        self._received += len(items)
        ended = [task for task, crash in items if crash is None]
        for task in ended:
            self.unreceived.pop(task, None)
        return ended

    def _waiting(self) -> list[Ended]:
        found: list[Ended] = []
        while not self._mailbox.empty():
            if (item := self._mailbox.get()) is not None:
                found.append(item)
        return found

    # -- in the threads

    def _add_thread(self) -> None:
        with self._lock:
            if not self._queue or self._running >= self._at_once:
                return
            self._running += 1
        context = contextvars.copy_context()
        try:
            threads.submit(lambda: context.run(self._work))
        except BaseException:  # no thread can be started
            with self._lock:
                self._running -= 1
            raise

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._running -= 1
                    return
                task, generator = self._queue.popleft()
                self._begun += 1
            if self._hurried:
                self._add_thread()
            self._run(task, generator)

    def _run(
        self, task: Task, generator: TaskGenerator, ended: Callable[[], None] | None = None
    ) -> None:
        crash: BaseException | None = None
        try:
            if task.was_cancelled:
                from concurrent.futures import CancelledError  # imported already with futures

                task.give_up(CancelledError())
            else:
                drive(generator, self._carry_out)
        except BaseException as error:
            crash = error
        crash = outcome_of(task, crash, ended)
        if crash is None:
            self.unreceived[task] = None
        self._mailbox.put((task, crash))
        self.on_end()
