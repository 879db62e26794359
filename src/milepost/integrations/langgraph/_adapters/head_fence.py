"""Fences for a runtime that has none: a put is stored only where its parent is still the head.

LangGraph says neither for which run it stores a checkpoint nor whether the run began in the past on
purpose. Both can be told from the order of its calls: a run reads the checkpoint that it begins
from, by id only if its caller has named one, and stores from the same context afterwards.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint._contract.records import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    place_of,
)
from milepost.checkpoint._contract.step_saver import Fence, NewCheckpoint, StepCommit, StepSaver
from milepost.checkpoint._contract.threads import status_left
from milepost.types import MISSING, RunnableConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NONE: Final = ("", "")
_named: ContextVar[tuple[str, str]] = ContextVar("milepost_named_checkpoint", default=_NONE)
"""The thread and the id of the checkpoint that was last read by its id in this context."""


def note_read(config: RunnableConfig, found: CheckpointTuple | None) -> None:
    """Note that a checkpoint was read: the reading run may begin there."""
    thread_id, ns, named = place_of(config)
    if ns:
        return
    if named is not None:
        _named.set((thread_id, named))
    elif found is not None and _named.get() == (thread_id, found.checkpoint["id"]):
        # The checkpoint is the latest all the same: a run that builds on it does not mean to fork.
        _named.set(_NONE)


def is_compared(config: RunnableConfig) -> bool:
    """Whether a put is compared with the head. For inner graphs the root graph's next step is."""
    return not place_of(config).checkpoint_ns


def prepared(
    saver: StepSaver[Any],
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: Mapping[str, Any],
) -> Any:
    """The step that `commit` stores if the head is the parent, or the run began in the past."""
    thread_id, ns, parent = place_of(config)
    values = checkpoint["channel_values"]
    kept: Checkpoint = {
        **checkpoint,
        "channel_versions": {**checkpoint["channel_versions"], **new_versions},
    }
    changed = {channel: values.get(channel, MISSING) for channel in new_versions}
    is_fork = _named.get() == (thread_id, parent)
    return saver.prepare(
        StepCommit(
            thread_id,
            ns,
            parent,
            (),
            NewCheckpoint.of(kept, metadata, changed, values.copy),
            Fence(parent, forced=is_fork, is_of_other_runtime=True),
            status_left(changed),
        )
    )


def stored(config: RunnableConfig, id: str, outcome: Sequence[Exception | None]) -> Any:
    """The config of a checkpoint that was stored; raises ThreadConflict if it was not."""
    for error in outcome:
        if error is not None:
            raise error
    return place_of(config)._replace(checkpoint_id=id).config()
