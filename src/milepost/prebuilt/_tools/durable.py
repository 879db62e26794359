"""Tool calls as tasks of a run.

Each call of a node is a task like those of `@task` functions: the result is stored when the call
ends, interrupts belong to the call, and a node that runs again finds the calls that have ended.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost._engine.drivers.futures import TaskFuture, new_future
from milepost._engine.superstep.program import Node, StateReader
from milepost._engine.superstep.subtasks import call
from milepost.constants import RETURN
from milepost.errors import GraphBubbleUp, GraphInterrupt
from milepost.prebuilt._effects import CallFunction, Effects, drive_async, drive_sync

if TYPE_CHECKING:
    from milepost._engine.context.node_callable import Callee
    from milepost._engine.context.task_context import TaskContext


def run_calls(
    context: TaskContext, callee: Callee, calls: Sequence[Any], limit: int | None
) -> list[Any]:
    """Make calls, at most `limit` at the same time, and return their results in order."""
    wait = concurrent.futures.wait
    return drive_sync(_calls(context, callee, calls, limit, TaskFuture, wait))


async def arun_calls(
    context: TaskContext, callee: Callee, calls: Sequence[Any], limit: int | None
) -> list[Any]:
    """`run_calls`, on an event loop."""
    return await drive_async(_calls(context, callee, calls, limit, new_future, _await))


def _calls(
    context: TaskContext,
    callee: Callee,
    calls: Sequence[Any],
    limit: int | None,
    future: Callable[[], TaskFuture[Any]],
    wait: Callable[..., Any],
) -> Effects[list[Any]]:
    node = Node(
        name=context.task.name,
        callee=callee,
        triggers=(),
        reader=StateReader(),
        writes_of=lambda output: [(RETURN, output)],
        silent=True,
    )
    futures: list[TaskFuture[Any]] = []
    for one in calls:
        while limit is not None and len(open := [f for f in futures if not f.done()]) >= limit:
            yield CallFunction(partial(wait, open, return_when=asyncio.FIRST_COMPLETED))
        futures.append(call(context, node, one, future()))
    if futures:
        yield CallFunction(partial(wait, futures))
    return _results(context, futures)


def _results(context: TaskContext, futures: Sequence[TaskFuture[Any]]) -> list[Any]:
    """What the calls returned; if some have failed or wait for answers, that is raised."""
    errors = [error for future in futures if (error := future.exception()) is not None]
    paused = [error for error in errors if isinstance(error, GraphInterrupt)]
    failed = [error for error in errors if not isinstance(error, GraphInterrupt)]
    questions = tuple(question for pause in paused for question in pause.interrupts)
    if failed:
        # What the others ask can still be answered, though the node fails.
        context.open_inside = questions
        raise min(failed, key=lambda error: isinstance(error, GraphBubbleUp))
    if paused:
        raise GraphInterrupt(questions)
    return [future.result() for future in futures]


async def _await(
    futures: Sequence[asyncio.Future[Any]], return_when: str = asyncio.ALL_COMPLETED
) -> None:
    try:
        await asyncio.wait(futures, return_when=return_when)
    except asyncio.CancelledError:
        for future in futures:
            future.cancel()
        raise


def is_own_task(context: TaskContext, node: object, calls: Sequence[object]) -> bool:
    """Whether a `Send` gave a node a single call: the node's task is then the call's task."""
    task = context.task
    return len(calls) == 1 and task.send is not None and task.node.callee.target is node
