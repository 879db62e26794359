"""Sends in checkpoints of older formats.

Before format 4, the Sends that start a step's tasks were among the writes of the parent checkpoint.
Since format 4 they are a channel of the checkpoint. LangGraph's savers return older checkpoints in
the newer form, and so do ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint._contract.versions import counter_text
from milepost.constants import TASKS

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import Checkpoint, PendingWrite

SENDS_ARE_A_CHANNEL: Final = 4
"""The first format in which a checkpoint has its Sends as a channel."""
FIRST: Final = f"{counter_text(1)}.0"
"""The version of the Sends in a checkpoint without any other channel."""


def with_sends(checkpoint: Checkpoint, parent_writes: Sequence[PendingWrite]) -> Checkpoint:
    """A checkpoint from before format 4, with the Sends from its parent's writes as a channel."""
    sends = [value for _, channel, value in parent_writes if channel == TASKS]
    versions: dict[str, Any] = checkpoint["channel_versions"]
    if not sends or TASKS in versions:
        return checkpoint
    return {
        **checkpoint,
        "channel_values": {**checkpoint["channel_values"], TASKS: sends},
        "channel_versions": {**versions, TASKS: max(versions.values(), default=FIRST)},
    }
