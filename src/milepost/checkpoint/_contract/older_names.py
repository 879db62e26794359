"""Functions that savers written for LangGraph import: its older helpers, on our records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from milepost._internal.ids import checkpoint_id
from milepost.checkpoint._contract.records import (
    PLACE_KEYS,
    Checkpoint,
    CheckpointMetadata,
    now,
)
from milepost.errors import EmptyChannelError
from milepost.types import MISSING, RunnableConfig

LATEST_VERSION: Final = 2
"""The checkpoint format of LangGraph's constant and of `create_checkpoint`. In this format, Sends
are among the writes of the parent. Runs write a newer format."""
EXCLUDED_METADATA_KEYS: Final = set(PLACE_KEYS)
"""Keys of a config that locate a checkpoint. They are not stored in its metadata."""


class _Saved(Protocol):
    def checkpoint(self) -> Any: ...


def get_checkpoint_metadata(
    config: RunnableConfig, metadata: CheckpointMetadata
) -> CheckpointMetadata:
    """`metadata`, with the texts and numbers of the config that it does not have itself.

    NUL is taken out of texts: databases refuse it.

    Args:
        config: The config of the run.
        metadata: What the run says of the checkpoint.

    Examples:
        >>> from milepost.checkpoint.base import get_checkpoint_metadata
        >>> get_checkpoint_metadata({"metadata": {"user": "ada"}}, {"step": 1})
        {'step': 1, 'user': 'ada'}
    """
    found: dict[str, Any] = {key: _without_nul(value) for key, value in metadata.items()}
    for given in (config.get("metadata"), config.get("configurable")):
        for key, value in (given or {}).items():
            if key in EXCLUDED_METADATA_KEYS or key.startswith("__"):
                continue
            if isinstance(value, (str, int, float)):
                found.setdefault(key, _without_nul(value))
    return found  # type: ignore[return-value]


def with_metadata_of(config: RunnableConfig, metadata: CheckpointMetadata) -> CheckpointMetadata:
    """`metadata` for `put`, with the texts and numbers of `config["metadata"]`."""
    if not config.get("metadata"):
        return metadata
    return get_checkpoint_metadata({"metadata": config["metadata"]}, metadata)


def get_serializable_checkpoint_metadata(
    config: RunnableConfig, metadata: CheckpointMetadata
) -> CheckpointMetadata:
    """`get_checkpoint_metadata` without `writes`, which are stored by themselves.

    Args:
        config: The config of the run.
        metadata: What the run says of the checkpoint.

    Examples:
        >>> from milepost.checkpoint.base import get_serializable_checkpoint_metadata
        >>> get_serializable_checkpoint_metadata({}, {"step": 1, "writes": {"work": None}})
        {'step': 1}
    """
    found = get_checkpoint_metadata(config, metadata)
    found.pop("writes", None)
    return found


def _without_nul(value: Any) -> Any:
    return value.replace("\0", "") if isinstance(value, str) else value


def create_checkpoint(
    checkpoint: Checkpoint,
    channels: Mapping[str, _Saved] | None,
    step: int,  # noqa: ARG001 - ids are in order without it
    *,
    id: str | None = None,
) -> Checkpoint:
    """A new checkpoint after `checkpoint`, with what its channels hold now.

    Args:
        checkpoint: The one before.
        channels: The channels; `None` takes over the values of the one before.
        step: Not used: ids are in order without it.
        id: The id of the new one; made by default.

    Examples:
        >>> from milepost.checkpoint.base import create_checkpoint, empty_checkpoint
        >>> before = empty_checkpoint()
        >>> after = create_checkpoint(before, None, 1)
        >>> after["id"] > before["id"]
        True
    """
    values = checkpoint["channel_values"]
    if channels is not None:
        values = {}
        for name, channel in channels.items():
            if name in checkpoint["channel_versions"]:
                try:
                    value = channel.checkpoint()
                except EmptyChannelError:
                    continue
                if value is not MISSING:
                    values[name] = value
    return Checkpoint(
        v=LATEST_VERSION,
        id=id or checkpoint_id(checkpoint["id"]),
        ts=now(),
        channel_values=values,
        channel_versions=checkpoint["channel_versions"],
        versions_seen=checkpoint["versions_seen"],
        updated_channels=None,
    )


def writes_sort_key(task_path: str, task_id: str = "", idx: int = 0) -> tuple[str, str, int]:
    """The order in which the writes of a step are applied, and read back.

    Args:
        task_path: How the step came to the task.
        task_id: The task.
        idx: The place of the write among those of the task.

    Examples:
        >>> from milepost.checkpoint.base import writes_sort_key
        >>> writes_sort_key("~1", "task", 0)
        ('~1', 'task', 0)
    """
    return task_path, task_id, idx
