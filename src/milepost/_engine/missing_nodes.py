"""Nodes that a thread waits for and that the graph no longer has: renamed or removed ones.

Without this check a run would skip such a node and end as if the thread had come to its end. An
open interrupt of the node would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from milepost._engine.superstep.plan import is_waiting
from milepost._engine.superstep.renames import node_behind, nodes_of_join, passes_for_one_step
from milepost.constants import BRANCH_TO, JOIN, TASKS
from milepost.types import Send

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.program import ExecutableGraph
    from milepost.checkpoint._contract.records import Checkpoint, CheckpointTuple


def missing_nodes(
    program: ExecutableGraph, channels: ChannelState, saved: CheckpointTuple
) -> dict[str, list[str]]:
    """Node → channels that trigger it, for missing nodes that a thread waits for."""
    checkpoint = saved.checkpoint
    found: dict[str, list[str]] = {}
    for node, channel in _in_values(program, channels, checkpoint):
        found.setdefault(node, []).append(channel)
    for owner, channel, value in saved.pending_writes or ():
        if ":" in owner:
            continue  # writes of an update, which are part of the checkpoint that it made
        for node in _named(channel, value):
            if not _is_known(program, node):
                found.setdefault(node, [])
    return found


def _in_values(
    program: ExecutableGraph, channels: ChannelState, checkpoint: Checkpoint
) -> Iterator[tuple[str, str]]:
    values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
    seen: Mapping[str, Mapping[str, Any]] = checkpoint["versions_seen"]
    for send in values.get(TASKS) or ():
        if not _is_known(program, send.node):
            yield send.node, TASKS
    for name in values:
        if name in program.channels or not name.startswith((BRANCH_TO, JOIN)):
            continue
        value, end = values[name], node_behind(name)
        unknown, is_complete = [end], True
        if name.startswith(JOIN):
            arrived = value[0] if isinstance(value, tuple) else value
            sources, _ = nodes_of_join(name)
            unknown = [node for node in (end, *sources) if not _is_known(program, node)]
            if not arrived or not unknown:
                continue
            is_complete = arrived == set(sources)
        version, before = versions.get(name), seen.get(end, {}).get(name)
        if version is None or (before is not None and not version > before):
            continue
        # A channel that keeps its value for longer than a step may still have one in a thread
        # that has come to its end.
        is_new = is_complete and version == max(versions.values())
        if is_new or (not passes_for_one_step(name, value) and is_waiting(program, channels)):
            yield unknown[0], name


def _named(channel: str, value: Any) -> list[str]:
    """The nodes that a write of a task leads to."""
    if channel == TASKS:
        return [value.node] if isinstance(value, Send) else []
    return [node_behind(channel)] if channel.startswith((BRANCH_TO, JOIN)) else []


def _is_known(program: ExecutableGraph, node: str) -> bool:
    return program.renames.node(node) in program.nodes
