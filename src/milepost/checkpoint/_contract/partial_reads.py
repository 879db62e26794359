"""Reading parts of a checkpoint.

A record of our own savers reads on access, can leave parts out, and may bring its parent with it.
It offers this as `outline`, `has`, `pending_of` and `parent`. A record of another saver is a plain
CheckpointTuple, of which the functions here give everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from milepost.checkpoint._contract.records import Checkpoint, CheckpointTuple, PendingWrite


def outline(saved: CheckpointTuple, channels: Container[str]) -> Checkpoint:
    """A checkpoint with the values of these channels, and perhaps others."""
    part: Callable[[Container[str]], Checkpoint] | None = getattr(saved, "outline", None)
    return saved.checkpoint if part is None else part(channels)


def has_values(saved: CheckpointTuple, channels: Container[str]) -> bool:
    """Whether the values of these channels were fetched with a checkpoint."""
    has: Callable[[Container[str]], bool] | None = getattr(saved, "has", None)
    return has is None or has(channels)


def pending_of(saved: CheckpointTuple, owners: str) -> Sequence[PendingWrite]:
    """The pending writes of tasks whose ids begin with `owners`, and perhaps others."""
    part: Callable[[str], Sequence[PendingWrite]] | None = getattr(saved, "pending_of", None)
    return saved.pending_writes or () if part is None else part(owners)


def fetched_parent(saved: CheckpointTuple) -> CheckpointTuple | None:
    """The parent of a checkpoint, if it was fetched too."""
    parent: CheckpointTuple | None = getattr(saved, "parent", None)
    return parent
