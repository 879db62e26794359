"""Effects that are calls of savers and caches.

Each effect has a sync and an async form of its call. The driver decides which form is called and
how to wait for it: a saver may have only one of the two.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from milepost._engine.drivers.effects import Effect
from milepost._internal.dataclass_tools import record
from milepost.checkpoint._contract.step_saver import takes_task_path
from milepost.checkpoint.base import BaseCheckpointSaver

if TYPE_CHECKING:
    from milepost.cache.base import BaseCache, FullKey
    from milepost.checkpoint._contract.records import (
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from milepost.checkpoint._contract.step_saver import Fence, StepSaver
    from milepost.types import RunnableConfig

    Saver = BaseCheckpointSaver[Any]

R = TypeVar("R")
Cursor: TypeAlias = Any
"""An open listing: an iterator, sync or async, as the driver that opened it needs."""


class MethodCall(Effect[R]):
    """A method that has a sync and an async form."""

    __slots__ = ()
    target: Any
    """The saver or the cache that has the method."""

    @abstractmethod
    def call(self) -> R:
        """Call the sync form."""

    @abstractmethod
    def acall(self) -> Awaitable[R]:
        """Call the async form."""


@record
class LoadCheckpoint(MethodCall["CheckpointTuple | None"]):
    """The checkpoint that a config names, or the latest of its thread."""

    target: Saver
    config: RunnableConfig

    def call(self) -> CheckpointTuple | None:
        return self.target.get_tuple(self.config)

    def acall(self) -> Awaitable[CheckpointTuple | None]:
        return self.target.aget_tuple(self.config)


@record
class LoadHead(MethodCall["str | None"]):
    """The id of a thread's latest checkpoint."""

    target: StepSaver[Any]
    thread_id: str

    def call(self) -> str | None:
        return self.target.head(self.thread_id)

    def acall(self) -> Awaitable[str | None]:
        return self.target.ahead(self.thread_id)


@record
class LoadDeltaHistory(MethodCall["Mapping[str, DeltaChannelHistory]"]):
    """What delta channels of a checkpoint are rebuilt from."""

    target: Saver
    config: RunnableConfig
    channels: Sequence[str]

    def call(self) -> Mapping[str, DeltaChannelHistory]:
        return self.target.get_delta_channel_history(config=self.config, channels=self.channels)

    def acall(self) -> Awaitable[Mapping[str, DeltaChannelHistory]]:
        return self.target.aget_delta_channel_history(config=self.config, channels=self.channels)


@record
class PutCheckpoint(MethodCall["RunnableConfig"]):
    """Store a checkpoint in a saver that has only the methods of the contract."""

    target: Saver
    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    versions: dict[str, Any]

    def call(self) -> RunnableConfig:
        return self.target.put(self.config, self.checkpoint, self.metadata, self.versions)

    def acall(self) -> Awaitable[RunnableConfig]:
        return self.target.aput(self.config, self.checkpoint, self.metadata, self.versions)


@record
class PutWrites(MethodCall[None]):
    """Store what a task wrote in a saver that has only the methods of the contract."""

    target: Saver
    config: RunnableConfig
    writes: Sequence[tuple[str, Any]]
    task_id: str
    task_path: str

    def call(self) -> None:
        path = (self.task_path,) if takes_task_path(self.target.put_writes) else ()
        self.target.put_writes(self.config, self.writes, self.task_id, *path)

    def acall(self) -> Awaitable[None]:
        path = (self.task_path,) if takes_task_path(self.target.aput_writes) else ()
        return self.target.aput_writes(self.config, self.writes, self.task_id, *path)


@record
class DeleteThread(MethodCall[None]):
    """Remove everything that is saved of a thread."""

    target: Saver
    thread_id: str

    def call(self) -> None:
        self.target.delete_thread(self.thread_id)

    def acall(self) -> Awaitable[None]:
        return self.target.adelete_thread(self.thread_id)


@record
class HoldThread(MethodCall[None]):
    """Claim a thread for a run; raises ThreadConflict if another run has it."""

    target: StepSaver[Any]
    thread_id: str
    fence: Fence

    def call(self) -> None:
        self.target.hold(self.thread_id, self.fence)

    def acall(self) -> Awaitable[None]:
        return self.target.ahold(self.thread_id, self.fence)


@record
class ReleaseThread(MethodCall[None]):
    """Store the status of an ended run in the registry, if its last commit did not."""

    target: StepSaver[Any]
    thread_id: str
    fence: Fence
    status: str

    def call(self) -> None:
        self.target.release(self.thread_id, self.fence, self.status)

    def acall(self) -> Awaitable[None]:
        return self.target.arelease(self.thread_id, self.fence, self.status)


@record
class GetCached(MethodCall["dict[FullKey, Any]"]):
    """What the node cache has under some keys."""

    target: BaseCache[Any]
    keys: Sequence[FullKey]

    def call(self) -> dict[FullKey, Any]:
        return self.target.get(self.keys)

    def acall(self) -> Awaitable[dict[FullKey, Any]]:
        return self.target.aget(self.keys)


@record
class SetCached(MethodCall[None]):
    """Give the node cache results of tasks."""

    target: BaseCache[Any]
    entries: Mapping[FullKey, tuple[Any, int | None]]

    def call(self) -> None:
        self.target.set(self.entries)

    def acall(self) -> Awaitable[None]:
        return self.target.aset(self.entries)


@record
class ClearCache(MethodCall[None]):
    """Forget what the node cache has under some namespaces."""

    target: BaseCache[Any]
    namespaces: Sequence[tuple[str, ...]]

    def call(self) -> None:
        self.target.clear(self.namespaces)

    def acall(self) -> Awaitable[None]:
        return self.target.aclear(self.namespaces)


@record
class ListCheckpoints(Effect[Cursor]):
    """Open a listing of checkpoints, newest first."""

    saver: Saver
    config: RunnableConfig
    filter: dict[str, Any] | None = None
    before: RunnableConfig | None = None
    limit: int | None = None

    def call(self) -> Iterator[CheckpointTuple]:
        """Open it in sync code."""
        return self.saver.list(
            self.config, filter=self.filter, before=self.before, limit=self.limit
        )

    def acall(self) -> AsyncIterator[CheckpointTuple]:
        """Open it on an event loop."""
        return self.saver.alist(
            self.config, filter=self.filter, before=self.before, limit=self.limit
        )


@record
class NextCheckpoint(Effect["CheckpointTuple | None"]):
    """The next checkpoint of an open listing; None at its end."""

    cursor: Cursor


# -- which forms a saver has

_PUT: Final = BaseCheckpointSaver.put
_APUT: Final = BaseCheckpointSaver.aput


def is_sync_only(target: Any) -> bool:
    """A saver whose async methods were left out."""
    return getattr(type(target), "aput", None) is _APUT


def is_async_only(target: Any) -> bool:
    """A saver whose sync methods were left out."""
    kind = type(target)
    return getattr(kind, "put", None) is _PUT and kind.aput is not _APUT
