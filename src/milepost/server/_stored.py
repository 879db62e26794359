"""States as they are stored, for threads whose graph is not given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from milepost.checkpoint._contract.records import CheckpointTuple, Place, place_of
from milepost.inspect.parts import id_of, load, parent_of, state_of, step_at
from milepost.server._errors import not_found
from milepost.server._records import Checkpoint, Interrupt, Task, ThreadState
from milepost.server._wire import wire, wire_dict

if TYPE_CHECKING:
    from milepost.inspect import Database, Question, TaskRow, ThreadRow


def stored_state(database: Database, row: ThreadRow, at: Checkpoint) -> ThreadState:
    """The state at a checkpoint, or at the latest."""
    place = Place(row.thread_id, at.checkpoint_ns, at.checkpoint_id or None)
    saved = load(database, place)
    if saved is not None:
        return _shown(database, saved, row)
    if at.checkpoint_id:
        raise not_found(f"Thread '{row.thread_id}' has no checkpoint '{at.checkpoint_id}'.")
    return ThreadState(
        values={},
        next=[],
        tasks=[],
        checkpoint=_at(place, None),
        parent_checkpoint=None,
        metadata=None,
        created_at=None,
        interrupts=[],
    )


def stored_history(
    database: Database, row: ThreadRow, place: Place, **page: Any
) -> Iterator[ThreadState]:
    """States of a thread, newest first; `page` has the `filter`, `before` and `limit` of a list."""
    for saved in database.reader.list(place.config(), **page):
        yield _shown(database, saved, row)


def _shown(database: Database, saved: CheckpointTuple, row: ThreadRow) -> ThreadState:
    place = place_of(saved.config)
    tasks = step_at(database, saved).tasks()
    is_latest = bool(place.checkpoint_ns) or id_of(saved) == row.head
    parent = parent_of(saved)
    return ThreadState(
        values=wire(state_of(database, saved)),
        next=[task.name for task in tasks if not (is_latest and task.finished)],
        tasks=[_task(task) for task in tasks],
        checkpoint=_at(place, id_of(saved)),
        parent_checkpoint=None if parent is None else _at(place, parent),
        metadata=wire_dict(saved.metadata),
        created_at=saved.checkpoint["ts"],
        interrupts=[one for task in tasks for one in _open(task.interrupts)],
    )


def _task(task: TaskRow) -> Task:
    return Task(
        id=task.id,
        name=task.name,
        error=task.error,
        interrupts=_open(task.interrupts),
        checkpoint=None,
        state=None,
        result=None,
        path=[],
    )


def _open(questions: Sequence[Question]) -> list[Interrupt]:
    return [Interrupt(one.value, one.id) for one in questions if not one.answered]


def _at(place: Place, checkpoint_id: str | None) -> Checkpoint:
    return Checkpoint(
        thread_id=place.thread_id,
        checkpoint_ns=place.checkpoint_ns,
        checkpoint_id=checkpoint_id,
        checkpoint_map=None,
    )
