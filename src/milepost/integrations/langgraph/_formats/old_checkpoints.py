"""Checkpoints of earlier LangGraph versions in today's layout.

Before version 4 the tasks that a `Send` asked for were kept among the parent's writes. Before
version 3 every kind of edge had channels of its own: `start:b`, `branch:a:condition:b`, and for a
plain edge from a to b just `a`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from milepost.checkpoint._contract.records import (
    FORMAT_VERSION,
    SENDS_ARE_A_CHANNEL,
    Checkpoint,
    PendingWrite,
    is_older,
    with_sends,
)
from milepost.checkpoint._contract.versions import THEIR_DIGITS, counter_of
from milepost.constants import BRANCH_TO, INTERRUPT, START

_EDGES_HAVE_ONE_NAME: Final = 3


@dataclass
class Edges:
    """The plain edges of a graph, as far as a thread has gone along them.

    A checkpoint knows which channels each of its nodes has seen, and a node sees those that
    trigger it.
    """

    after: dict[str, set[str]] = field(default_factory=dict)
    """Node → the nodes that follow it."""

    def learn(self, checkpoint: Checkpoint) -> None:
        """Note the edges that were taken before a checkpoint."""
        if is_older(checkpoint["v"], _EDGES_HAVE_ONE_NAME):
            nodes = checkpoint["versions_seen"]
            for node, seen in nodes.items():
                for channel in seen if node != INTERRUPT else ():
                    if channel in nodes and channel != START:
                        self.after.setdefault(channel, set()).add(node)

    def unknown(self, checkpoint: Checkpoint) -> list[str]:
        """Nodes that have just run and whose successors no checkpoint has shown."""
        if not is_older(checkpoint["v"], _EDGES_HAVE_ONE_NAME):
            return []
        nodes = checkpoint["versions_seen"].keys() - {START, INTERRUPT}
        return sorted(nodes & checkpoint["channel_values"].keys() - self.after.keys())


def upgraded(
    checkpoint: Checkpoint, edges: Edges, parent_writes: Callable[[], Sequence[PendingWrite]]
) -> Checkpoint:
    """The checkpoint in today's layout, with versions in today's form."""
    if is_older(checkpoint["v"], SENDS_ARE_A_CHANNEL):
        checkpoint = with_sends(checkpoint, parent_writes())
    values = checkpoint["channel_values"]
    versions = _texts(checkpoint["channel_versions"])
    seen = {node: _texts(those) for node, those in checkpoint["versions_seen"].items()}
    if is_older(checkpoint["v"], _EDGES_HAVE_ONE_NAME):
        values = {new: value for name, value in values.items() for new in _today(name, seen, edges)}
        versions = _newest(versions, seen, edges)
        seen = {node: _seen_by(node, _newest(those, seen, edges)) for node, those in seen.items()}
    return {
        "v": FORMAT_VERSION,
        "id": checkpoint["id"],
        "ts": checkpoint["ts"],
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": seen,
        "updated_channels": checkpoint.get("updated_channels"),
    }


def _today(channel: str, nodes: Iterable[str], edges: Edges) -> list[str]:
    """The channels that replace an older one."""
    parts = channel.split(":")
    if len(parts) == 2 and parts[0] == "start":
        return [f"{BRANCH_TO}{parts[1]}"]
    if len(parts) == 4 and parts[0] == "branch":
        return [f"{BRANCH_TO}{parts[3]}"]
    if channel in nodes and channel != START:
        return [f"{BRANCH_TO}{node}" for node in sorted(edges.after.get(channel, ()))]
    return [channel]


def _newest(versions: dict[str, str], nodes: Iterable[str], edges: Edges) -> dict[str, str]:
    """Versions under today's names; where two become one, the newer."""
    result: dict[str, str] = {}
    for name, version in versions.items():
        for new in _today(name, nodes, edges):
            result[new] = max(result.get(new, version), version)
    return result


def _seen_by(node: str, seen: dict[str, str]) -> dict[str, str]:
    """What a node has seen, without the edges to others."""
    return {
        name: version
        for name, version in seen.items()
        if node == INTERRUPT or not name.startswith(BRANCH_TO) or name == f"{BRANCH_TO}{node}"
    }


def _texts(versions: dict[str, Any]) -> dict[str, str]:
    """Versions in the form that sorts rightly in both libraries."""
    return {name: _text(version) for name, version in versions.items()}


def _text(version: Any) -> str:
    """Some savers count in plain numbers, and ours with fewer digits than LangGraph's."""
    counter = counter_of(version)
    if counter is None:
        return str(version)  # what we keep among the versions and is none
    return f"{counter:0{THEIR_DIGITS}}.{str(version).partition('.')[2] or '0'}"
