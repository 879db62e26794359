"""Checkpoints of earlier LangGraph versions in today's layout.

Before version 4 the tasks that a `Send` asked for were kept among the parent's writes; before
version 3 every kind of edge had channels of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.records import FORMAT_VERSION
from milepost.constants import TASKS

if TYPE_CHECKING:
    from milepost.checkpoint.records import Checkpoint, PendingWrite


def upgraded(
    checkpoint: Checkpoint, parent_writes: Callable[[], Sequence[PendingWrite]]
) -> Checkpoint:
    """The checkpoint in today's layout; itself if it has that already."""
    version = checkpoint["v"]
    if version >= FORMAT_VERSION:
        return checkpoint
    older: dict[str, Any] = {**checkpoint}
    values = {_edge(name): value for name, value in checkpoint["channel_values"].items()}
    versions = _newest(checkpoint["channel_versions"])
    sends = older.pop("pending_sends", None)
    if not sends and TASKS not in values:
        sends = [value for _, channel, value in parent_writes() if channel == TASKS]
    if sends:
        values[TASKS] = list(sends)
        versions[TASKS] = max(versions.values(), default=1)
    return {
        "v": FORMAT_VERSION,
        "id": older["id"],
        "ts": older["ts"],
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {node: _newest(seen) for node, seen in older["versions_seen"].items()},
        "updated_channels": older.get("updated_channels"),
    }


def _newest(versions: dict[str, Any]) -> dict[str, Any]:
    """Versions under today's names; where two become one, the newer."""
    result: dict[str, Any] = {}
    for name, version in versions.items():
        new = _edge(name)
        result[new] = max(result[new], version) if new in result else version
    return result


def _edge(channel: str) -> str:
    """`start:b` and `branch:a:condition:b` are both `branch:to:b` now."""
    parts = channel.split(":")
    if len(parts) == 2 and parts[0] == "start":
        return f"branch:to:{parts[1]}"
    if len(parts) == 4 and parts[0] == "branch":
        return f"branch:to:{parts[3]}"
    return channel
