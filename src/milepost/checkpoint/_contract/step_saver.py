"""A step's persistence: what the runtime asks of a saver that can do more than the five methods.

The public contract saves a checkpoint and each task's writes in separate calls. A saver that
derives from `StepSaver` takes them together, in one transaction, checks that the run still owns
the thread, and is told only what changed.

Saving has two halves. `prepare` encodes: it needs no I/O, serves sync and async callers alike, and
runs before the next step starts, so that a node cannot change a value that is still to be written.
`commit` and `acommit` store what was prepared, now or a little later, one step or several at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from milepost._internal import log
from milepost._internal.dataclass_tools import record
from milepost._internal.ids import LateId, random_token
from milepost.checkpoint._contract.records import Checkpoint, CheckpointMetadata, PendingWrite
from milepost.checkpoint._contract.thread_metadata import metadata_text
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.errors import ThreadConflict

if TYPE_CHECKING:
    from milepost.checkpoint._delta.diff import Buffer
    from milepost.types import RunnableConfig

Prepared = TypeVar("Prepared")


@record(frozen=False)
class StoredWrites:
    """The writes at one checkpoint of which is known that they are stored in rows of their own."""

    checkpoint_id: str
    keys: set[tuple[str, int]]
    """Their tasks and places."""
    metadata: tuple[str | None, Buffer]
    """The checkpoint's, as it is stored but for the seal: with it they are counted."""
    lost: int = 0
    """How many more of them were counted than there were."""


class LoadedWrites(NamedTuple):
    """The writes at a checkpoint when a run loaded it."""

    number: int
    tasks: frozenset[str]


@record(frozen=False)
class Fence:
    """One run's claim on one thread.

    The first commit of a run compares the head of the thread with the one that the run loaded,
    and makes the run's token the thread's; every later commit finds its token there or fails.
    All graphs of a run share one fence, whichever of them commits first.
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
    """What the registry is to say of the thread while tasks wait in it. A run that is about to
    end puts here how it ends."""
    status: str | None = None
    """What it says since the run's last commit; None before the first."""
    before: str | None = None
    """What it said when the run claimed the thread; None if it did not, "" for a new thread."""
    touched: float = 0.0
    """When a commit of the run has last brought the thread's entry up to date."""
    reached: str | None = None
    """The checkpoint of the root graph that the run has stored last."""
    made: dict[str, str] = field(default_factory=dict)
    """Of each graph, the checkpoint that the run has made last; some may have been forgotten."""
    loaded: dict[tuple[str, str], LoadedWrites] = field(default_factory=dict)
    """By graph and checkpoint: what the run knows of the writes that were stored there."""
    begins: tuple[str, str | LateId] | None = None
    """The graph that the run was called on, and the first checkpoint of it that the run makes.
    Under `exit` a graph inside it may be stored before."""
    written: dict[str, StoredWrites] = field(default_factory=dict)
    """Of each graph, what is known of the rows at its latest checkpoint, if the saver counts them;
    some may have been forgotten."""
    thread_metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the run says about its thread. The run's first commit stores that in the registry."""
    added_at: float | None = None
    """When the claim has added the thread's entry; None if there was one."""
    ended: bool = False
    """Whether the run is over, so that no caller has to wait for the run."""

    @property
    def root(self) -> str | None:
        """The checkpoint of the root graph that the run has come to, if that is known."""
        return self.reached or (None if self.forced else self.head)

    def load(self, ns: str, checkpoint_id: str, writes: Sequence[PendingWrite]) -> None:
        """The run builds on a checkpoint with these writes.

        Until the run has the thread, others may add some. The head does not show that, but the
        run would store beside their writes what it made without them.
        """
        if not self.taken:
            tasks = frozenset([task_id for task_id, _, _ in writes])
            self.loaded[ns, checkpoint_id] = LoadedWrites(len(writes), tasks)

    def has_loaded(self, ns: str, checkpoint_id: str | None, tasks: Iterable[str]) -> bool:
        """Whether writes of no other tasks than these were stored at a checkpoint, as far as the
        run knows; True if it has not looked."""
        loaded = self.loaded.get((ns, checkpoint_id or ""))
        return loaded is None or loaded.tasks.issuperset(tasks)

    def first_ids(self, ns: str, id: str | None) -> dict[str, str]:
        """By graph: the first checkpoints that a step of this run, which may be the first to be
        stored, brings or announces."""
        first = {ns: id} if id is not None else {}
        if self.begins is not None:
            graph, begins = self.begins
            first[graph] = str(begins)
        return first

    def claim(self, thread_id: str, token: str | None, busy: bool) -> None:
        """Raise ThreadConflict if another run is working on a thread with this token."""
        if token == self.token:
            return
        if self.taken:
            raise ThreadConflict(
                f"Thread '{thread_id}' was taken by another run, or deleted, since this one "
                "claimed it."
            )
        if busy:
            log.info(log.THREADS, "Thread '%s': a run was refused; another has it.", thread_id)
            raise ThreadConflict(
                f"Another run is at work on thread '{thread_id}', and this one was to be refused "
                "in that case (on_conflict='reject'). Nothing was changed. Repeat the call when "
                "the other run has ended, use another thread, or take this one over with "
                "on_conflict='newest'. A run that was killed holds its thread for a minute."
            )

    def held(self, before: str) -> None:
        """The claim is made, or renewed."""
        if not self.taken:
            self.taken, self.before = True, before

    def check(
        self, thread_id: str, head: str | None, token: str | None, overtaken: bool = False
    ) -> None:
        """Raise ThreadConflict unless a thread with this head and token may be written to.

        `overtaken`: there is something newer than what the run is about to store.
        """
        if token == self.token:
            return
        if not (self.taken or overtaken) and (self.forced or head == self.head):
            return
        if self.taken and head is None:
            happened = "was deleted"
        else:
            happened = "was taken by another run" if self.taken else "has moved on"
        refused = "Thread '%s' %s: a commit of a run that loaded it before was refused."
        log.warning(log.THREADS, refused, thread_id, happened)
        raise ThreadConflict(
            f"Thread '{thread_id}' {happened} since this run loaded it, so this run cannot save "
            "to it any more. Nothing of the present step was stored. Load the thread again and "
            "repeat the call, or give each run a thread of its own."
        )


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

    checkpoint: Checkpoint
    """Without `channel_values`: see `changed` and `values`."""
    metadata: CheckpointMetadata
    changed: Mapping[str, Any]
    """Channels with a new version, and what to store for each; MISSING for an emptied one."""
    values: Callable[[], dict[str, Any]]
    """All channel values, for a saver that stores the whole state."""
    seen: Collection[str] | None = None
    """Entries of `versions_seen` that are new since the checkpoint before; None if unknown."""
    again: bool = False
    """Whether it is a copy: what changed may be stored already, under the same versions."""


@record(frozen=False)
class StepCommit:
    """What is to be stored together."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None
    """The checkpoint that `writes` belong to and `new` descends from."""
    writes: Sequence[TaskWrites]
    new: NewCheckpoint | None
    fence: Fence
    status: str = "running"
    """What the registry says of the thread afterwards: idle, interrupted, error or running."""


class StepSaver(Generic[Prepared]):
    """What a saver has besides the five methods if it stores a step in one transaction and fences
    writers. A class inherits it beside `BaseCheckpointSaver`."""

    instant = False
    """Whether a commit is only memory traffic, so that deferring it would cost more."""
    steadfast = False
    """Whether `acommit`, once begun, comes to its end before a cancellation is raised from it."""
    thread_metadata: Sequence[str] = ()
    """Keys of a run's `config["metadata"]` that its first commit stores in the registry."""

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
        """Store steps in order and durably; for each, None or why it alone was not stored.

        Args:
            steps: What `prepare` returned, in order.
        """

    @abstractmethod
    async def acommit(self, steps: Sequence[Prepared]) -> list[Exception | None]:
        """`commit`, for use on an event loop."""

    @abstractmethod
    def hold(self, thread_id: str, fence: Fence) -> None:
        """Claim a thread before the first commit, or renew the claim while a node runs.

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
        """The run is over, and its last commit did not say how: the registry shall say it.

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


def thread_metadata_of(
    saver: BaseCheckpointSaver[Any], thread_id: str, config: RunnableConfig
) -> dict[str, Any]:
    """What a run with this config says about its thread.

    Raises TypeError or ValueError for what the registry cannot hold, before anything is run.
    """
    given = config.get("metadata") or {}
    keys = saver.thread_metadata if isinstance(saver, StepSaver) else ()
    found = {key: given[key] for key in keys if key in given}
    if found:
        metadata_text(thread_id, found)
    return found
