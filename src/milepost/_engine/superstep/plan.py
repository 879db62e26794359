"""The start of a super-step: which tasks run next. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost._engine.superstep.program import ExecutableGraph, Node, Write
from milepost._engine.superstep.renames import node_behind
from milepost._internal.ids import LateId, digest_id
from milepost._internal.notes import add_note
from milepost.constants import NS_END, NS_SEP, PULL, PUSH, TASKS
from milepost.errors import InvalidUpdateError
from milepost.types import Interrupt, Send

if TYPE_CHECKING:
    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.node_cache import CacheEntry
    from milepost._internal.threads import Cancellation

Base: TypeAlias = tuple[str | LateId, str, int]
"""The checkpoint, namespace and step that a task belongs to: what its id is made of."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Task:
    """One run of one node in one step."""

    # Defaults are kept on the class: a task is made for every step, and few are ever changed.
    writes: Sequence[Write] = ()
    finished: bool = False
    caller: Task | None = None
    """The task that called this one inside its node; None for a planned task."""
    cancellation: Cancellation | None = None
    """For a called task: lets the caller cancel it."""
    error: BaseException | str | None = None
    started: float | None = None
    """When the first attempt began, in seconds since the epoch."""
    failed: bool = False
    """Whether the task failed in an earlier attempt at this step."""
    paused: bool = False
    interrupts: tuple[Interrupt, ...] = ()
    """Open interrupts."""
    answered_interrupts: tuple[Interrupt, ...] = ()
    """Interrupts that were answered."""
    answers: Sequence[Any] = ()
    """Answers to its interrupts, in the order in which it asks."""
    inner_heads: Mapping[str, str] = _NOTHING
    """Namespace → last checkpoint id, for graphs with memory that have run in this task."""
    cache_entry: CacheEntry | None = None
    """For the node cache, if the node has a cache policy and the run has a cache."""
    planned_name: str
    """The node's name when the task was planned: the node may have been renamed since."""
    _id: str | None = None

    def __init__(
        self,
        node: Node,
        path: tuple[Any, ...],
        triggers: Sequence[str],
        input: Any,
        base: Base,
    ) -> None:
        self.name = self.planned_name = node.name
        self.node = node
        self.path = path
        self.path_text = node.path_text if len(path) == 2 else path_text(path)
        """The path as it is stored."""
        self.triggers = triggers
        self.input = input
        self.base = base

    def pause(self, interrupts: tuple[Interrupt, ...]) -> None:
        """Mark the task as waiting, for answers or at a breakpoint of an inner graph."""
        opened = {interrupt.id for interrupt in interrupts}
        self.answered_interrupts = (
            *self.answered_interrupts,
            *(i for i in self.interrupts if i.id not in opened),
        )
        self.interrupts = interrupts
        self.paused = True

    def fail(self, open_inside: tuple[Interrupt, ...], answered: Container[str]) -> None:
        """Mark the interrupts of a failed task: they are open if they have no answer."""
        asked = {interrupt.id: interrupt for interrupt in (*self.interrupts, *open_inside)}
        self.answered_interrupts = (
            *self.answered_interrupts,
            *(i for id, i in asked.items() if id in answered),
        )
        self.interrupts = tuple(i for id, i in asked.items() if id not in answered)

    def give_up(self, cancelled: BaseException) -> None:
        """Mark the task as cancelled: nothing of it is stored, and no interrupt is open."""
        self.error = cancelled
        self.interrupts, self.paused = (), False

    @property
    def called(self) -> bool:
        """Whether a running task called it."""
        return self.caller is not None

    @property
    def has_asked(self) -> bool:
        """Whether the task, or a graph or task that it called, has asked for an answer: the result
        is made with it."""
        return bool(self.answers or self.interrupts or self.answered_interrupts)

    @property
    def is_sent(self) -> bool:
        """Whether a Send asked for it."""
        return self.path[0] == PUSH and self.caller is None

    @property
    def was_cancelled(self) -> bool:
        """Whether the caller of the task has cancelled it."""
        return self.cancellation is not None and self.cancellation.asked

    @property
    def id(self) -> str:
        """The id of the task: the same each time that this step is taken from this checkpoint."""
        if self._id is None:
            checkpoint_id, ns, step = self.base
            name = self.planned_name
            self._id = digest_id(str(checkpoint_id), ns, str(step), name, self.path_text)
        return self._id

    @property
    def ns(self) -> str:
        """The namespace of graphs that the task runs."""
        own = f"{self.planned_name}{NS_END}{self.id}"
        return f"{self.base[1]}{NS_SEP}{own}" if self.base[1] else own

    def with_callers(self) -> Iterator[Task]:
        """This task, the task that called it, and so on."""
        task: Task | None = self
        while task is not None:
            yield task
            task = task.caller

    def ns_before(self, base: Base | None) -> str:
        """The namespace that graphs in the task had before a fork, where ids were made of `base`.

        Without a fork it is the present one.
        """
        if base is None:
            return self.ns
        if self.caller is not None:
            base = (base[0], self.caller.ns_before(base), base[2])
        former = copy(self)
        former.base, former._id = base, None
        return former.ns


def plan(
    program: ExecutableGraph,
    channels: ChannelState,
    base: Base,
    changed: Iterable[str] | None = None,
    stop: int | None = None,
) -> list[Task]:
    """The tasks of the next step: those that a Send asks for, then those that channels trigger.

    `changed` are the channels that the last step changed; None if that is not known.
    `stop` is the last step of the run. Without `stop` the tasks get no inputs: the caller does not
    run them.
    """
    sends, nodes = due(program, channels, changed)
    tasks: list[Task] = []
    for at, send in enumerate(sends):
        if (pushed := _push(program, send, at, base)) is not None:
            tasks.append(pushed)
    for node in nodes:
        task = Task(node, node.path, node.triggers, None, base)
        if channels.former_names:
            _keep_former_name(channels, task)
        if stop is not None:
            try:
                task.input = node.reader.read(channels, base[2], stop)
            except Exception as error:
                add_note(error, f"While the input of node '{node.name}' was made from the state.")
                raise
        tasks.append(task)
    return tasks


def _keep_former_name(channels: ChannelState, task: Task) -> None:
    """Call a task what its trigger is called in the loaded checkpoint, where it was planned."""
    for trigger in task.triggers:
        stored = channels.former_names.get(trigger)
        if stored is not None and channels.available(trigger):
            task.planned_name = node_behind(stored)
            task.path = (PULL, task.planned_name)
            task.path_text = path_text(task.path)
            return


def due(
    program: ExecutableGraph, channels: ChannelState, changed: Iterable[str] | None
) -> tuple[Sequence[Any], Sequence[Node]]:
    """What the next step runs: the Sends that wait, and the nodes with a trigger whose value the
    node has not seen, in the order of their names.
    """
    sent = channels.live.get(TASKS)
    sends = sent.get() if sent is not None and sent.is_available() else ()
    candidates: set[str] = set()
    for name in channels.versions if changed is None else changed:
        candidates.update(program.triggers.get(name, ()))
    found: list[Node] = []
    for node_name in sorted(candidates) if len(candidates) > 1 else candidates:
        node = program.nodes[node_name]
        seen: Mapping[str, Any] = channels.seen.get(node_name, _NOTHING)
        for name in node.triggers:
            version = channels.versions.get(name)
            if version is None or (channel := channels.live.get(name)) is None:
                continue
            before = seen.get(name)
            if (before is None or version > before) and channel.is_available():
                if node.waits_for is None or channels.available(node.waits_for):
                    found.append(node)
                break
    return sends, found


def _push(program: ExecutableGraph, send: Any, at: int, base: Base) -> Task | None:
    """The task of a Send; None if the graph does not have the node, which loading reports."""
    if not isinstance(send, Send):
        raise InvalidUpdateError(f"Expected a Send, got {send!r}.")
    node = program.nodes.get(program.renames.node(send.node))
    if node is None:
        return None
    if send.timeout is not None:
        if node.callee.aio is None:
            raise InvalidUpdateError(
                f"Send to '{send.node}' has a timeout, but the node is a sync function, which "
                "nothing can stop: make it `async def`, or send without a timeout."
            )
        node = replace(node, timeout=send.timeout)
    task = Task(node, (PUSH, at, False), (PUSH,), send.arg, base)
    task.planned_name = send.node
    return task


def path_text(path: tuple[Any, ...]) -> str:
    """A path as text that sorts like the path: numbers are padded."""
    parts = [
        f"{part:010d}"
        if type(part) is int
        else path_text(part)
        if isinstance(part, tuple)
        else str(part)
        for part in path
    ]
    return "~" + ", ".join(parts)


def in_path_order(tasks: Iterable[Task]) -> list[Task]:
    """The order in which writes are applied: by node name, then in order of sending."""
    return sorted(tasks, key=lambda task: task.path_text)


def finished_writes(tasks: Iterable[Task]) -> list[Write]:
    """The writes of finished tasks, in the order in which they are applied."""
    return [write for task in in_path_order(tasks) if task.finished for write in task.writes]
