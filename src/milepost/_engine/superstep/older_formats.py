"""Converts checkpoints that an older LangGraph made, and a program put into a saver, to today's
format.

Before format 3 every kind of edge had channels of its own: `start:b`, `branch:a:condition:b`, and
for a plain edge from a to b just `a`. For Sends see `checkpoint._contract.records`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from milepost.constants import BRANCH_TO, INTERRUPT, START

if TYPE_CHECKING:
    from milepost._engine.superstep.program import ExecutableGraph
    from milepost.checkpoint._contract.records import Checkpoint

EDGES_HAVE_ONE_NAME: Final = 3
"""The first format in which all edges to a node share one channel."""


def with_edges_of_today(program: ExecutableGraph, checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint from before format 3 with the channels that the program's edges have."""
    values: dict[str, Any] = {}
    for name, value in checkpoint["channel_values"].items():
        values.update(dict.fromkeys(_today(program, name), value))
    return {
        **checkpoint,
        "channel_values": values,
        "channel_versions": _newest(program, checkpoint["channel_versions"]),
        "versions_seen": {
            node: _seen_by(node, _newest(program, seen))
            for node, seen in checkpoint["versions_seen"].items()
        },
    }


def _today(program: ExecutableGraph, channel: str) -> Iterator[str]:
    """Today's channels for a channel of an older format."""
    kind, *rest = channel.split(":")
    if kind == "start" and len(rest) == 1 and rest[0] in program.nodes:
        yield f"{BRANCH_TO}{rest[0]}"
    elif kind == "branch" and len(rest) == 3 and rest[2] in program.nodes:
        yield f"{BRANCH_TO}{rest[2]}"
    elif channel in program.nodes and channel != START and channel not in program.channels:
        yield from (name for name, _ in program.nodes[channel].edges if name.startswith(BRANCH_TO))
    else:
        yield channel


def _newest(program: ExecutableGraph, versions: dict[str, Any]) -> dict[str, Any]:
    """Versions under today's names; where two have become one, the newer."""
    found: dict[str, Any] = {}
    for name, version in versions.items():
        for today in _today(program, name):
            found[today] = max(found.get(today, version), version)
    return found


def _seen_by(node: str, seen: dict[str, Any]) -> dict[str, Any]:
    """What a node has seen, without the edges to others."""
    own = f"{BRANCH_TO}{node}"
    return {
        name: version
        for name, version in seen.items()
        if node == INTERRUPT or not name.startswith(BRANCH_TO) or name == own
    }
