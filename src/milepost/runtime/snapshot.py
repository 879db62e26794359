"""How a checkpoint is shown: StateSnapshot, and the events of the `checkpoints` stream."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.records import CheckpointTuple, Place, place_of
from milepost.constants import RETURN, START
from milepost.deferred import Deferred
from milepost.runtime.board import Board
from milepost.runtime.checkpoints import Bookkeeping, without_ids
from milepost.runtime.pending import null_writes, recall
from milepost.runtime.plan import Task, finished_writes, sketch
from milepost.runtime.stream import result_of, written
from milepost.types import PregelTask, RunnableConfig, StateSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.checkpoint.records import Checkpoint
    from milepost.runtime.program import Program


def tasks_at(
    program: Program, board: Board, checkpoint: Checkpoint, saved: CheckpointTuple
) -> list[Task]:
    """The tasks that follow a checkpoint, with what is stored of them."""
    ns = place_of(saved.config).checkpoint_ns
    base = (checkpoint["id"], ns, saved.metadata.get("step", -1) + 1)
    tasks = sketch(program, board, base)
    recall(tasks, saved.pending_writes or ())
    return tasks


def board_of(program: Program, saved: CheckpointTuple) -> Board:
    """The channels of a checkpoint; delta channels are still to be rebuilt."""
    return program.board(saved.checkpoint)


def outlined(saved: CheckpointTuple, channels: Collection[str]) -> Checkpoint:
    """A checkpoint with the values of these channels; with all, if its saver leaves none out."""
    outline: Callable[[Collection[str]], Checkpoint] | None = getattr(saved, "outline", None)
    return saved.checkpoint if outline is None else outline(channels)


def _tasks_seen(
    program: Program, saved: CheckpointTuple, checkpoint: Checkpoint | None = None
) -> list[Task]:
    """The tasks that follow a checkpoint, found without reading the state."""
    checkpoint = checkpoint or outlined(saved, program.deciding)
    board = program.board(checkpoint)
    with_null_writes(board, saved, program.deciding)
    return tasks_at(program, board, checkpoint, saved)


def with_null_writes(board: Board, saved: CheckpointTuple, names: Container[str]) -> None:
    """Apply what came from outside, in a Command, while the thread was paused here."""
    for name, value in chain.from_iterable(null_writes(saved.pending_writes or ())):
        if name in names:
            board.channel(name).update([value])
            board.versions.setdefault(name, board.top)
            board.refresh([name])


def snapshot(
    program: Program,
    board: Board,
    saved: CheckpointTuple,
    tasks: Sequence[Task],
    parent: CheckpointTuple | None,
    *,
    latest: bool,
    states: Mapping[str, RunnableConfig | StateSnapshot],
) -> StateSnapshot:
    """A checkpoint as users see it; what its parent tells about it, when that is looked at.

    For the latest one, what finished tasks of the interrupted or failed step wrote is shown as
    part of the values, since a resume will not run them again.
    """
    made = _shown(program, board, saved, tasks, latest=latest, states=states)
    later: StateSnapshot = Snapshot(made, lambda _: _metadata(program, saved, parent))
    return later


def snapshot_later(
    program: Program, saved: CheckpointTuple, parent: CheckpointTuple | None
) -> StateSnapshot:
    """The same for a checkpoint of the history, of which nothing is read before that.

    Whoever looks for a state to go back to, by its tasks or its metadata, does not read values.
    """

    def show(field: str) -> Any:
        if field == "metadata":
            return _metadata(program, saved, parent)
        if field == "config":
            return config_of(saved)
        if field == "parent_config":
            return _parent_config_of(saved)
        if field == "values":
            board = board_of(program, saved)
            with_null_writes(board, saved, board.specs)
            return board.pick(program.stream_keys, board.values)
        if not seen:
            checkpoint = outlined(saved, program.deciding)
            tasks = _tasks_seen(program, saved, checkpoint)
            thread_id = place_of(saved.config).thread_id
            inner = {task.id: child_config(thread_id, task) for task in tasks}
            states = {id: config for id, config in inner.items() if config is not None}
            seen.update(_ahead(program, tasks, latest=False, states=states))
            seen["created_at"] = checkpoint["ts"]
        return seen[field]

    seen: dict[str, Any] = {}
    later: StateSnapshot = Snapshot({}, show)
    return later


class Snapshot(Deferred, plain=StateSnapshot):
    """A state that is put together when it is looked at."""


def _metadata(
    program: Program, saved: CheckpointTuple, parent: CheckpointTuple | None
) -> dict[str, Any]:
    return {**saved.metadata, "writes": writes_behind(program, saved, parent)}


def _shown(
    program: Program,
    board: Board,
    saved: CheckpointTuple,
    tasks: Sequence[Task],
    *,
    latest: bool,
    states: Mapping[str, RunnableConfig | StateSnapshot],
) -> dict[str, Any]:
    """All fields of a snapshot but the metadata."""
    values = board.preview(finished_writes(tasks)) if latest else board.values
    return {
        "values": board.pick(program.stream_keys, values),
        "config": config_of(saved),
        "created_at": saved.checkpoint["ts"],
        "parent_config": _parent_config_of(saved),
        **_ahead(program, tasks, latest=latest, states=states),
    }


def _ahead(
    program: Program,
    tasks: Sequence[Task],
    *,
    latest: bool,
    states: Mapping[str, RunnableConfig | StateSnapshot],
) -> dict[str, Any]:
    """Those that tell of the tasks that follow."""
    tasks = _as_added(program, tasks)
    shown = tuple(_show(program, task, latest, states.get(task.id)) for task in tasks)
    return {
        "next": tuple(task.name for task in tasks if not (latest and task.finished)),
        "tasks": shown,
        "interrupts": tuple(interrupt for task in shown for interrupt in task.interrupts),
    }


def _as_added(program: Program, tasks: Sequence[Task]) -> Sequence[Task]:
    """Tasks of Sends as they were sent, then those of nodes in the order of the program's text."""
    if len(tasks) < 2:
        return tasks
    places = {name: place for place, name in enumerate(program.nodes)}
    return sorted(tasks, key=lambda task: -1 if task.send is not None else places[task.name])


def _show(
    program: Program, task: Task, latest: bool, state: RunnableConfig | StateSnapshot | None
) -> PregelTask:
    asked = (*task.asked, *task.interrupts)
    waiting = () if task.finished else task.interrupts
    error: Any = task.error
    return PregelTask(
        id=task.id,
        name=task.name,
        path=task.path,
        error=error,
        interrupts=waiting if latest else asked,
        state=state,
        result=_task_result(program, task) if task.finished else None,
    )


def _task_result(program: Program, task: Task) -> Any:
    """What a finished task wrote; several writes to one key are together under that key."""
    keys = program.stream_keys
    found = written(keys, task.writes)
    if RETURN in found:
        return found[RETURN]
    return found.get(keys) if isinstance(keys, str) else found


def _result(program: Program, task: Task) -> Any:
    found = result_of(program.stream_keys, task.writes)
    return {} if found is None and not isinstance(program.stream_keys, str) else found


def config_of(saved: CheckpointTuple) -> RunnableConfig:
    """The config that leads back to a checkpoint, through the graphs around it."""
    place = place_of(saved.config)
    if not place.checkpoint_ns:
        return place.config()
    return place.config_inside(saved.metadata.get("parents", {}))


def _parent_config_of(saved: CheckpointTuple) -> RunnableConfig | None:
    parent = saved.parent_config
    if parent is None:
        return None
    place = place_of(parent)
    if not place.checkpoint_ns or without_ids(place.checkpoint_ns) == place.checkpoint_ns:
        # In a memory that lasts, the parent may have been made in a call of another checkpoint.
        return parent
    return place.config_inside(saved.metadata.get("parents", {}))


def empty_snapshot(config: RunnableConfig) -> StateSnapshot:
    """What a thread without checkpoints looks like."""
    return StateSnapshot(
        values={},
        next=(),
        config=config,
        metadata=None,
        created_at=None,
        parent_config=None,
        tasks=(),
        interrupts=(),
    )


def writes_behind(
    program: Program,
    saved: CheckpointTuple,
    parent: CheckpointTuple | None,
) -> Mapping[str, Any] | None:
    """What made a checkpoint: the input, or node → what it wrote in the step before."""
    source = saved.metadata.get("source")
    if source == "input":
        start = program.input_channel
        return outlined(saved, [start])["channel_values"].get(start)
    if parent is None:
        return None
    found: dict[str, list[Any]] = {}
    if source == "loop":
        for task in _tasks_seen(program, parent):
            if task.finished and task.name != START:
                found.setdefault(task.name, []).append(_result(program, task))
    elif source == "update":
        by_owner: dict[str, list[tuple[str, Any]]] = {}
        mark = outlined(saved, ())["id"] + ":"
        for owner, channel, value in parent.pending_writes or ():
            if owner.startswith(mark):
                by_owner.setdefault(owner, []).append((channel, value))
        for owner, writes in by_owner.items():
            node = owner.split(":", 2)[2]
            found.setdefault(node, []).append(result_of(program.stream_keys, writes))
    return _by_node(found)


def _by_node(found: Mapping[str, list[Any]]) -> dict[str, Any] | None:
    """Node → what it wrote; of one that ran several times, a list."""
    return {node: made[0] if len(made) == 1 else made for node, made in found.items()} or None


def checkpoint_event(session: Bookkeeping) -> dict[str, Any]:
    """The present checkpoint of a run, as the `checkpoints` stream shows it."""
    program, board = session.program, session.board
    tasks = session.replanned
    if tasks is None:
        tasks = sketch(program, board, session.task_base, session.changed)
    return {
        "config": _event_config(session, session.checkpoint_id),
        "parent_config": _event_config(session, session.previous_id),
        "values": board.pick(program.stream_keys, board.values),
        "metadata": {**session.metadata, "writes": _writes_of(session)},
        "next": [task.name for task in tasks if not task.finished],
        "tasks": [_event_task(session, task) for task in tasks],
    }


def _writes_of(session: Bookkeeping) -> Any:
    """What made the present checkpoint, as `writes_behind` finds it for a stored one."""
    if session.metadata.get("source") == "input":
        start = session.program.input_channel
        return session.board.live[start].get() if session.board.available(start) else None
    found: dict[str, list[Any]] = {}
    for writer in session.writers:
        if writer.name != START:
            written = result_of(session.program.stream_keys, writer.writes)
            found.setdefault(writer.name, []).append({} if written is None else written)
    return _by_node(found)


def _event_task(session: Bookkeeping, task: Task) -> dict[str, Any]:
    waiting = () if task.finished else task.interrupts
    event: dict[str, Any] = {
        "id": task.id,
        "name": task.name,
        "interrupts": tuple({"value": i.value, "id": i.id} for i in waiting),
        "state": child_config(session.thread_id, task),
    }
    if task.finished:
        event["result"] = _task_result(session.program, task)
    elif task.error is not None:
        event["error"] = repr(task.error)
    return event


def _event_config(session: Bookkeeping, checkpoint_id: str | None) -> RunnableConfig | None:
    if session.thread_id is None or checkpoint_id is None:
        return None
    return Place(session.thread_id, session.ns, checkpoint_id).config_inside(session.parents)


def child_config(thread_id: str | None, task: Task) -> RunnableConfig | None:
    """Where the state of the graph inside a task is, if it is saved at all."""
    graphs = [g for g in task.node.subgraphs if g.checkpointer is not False]
    if not graphs or thread_id is None:
        return None
    ns = without_ids(task.ns) if graphs[0].checkpointer is True else task.ns
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
