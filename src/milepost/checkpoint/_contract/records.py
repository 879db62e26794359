"""The records of a thread: checkpoints, their metadata, and pending writes."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypeAlias, cast

from typing_extensions import TypedDict

from milepost._internal.ids import checkpoint_id
from milepost.checkpoint._contract.versions import counter_text
from milepost.constants import ERROR, INTERRUPT, RESUME, SCHEDULED, TASKS
from milepost.errors import MissingThreadError
from milepost.types import MISSING, RunnableConfig

FORMAT_VERSION: Final = 4
"""The `v` of the checkpoints that we write; the same layout as LangGraph 1.x."""

ChannelVersions: TypeAlias = dict[str, Any]
"""Channel → version. Versions of one channel are ordered; we use text, others use numbers."""

PendingWrite: TypeAlias = tuple[str, str, Any]
"""Task id, channel, value."""

WRITES_IDX_MAP: Final[dict[str, int]] = {ERROR: -1, SCHEDULED: -2, INTERRUPT: -3, RESUME: -4}
"""Fixed positions of a task's special writes.

An ordinary write is stored at its position in the task's output, and is never replaced. A special
write has a negative position, where a later write replaces an earlier one.
"""

PLACE_KEYS: Final = frozenset(
    {
        "thread_id",
        "checkpoint_id",
        "checkpoint_ns",
        "checkpoint_map",
        "langgraph_step",
        "langgraph_node",
        "langgraph_triggers",
        "langgraph_path",
        "langgraph_checkpoint_ns",
    }
)
"""Keys of a config that locate a checkpoint or a task. They are not stored as metadata."""


class Checkpoint(TypedDict):
    """The state of one graph at the end of a super-step.

    Examples:
        >>> from milepost.checkpoint.base import empty_checkpoint
        >>> checkpoint = empty_checkpoint()
        >>> checkpoint["v"], checkpoint["channel_values"]
        (4, {})
    """

    v: int
    """The version of this layout."""
    id: str
    """Sorts as text in order of creation within a thread."""
    ts: str
    """ISO 8601, UTC."""
    channel_values: dict[str, Any]
    """Channel → its value."""
    channel_versions: ChannelVersions
    """Channel → the version of its value."""
    versions_seen: dict[str, ChannelVersions]
    """Node → the versions of its triggers when it last ran."""
    updated_channels: list[str] | None
    """Channels that the step changed; None if that was not recorded."""


class CheckpointMetadata(TypedDict, total=False):
    """What is known about a checkpoint besides its values. Unknown keys are kept.

    Examples:
        >>> from milepost.checkpoint.base import CheckpointMetadata
        >>> metadata: CheckpointMetadata = {"source": "loop", "step": 1, "parents": {}}
    """

    source: Literal["input", "loop", "update", "fork"]
    """What made the checkpoint: an input, a step, `update_state`, or a copy of a checkpoint."""
    step: int
    """-1 for the first input, 0 for the first step after it, and so on."""
    parents: dict[str, str]
    """Namespace → id of the checkpoint of each enclosing graph."""
    writes: NotRequired[dict[str, Any] | None]
    """Node → what it wrote. Derived when a snapshot is read, not stored."""
    run_id: NotRequired[str]
    """The run that made it."""
    counters_since_delta_snapshot: NotRequired[dict[str, tuple[int, int]]]
    """Delta channel → writes and steps since its value was last stored whole."""


class CheckpointTuple(NamedTuple):
    """A checkpoint as a saver returns it.

    Examples:
        >>> from milepost.checkpoint.base import empty_checkpoint
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> saver = InMemorySaver()
        >>> config = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
        >>> _ = saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
        >>> found = saver.get_tuple(config)
        >>> found.metadata["source"], found.parent_config, found.pending_writes
        ('input', None, [])
    """

    config: RunnableConfig
    """Names the checkpoint."""
    checkpoint: Checkpoint
    """The checkpoint."""
    metadata: CheckpointMetadata
    """What is known about it besides its values."""
    parent_config: RunnableConfig | None = None
    """Names the checkpoint before."""
    pending_writes: list[PendingWrite] | None = None
    """Writes of tasks that ran after this checkpoint."""


class DeltaChannelHistory(TypedDict):
    """What a delta channel is rebuilt from.

    Examples:
        >>> from milepost.checkpoint.base import DeltaChannelHistory
        >>> history = DeltaChannelHistory(seed=["a"], writes=[("task", "log", ["b"])])
    """

    writes: list[PendingWrite]
    """Oldest first, back to the seed."""
    seed: NotRequired[Any]
    """The nearest stored whole value; absent if there is none up to the root."""


class Place(NamedTuple):
    """Where a config points: a thread, a graph in it, and perhaps one checkpoint."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None

    def config(self) -> RunnableConfig:
        """The config that points here."""
        configurable = {"thread_id": self.thread_id, "checkpoint_ns": self.checkpoint_ns}
        if self.checkpoint_id is not None:
            configurable["checkpoint_id"] = self.checkpoint_id
        return {"configurable": configurable}

    def config_inside(self, parents: Mapping[str, str]) -> RunnableConfig:
        """The config that points here, through the checkpoints of the enclosing graphs."""
        config = self.config()
        if self.checkpoint_ns:
            around = {**parents, self.checkpoint_ns: self.checkpoint_id}
            config["configurable"]["checkpoint_map"] = around
        return config


def place_of(config: RunnableConfig) -> Place:
    """Where `config` points; raises MissingThreadError if it names no thread."""
    configurable = config.get("configurable") or {}
    thread_id = configurable.get("thread_id")
    if thread_id is None:
        raise MissingThreadError(
            "Checkpointer requires one or more of the following 'configurable' keys: "
            "thread_id, checkpoint_ns, checkpoint_id. Pass one, for example "
            'config={"configurable": {"thread_id": "1"}}.'
        )
    ns = configurable.get("checkpoint_ns") or ""
    # The body of `get_checkpoint_id`, without the call: `get_state` alone comes here eight times.
    id = configurable.get("checkpoint_id") or configurable.get("thread_ts")
    # Numbers and UUIDs are common as thread ids; they are stored as their text.
    return Place(str(thread_id), ns, id)


def get_checkpoint_id(config: RunnableConfig) -> str | None:
    """The checkpoint that `config` names; None means the latest.

    Args:
        config: The config.

    Examples:
        >>> from milepost.checkpoint.base import get_checkpoint_id
        >>> get_checkpoint_id({"configurable": {"thread_id": "1", "checkpoint_id": "a"}})
        'a'
    """
    configurable = config.get("configurable") or {}
    return configurable.get("checkpoint_id") or configurable.get("thread_ts")


def now() -> str:
    """The present time as checkpoints record it: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat()


def empty_checkpoint() -> Checkpoint:
    """The state of a thread before its first input.

    Examples:
        >>> from milepost.checkpoint.base import empty_checkpoint
        >>> empty_checkpoint()["channel_values"]
        {}
    """
    return Checkpoint(
        v=FORMAT_VERSION,
        id=checkpoint_id(),
        ts=now(),
        channel_values={},
        channel_versions={},
        versions_seen={},
        updated_channels=None,
    )


def copy_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """A copy whose mappings can be changed without changing the original's.

    Args:
        checkpoint: The original.

    Examples:
        >>> from milepost.checkpoint.base import copy_checkpoint, empty_checkpoint
        >>> original = empty_checkpoint()
        >>> copy_checkpoint(original)["channel_values"]["city"] = "Paris"
        >>> original["channel_values"]
        {}
    """
    return Checkpoint(
        v=checkpoint["v"],
        id=checkpoint["id"],
        ts=checkpoint["ts"],
        channel_values=checkpoint["channel_values"].copy(),
        channel_versions=checkpoint["channel_versions"].copy(),
        versions_seen={node: seen.copy() for node, seen in checkpoint["versions_seen"].items()},
        updated_channels=checkpoint.get("updated_channels"),
    )


SENDS_ARE_A_CHANNEL: Final = 4
"""The first format in which a checkpoint has its Sends as a channel. Before, the Sends that start a
step's tasks were among the writes of the parent checkpoint. LangGraph's savers return older
checkpoints in the newer form, and so do ours; other savers return them as `pending_sends`."""
_FIRST: Final = f"{counter_text(1)}.0"
"""The version of the Sends in a checkpoint without any other channel."""


def is_older(format: object, than: int) -> bool:
    """Whether a checkpoint is of a format before another one.

    Another runtime may put a checkpoint whose format is no number: such a checkpoint is read as it
    is.
    """
    return isinstance(format, (int, float)) and format < than


def with_sends(checkpoint: Checkpoint, parent_writes: Sequence[PendingWrite]) -> Checkpoint:
    """A checkpoint from before format 4, with the Sends from its parent's writes as a channel."""
    sends = [value for _, channel, value in parent_writes if channel == TASKS]
    sends = sends or list(cast(Any, checkpoint).get("pending_sends") or ())
    versions: dict[str, Any] = checkpoint["channel_versions"]
    if not sends or TASKS in versions:
        return checkpoint
    return {
        **checkpoint,
        "channel_values": {**checkpoint["channel_values"], TASKS: sends},
        "channel_versions": {**versions, TASKS: max(versions.values(), default=_FIRST)},
    }


def metadata_matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all pairs of the filter are in the metadata.

    A key with a period is first looked up as it is, then as a path: `user.name`.
    """
    return all(_value_at(metadata, key) == value for key, value in wanted.items())


def _value_at(metadata: Mapping[str, Any], key: str) -> Any:
    found = metadata.get(key, MISSING)
    if found is not MISSING or "." not in key:
        return found
    inner: Any = metadata
    for part in key.split("."):
        if not isinstance(inner, Mapping) or part not in inner:
            return MISSING
        inner = inner[part]
    return inner


# -- parts of a checkpoint

# A record of our own savers decodes on access, can leave values out, and may have its parent with
# it. A record of another saver is a plain CheckpointTuple, of which the functions give everything.


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
