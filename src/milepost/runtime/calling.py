"""Tasks that a running node calls: `@task` functions.

A call starts a task of its own beside the node that made it, with an id that depends on the node
and on how many calls it made before. What the task returns is stored as soon as it is there, so a
node that runs again from its top finds the results of its finished calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.constants import PUSH, RETURN
from milepost.errors import GraphInterrupt
from milepost.runtime.pending import recall, returned
from milepost.runtime.plan import Task
from milepost.runtime.task import perform
from milepost.types import MISSING
from milepost.workers import Cancellation

if TYPE_CHECKING:
    from milepost.runtime.futures import TaskFuture
    from milepost.runtime.program import Node
    from milepost.runtime.scope import Scope
    from milepost.runtime.session import Session


class TaskStarter:
    """Starts a task when it is called inside a node."""


def call(scope: Scope, node: Node, argument: Any) -> TaskFuture[Any]:
    """Start a task on behalf of the one that is running."""
    from milepost.runtime.futures import new_future  # with all that it imports, only if needed

    session, caller = scope.session, scope.task
    at = scope.calls
    scope.calls += 1
    checkpoint_id, _, step = caller.base
    task = Task(node, (PUSH, caller.path, at), (PUSH,), argument, (checkpoint_id, caller.ns, step))
    task.called = True
    task.caller = caller
    future = new_future()
    result = returned(session.pending).get(task.id, MISSING)
    if result is not MISSING:
        future.settle(result, None)
        return future
    recall([task], session.pending)
    task.error = None
    if session.still_waits(task):
        future.settle(None, GraphInterrupt(task.interrupts))
        session.called.append(task)
        return future
    session.called.append(task)
    session.announce([task])
    task.cancellation = cancellation = Cancellation()
    with session.lock:
        session.spawned += 1
    try:
        session.spawner(task, perform(session, task), lambda: _settle(session, task, future))
    except BaseException:
        with session.lock:
            session.spawned -= 1  # it will never end: nobody may wait for it
        raise
    future.add_done_callback(lambda ended: cancellation.ask() if ended.cancelled() else None)
    return future


def _settle(session: Session, task: Task, future: TaskFuture[Any]) -> None:
    """The task has ended: tell the streams at once, then whoever waits for it."""
    try:
        session.ended(task)
    finally:
        if task.finished:
            future.settle(next(value for name, value in task.writes if name == RETURN), None)
        elif task.interrupts:
            future.settle(None, GraphInterrupt(task.interrupts))
        elif isinstance(task.error, BaseException):
            future.settle(None, task.error)
        else:
            future.drop()


def gather_interrupts(session: Session, task: Task) -> None:
    """A node waits for whatever the tasks wait for that it has called."""
    found = {i.id: i for i in task.interrupts}
    asked = {i.id: i for i in task.asked}
    for inner in session.called:
        if _is_inside(inner, task) and not inner.finished:
            found.update((i.id, i) for i in inner.interrupts)
            asked.update((i.id, i) for i in inner.asked)
    task.interrupts = tuple(found.values())
    task.asked = tuple(i for i in asked.values() if i.id not in found)


def _is_inside(inner: Task | None, task: Task) -> bool:
    while inner is not None:
        if inner is task:
            return True
        inner = inner.caller
    return False
