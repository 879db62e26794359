"""What a running node calls: `@task` functions, and graphs.

A call starts a task beside the calling task. Its id depends on the calling task and on the number
of calls before. Its result is stored as soon as it ends, so a node that runs again from its top
finds the results of its finished calls. An inner graph stores its own checkpoints, except
its end under `exit` (see `CheckpointWriter.finish`).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from milepost._engine.superstep.pending_writes import recall, returned
from milepost._engine.superstep.plan import Task
from milepost._engine.superstep.task import perform, perform_observed
from milepost._internal.threads import Cancellation, runs_here
from milepost.constants import PUSH, RETURN
from milepost.errors import GraphInterrupt
from milepost.types import MISSING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Sequence

    from milepost._engine.checkpoint_writer import CheckpointWriter
    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.drivers.effects import TaskGenerator
    from milepost._engine.drivers.futures import TaskFuture
    from milepost._engine.streaming.events import RunEvents
    from milepost._engine.superstep.program import Node


class TaskStarter:
    """Starts a task when it is called inside a node."""


class TaskDriver(Protocol):
    """The driver of a run, which starts the tasks that running tasks call."""

    @property
    def loop(self) -> AbstractEventLoop | None:
        """The event loop that tasks run on; None for threads, and before the run begins."""

    def spawn(self, task: Task, program: TaskGenerator, ended: Callable[[], None]) -> None:
        """Start a task that a running task has called, and report its end."""


class Subtasks:
    """The tasks and graphs that running tasks of a run have called."""

    __slots__ = ("_futures", "_lock", "called", "driver", "ended_graphs", "running")

    def __init__(self) -> None:
        self.driver: TaskDriver
        """Set by the caller that drives the run."""
        self.called: list[Task] = []
        """Tasks that were called in this step, without those whose results were stored before."""
        self.ended_graphs: dict[str, tuple[Task, CheckpointWriter]] = {}
        """Under `exit`: namespace → caller and checkpoints, for graphs that ended in this step."""
        self._futures: dict[str, TaskFuture[Any]] = {}
        """Task id → the latest future of a called task."""
        self.running = 0
        """How many called tasks have been started and have not ended."""
        self._lock = threading.Lock()

    def wait_blocks(self) -> bool:
        """Whether called tasks run on the loop of this thread: a blocking wait would stop them."""
        loop = self.driver.loop
        return loop is not None and runs_here(loop)

    def begin_step(self) -> None:
        """Forget the tasks and graphs that were called in the last step."""
        self.called = []
        self.ended_graphs = {}
        self._futures = {}

    def add(self, task: Task, future: TaskFuture[Any]) -> None:
        """A task has been called."""
        self.called.append(task)
        self._futures[task.id] = future

    def earlier_call(self, task: Task) -> TaskFuture[Any] | None:
        """The future that an earlier attempt of the caller got, unless the call has failed."""
        future = self._futures.get(task.id)
        if future is None or (future.done() and (future.cancelled() or future.exception())):
            return None
        return future

    def one_has_ended(self) -> None:
        """A called task has ended, or could not be started."""
        with self._lock:
            self.running -= 1

    def start(self, task: Task, effects: TaskGenerator, ended: Callable[[], None]) -> None:
        """Start a called task, from any thread; `ended` is called when it has ended."""
        with self._lock:
            self.running += 1
        try:
            self.driver.spawn(task, effects, ended)
        except BaseException:
            self.one_has_ended()  # the task will never end: nothing may wait for it
            raise


def call(
    context: TaskContext, node: Node, argument: Any, future: TaskFuture[Any] | None = None
) -> TaskFuture[Any]:
    """Start a task on behalf of the one that is running.

    The result is in `future`, or in a new one: on an event loop, a future of that loop.
    """
    # Imported late, because it imports asyncio.
    from milepost._engine.drivers.futures import new_future

    run, caller = context.run, context.task
    at = context.calls
    context.calls += 1
    checkpoint_id, _, step = caller.base
    task = Task(node, (PUSH, caller.path, at), (PUSH,), argument, (checkpoint_id, caller.ns, step))
    task.caller = caller
    if (earlier := run.subtasks.earlier_call(task)) is not None:
        return earlier
    for observer in run.events.observers:
        observer.task_called(task, context)
    if not node.silent:
        run.events.tasks_start([task])
    future = new_future() if future is None else future
    pending = run.checkpoints.pending
    result = returned(pending).get(task.id, MISSING)
    if result is not MISSING:
        future.settle(result, None)
        return future
    recall([task], pending)
    task.error = None
    run.subtasks.add(task, future)
    if run.still_waits(task):
        future.settle(None, GraphInterrupt(task.interrupts))
        return future
    task.cancellation = cancellation = Cancellation()
    effects = (perform_observed if run.events.observers else perform)(run, task)
    run.subtasks.start(task, effects, lambda: _settle(run.events, task, future))
    future.add_done_callback(lambda ended: cancellation.ask() if ended.cancelled() else None)
    return future


def _settle(events: RunEvents, task: Task, future: TaskFuture[Any]) -> None:
    """The task has ended: tell the streams at once, then the code that waits for it."""
    try:
        if not task.node.silent:
            events.task_ended(task)
    finally:
        if task.finished:
            future.settle(next(value for name, value in task.writes if name == RETURN), None)
        elif isinstance(task.error, BaseException):  # also if it left interrupts open
            future.settle(None, task.error)
        elif task.interrupts:
            future.settle(None, GraphInterrupt(task.interrupts))
        else:
            future.drop()


def gather_interrupts(called: Sequence[Task], task: Task) -> None:
    """Add the interrupts of called tasks to those of the caller."""
    found = {i.id: i for i in task.interrupts}
    asked = {i.id: i for i in task.answered_interrupts}
    for inner in called:
        if task in inner.with_callers() and not inner.finished:
            found.update((i.id, i) for i in inner.interrupts)
            asked.update((i.id, i) for i in inner.answered_interrupts)
    task.interrupts = tuple(found.values())
    task.answered_interrupts = tuple(i for i in asked.values() if i.id not in found)
