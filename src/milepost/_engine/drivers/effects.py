"""What the engine asks its driver to do.

The engine's generators yield effects and are sent the results; an error is thrown in. They never
wait, and never call a node, a branch, a saver or a cache themselves, but for functions without I/O:
reducers, the key function of a cache policy, a saver's `prepare` and `get_next_version`.

Each effect is a class. A driver finds the method that carries out an effect in a table, by the
class; what is not there is a call of a saver or a cache (`MethodCall`). Such an effect has a sync
and an async form. The driver decides which one is called and how to wait for it: a saver may have
only one of the two.

    effect     of       result
    Start      a run    tasks that have ended, if any has; others are under way
    Await      a run    tasks that have ended, at least one; none after the deadline
    Save       a run    None; the step is durable, or queued
    Flush      a run    None; everything queued is durable
    KeepClaim  a run    None; the run's claim is renewed from now on
    Call       a task   what the callable returned
    Pause      a task   None, after some seconds
    Tell       both     what the function of an observer returned
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeAlias, TypeVar

from milepost._internal.dataclass_tools import record
from milepost.checkpoint._contract.step_saver import takes_task_path
from milepost.checkpoint.base import BaseCheckpointSaver

if TYPE_CHECKING:
    from milepost._engine.context.node_callable import Callee
    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.superstep.plan import Task
    from milepost._engine.thread_writer import ThreadWriter
    from milepost.cache.base import BaseCache, FullKey
    from milepost.checkpoint._contract.records import (
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from milepost.checkpoint._contract.step_saver import Fence, StepSaver
    from milepost.types import RunnableConfig, TimeoutPolicy

    Saver = BaseCheckpointSaver[Any]

R = TypeVar("R")


class Effect(Generic[R]):
    """Something that a driver does for a generator. `yield from effect` is typed as its result."""

    __slots__ = ()

    def __iter__(self) -> Generator[Self, R, R]:
        return (yield self)


EffectGenerator: TypeAlias = Generator[Effect[Any], Any, R]
"""Yields effects, is sent their results, and returns a result of its own."""
TaskGenerator: TypeAlias = EffectGenerator[None]
"""The effects of one task; its outcome is in the task."""
Keep: TypeAlias = "Callable[[Task], EffectGenerator[None]]"
"""Stores a task that has ended, before the run receives it."""


@record
class Start(Effect["Sequence[Task]"]):
    """Start tasks. The only task of a step may already have ended when the result is sent."""

    tasks: Sequence[tuple[Task, TaskGenerator]]
    at_once: int | None
    """How many may run at the same time."""
    beside_driver: bool = False
    """Whether a single task, too, runs beside the driver, which stores called tasks meanwhile."""
    keep: Keep | None = None
    """Stores a task that ends while the consumer of the stream handles an event."""


@record
class Await(Effect["Sequence[Task]"]):
    """Wait until a started task has ended; all that have ended are sent back together."""

    deadline: float | None = None
    """When to stop the running tasks, by `time.monotonic`; the result may then be empty."""


AWAIT = Await()
STARTING = (Start, Await)
"""Where a run whose consumer has gone is stopped: before tasks begin, never while it saves."""


@record
class Save(Effect[None]):
    """Store prepared steps: now, or soon and in order if the writer is `deferred`."""

    writer: ThreadWriter
    steps: Sequence[Any]


@record
class Flush(Effect[None]):
    """Wait until everything that was queued is stored."""

    writer: ThreadWriter
    last: bool = True
    """Whether the run has nothing more to store."""


@record
class KeepClaim(Effect[None]):
    """Renew a run's claim on its thread in the background, until the run has ended."""

    saver: StepSaver[Any]
    thread_id: str
    fence: Fence


@record
class Call(Effect[Any]):
    """Call a node, an error handler or the function of a branch in the context of a task."""

    callee: Callee
    argument: Any
    context: TaskContext
    timeout: TimeoutPolicy | None = None


@record
class Pause(Effect[None]):
    """Wait before the next attempt."""

    seconds: float


@record
class Tell(Effect[Any]):
    """Call a function of an observer in sync code, or await another one on an event loop."""

    call: Callable[[], Any]
    acall: Callable[[], Any] | None = None
    """Called and awaited on an event loop; `call` if it is None."""


AFTER_EVENTS = (Start, Tell)
"""What begins only when the consumer has all events so far."""


class Abandoned(BaseException):
    """Thrown into a run whose consumer has gone: the run saves what it has, and starts no more.

    Not GeneratorExit, which a generator gets when it is dropped: then no driver carries out
    effects any more.
    """


STACKED = 24
"""How many nested graphs may share one stack: Python allows a thousand nested calls."""


def is_deep(depth: int) -> bool:
    """Whether a graph at this depth of nesting needs a stack of its own."""
    return depth > 0 and depth % STACKED == 0


# -- calls of savers and caches

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
    """Claim a thread for a run; raises ThreadConflict if another run has it.

    A claim that is being stored is waited for, so that a run which is cancelled meanwhile can take
    it back.
    """

    target: StepSaver[Any]
    thread_id: str
    fence: Fence

    def call(self) -> None:
        self.target.hold(self.thread_id, self.fence)

    def acall(self) -> Awaitable[None]:
        from milepost._internal.asyncio_tools import see_through

        return see_through(self.target.ahold(self.thread_id, self.fence))


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
