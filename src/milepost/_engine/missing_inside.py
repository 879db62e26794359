"""Graphs inside the waiting tasks of a thread that wait for a node which they no longer have.

A run looks for them before it stores anything. If the inner graph itself found out, the answer to
its question would be stored by then, and tasks beside it would have run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost._engine.drivers.effects import EffectGenerator
from milepost._engine.drivers.saver_effects import LoadCheckpoint
from milepost._engine.missing_nodes import missing_nodes
from milepost._engine.position import without_ids
from milepost._engine.reading.snapshot import tasks_after, with_null_writes
from milepost._internal.dataclass_tools import record
from milepost.checkpoint._contract.records import CheckpointTuple, Place
from milepost.constants import NS_SEP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost._engine.superstep.plan import Task
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.errors import MissingNodeError

    Saver = BaseCheckpointSaver[Any]


@record
class Around:
    """The checkpoint around inner graphs, and where these continue."""

    saver: Saver
    place: Place
    starts: Mapping[str, str]
    """Namespace → checkpoint id, if inner graphs start from older checkpoints; other inner graphs
    start over then."""

    def place_inside(self, ns: str) -> Place | None:
        """Where the graph in a namespace continues; None if it starts over."""
        if self.starts and ns not in self.starts:
            return None
        return Place(self.place.thread_id, ns, self.starts.get(ns))

    def led_to(self, saved: CheckpointTuple) -> bool:
        """Whether a checkpoint of an inner graph was made in the step after this checkpoint."""
        made_after = saved.metadata.get("parents", {}).get(self.place.checkpoint_ns)
        return bool(self.starts) or made_after == self.place.checkpoint_id


def missing_inside(
    tasks: Sequence[Task], around: Around
) -> EffectGenerator[MissingNodeError | None]:
    """The error for a graph inside a waiting task, at any depth, that cannot go on."""
    for task in tasks:
        graphs = [graph for graph in task.node.subgraphs if graph.checkpointer is not False]
        if task.finished or not graphs:
            continue
        calls = 0
        while True:
            ns = f"{task.ns}{NS_SEP}{calls}" if calls else task.ns
            was_called, error = yield from _missing_in_call(graphs, ns, around)
            if error is not None:
                return error
            if not was_called or graphs[0] is task.node.bound:
                break
            calls += 1
    return None


def _missing_in_call(
    graphs: Sequence[Any], ns: str, around: Around
) -> EffectGenerator[tuple[bool, MissingNodeError | None]]:
    """Whether one of these graphs has run in a namespace, and the error if none could go on there.

    A function may refer to several graphs, of which it has called one.
    """
    first: MissingNodeError | None = None
    was_called = False
    for graph in graphs:
        own = graph.checkpointer
        saver = around.saver if own is None or own is True else own
        place = around.place_inside(without_ids(ns) if own is True else ns)
        if place is None:
            continue
        saved = graph.program.renames.apply((yield from LoadCheckpoint(saver, place.config())))
        if saved is None or not around.led_to(saved):
            continue
        was_called = True
        error = yield from _missing_in_graph(graph, saver, saved, place, around.starts)
        if error is None:
            return True, None
        first = first or error
    return was_called, first


def _missing_in_graph(
    graph: Any, saver: Saver, saved: CheckpointTuple, place: Place, starts: Mapping[str, str]
) -> EffectGenerator[MissingNodeError | None]:
    program, id = graph.program, saved.checkpoint["id"]
    channels = program.open_channels(saved.checkpoint)
    with_null_writes(channels, saved, program.planning_channels)
    tasks = tasks_after(program, channels, saved, id, place.checkpoint_ns)
    if missing := missing_nodes(program, channels, saved):
        return missing.error(place.thread_id, program.name)
    here = Around(saver, place._replace(checkpoint_id=id), starts)
    return (yield from missing_inside(tasks, here))
