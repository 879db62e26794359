"""Nodes that a thread waits for and that the graph no longer has: renamed or removed ones.

Without this check a run would skip such a node and end as if the thread had come to its end. An
open interrupt of the node would be lost. So would one of two nodes that both wait, if both are
called the same now.

The check is made on the names that the checkpoint is stored with. A run also looks into the graphs
inside its waiting tasks, before it stores anything. When an inner graph itself finds out, the
answer to its question is stored by then, and tasks beside it have run.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from milepost._engine.drivers.effects import EffectGenerator, LoadCheckpoint
from milepost._engine.position import without_ids
from milepost._engine.reading.snapshot import tasks_after, with_null_writes
from milepost._engine.superstep.plan import due
from milepost._engine.superstep.renames import (
    as_renamed,
    node_behind,
    nodes_of_join,
    passes_for_one_step,
)
from milepost._internal.dataclass_tools import record
from milepost.checkpoint._contract.records import CheckpointTuple, Place
from milepost.constants import BRANCH_TO, JOIN, TASKS
from milepost.errors import MissingNodeError
from milepost.types import Send

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.plan import Task
    from milepost._engine.superstep.program import ExecutableGraph
    from milepost.checkpoint._contract.records import Checkpoint
    from milepost.checkpoint.base import BaseCheckpointSaver

    Saver = BaseCheckpointSaver[Any]


@record
class MissingNodes:
    """Nodes that a thread waits for and cannot go on at."""

    missing: dict[str, list[str]] = field(default_factory=dict)
    """Node → channels that trigger it, for nodes that the graph does not have."""
    merged: dict[str, list[str]] = field(default_factory=dict)
    """Node → its names in the checkpoint, if it has several that all wait."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.merged)

    def error(self, thread: str, graph: str) -> MissingNodeError:
        """The error that names the nodes."""
        if self.missing:
            return MissingNodeError.of(sorted(self.missing), thread, graph)
        node, names = next(iter(self.merged.items()))
        return MissingNodeError.of_merged(sorted(names), node, thread, graph)


NONE_MISSING = MissingNodes()


def missing_nodes(
    program: ExecutableGraph, channels: ChannelState, saved: CheckpointTuple
) -> MissingNodes:
    """The nodes that a loaded checkpoint waits for and cannot go on at."""
    renamed = as_renamed(saved)
    stored = saved if renamed is None else renamed.stored
    check = _Check(program, channels, stored.checkpoint)
    missing: dict[str, list[str]] = {}
    for node, channel in check.missing_in_values():
        missing.setdefault(node, []).append(channel)
    for owner, channel, value in stored.pending_writes or ():
        if ":" in owner:
            continue  # writes of an update, which are part of the checkpoint that it made
        for node in check.missing_behind(channel, value):
            missing.setdefault(node, [])
    merged = check.merged() if program.renames.nodes else {}
    return MissingNodes(missing, merged) if missing or merged else NONE_MISSING


class _Check:
    """Compares what a stored checkpoint waits for with what a graph has."""

    def __init__(
        self, program: ExecutableGraph, channels: ChannelState, checkpoint: Checkpoint
    ) -> None:
        self._program = program
        self._channels = channels
        self._values = checkpoint["channel_values"]
        self._versions = checkpoint["channel_versions"]
        self._seen: Mapping[str, Mapping[str, Any]] = checkpoint["versions_seen"]

    def missing_in_values(self) -> Iterator[tuple[str, str]]:
        """Missing nodes, with a channel that triggers each."""
        for send in self._values.get(TASKS) or ():
            if not self._is_known(send.node):
                yield send.node, TASKS
        for name, value in self._values.items():
            unknown = self._unknown_nodes(name)
            if not unknown or not self._is_unseen(name):
                continue
            if self._is_ready(name) or (
                # A channel that keeps its value for longer than a step may still have one in a
                # thread that has come to its end.
                not passes_for_one_step(name, value)
                and (name.startswith(BRANCH_TO) or _arrived(value))
                and any(due(self._program, self._channels, self._channels.changed))
            ):
                yield unknown[0], name

    def missing_behind(self, channel: str, value: Any) -> list[str]:
        """The missing nodes that a write of a task leads to."""
        if channel == TASKS:
            sent = isinstance(value, Send) and not self._is_known(value.node)
            return [value.node] if sent else []
        return self._unknown_nodes(channel)

    def merged(self) -> dict[str, list[str]]:
        """Node → names, for nodes that wait under several names."""
        names: dict[str, set[str]] = {}
        for channel in self._values:
            if channel.startswith((BRANCH_TO, JOIN)):
                name = node_behind(channel)
                present = self._program.renames.node(name)
                if self._is_unseen(channel) and self._is_ready(channel):
                    names.setdefault(present, set()).add(name)
        return {node: sorted(found) for node, found in names.items() if len(found) > 1}

    def _unknown_nodes(self, channel: str) -> list[str]:
        """The missing nodes of an edge or a join that the graph does not have."""
        if channel in self._program.channels or not channel.startswith((BRANCH_TO, JOIN)):
            return []
        renames = self._program.renames
        if renames.channel(channel) in self._program.channels:
            return []
        nodes = [node_behind(channel)]
        if channel.startswith(JOIN):
            nodes += nodes_of_join(channel, renames.names_with_plus)[0]
        return [node for node in nodes if not self._is_known(node)]

    def _is_unseen(self, channel: str) -> bool:
        """Whether the node behind an edge or a join has not run since the channel changed."""
        version = self._versions.get(channel)
        before = self._seen.get(node_behind(channel), {}).get(channel)
        return version is not None and (before is None or version > before)

    def _is_ready(self, channel: str) -> bool:
        """Whether an edge or a join starts its node in the next step."""
        value = self._values[channel]
        if self._versions[channel] != max(self._versions.values()):
            return False
        if isinstance(value, tuple) and not value[1]:
            return False  # the node is deferred, and others still run
        if channel.startswith(BRANCH_TO):
            return True
        sources, _ = nodes_of_join(channel, self._program.renames.names_with_plus)
        return bool(_arrived(value) == set(sources))

    def _is_known(self, node: str) -> bool:
        return self._program.renames.node(node) in self._program.nodes


def _arrived(join: Any) -> Any:
    """The nodes that a join has waited for so far."""
    return join[0] if isinstance(join, tuple) else join


# -- graphs inside the waiting tasks


def missing_inside(
    tasks: Sequence[Task], saver: Saver, around: Place, starts: Mapping[str, str]
) -> EffectGenerator[MissingNodeError | None]:
    """The error for a graph that is a waiting node, at any depth, and cannot go on.

    `around` is the checkpoint that the tasks follow. `starts` is namespace → checkpoint id, if
    inner graphs start from older checkpoints; other inner graphs start over then.

    A graph that a function calls is not looked at. The function may call any graph, so nothing
    tells which of them has made a checkpoint; the graph finds out by itself when it is called.
    """
    for task in tasks:
        graph = task.node.graph
        if task.finished or graph is None or graph.checkpointer is False:
            continue
        ns = without_ids(task.ns) if graph.checkpointer is True else task.ns
        if starts and ns not in starts:
            continue  # it starts over
        place = Place(around.thread_id, ns, starts.get(ns))
        found = yield from LoadCheckpoint(saver, place.config())
        saved = graph.program.renames.apply(found)
        if saved is None:
            continue
        made_after = saved.metadata.get("parents", {}).get(around.checkpoint_ns)
        if not starts and made_after != around.checkpoint_id:
            continue  # it was not made in the step that the tasks are of
        error = yield from _missing_in_graph(graph, saver, saved, place, starts)
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
    return (yield from missing_inside(tasks, saver, place._replace(checkpoint_id=id), starts))
