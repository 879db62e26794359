"""Reading threads: `get_state` and `get_state_history`, as generators of effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from milepost._engine.delta_snapshots import rebuild_deltas
from milepost._engine.drivers.effects import (
    EffectGenerator,
    Flush,
    ListCheckpoints,
    LoadCheckpoint,
    NextCheckpoint,
)
from milepost._engine.loading import no_such_checkpoint
from milepost._engine.missing_nodes import missing_nodes
from milepost._engine.reading.snapshot import (
    child_config,
    empty_snapshot,
    snapshot,
    snapshot_later,
    tasks_after,
    with_null_writes,
)
from milepost._internal.dataclass_tools import record
from milepost.checkpoint._contract.records import (
    CheckpointTuple,
    Place,
    fetched_parent,
    has_values,
    place_of,
)
from milepost.errors import BrokenChainError, SerdeError
from milepost.types import RunnableConfig, StateSnapshot

if TYPE_CHECKING:
    from milepost._engine.superstep.program import ExecutableGraph
    from milepost._engine.thread_writer import ThreadWriter
    from milepost.checkpoint.base import BaseCheckpointSaver


@record
class View:
    """Reads the threads of one graph from a saver."""

    program: ExecutableGraph
    saver: BaseCheckpointSaver[Any]
    writing: ThreadWriter | None
    """The thread writer of the calling run, if it uses this saver; flushed before a read."""
    inside: Callable[[str], View | None]
    """The view of the graph inside a node."""
    is_guess: bool = False
    """Whether the checkpoints may be of another graph with the same nodes and keys."""


def read_state(
    view: View, config: RunnableConfig, place: Place, *, subgraphs: bool, goes_on: bool = True
) -> EffectGenerator[StateSnapshot]:
    """The state at one checkpoint, or at the latest.

    `place` is where `config` points. `goes_on`: a run may continue from the latest checkpoint, so a
    missing node is an error.
    """
    if view.writing is not None:
        yield Flush(view.writing, last=False)
    saved: CheckpointTuple | None = yield LoadCheckpoint(view.saver, place.config())
    saved = view.program.renames.apply(saved)
    if saved is None:
        if place.checkpoint_id is not None:
            # The checkpoint may have been removed: an empty state would be wrong.
            raise no_such_checkpoint(place)
        return empty_snapshot(config)
    latest = place.checkpoint_id is None
    showing = _show(view, saved, None, latest, subgraphs, goes_on=latest and goes_on)
    return (yield from showing)


def read_history(
    view: View,
    config: RunnableConfig,
    *,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
    emit: Callable[[StateSnapshot], None],
) -> EffectGenerator[None]:
    """The states of a thread, newest first; `emit` takes each as it is read."""
    place = place_of(config)
    if view.writing is not None:
        yield Flush(view.writing, last=False)
    # One more: the next in the list is mostly the parent, whose tasks made this checkpoint.
    more = None if limit is None else limit + 1
    cursor = yield from ListCheckpoints(view.saver, place.config(), filter, before, more)
    renamed = view.program.renames.apply
    upcoming = NextCheckpoint(cursor)
    saved = renamed((yield upcoming))
    given = 0
    while saved is not None and given != limit:
        following = renamed((yield upcoming))
        if view.program.delta or _had_delta_channels(saved):
            showing = _show(view, saved, following, latest=False, subgraphs=False, goes_on=False)
            emit((yield from showing))
        else:
            parent = yield from _parent(view, saved, following)
            emit(snapshot_later(view.program, saved, parent))
        given += 1
        saved = following


def _had_delta_channels(saved: CheckpointTuple) -> bool:
    """Whether values of keys that once were delta channels may have to be rebuilt."""
    try:
        return "counters_since_delta_snapshot" in saved.metadata
    except SerdeError:
        return False  # reading the metadata of this snapshot raises the error


def _show(
    view: View,
    saved: CheckpointTuple,
    following: CheckpointTuple | None,
    latest: bool,
    subgraphs: bool,
    goes_on: bool,
) -> EffectGenerator[StateSnapshot]:
    program = view.program
    channels = program.open_channels(saved.checkpoint)
    yield from rebuild_deltas(view.saver, program, channels, saved)
    with_null_writes(channels, saved, channels.specs)
    place = place_of(saved.config)
    tasks = tasks_after(program, channels, saved, saved.checkpoint["id"], place.checkpoint_ns)
    if goes_on and (missing := missing_nodes(program, channels, saved)):
        raise missing.error(place.thread_id, program.name)
    states: dict[str, RunnableConfig | StateSnapshot] = {}
    for task in tasks:
        where = child_config(place.thread_id, task)
        if where is None:
            continue
        if not subgraphs:
            states[task.id] = where
        elif (inner := view.inside(task.name)) is not None:
            # What a function calls may be another graph than `inner`, whose nodes are not missing.
            goes_on_inside = not task.finished and task.node.graph is not None
            states[task.id] = yield from read_state(
                inner, where, place_of(where), subgraphs=True, goes_on=goes_on_inside
            )
    parent = yield from _parent(view, saved, following)
    return snapshot(program, channels, saved, place, tasks, parent, latest=latest, states=states)


def _parent(
    view: View, saved: CheckpointTuple, candidate: CheckpointTuple | None
) -> EffectGenerator[CheckpointTuple | None]:
    """The parent checkpoint, if its tasks or writes made this one."""
    try:
        before = saved.parent_config
        if before is None:
            return None
        if candidate is not None and candidate.config != before:
            candidate = candidate if place_of(candidate.config) == place_of(before) else None
        # Our own savers fetch the parent too, without the parts that are rarely read.
        for parent in (candidate, fetched_parent(saved)):
            if parent is not None and has_values(parent, view.program.planning_channels):
                return parent
        if saved.metadata.get("source") not in ("loop", "update"):
            return None
    except (BrokenChainError, SerdeError):
        return None  # reading this snapshot raises the error
    # A listing reads checkpoints on access: a damaged parent does not hide this checkpoint.
    cursor = yield from ListCheckpoints(view.saver, before, limit=1)
    return view.program.renames.apply((yield from NextCheckpoint(cursor)))
