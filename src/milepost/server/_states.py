"""States of threads as an Agent Server sends them.

A graph reads its own states: it knows which tasks follow. Without a graph they are put together
from the stored checkpoint and its writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from milepost.checkpoint._contract.records import CheckpointTuple, Place, place_of
from milepost.inspect.parts import load, next_nodes, parent_of, state_of, step_at
from milepost.server._errors import not_found, refused
from milepost.server._json import wire
from milepost.server._records import Checkpoint, Interrupt, Task, ThreadState
from milepost.types import Interrupt as OurInterrupt
from milepost.types import PregelTask, StateSnapshot, TaskError

if TYPE_CHECKING:
    from milepost.inspect import Database, TaskRow, ThreadRow
    from milepost.server._server import Server

_FIELDS: Final = frozenset(ThreadState.__struct_fields__)


def read_state(
    server: Server, row: ThreadRow, checkpoint: Checkpoint, *, subgraphs: bool = False
) -> ThreadState:
    """The state of a thread at a checkpoint, or at its latest."""
    graph = server.graph_of_thread(row.metadata)
    if graph is None:
        return from_snapshot(stored_state(server.database, row, checkpoint))
    config = config_of(row.thread_id, checkpoint)
    return from_snapshot(graph.get_state(config, subgraphs=subgraphs))


def config_of(thread_id: str, checkpoint: Checkpoint) -> dict[str, Any]:
    """The config that leads to a checkpoint of a thread, whatever thread the client wrote in it."""
    given = {name: value for name, value in msgspec.structs.asdict(checkpoint).items() if value}
    return {"configurable": {"checkpoint_ns": "", **given, "thread_id": thread_id}}


def from_snapshot(snapshot: Any) -> ThreadState:
    """A state that a graph has read, or that was put together without one."""
    return ThreadState(
        values=wire(snapshot.values),
        next=list(snapshot.next),
        tasks=[_task(task) for task in snapshot.tasks],
        checkpoint=checkpoint_of(snapshot.config) or Checkpoint(),
        parent_checkpoint=checkpoint_of(snapshot.parent_config),
        metadata=wire(snapshot.metadata),
        created_at=snapshot.created_at,
        interrupts=_interrupts(snapshot.interrupts),
    )


def _task(task: Any) -> Task:
    inner = task.state
    return Task(
        id=task.id,
        name=task.name,
        error=_error_text(task.error),
        interrupts=_interrupts(task.interrupts),
        checkpoint=checkpoint_of(inner) if isinstance(inner, Mapping) else None,
        state=from_snapshot(inner) if hasattr(inner, "values") and hasattr(inner, "next") else None,
        result=wire(task.result),
        path=wire(list(task.path)),
    )


def _error_text(error: object) -> str | None:
    """An error as plain text: a TaskError is a str, but of a class that JSON does not have."""
    return None if error is None else str(error) if isinstance(error, str) else repr(error)


def _interrupts(interrupts: Sequence[Any]) -> list[Interrupt]:
    return [Interrupt(wire(one.value), one.id) for one in interrupts]


def checkpoint_of(config: Mapping[str, Any] | None) -> Checkpoint | None:
    """Where a config leads."""
    if config is None:
        return None
    place = config.get("configurable", {})
    known = {name: place[name] for name in Checkpoint.__struct_fields__ if name in place}
    return msgspec.convert(known, Checkpoint)


def check_selection(fields: Sequence[str] | None) -> None:
    """Raise for a field that no state has."""
    for name in fields or ():
        root, dot, _ = name.partition(".")
        if root not in _FIELDS or (dot and root != "values"):
            raise refused(
                f"A state has no field '{name}'. It has {', '.join(sorted(_FIELDS))}, and "
                "values.KEY for one key."
            )


def selected(record: Any, fields: Sequence[str] | None) -> Any:
    """A record, or these fields of it that it has; `values.KEY` is one key of its values."""
    if not fields:
        return record
    shown: dict[str, Any] = {}
    keys = {}
    for name in fields:
        root, dot, key = name.partition(".")
        if not dot and hasattr(record, root):
            shown[root] = getattr(record, root)
        elif dot and isinstance(record.values, dict) and key in record.values:
            keys[key] = record.values[key]
    if "values" not in shown and any(name.startswith("values.") for name in fields):
        shown["values"] = keys
    return shown


# -- without a graph


def stored_state(database: Database, row: ThreadRow, at: Checkpoint) -> StateSnapshot:
    """The state at a checkpoint, or at the latest."""
    place = Place(row.thread_id, at.checkpoint_ns, at.checkpoint_id or None)
    saved = load(database, place)
    if saved is not None:
        return _stored(database, saved, row)
    if at.checkpoint_id:
        raise not_found(f"Thread '{row.thread_id}' has no checkpoint '{at.checkpoint_id}'.")
    return StateSnapshot({}, (), place.config(), None, None, None, (), ())


def stored_history(
    database: Database, row: ThreadRow, place: Place, **page: Any
) -> Iterator[StateSnapshot]:
    """States of a thread, newest first; `page` has the `filter`, `before` and `limit` of a list."""
    for saved in database.reader.list(place.config(), **page):
        yield _stored(database, saved, row)


def _stored(database: Database, saved: CheckpointTuple, row: ThreadRow) -> StateSnapshot:
    place = place_of(saved.config)
    rows = step_at(database, saved).tasks()
    tasks = tuple(_stored_task(task) for task in rows)
    is_latest = bool(place.checkpoint_ns) or place.checkpoint_id == row.head
    parent = parent_of(saved)
    return StateSnapshot(
        values=state_of(database, saved),
        next=next_nodes(rows, is_latest=is_latest),
        config=place.config(),
        metadata=saved.metadata,
        created_at=saved.checkpoint["ts"],
        parent_config=None if parent is None else place._replace(checkpoint_id=parent).config(),
        tasks=tasks,
        interrupts=tuple(one for task in tasks for one in task.interrupts),
    )


def _stored_task(task: TaskRow) -> PregelTask:
    error = None if task.error is None else TaskError(task.error)
    asked = (OurInterrupt(one.value, one.id) for one in task.interrupts if not one.answered)
    return PregelTask(task.id, task.name, (), error, tuple(asked))
