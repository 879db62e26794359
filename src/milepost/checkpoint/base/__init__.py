"""The contract of a saver, as custom savers implement it.

Five methods are required: `put`, `put_writes`, `get_tuple`, `list` and `delete_thread`, sync,
async or both. The others are optional, and unlock what their docstrings say.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, TypeVar

from milepost._internal import log
from milepost._internal.generators import adrive, drive
from milepost._internal.lazy_imports import on_demand
from milepost.channels.binop import overwrite_of
from milepost.checkpoint._contract.older_names import (
    EXCLUDED_METADATA_KEYS,
    LATEST_VERSION,
    create_checkpoint,
    get_checkpoint_metadata,
    get_serializable_checkpoint_metadata,
    writes_sort_key,
)
from milepost.checkpoint._contract.records import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    copy_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
    place_of,
)
from milepost.constants import ERROR, INTERRUPT, RESUME, SCHEDULED
from milepost.errors import BrokenChainError, EmptyChannelError
from milepost.types import MISSING, PregelTask, RunnableConfig, StateSnapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Generator, Iterator, Mapping, Sequence

    from milepost.checkpoint.base.id import uuid6
    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
else:
    # A graph without a saver needs no serializer.
    __getattr__, __dir__ = on_demand(
        __name__,
        {
            "JsonPlusSerializer": "milepost.checkpoint.serde.jsonplus",
            "SerializerProtocol": "milepost.checkpoint.serde.base",
            "uuid6": "milepost.checkpoint.base.id",
        },
    )

__all__ = [
    "ERROR",
    "EXCLUDED_METADATA_KEYS",
    "INTERRUPT",
    "LATEST_VERSION",
    "RESUME",
    "SCHEDULED",
    "WRITES_IDX_MAP",
    "BaseCheckpointSaver",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "DeltaChannelHistory",
    "EmptyChannelError",
    "JsonPlusSerializer",
    "PendingWrite",
    "PregelTask",
    "SerializerProtocol",
    "StateSnapshot",
    "copy_checkpoint",
    "create_checkpoint",
    "empty_checkpoint",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
    "get_serializable_checkpoint_metadata",
    "uuid6",
    "writes_sort_key",
]

V = TypeVar("V", int, float, str)


class BaseCheckpointSaver(Generic[V]):
    """Saves the checkpoints of threads. Derive from it to keep them in a place of your own.

    Args:
        serde: Turns values into bytes and back.

    Examples:
        >>> from milepost.checkpoint.base import empty_checkpoint
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> saver = InMemorySaver()
        >>> config = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
        >>> metadata = {"source": "input", "step": -1, "parents": {}}
        >>> stored = saver.put(config, empty_checkpoint(), metadata, {})
    """

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        if serde is not None:
            from milepost.checkpoint.serde.base import maybe_add_typed_methods

            self.serde = maybe_add_typed_methods(serde)

    @cached_property
    def serde(self) -> SerializerProtocol:
        """Turns values into bytes and back. Use it for everything that you store."""
        from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

        return JsonPlusSerializer()

    def with_serde(self, serde: SerializerProtocol) -> Self:
        """A saver on the same storage that works with another serializer.

        Args:
            serde: Turns values into bytes and back.
        """
        twin = copy(self)
        twin.serde = serde
        return twin

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """A saver on the same storage that may also read these types.

        A serializer that has no such list, one of your own for example, is left as it is.

        Args:
            extra_allowlist: Each type as `(module, name)`.
        """
        extended = getattr(self.serde, "with_msgpack_allowlist", None)
        if extended is None:
            log.warning(
                log.STORAGE,
                "%s has no list of allowed types, so with_allowlist() changes nothing.",
                type(self.serde).__name__,
            )
            return self
        serde = extended(extra_allowlist)
        return self if serde is self.serde else self.with_serde(serde)

    @property
    def config_specs(self) -> list[Any]:
        """Configurable fields that the saver reads, for tools that list them."""
        return []

    # -- reading

    def get(self, config: RunnableConfig) -> Checkpoint | None:
        """The checkpoint that `config` names, without what surrounds it.

        Args:
            config: Names the thread, and perhaps a checkpoint.

        Examples:
            >>> saver.get(config)["channel_values"]
            {}
        """
        found = self.get_tuple(config)
        return found.checkpoint if found else None

    async def aget(self, config: RunnableConfig) -> Checkpoint | None:
        """`get`, for use on an event loop."""
        found = await self.aget_tuple(config)
        return found.checkpoint if found else None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint with the id in `config`, or the latest of its thread and namespace.

        Args:
            config: Names the thread, and perhaps a checkpoint.

        Examples:
            >>> saver.get_tuple(config).metadata["source"]
            'input'
        """
        self._left_out("get_tuple", config)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple`, for use on an event loop."""
        self._left_out("aget_tuple", config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first.

        Args:
            config: Names the thread; `None` for all threads.
            filter: Metadata that a checkpoint must have: all pairs must be equal.
            before: Names a checkpoint; only older ones are listed.
            limit: How many at most.

        Examples:
            >>> [found.metadata["step"] for found in saver.list(config, filter={"source": "input"})]
            [-1]
        """
        self._left_out("list", config, filter, before, limit)

    def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list`, for use on an event loop."""
        self._left_out("alist", config, filter, before, limit)

    # -- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint.

        Args:
            config: Names the thread and namespace, and the checkpoint before.
            checkpoint: The checkpoint.
            metadata: Stored in full, keys you do not know included.
            new_versions: The channels that changed, and their versions.

        Returns:
            The config of the new checkpoint.

        Examples:
            >>> stored = saver.put(stored, empty_checkpoint(), {"source": "loop", "step": 0}, {})
            >>> saver.get_tuple(config).config == stored
            True
        """
        self._left_out("put", config, checkpoint, metadata, new_versions)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put`, for use on an event loop."""
        self._left_out("aput", config, checkpoint, metadata, new_versions)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote after a checkpoint.

        A write is stored at `WRITES_IDX_MAP.get(channel, position)`; at a negative place a later
        write replaces the one before, at others the first one stays. They are read back in the
        order of task paths, then of tasks and places.

        Args:
            config: Names the checkpoint.
            writes: Pairs of a channel and what is written to it.
            task_id: The task.
            task_path: How the step came to the task.

        Examples:
            >>> saver.put_writes(stored, [("city", "Paris")], task_id="1")
            >>> saver.get_tuple(config).pending_writes
            [('1', 'city', 'Paris')]
        """
        self._left_out("put_writes", config, writes, task_id, task_path)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """`put_writes`, for use on an event loop."""
        self._left_out("aput_writes", config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Remove all checkpoints and writes of a thread, in every namespace.

        Args:
            thread_id: The thread.
        """
        self._left_out("delete_thread", thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread`, for use on an event loop."""
        self._left_out("adelete_thread", thread_id)

    # -- optional

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history to a new id.

        Args:
            source_thread_id: The thread.
            target_thread_id: The id of the copy.
        """
        self._left_out("copy_thread", source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`copy_thread`, for use on an event loop."""
        self._left_out("acopy_thread", source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Drop history.

        Args:
            thread_ids: The threads.
            strategy: "keep_latest" keeps the latest checkpoints, "delete" nothing.
        """
        self._left_out("prune", thread_ids, strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """`prune`, for use on an event loop."""
        self._left_out("aprune", thread_ids, strategy)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that certain runs made, and their writes.

        Args:
            run_ids: The runs.
        """
        self._left_out("delete_for_runs", run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`delete_for_runs`, for use on an event loop."""
        self._left_out("adelete_for_runs", run_ids)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """For each delta channel, the writes since its nearest stored value, and that value.

        This walks the ancestors with `get_tuple`; a saver that can query does it faster.

        Args:
            config: Names the checkpoint.
            channels: The delta channels.

        Raises:
            BrokenChainError: An ancestor that a channel depends on is gone.
        """
        return drive(_delta_walk(config, channels), self.get_tuple)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """`get_delta_channel_history`, for use on an event loop."""
        return await adrive(_delta_walk(config, channels), self.aget_tuple)

    def get_next_version(self, current: V | None, channel: None) -> V:  # noqa: ARG002
        """The version after another one; must be larger. The default counts in integers.

        Args:
            current: The version now; `None` for the first one.
            channel: Always `None`.
        """
        if isinstance(current, str):
            raise NotImplementedError(
                f"{type(self).__name__} stores text versions: override get_next_version."
            )
        return 1 if current is None else current + 1  # type: ignore[return-value]

    # -- for subclasses

    def _left_out(self, method: str, *_arguments: Any) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__} does not implement {method}(). "
            "Override it, or use a saver that has it."
        )


def _delta_walk(
    config: RunnableConfig, channels: Sequence[str]
) -> Generator[RunnableConfig, CheckpointTuple | None, dict[str, DeltaChannelHistory]]:
    """Yields configs of checkpoints to fetch, from `config` towards the root."""
    found: dict[str, DeltaChannelHistory] = {c: DeltaChannelHistory(writes=[]) for c in channels}
    searching = set(channels)
    child = yield config
    if child is None and (named := get_checkpoint_id(config)) is not None:
        from milepost.checkpoint._contract.threads import checkpoint_gone

        raise checkpoint_gone(place_of(config).thread_id, named)
    passed = set()
    while child is not None and searching and child.parent_config is not None:
        passed.add(child.checkpoint["id"])
        ancestor = yield child.parent_config
        if ancestor is None or ancestor.checkpoint["id"] in passed:
            place = child.parent_config.get("configurable", {})
            what = "is gone" if ancestor is None else "is its own ancestor"
            raise BrokenChainError(
                f"Checkpoint '{place.get('checkpoint_id')}' of thread '{place.get('thread_id')}' "
                f"{what}, and the channels {sorted(searching)} depend on it. Restore it from a "
                "backup; a prune must keep the ancestors that delta channels need."
            )
        applied = writes_leading_to(child, ancestor.pending_writes or ())
        for channel in tuple(searching):
            found[channel]["writes"][:0] = writes_to(channel, applied)
            if channel in ancestor.checkpoint["channel_values"]:
                found[channel]["seed"] = ancestor.checkpoint["channel_values"][channel]
                searching.discard(channel)
        child = ancestor
    return found


SOURCES_WITHOUT_WRITES: Final = ("fork", "input")
"""Sources of checkpoints that no stored writes of their parent have made."""


def writes_leading_to(
    child: CheckpointTuple, writes: Sequence[PendingWrite]
) -> Sequence[PendingWrite]:
    """Of the writes stored at a checkpoint, those that made `child` out of it.

    Several children may share a parent: the step that was taken from it, updates by
    `update_state`, later inputs. An update's writes are stored under its checkpoint's own id.
    """
    source = child.metadata.get("source")
    if source == "update":
        own = child.checkpoint["id"]
        return [write for write in writes if write[0].startswith(own)]
    if source in SOURCES_WITHOUT_WRITES:
        return ()
    return [write for write in writes if ":" not in write[0]]


def writes_to(channel: str, writes: Sequence[PendingWrite]) -> list[PendingWrite]:
    """Of one step's writes, those that made the value of a channel: an Overwrite did so alone."""
    own = [write for write in writes if write[1] == channel]
    return [write for write in own if overwrite_of(write[2]) is not MISSING] or own
