"""The position of a run in its thread, and the lines of history that it is part of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from milepost._engine.superstep.plan import Base, Task, path_text
from milepost._internal.ids import LateId, digest_id, random_token
from milepost.constants import CHILDREN, NS_END, NS_SEP

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.superstep.channel_state import ChannelState
    from milepost.types import RunnableConfig

LINEAGE = "__lineage__"
"""The key of `versions_seen` under which a checkpoint keeps the token of its line of history.

A new input, a fork and an update start a new line; a resume continues the old one. Token, step and
path identify a task even if a crash has lost the task's checkpoint.
"""

NO_CHECKPOINTS: Final[Mapping[str, str]] = MappingProxyType({})


class Position:
    """Where a run is: thread, namespace, step, and its latest checkpoints."""

    __slots__ = (
        "forked",
        "inner_starts",
        "loaded_ns",
        "ns",
        "parent",
        "parents",
        "present",
        "previous_id",
        "step",
        "stored_id",
        "thread_id",
    )

    def __init__(self, parent: TaskContext | None) -> None:
        self.parent = parent
        """The task that the run is inside of."""
        self.thread_id: str | None = None
        self.ns = ""
        self.step = -2
        """The step of the present checkpoint."""
        self.present: str | LateId = ""
        """The checkpoint that the next step starts from, stored or not."""
        self.stored_id: str | None = None
        """The last checkpoint that is stored."""
        self.previous_id: str | None = None
        """The checkpoint before the present one."""
        self.inner_starts: Mapping[str, str] = NO_CHECKPOINTS
        """Namespace → checkpoint id, for inner graphs that start from an older checkpoint."""
        self.loaded_ns: str | None = None
        """The namespace of the loaded checkpoint, if `inner_starts` named this checkpoint."""
        self.forked: Base | None = None
        """What the ids of the next tasks were made of before a fork, which changes these ids."""
        self.parents: Mapping[str, str] = NO_CHECKPOINTS
        """The checkpoints of the enclosing graphs: namespace → id."""

    @property
    def checkpoint_id(self) -> str:
        """The id of the present checkpoint."""
        return str(self.present)

    @property
    def is_transient(self) -> bool:
        """Whether this is an inner graph without memory: its state is not needed after its end."""
        return self.parent is not None and NS_END in self.ns

    def around(self) -> Iterator[TaskContext]:
        """The tasks that the run is inside of, the innermost first."""
        around = self.parent
        while around is not None:
            yield around
            around = around.run.position.parent

    def task_base(self) -> Base:
        """The parts of the ids of the next step's tasks."""
        return (self.present, self.ns, self.step + 1)

    def idempotency_key(self, channels: ChannelState, task: Task) -> str:
        """Identifies the work of a task, across attempts and processes."""
        if (parent := self.parent) is not None:
            above = parent.run.position.idempotency_key(parent.run.channels, parent.task)
            line = f"{above} {without_ids(self.ns)}"
        else:
            line = channels.seen.get(LINEAGE, {}).get(LINEAGE, "")
        return digest_id("idempotency", line, str(task.base[2]), path_text(task.path))


# -- lines of history


def start_lineage(position: Position, channels: ChannelState, config: RunnableConfig) -> None:
    """Start a new line of history with the next checkpoint.

    The token of a graph with memory of its own is the id of the calling task, since several calls
    of a step may share the memory.
    """
    if position.parent is not None and not position.is_transient:
        token = position.parent.task.id
    else:
        run_id = config.get("run_id")
        token = random_token() if run_id is None else f"run {run_id}"
    channels.mark_seen(LINEAGE, {LINEAGE: token})


# -- inner graphs with memory of their own


def pin(position: Position, channels: ChannelState, tasks: Sequence[Task]) -> None:
    """Record in the enclosing tasks which checkpoints this run and its inner runs have reached."""
    reached = dict(channels.seen.get(CHILDREN, {}))
    for task in tasks:
        reached.update(task.inner_heads)
    if not position.is_transient:
        reached[position.ns] = position.checkpoint_id
    for around in position.around() if reached else ():
        for owner in around.task.with_callers():
            owner.inner_heads = {**owner.inner_heads, **reached}


def pin_children(channels: ChannelState, tasks: Sequence[Task]) -> None:
    """Record in the next checkpoint how far inner graphs with memory of their own have come."""
    newest: dict[str, str] = {}
    for task in tasks:
        newest |= {ns: max(id, newest.get(ns, "")) for ns, id in task.inner_heads.items()}
    channels.mark_seen(CHILDREN, {**channels.seen.get(CHILDREN, {}), **newest})


def remembered(position: Position) -> str | None:
    """The checkpoint id at which the memory of an inner graph continues.

    An earlier attempt of the same call comes first, then finished calls of this step, then the
    last checkpoint of this branch of history.
    """
    ns = position.ns
    for around in position.around():
        for task in around.task.with_callers():
            if ns in task.inner_heads:
                return task.inner_heads[ns]
        if (found := _reached(around.run.channels, around.run.tasks, ns)) is not None:
            return found
    return None


def _reached(channels: ChannelState, tasks: Sequence[Task], ns: str) -> str | None:
    """The checkpoint of an inner graph after the finished tasks of a run."""
    ended = [task.inner_heads[ns] for task in tasks if task.finished and ns in task.inner_heads]
    saved: str | None = channels.seen.get(CHILDREN, {}).get(ns)
    return max(ended, default=saved)


# -- namespaces


def without_ids(ns: str) -> str:
    """A namespace without task ids: `outer:uuid|1|inner:uuid` → `outer|1|inner`.

    The number stays: it tells a task's second call of a graph from its first.
    """
    return NS_SEP.join(part.partition(NS_END)[0] for part in ns.split(NS_SEP))


def node_names(ns: str) -> list[str]:
    """The nodes on the way to a namespace: `outer:uuid|1|inner:uuid` → `outer`, `inner`."""
    return [part for part in without_ids(ns).split(NS_SEP) if part and not part.isdigit()]
