"""Sends in checkpoints of older formats.

Before format 4 the tasks that a `Send` asked for were among the writes of the parent. Since then
they are a channel of the checkpoint. LangGraph's savers show the older ones as if they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint._contract.versions import counter_text
from milepost.constants import TASKS

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import Checkpoint, PendingWrite

SENDS_ARE_A_CHANNEL: Final = 4
"""The format since which a checkpoint has the Sends that follow it."""
FIRST: Final = f"{counter_text(1)}.0"
"""The version of the Sends of a checkpoint that has no other channel."""


def with_sends(checkpoint: Checkpoint, parent_writes: Sequence[PendingWrite]) -> Checkpoint:
    """A checkpoint from before format 4 with the Sends that are among its parent's writes."""
    sends = [value for _, channel, value in parent_writes if channel == TASKS]
    versions: dict[str, Any] = checkpoint["channel_versions"]
    if not sends or TASKS in versions:
        return checkpoint
    return {
        **checkpoint,
        "channel_values": {**checkpoint["channel_values"], TASKS: sends},
        "channel_versions": {**versions, TASKS: max(versions.values(), default=FIRST)},
    }
