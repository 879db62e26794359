"""Writes that are stored between two checkpoints, and the task outcomes that they record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from milepost._internal.ids import interrupt_id
from milepost.checkpoint._contract.step_saver import TaskWrites
from milepost.constants import (
    ANSWERS,
    CHILDREN,
    ERROR,
    INTERRUPT,
    NO_WRITES,
    NULL_TASK_ID,
    RESUME,
    RETURN,
    SCHEDULED,
    TRACED,
)
from milepost.errors import InvalidUpdateError, MissingNodeError, ParentCommand
from milepost.types import Command, Interrupt, _Answered

if TYPE_CHECKING:
    from milepost._engine.superstep.plan import Task
    from milepost._engine.superstep.program import ExecutableGraph, Write
    from milepost.checkpoint._contract.records import PendingWrite

_SPECIAL = frozenset({ERROR, INTERRUPT, RESUME, SCHEDULED, NO_WRITES, CHILDREN, ANSWERS, TRACED})
NULL_PREFIX = NULL_TASK_ID[:24]
"""The prefix of the task ids under which writes of no task are stored."""


_INTERRUPT_ID_LENGTH = 32


def is_id(key: object) -> bool:
    """Whether something looks like the id of an interrupt."""
    return (
        isinstance(key, str)
        and len(key) == _INTERRUPT_ID_LENGTH
        and not key.strip("0123456789abcdef")
    )


def recall(tasks: Iterable[Task], pending: Sequence[PendingWrite]) -> None:
    """Restore tasks from the writes that an earlier attempt at this step has stored."""
    if not pending:
        return
    by_task: dict[str, list[Write]] = {}
    for task_id, channel, value in pending:
        by_task.setdefault(task_id, []).append((channel, value))
    for task in tasks:
        found = by_task.get(task.id)
        if found is None:
            continue
        task.writes = [write for write in found if write[0] not in _SPECIAL]
        task.finished = any(name not in _SPECIAL or name == NO_WRITES for name, _ in found)
        for channel, value in found:
            if channel == CHILDREN:
                task.inner_heads = value
            elif channel == ERROR:
                task.error = value
            elif channel == RESUME:
                task.answers = list(value) if isinstance(value, list) else [value]
            elif channel == INTERRUPT:
                raised = value if isinstance(value, (list, tuple)) else [value]
                task.interrupts = tuple(i for i in raised if isinstance(i, Interrupt))
                task.answered_interrupts = tuple(
                    i.interrupt for i in raised if isinstance(i, _Answered)
                )


def is_worth_storing(task: Task) -> bool:
    """Whether a task that has ended without finishing is stored."""
    if task.was_cancelled:
        return False  # a resume runs it again
    # The error of a missing node is one of the deployment: what the task waits for stays as it is.
    return not isinstance(task.error, (ParentCommand, MissingNodeError))


def to_store(task: Task) -> TaskWrites:
    """The writes that are stored for a task that has ended."""
    if task.finished:
        writes = list(task.writes) or [(NO_WRITES, None)]
        if task.inner_heads:
            writes.append((CHILDREN, task.inner_heads))
    else:
        writes = _unfinished(task)
    return TaskWrites(task.id, task.path_text, task.name, writes)


def _unfinished(task: Task) -> list[Write]:
    asked = [*map(_Answered, task.answered_interrupts), *task.interrupts]
    if task.paused:
        writes: list[Write] = [(INTERRUPT, asked)]
        if task.answers:
            writes.append((RESUME, list(task.answers)))
        return writes
    from milepost.checkpoint.serde._types.exceptions import storable_error

    error = task.error
    writes = [(ERROR, storable_error(error) if isinstance(error, Exception) else error)]
    if asked:
        writes.append((INTERRUPT, asked))
    return writes


def null_writes(pending: Sequence[PendingWrite]) -> list[list[Write]]:
    """The writes of Commands from outside, which belong to no task: a list for each Command."""
    by_owner: dict[str, list[Write]] = {}
    for task_id, channel, value in pending:
        if task_id.startswith(NULL_PREFIX) and channel not in _SPECIAL:
            by_owner.setdefault(task_id, []).append((channel, value))
    return list(by_owner.values())


def answers_in(pending: Sequence[PendingWrite]) -> dict[str, Any]:
    """Interrupt id → answer, for the interrupts that were answered since the checkpoint."""
    found: dict[str, Any] = {}
    for _, channel, value in pending:
        if channel == ANSWERS and isinstance(value, dict):
            found.update(value)
    return found


def null_task_id(pending: Sequence[PendingWrite]) -> str:
    """A new task id for writes of no task: a saver would not replace writes under a used id."""
    used = {task_id for task_id, _, _ in pending if task_id.startswith(NULL_PREFIX)}
    return f"{NULL_PREFIX}{len(used):012d}"


def returned(pending: Sequence[PendingWrite]) -> dict[str, Any]:
    """Task id → result, for tasks that were called inside a node and have finished."""
    return {task_id: value for task_id, channel, value in pending if channel == RETURN}


def command_writes(program: ExecutableGraph, command: Command[Any]) -> list[Write]:
    """The writes of a Command that starts a run."""
    if command.graph is not None:

        def foreign() -> InvalidUpdateError:
            return InvalidUpdateError(
                "A Command that starts a run cannot name another graph: leave out `graph`."
            )

        if command.graph == Command.PARENT:
            raise foreign()
        program.strictness.check(("graph", command.graph), foreign, "It is taken for this graph.")
    writes = [write for target in command.targets() if (write := program.goto(target))]
    if command.update is not None:
        writes.extend(program.writes_of_update(command.update))
    return writes


def open_interrupts(tasks: Iterable[Task]) -> list[str]:
    """The ids of the interrupts that tasks wait for."""
    return [i.id for task in tasks if not task.finished for i in task.interrupts]


def answered_before_failures(tasks: Iterable[Task]) -> list[str]:
    """The ids of the last answered interrupts of failed tasks: another answer may help."""
    return [
        task.answered_interrupts[-1].id
        for task in tasks
        if task.error is not None and task.answered_interrupts
    ]


def own_questions(task: Task) -> dict[str, int]:
    """Interrupt id → index, for interrupts that a task has raised itself, not a graph inside."""
    asked = [question.id for question in (*task.answered_interrupts, *task.interrupts)]
    return {id: at for at, id in enumerate(asked) if id == interrupt_id(task.ns, at)}
