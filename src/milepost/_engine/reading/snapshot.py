"""How a checkpoint is shown: StateSnapshot, and the events of the `checkpoints` stream."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from milepost._engine.position import without_ids
from milepost._engine.streaming.payloads import as_dict, result_of, written
from milepost._engine.superstep.channel_state import ChannelState
from milepost._engine.superstep.older_formats import EDGES_HAVE_ONE_NAME
from milepost._engine.superstep.pending_writes import NULL_PREFIX, null_writes, recall
from milepost._engine.superstep.plan import Task, finished_writes, plan
from milepost._engine.superstep.renames import as_renamed
from milepost._internal.lazy_tuple import LazyTuple
from milepost.checkpoint._contract.records import (
    CheckpointTuple,
    Place,
    is_older,
    outline,
    pending_of,
    place_of,
)
from milepost.constants import RETURN, START
from milepost.types import PregelTask, RunnableConfig, StateSnapshot, TaskError

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost._engine.position import Position
    from milepost._engine.superstep.program import ExecutableGraph, Write, Writer
    from milepost.checkpoint._contract.records import (
        Checkpoint,
    )


def tasks_after(
    program: ExecutableGraph, channels: ChannelState, saved: CheckpointTuple, id: str, ns: str
) -> list[Task]:
    """The tasks that follow a checkpoint whose channels are open, with their stored outcomes.

    `id` and `ns` are those of the checkpoint.
    """
    base = (id, ns, saved.metadata.get("step", -1) + 1)
    if (renamed := as_renamed(saved)) is not None:
        channels.former_names = renamed.former_names
    tasks = plan(program, channels, base)
    recall(tasks, saved.pending_writes or ())
    return tasks


def with_values_of(saved: CheckpointTuple, channels: Container[str]) -> Checkpoint:
    """A checkpoint with the values of these channels, and perhaps others."""
    found = outline(saved, channels)
    # In an older format the channels have other names.
    return saved.checkpoint if is_older(found["v"], EDGES_HAVE_ONE_NAME) else found


def _outlined_tasks(
    program: ExecutableGraph, saved: CheckpointTuple
) -> tuple[Checkpoint, list[Task]]:
    """A checkpoint without the state, and the tasks that follow it."""
    checkpoint = with_values_of(saved, program.planning_channels)
    channels = program.open_channels(checkpoint)
    with_null_writes(channels, saved, program.planning_channels)
    ns = place_of(saved.config).checkpoint_ns
    return checkpoint, tasks_after(program, channels, saved, checkpoint["id"], ns)


def with_null_writes(channels: ChannelState, saved: CheckpointTuple, names: Container[str]) -> None:
    """Apply the writes of Commands that came while the thread was paused here."""
    pending = pending_of(saved, NULL_PREFIX)
    for name, value in chain.from_iterable(null_writes(pending)) if pending else ():
        if name in names:
            channels.channel(name).update([value])
            channels.versions.setdefault(name, channels.top)
            channels.refresh([name])


def snapshot(
    program: ExecutableGraph,
    channels: ChannelState,
    saved: CheckpointTuple,
    place: Place,
    tasks: Sequence[Task],
    parent: CheckpointTuple | None,
    *,
    latest: bool,
    states: Mapping[str, RunnableConfig | StateSnapshot],
) -> StateSnapshot:
    """A checkpoint as users see it; `metadata["writes"]` is derived from the parent on access.

    For the latest one, what finished tasks of the interrupted or failed step wrote is shown as
    part of the values, since a resume will not run them again.
    """
    values = channels.preview(finished_writes(tasks)) if latest and tasks else channels.values
    metadata: Any = Metadata(saved.metadata, partial(writes_that_made, program, saved, parent))
    return StateSnapshot(
        values=channels.pick(program.stream_keys, values),
        config=place.config_inside(saved.metadata.get("parents", {})),
        metadata=metadata,
        created_at=saved.checkpoint["ts"],
        parent_config=_parent_config_of(saved, place.checkpoint_ns),
        **_next_fields(program, tasks, latest=latest, states=states),
    )


def snapshot_later(
    program: ExecutableGraph, saved: CheckpointTuple, parent: CheckpointTuple | None
) -> StateSnapshot:
    """A checkpoint of the history as users see it; each field is read on access.

    A program that searches the history by tasks or metadata does not read values.
    """

    def show(field: str) -> Any:
        if field == "metadata":
            return Metadata(saved.metadata, partial(writes_that_made, program, saved, parent))
        if field == "config":
            return _config_of(saved)
        if field == "parent_config":
            return _parent_config_of(saved, place_of(saved.config).checkpoint_ns)
        if field == "values":
            keys = program.stream_keys
            names = (keys,) if isinstance(keys, str) else keys
            channels = program.open_channels(with_values_of(saved, names))
            with_null_writes(channels, saved, names)
            return channels.pick(keys, channels.values)
        if not seen:
            checkpoint, tasks = _outlined_tasks(program, saved)
            thread_id = place_of(saved.config).thread_id
            inner = {task.id: child_config(thread_id, task) for task in tasks}
            states = {id: config for id, config in inner.items() if config is not None}
            seen.update(_next_fields(program, tasks, latest=False, states=states))
            seen["created_at"] = checkpoint["ts"]
        return seen[field]

    seen: dict[str, Any] = {}
    later: StateSnapshot = Snapshot({}, show)
    return later


class Snapshot(LazyTuple, plain=StateSnapshot):
    """A state whose fields are made when they are read."""


class Metadata(dict[str, Any]):
    """The metadata of a checkpoint, with a hidden key `writes`: what made the checkpoint. The
    value of `writes` is derived on access."""

    __slots__ = ("_derive",)

    def __init__(self, stored: Mapping[str, Any], derive: Callable[[], Any]) -> None:
        super().__init__(stored)
        self._derive = derive

    def __missing__(self, key: str) -> Any:
        if key == "writes":
            return self._derive()
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self or key == "writes" else default

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def _next_fields(
    program: ExecutableGraph,
    tasks: Sequence[Task],
    *,
    latest: bool,
    states: Mapping[str, RunnableConfig | StateSnapshot],
) -> dict[str, Any]:
    """The fields of a snapshot about the next tasks."""
    if not tasks:
        return {"next": (), "tasks": (), "interrupts": ()}
    tasks = _in_shown_order(program, tasks)
    shown = tuple(_show(program, task, latest, states.get(task.id)) for task in tasks)
    return {
        "next": tuple(task.name for task in tasks if not (latest and task.finished)),
        "tasks": shown,
        "interrupts": tuple(interrupt for task in shown for interrupt in task.interrupts),
    }


def _in_shown_order(program: ExecutableGraph, tasks: Sequence[Task]) -> Sequence[Task]:
    """Tasks of Sends in order of sending, then tasks of nodes in the order of `program.nodes`."""
    if len(tasks) < 2:
        return tasks
    places = {name: place for place, name in enumerate(program.nodes)}
    return sorted(tasks, key=lambda task: -1 if task.is_sent else places[task.name])


def _show(
    program: ExecutableGraph, task: Task, latest: bool, state: RunnableConfig | StateSnapshot | None
) -> PregelTask:
    asked = (*task.answered_interrupts, *task.interrupts)
    waiting = () if task.finished else task.interrupts
    error = task.error
    return PregelTask(
        id=task.id,
        name=task.name,
        path=task.path,
        error=None if error is None else TaskError.of(error),
        interrupts=waiting if latest else asked,
        state=state,
        result=shown_result(program.stream_keys, task.writes) if task.finished else None,
    )


def shown_result(keys: str | Sequence[str], writes: Sequence[Write]) -> Any:
    """What a finished task wrote to these keys, or what it returned; several writes to one key are
    {"$writes": [...]}."""
    found = written(keys, writes)
    if RETURN in found:
        return found[RETURN]
    return found.get(keys) if isinstance(keys, str) else found


def _result(program: ExecutableGraph, task: Task) -> Any:
    found = result_of(program.stream_keys, task.writes)
    return {} if found is None and not isinstance(program.stream_keys, str) else found


def _config_of(saved: CheckpointTuple) -> RunnableConfig:
    """The config of a checkpoint, with the checkpoints of the enclosing graphs."""
    place = place_of(saved.config)
    if not place.checkpoint_ns:
        return place.config()
    return place.config_inside(saved.metadata.get("parents", {}))


def _parent_config_of(saved: CheckpointTuple, ns: str) -> RunnableConfig | None:
    """The config of the parent of a checkpoint in the namespace `ns`, as that of `_config_of`."""
    parent = saved.parent_config
    if parent is None or not ns or without_ids(ns) == ns:
        # In a graph with memory of its own, the parent may have other enclosing checkpoints.
        return parent
    return place_of(parent).config_inside(saved.metadata.get("parents", {}))


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


def writes_that_made(
    program: ExecutableGraph,
    saved: CheckpointTuple,
    parent: CheckpointTuple | None,
) -> Mapping[str, Any] | None:
    """What made a checkpoint: the input, or node → what it wrote in the step before."""
    source = saved.metadata.get("source")
    if source == "input":
        taken = program.input_channel
        if isinstance(taken, str):
            return with_values_of(saved, [taken])["channel_values"].get(taken)
        values = with_values_of(saved, taken)["channel_values"]
        return {name: values[name] for name in taken if name in values}
    if parent is None:
        return None
    if source == "loop":
        _, tasks = _outlined_tasks(program, parent)
        ended = [task for task in tasks if task.finished and task.name != START]
        return _by_node([(task.name, _result(program, task)) for task in ended])
    if source == "update":
        by_owner: dict[str, list[Write]] = {}
        mark = with_values_of(saved, ())["id"] + ":"
        for owner, channel, value in parent.pending_writes or ():
            if owner.startswith(mark):
                by_owner.setdefault(owner, []).append((channel, value))
        keys, made = program.stream_keys, by_owner.items()
        return _by_node([(owner.split(":", 2)[2], result_of(keys, wrote)) for owner, wrote in made])
    return None


def _by_node(made: Sequence[tuple[str, Any]]) -> dict[str, Any] | None:
    """Node → what it wrote; of one that ran several times, a list."""
    found: dict[str, list[Any]] = {}
    for node, result in made:
        found.setdefault(node, []).append(result)
    return {node: made[0] if len(made) == 1 else made for node, made in found.items()} or None


def checkpoint_event(
    program: ExecutableGraph,
    position: Position,
    channels: ChannelState,
    metadata: Mapping[str, object],
    made_by: Sequence[Writer],
    tasks: Sequence[Task] | None,
) -> dict[str, Any]:
    """The present checkpoint of a run, as the `checkpoints` stream shows it."""
    if tasks is None:
        tasks = plan(program, channels, position.task_base(), channels.changed)
    writes = _writes_of(program, channels, metadata, made_by)
    return {
        "config": _event_config(position, position.checkpoint_id),
        "parent_config": _event_config(position, position.previous_id),
        "values": channels.pick(program.stream_keys, channels.values),
        "metadata": Metadata(metadata, lambda: writes),
        "next": [task.name for task in tasks],
        "tasks": [_event_task(program, position.thread_id, task) for task in tasks],
    }


def _writes_of(
    program: ExecutableGraph,
    channels: ChannelState,
    metadata: Mapping[str, object],
    made_by: Sequence[Writer],
) -> Any:
    """What made the present checkpoint, as `writes_that_made` finds it for a stored one."""
    if metadata.get("source") == "input":
        return channels.pick(program.input_channel, channels.values)
    results = [(w.name, result_of(program.stream_keys, w.writes)) for w in made_by]
    shown = [(node, {} if result is None else result) for node, result in results if node != START]
    return _by_node(shown)


def _event_task(program: ExecutableGraph, thread_id: str | None, task: Task) -> dict[str, Any]:
    waiting = () if task.finished else task.interrupts
    event: dict[str, Any] = {
        "id": task.id,
        "name": task.name,
        "interrupts": tuple(map(as_dict, waiting)),
        "state": child_config(thread_id, task),
    }
    if task.finished:
        event["result"] = shown_result(program.stream_keys, task.writes)
    elif task.error is not None:
        event["error"] = str(TaskError.of(task.error))
    return event


def _event_config(position: Position, checkpoint_id: str | None) -> RunnableConfig | None:
    if position.thread_id is None or checkpoint_id is None:
        return None
    place = Place(position.thread_id, position.ns, checkpoint_id)
    return place.config_inside(position.parents)


def child_config(thread_id: str | None, task: Task) -> RunnableConfig | None:
    """The config of the graph inside a task; None if there is none, or it is never saved."""
    graphs = [g for g in task.node.subgraphs if g.checkpointer is not False]
    if not graphs or thread_id is None:
        return None
    ns = without_ids(task.ns) if graphs[0].checkpointer is True else task.ns
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
