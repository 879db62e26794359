"""The step contract: how the runtime stores a step in a saver of ours.

The public contract saves a checkpoint and each task's writes in separate calls. A saver that
derives from `StepSaver` stores both in one transaction, checks that the run still owns the thread,
and is given only what changed.

Saving has two halves. `prepare` encodes a step without I/O, for sync and async callers alike.
`prepare` runs before the next step starts, so that no node can change a value that is not encoded
yet. `commit` and `acommit` store prepared steps, now or a little later, one or several at once.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from milepost._internal import log
from milepost._internal.dataclass_tools import record
from milepost._internal.ids import LateId, random_token
from milepost._internal.warn import warn_of
from milepost.checkpoint._contract.records import (
    FORMAT_VERSION,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    PendingWrite,
)
from milepost.errors import ThreadConflict

if TYPE_CHECKING:
    from datetime import datetime

    from milepost.checkpoint._delta.diff import Buffer
    from milepost.checkpoint.base import BaseCheckpointSaver

Prepared = TypeVar("Prepared")


@record(frozen=False)
class StoredWrites:
    """The writes at one checkpoint that are known to be stored in rows of their own."""

    checkpoint_id: str
    keys: set[tuple[str, int]]
    """Task id and position of each write."""
    metadata: tuple[str | None, Buffer]
    """The checkpoint's metadata, kind and bytes. Their cell also has the number of rows, and is
    stored again when the number changes."""
    lost: int = 0
    """How many rows are missing: the stored count minus the rows that exist."""


class LoadedWrites(NamedTuple):
    """The writes at a checkpoint when a run loaded it."""

    number: int
    tasks: frozenset[str]


@record(frozen=False)
class Fence:
    """One run's claim on one thread.

    The first commit of a run compares the head of the thread with the head that the run loaded,
    and writes the run's token into the thread's registry entry. Every later commit finds the run's
    token there, or fails. All graphs of a run share one fence.
    """

    head: str | None
    """The thread's latest checkpoint when the run loaded it; None for a new thread."""
    forced: bool = False
    """The run starts from an older checkpoint on purpose: the head need not match."""
    token: str = field(default_factory=random_token)
    taken: bool = False
    """Whether the first commit has succeeded."""
    epoch: int | None = None
    """The thread's epoch at the last commit, if the saver keeps one."""
    pending_status: str = "running"
    """The status that a commit stores while tasks of the thread are still to run. A run that is
    about to end puts its final status here."""
    status: str | None = None
    """The status that the run's last commit stored; None before the first commit."""
    before: str | None = None
    """The status before the run claimed the thread: "" for a new thread, None without a claim."""
    touched: float = 0.0
    """When a commit of the run last updated the thread's registry entry."""
    reached: str | None = None
    """The last checkpoint of the root graph that the run has stored."""
    made: dict[str, str] = field(default_factory=dict)
    """Namespace → the last checkpoint that the run has made there; entries may be dropped."""
    alone: bool = True
    """False once others may have put checkpoints between those of the run."""
    loaded: dict[tuple[str, str], LoadedWrites] = field(default_factory=dict)
    """Namespace and checkpoint → the writes that the run found there when it loaded them."""
    first_checkpoint: tuple[str, str | LateId] | None = None
    """For a forced run: the namespace of the graph that was called, and the id of the run's first
    checkpoint there. With durability `exit`, an inner graph's checkpoint may be stored before."""
    written: dict[str, StoredWrites] = field(default_factory=dict)
    """Namespace → the writes known to be stored at its latest checkpoint, for a saver that counts
    them; entries may be dropped."""
    thread_metadata: Mapping[str, Any] = field(default_factory=dict)
    """Thread metadata from the run's config. The run's first commit stores it in the registry, or
    the claim of a new thread."""
    added_at: float | None = None
    """When the claim added the thread's registry entry; None if the entry existed."""
    ended: bool = False
    """Whether the run is over: it stores nothing more, and another run may claim the thread."""
    overtakes: bool = False
    """Whether the transaction under way takes the thread from a run that has not ended."""
    refusal: str | None = None
    """What has happened to the thread, if the transaction under way refuses a step of the run."""
    is_refused: bool = False
    """Whether a refusal was logged: one line is enough for a run."""
    is_of_other_runtime: bool = False
    """Whether another runtime stores the steps. It does not tell the thread's status, may store the
    writes at a checkpoint before the checkpoint, and has a fence for each checkpoint."""

    @property
    def root(self) -> str | None:
        """The run's latest checkpoint of the root graph, stored or loaded; None if unknown."""
        return self.reached or (None if self.forced else self.head)

    def load(self, ns: str, checkpoint_id: str, writes: Sequence[PendingWrite]) -> None:
        """Note that the run builds on a checkpoint with these writes.

        Another run may add writes there before this run owns the thread. The head does not show
        that; the first commit compares the writes.
        """
        if not self.taken:
            tasks = frozenset([task_id for task_id, _, _ in writes])
            self.loaded[ns, checkpoint_id] = LoadedWrites(len(writes), tasks)

    def has_loaded(self, ns: str, checkpoint_id: str | None, tasks: Iterable[str]) -> bool:
        """Whether the run has loaded writes of all these tasks, which have writes at a checkpoint
        now. True if the run has not loaded that checkpoint."""
        loaded = self.loaded.get((ns, checkpoint_id or ""))
        return loaded is None or loaded.tasks.issuperset(tasks)

    def first_ids(self, ns: str, id: str | None) -> dict[str, str]:
        """Namespace → the run's first checkpoint there. `ns` and `id` are those of the first step
        that is stored."""
        first = {ns: id} if id is not None else {}
        if self.first_checkpoint is not None:
            graph, begins = self.first_checkpoint
            first[graph] = str(begins)
        return first

    def claim(self, thread_id: str, token: str | None, busy: bool) -> None:
        """Raise ThreadConflict if another run works on the thread, or took it from this one."""
        if token == self.token:
            return
        if self.taken:
            raise ThreadConflict(
                f"Thread '{thread_id}' was taken by another run, or deleted, since this one "
                "claimed it."
            )
        if busy:
            raise ThreadConflict(
                f"Another run has thread '{thread_id}', and this one was to be refused "
                "in that case (on_conflict='reject'). Nothing was changed. Repeat the call when "
                "the other run has ended, use another thread, or take this one over with "
                "on_conflict='newest'. A run that was killed holds its thread for a minute."
            )

    def held(self, before: str) -> None:
        """Note that the claim was made or renewed."""
        if not self.taken:
            self.taken, self.before = True, before

    def check(
        self, thread_id: str, head: str | None, token: str | None, overtaken: bool = False
    ) -> None:
        """Raise ThreadConflict unless a thread with this head and token may be written to.

        `overtaken`: others have stored something that this run has not loaded.
        """
        if token == self.token:
            return
        if not (self.taken or overtaken) and (self.forced or head == self.head):
            return
        if self.taken and head is None:
            happened = "was deleted"
        else:
            happened = "was taken by another run" if self.taken else "has moved on"
        self.refusal = happened
        raise ThreadConflict(
            f"Thread '{thread_id}' {happened} since this run loaded it, so this run cannot save "
            "to it any more. Nothing of the present step was stored. Load the thread again and "
            "repeat the call, or give each run a thread of its own."
        )

    def log_outcome(self, thread_id: str, error: Exception | None) -> None:
        """Log whom a commit took the thread from, or why it was refused.

        Not in the transaction, which may be repeated, or fail.
        """
        if error is None:
            if self.overtakes:
                taken = "Thread '%s': a run has taken it over from one that had not ended."
                log.info(log.THREADS, taken, thread_id)
            self.overtakes, self.refusal = False, None
        elif self.refusal is not None and isinstance(error, ThreadConflict):
            if not self.is_refused:
                refused = "Thread '%s' %s: a commit of a run that loaded it before was refused."
                log.warning(log.THREADS, refused, thread_id, self.refusal)
            self.refusal, self.is_refused = None, True


@record(frozen=False)
class TaskWrites:
    """What one task wrote."""

    task_id: str
    task_path: str
    node: str
    """Only for error messages."""
    writes: Sequence[tuple[str, Any]]


@record(frozen=False)
class NewCheckpoint:
    """A checkpoint to be saved, with its changes apart from what it inherits."""

    id: str
    made_at: datetime | str
    """The moment, in UTC; its text in a checkpoint that another runtime has made."""
    versions: ChannelVersions
    versions_seen: dict[str, ChannelVersions]
    updated: Sequence[str] | None
    """Channels that the step changed; None if that is not known."""
    metadata: CheckpointMetadata
    changed: Mapping[str, Any]
    """Channels with a new version → the value to store; MISSING if the channel was emptied."""
    values: Callable[[], dict[str, Any]]
    """All channel values, for a saver that stores the whole state."""
    seen: Collection[str] | None = None
    """Entries of `versions_seen` that are new since the parent checkpoint; None if unknown, or if
    the parent has names of channels or nodes that this one leaves out."""
    again: bool = False
    """Whether the checkpoint is a copy: its values may be stored already, in the same versions."""
    format: int = FORMAT_VERSION

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        changed: Mapping[str, Any],
        values: Callable[[], dict[str, Any]],
    ) -> NewCheckpoint:
        """A checkpoint that `put` is given, of which `changed` is new."""
        if unversioned := checkpoint["channel_values"].keys() - checkpoint["channel_versions"]:
            warn_of(
                f"The checkpoint has values without versions, which are not stored: "
                f"{', '.join(map(repr, sorted(unversioned)))}. Add the channels to "
                "`channel_versions`, and to the `new_versions` of put()."
            )
        return cls(
            checkpoint["id"],
            checkpoint["ts"],
            checkpoint["channel_versions"],
            checkpoint["versions_seen"],
            checkpoint.get("updated_channels"),
            metadata,
            changed,
            values,
            format=checkpoint["v"],
        )

    def whole(self) -> Checkpoint:
        """The checkpoint with all values, as `put` takes it."""
        made_at = self.made_at
        return Checkpoint(
            v=self.format,
            id=self.id,
            ts=made_at if isinstance(made_at, str) else made_at.isoformat(),
            channel_values=self.values(),
            channel_versions=self.versions,
            versions_seen=self.versions_seen,
            updated_channels=None if self.updated is None else list(self.updated),
        )


@record(frozen=False)
class StepCommit:
    """What one transaction stores: writes, a new checkpoint, or both."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None
    """The checkpoint that `writes` belong to and `new` descends from."""
    writes: Sequence[TaskWrites]
    new: NewCheckpoint | None
    fence: Fence
    status: str = "running"
    """The thread's status afterwards: idle, interrupted, error or running."""


class StepSaver(Generic[Prepared]):
    """A saver that stores a step in one transaction and fences writers. A class inherits it beside
    `BaseCheckpointSaver`."""

    instant = False
    """Whether a commit does no I/O, so that deferring it would cost more than the commit."""
    steadfast = False
    """Whether a cancelled `acommit` first finishes what it has begun."""
    thread_metadata: Sequence[str] = ()
    """Keys of a run's metadata that its first commit stores in the registry."""

    @abstractmethod
    def prepare(self, step: StepCommit) -> Prepared:
        """Encode a step.

        Args:
            step: What is to be stored together.

        Raises:
            SerializationError: A value cannot be stored.
        """

    def weight(self, step: Prepared) -> int:  # noqa: ARG002
        """About how many bytes a prepared step holds.

        Args:
            step: What `prepare` returned.
        """
        return 0

    @abstractmethod
    def commit(self, steps: Sequence[Prepared]) -> list[Exception | None]:
        """Store steps in order and durably; for each step, None or why it was not stored.

        Args:
            steps: What `prepare` returned, in order.
        """

    @abstractmethod
    async def acommit(self, steps: Sequence[Prepared]) -> list[Exception | None]:
        """`commit`, for use on an event loop."""

    @abstractmethod
    def hold(self, thread_id: str, fence: Fence) -> None:
        """Claim a thread before the first commit, or renew the claim while a node runs.

        The claim of a new thread stores the fence's `thread_metadata`.

        Args:
            thread_id: The thread.
            fence: The run that claims it.

        Raises:
            ThreadConflict: Another run is working on the thread; that changes nothing.
        """

    @abstractmethod
    async def ahold(self, thread_id: str, fence: Fence) -> None:
        """`hold`, for use on an event loop."""

    @abstractmethod
    def release(self, thread_id: str, fence: Fence, status: str) -> None:
        """Store how a run has ended, if its last commit did not.

        Args:
            thread_id: The thread.
            fence: The run that claimed it.
            status: How the run ended. An empty status takes a claim back that nothing was stored
                under.
        """

    @abstractmethod
    async def arelease(self, thread_id: str, fence: Fence, status: str) -> None:
        """`release`, for use on an event loop."""

    @abstractmethod
    def head(self, thread_id: str) -> str | None:
        """The id of the thread's latest checkpoint in the root graph.

        Args:
            thread_id: The thread.
        """

    @abstractmethod
    async def ahead(self, thread_id: str) -> str | None:
        """`head`, for use on an event loop."""


# -- savers whose writing methods a program has overridden

# A subclass that overrides `put` expects calls of its `put`. So the runtime treats the subclass as
# a saver of another library: it calls `put` and `put_writes` step by step, without a fence.

_WRITING: Final = ("put", "put_writes", "aput", "aput_writes", "get_next_version")
_OURS: Final = __name__.partition(".")[0] + "."
_known: WeakKeyDictionary[type, bool] = WeakKeyDictionary()
"""Saver class → whether it overrides a writing method."""


def step_saver(saver: BaseCheckpointSaver[Any]) -> StepSaver[Any] | None:
    """The saver, if runs store steps by its `commit`; None if they must call its `put`."""
    if not isinstance(saver, StepSaver):
        return None
    cls = type(saver)
    overridden = _known.get(cls)
    if overridden is None:
        overridden = _known[cls] = _overrides(cls)
    if overridden:
        return None
    # A test may have put a mock in place of a method.
    return saver if vars(saver).keys().isdisjoint(_WRITING) else None


def _overrides(cls: type) -> bool:
    """Whether a class outside milepost overrides writing methods; warns if so."""
    for base in cls.__mro__:
        if base.__module__.startswith(_OURS):
            return False
        own = [name for name in _WRITING if name in base.__dict__]
        if own:
            warn_of(
                f"{base.__qualname__} overrides {', '.join(own)}, so its checkpoints are stored by "
                "calls of these methods: a step is not one transaction, and two runs on one thread "
                "do not notice each other."
            )
            return True
    return False


def takes_task_path(put_writes: Callable[..., Any]) -> bool:
    """Whether a `put_writes` has the parameter `task_path`, which older savers lack."""
    return _takes_task_path(getattr(put_writes, "__func__", put_writes))


@lru_cache(maxsize=64)
def _takes_task_path(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "task_path" or p.kind is p.VAR_POSITIONAL for p in parameters)
