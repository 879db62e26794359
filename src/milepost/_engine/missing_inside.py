"""Graphs inside the waiting tasks of a thread that wait for a node which they no longer have.

A run looks for them before it stores anything. When an inner graph itself finds out, the answer to
its question is stored by then, and tasks beside it have run.
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
    """The error for a graph that is a waiting node, at any depth, and cannot go on.

    A graph that a function calls is not looked at. The function may call any graph, so nothing
    tells which of them has made a checkpoint; the graph finds out by itself when it is called.
    """
    for task in tasks:
        graph = task.node.graph
        if task.finished or graph is None or graph.checkpointer is False:
            continue
        own = graph.checkpointer
        saver = around.saver if own is None or own is True else own
        place = around.place_inside(without_ids(task.ns) if own is True else task.ns)
        if place is None:
            continue
        saved = graph.program.renames.apply((yield from LoadCheckpoint(saver, place.config())))
        if saved is None or not around.led_to(saved):
            continue
        error = yield from _missing_in_graph(graph, saver, saved, place, around.starts)
        if error is not None:
            return error
    return None


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
