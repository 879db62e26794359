"""Changing a thread from outside: `update_state` and `bulk_update_state`.

An update is a step in which no node runs: its values are taken as if a node had returned them,
through the reducers, and the node's edges decide what comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from milepost._engine.context.node_callable import Callee, same
from milepost._engine.drivers.effects import AWAIT, EffectGenerator, LoadCheckpoint, Start
from milepost._engine.loading import load_checkpoint, thread_metadata_in
from milepost._engine.observers import TRACE, trace_of
from milepost._engine.position import start_lineage
from milepost._engine.run import GraphRun
from milepost._engine.start import (
    drop_waiting,
    open_channels,
    refuse_missing_nodes,
    take_input,
    unite_waiting_edges,
    waiting_tasks,
)
from milepost._engine.superstep.apply import apply_writes
from milepost._engine.superstep.plan import Base, Task, due, in_path_order
from milepost._engine.superstep.program import Node
from milepost._engine.superstep.task import perform
from milepost.checkpoint._contract.records import CheckpointTuple, Place, place_of
from milepost.checkpoint._contract.step_saver import TaskWrites
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.constants import END, INPUT, START
from milepost.errors import InvalidUpdateError
from milepost.types import RunnableConfig, StateUpdate

if TYPE_CHECKING:
    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.program import ExecutableGraph
    from milepost._engine.thread_writer import ThreadWriter

COPY = "__copy__"
"""A value of `as_node`: copy the checkpoint, with the same parent."""

_UPDATED = "__update__"
"""A key of a node's `versions_seen`: the version that the last update as this node made."""

_OUTCOME = "interrupted"
"""The status after an update that leaves tasks: they wait for a resume of the thread."""


def update_thread(
    run: GraphRun,
    supersteps: Sequence[Sequence[StateUpdate]],
    around: ThreadWriter | None,
    given: RunnableConfig,
) -> EffectGenerator[RunnableConfig]:
    """Make one checkpoint for each superstep; return the config of the last.

    `around` is the thread writer of an enclosing run. On the same thread and saver, the update
    shares its fence. `given` is the config without the metadata of that run, which describes a new
    thread, but gives no other owner to a known one.
    """
    if not supersteps:
        raise ValueError("No supersteps provided: bulk_update_state needs at least one.")
    if not all(supersteps):
        raise ValueError("No updates provided: every superstep needs at least one.")
    saver = run.settings.checkpointer
    assert isinstance(saver, BaseCheckpointSaver)
    thread_id = place_of(run.settings.config).thread_id
    if around is not None and around.saver is saver and around.thread_id == thread_id:
        run.checkpoints.enclosing_writer = around
    try:
        saved, explicit = yield from load_checkpoint(
            saver, run.settings, run.position, run.checkpoints, in_place=True
        )
        if saved is not None and run.checkpoints.enclosing_writer is None:
            assert run.checkpoints.thread is not None
            fence = run.checkpoints.thread.fence
            fence.thread_metadata = thread_metadata_in(saver, thread_id, given)
        # The enclosing checkpoints of an inner graph stay those of its last step.
        run.position.parents = saved.metadata.get("parents", {}) if saved is not None else {}
        yield from open_channels(run, saved)
        if saved is not None and (trace := trace_of(saved)) is not None:
            # The trace of a run that continues from here is linked with the updated run.
            run.checkpoints.given_metadata[TRACE] = str(trace)
        for updates in supersteps:
            yield from _superstep(run, updates, saved, explicit)
            explicit = False
            saved = None
    except GeneratorExit:
        raise  # the generator was dropped: no driver is left to carry out effects
    except BaseException:
        yield from run.close(_OUTCOME, succeeded=False)
        raise
    yield from run.close(_OUTCOME, succeeded=True)
    made = Place(thread_id, run.position.ns, run.position.checkpoint_id)
    return made.config_inside(run.position.parents)


def _superstep(
    run: GraphRun, updates: Sequence[StateUpdate], saved: CheckpointTuple | None, explicit: bool
) -> EffectGenerator[None]:
    run.checkpoints.set_outcome(_OUTCOME)
    if run.program.renames.nodes:
        updates = [_under_present_name(run.program, update) for update in updates]
    first = updates[0]
    if len(updates) > 1:
        if any(update.as_node is None for update in updates):
            raise InvalidUpdateError(
                "Several updates in one superstep must each say which node they come from: "
                "StateUpdate(values, as_node=...)."
            )
        if any(update.as_node in (INPUT, END, COPY) for update in updates):
            raise InvalidUpdateError(
                f"'{first.as_node}' cannot be combined with other updates in one superstep."
            )
    if not run.position.ns:
        # An inner graph keeps the line of history of its call.
        start_lineage(run.position, run.channels, run.resources.config)
    if first.as_node == END:
        yield from _end(run, first)
    elif first.as_node == INPUT:
        if first.values is None:
            raise InvalidUpdateError("An update as the input needs values.")
        yield from take_input(run, first.values)
    else:
        thread = run.checkpoints.thread
        assert thread is not None
        past = explicit and run.position.checkpoint_id != thread.fence.head
        yield from refuse_missing_nodes(run, starts_over=past)
        if first.as_node == COPY:
            yield from _copy(run, saved, first.values)
        else:
            yield from _write(run, updates, explicit)


def _under_present_name(program: ExecutableGraph, update: StateUpdate) -> StateUpdate:
    name = update.as_node
    return update if name is None else update._replace(as_node=program.renames.node(name))


# -- as a node


def _write(run: GraphRun, updates: Sequence[StateUpdate], explicit: bool) -> EffectGenerator[None]:
    program, position, channels, checkpoints = (
        run.program,
        run.position,
        run.channels,
        run.checkpoints,
    )
    if position.stored_id is None:
        position.step = -1
    tasks = []
    for at, update in enumerate(updates):
        name = update.as_node or _last_node(program, channels)
        node = program.nodes.get(name)
        if node is None:
            raise InvalidUpdateError(
                f"Node {name} does not exist in graph '{program.name}'. "
                f"Its nodes are: {', '.join(sorted(set(program.nodes) - {START}))}."
            )
        tasks.append(_as_if_run(node, update.values, at, position.task_base()))
    ended = len((yield Start([(task, perform(run, task)) for task in tasks], None)))
    while ended < len(tasks):
        ended += len((yield AWAIT))
    for task in tasks:
        if isinstance(task.error, BaseException):
            raise task.error

    siblings = [] if explicit else _finished_siblings(run, {task.name for task in tasks})
    writers = [*in_path_order(siblings), *tasks]
    # What came before, such as a Command to the paused thread, is not part of this update.
    checkpoints.deltas.not_in_writes |= channels.dirty
    channels.changed = apply_writes(program, channels, writers, checkpoints.next_version)
    for task in tasks:
        seen = channels.seen.get(task.name, {})
        channels.mark_seen(task.name, {**seen, _UPDATED: channels.top})
    unite_waiting_edges(run)
    position.step += 1
    # Writes of siblings are not marked as part of this update, there may be no parent to store
    # writes at, and a saver of another kind stores checkpoint and writes one after the other.
    assert checkpoints.thread is not None
    parent = position.stored_id
    if siblings or parent is None or checkpoints.thread.native is None:
        checkpoints.deltas.not_in_writes |= channels.dirty
    yield from checkpoints.save_checkpoint("update", (), writers, with_next=parent is not None)
    if parent is not None:
        yield from _store_with_writes(run, parent, tasks)


def _as_if_run(node: Node, values: Any, at: int, base: Base) -> Task:
    """A task that returns the given values."""
    stand_in = replace(
        node,
        callee=Callee(node.name, same, None),
        retry=(),
        error_handler=None,
        timeout=None,
    )
    return Task(stand_in, (INPUT, at), node.triggers, values, base)


def _finished_siblings(run: GraphRun, updated: set[str]) -> list[Task]:
    """Finished tasks of the present step, whose writes are applied together with the update.

    Only if the update replaces an unfinished task, and so ends the step. Any other update starts
    from the edges of its node, and may run the finished tasks again.
    """
    tasks = waiting_tasks(run)
    if all(task.finished or task.name not in updated for task in tasks):
        return []
    return [task for task in tasks if task.finished and task.name not in updated]


def _store_with_writes(run: GraphRun, parent: str, tasks: Sequence[Task]) -> EffectGenerator[None]:
    """Store the prepared checkpoint of an update, and at its parent, as for a step, the writes.

    The id of the new checkpoint marks the writes: without it, they would be taken for writes of the
    parent's tasks.
    """
    position, checkpoints = run.position, run.checkpoints
    new_id = position.checkpoint_id
    writes = [
        TaskWrites(f"{new_id}:{at}:{task.name}", "", task.name, list(task.writes))
        for at, task in enumerate(tasks)
        if task.writes
    ]
    waits = position.ns or any(due(run.program, run.channels, run.channels.changed))
    checkpoints.set_outcome(_OUTCOME if waits else "idle")
    position.stored_id = parent  # the place of the writes
    yield from checkpoints.save_writes(writes)
    position.stored_id = new_id
    yield from checkpoints.store_prepared()  # if there were no writes, only the checkpoint


def _last_node(program: ExecutableGraph, channels: ChannelState) -> str:
    """The node that an update without `as_node` counts as: the last that ran, or the only one."""
    if len(program.nodes) == 1:
        return next(iter(program.nodes))
    # A node that an update triggered has seen the version that the update made: the node counts
    # as later than the update.
    seen = sorted(
        ((version, trigger != _UPDATED), name)
        for name, versions in channels.seen.items()
        if name in program.nodes and versions
        for version, trigger in [max((v, t) for t, v in versions.items())]
    )
    if not seen:
        return START
    if len(seen) > 1 and seen[-1][0] == seen[-2][0]:
        raise InvalidUpdateError(
            "Ambiguous update, specify as_node: the last step ran several nodes ("
            + ", ".join(sorted(name for when, name in seen if when == seen[-1][0]))
            + "), and which of them made the update decides what runs next."
        )
    return seen[-1][1]


# -- as the end


def _end(run: GraphRun, update: StateUpdate) -> EffectGenerator[None]:
    if update.values is not None:
        raise InvalidUpdateError(
            "as_node=END drops the tasks that are waiting; it takes no values."
        )
    writers = drop_waiting(run, run.program.keys)
    run.channels.changed = apply_writes(
        run.program, run.channels, writers, run.checkpoints.next_version
    )
    run.position.step += 1
    run.checkpoints.deltas.not_in_writes |= run.channels.dirty
    yield from run.checkpoints.save_checkpoint("update", (), writers)


# -- copies


def _copy(run: GraphRun, saved: CheckpointTuple | None, values: Any) -> EffectGenerator[None]:
    """Copy the present checkpoint, with the same parent; then write `values` to the copy."""
    updates = _updates_of_copy(run, values)
    if saved is None:
        saved = yield from _last_made(run)
    parent = (saved.parent_config or {}).get("configurable", {})
    run.position.stored_id = parent.get("checkpoint_id")
    unite_waiting_edges(run)
    run.position.step += 1
    run.channels.changed = None
    yield from run.checkpoints.save_checkpoint("fork", copied=saved)
    if updates:
        yield from _superstep(run, updates, None, False)


def _last_made(run: GraphRun) -> EffectGenerator[CheckpointTuple]:
    """The checkpoint that the previous superstep made."""
    thread, position = run.checkpoints.thread, run.position
    assert thread is not None
    found = None
    if id := position.checkpoint_id:
        yield from run.checkpoints.store_prepared()
        place = Place(thread.thread_id, position.ns, id)
        found = yield from LoadCheckpoint(thread.saver, place.config())
        found = run.program.renames.apply(found)
    if found is None:
        raise InvalidUpdateError("There is no checkpoint to copy in this thread.")
    return found


def _updates_of_copy(run: GraphRun, values: Any) -> list[StateUpdate]:
    """The updates to write to a copy."""
    if not values:
        return []
    if not isinstance(values, list) or not all(
        isinstance(item, (list, tuple)) and len(item) >= 2 for item in values
    ):
        run.program.strictness.check(
            "values of a copy",
            lambda: InvalidUpdateError(
                "A copy of a checkpoint has the values of the original. What is to be written to "
                "the copy is a list of (values, as_node); leave the values out if that is nothing."
            ),
            "The values are dropped.",
        )
        return []
    return [StateUpdate(*item[:2]) for item in values]
