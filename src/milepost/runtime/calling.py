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

if TYPE_CHECKING:
    from milepost.runtime.futures import TaskFuture
    from milepost.runtime.program import Node
    from milepost.runtime.scope import Scope
    from milepost.runtime.session import Session


class TaskStarter:
    """Starts a task when it is called inside a node."""


def call(scope: Scope, node: Node, argument: Any) -> TaskFuture[Any]:
    """Start a task on behalf of the one that is running."""
    from milepost.runtime.futures import TaskFuture  # with all that it imports, only if needed

    session, caller = scope.session, scope.task
    at = scope.calls
    scope.calls += 1
    checkpoint_id, _, step = caller.base
    task = Task(node, (PUSH, caller.path, at), (PUSH,), argument, (checkpoint_id, caller.ns, step))
    task.called = True
    task.caller = caller
    future: TaskFuture[Any] = TaskFuture()
    result = returned(session.pending).get(task.id, MISSING)
    if result is not MISSING:
        future.set_result(result)
        return future
    recall([task], session.pending)
    task.error = None
    if session.still_waits(task):
        future.set_exception(GraphInterrupt(task.interrupts))
        session.called.append(task)
        return future
    session.called.append(task)
    session.announce([task])
    with session.lock:
        session.spawned += 1
    session.spawner(task, perform(session, task), lambda: _settle(session, task, future))
    return future


def _settle(session: Session, task: Task, future: TaskFuture[Any]) -> None:
    """The task has ended: tell the streams at once, then whoever waits for it."""
    session.ended(task)
    if task.finished:
        future.set_result(next(value for name, value in task.writes if name == RETURN))
    elif task.interrupts:
        future.set_exception(GraphInterrupt(task.interrupts))
    elif isinstance(task.error, BaseException):
        future.set_exception(task.error)
    else:
        future.cancel()


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
