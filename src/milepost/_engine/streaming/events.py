"""Events of a run, and how they reach their consumers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost._engine.context import langchain_bridge
from milepost._engine.context.config import node_config, shown_parts
from milepost._engine.reading.snapshot import checkpoint_event
from milepost._engine.streaming import payloads
from milepost._engine.streaming.payloads import messages_in, messages_of
from milepost._engine.superstep.plan import in_path_order
from milepost._internal.ids import random_uuid
from milepost.checkpoint._contract.records import now
from milepost.constants import INTERRUPT, START, TAG_HIDDEN
from milepost.errors import GraphBubbleUp

if TYPE_CHECKING:
    from milepost._engine.observers import RunObserver
    from milepost._engine.position import Position
    from milepost._engine.superstep.channel_state import ChannelState
    from milepost._engine.superstep.plan import Task
    from milepost._engine.superstep.program import ExecutableGraph, Writer
    from milepost.types import Interrupt, RunnableConfig, StreamMode


class Event(NamedTuple):
    """One event."""

    ns: tuple[str, ...]
    """The graph that it comes from: () for the root."""
    mode: StreamMode
    payload: Any


def _wake_nothing() -> None:
    return None


class EventStream:
    """Collects the events of one graph, and passes them on to the graph around it."""

    def __init__(
        self,
        modes: frozenset[StreamMode] = frozenset(),
        subgraphs: bool = False,
        *,
        eager: bool = False,
    ) -> None:
        """`eager`: nodes of this graph start tasks whose events should not wait for the nodes."""
        self.modes = modes
        self.subgraphs = subgraphs
        """Whether the consumer wants events of inner graphs too."""
        self.parent: EventStream | None = None
        """The stream of the enclosing graph, if it takes events of inner graphs."""
        self.wanted = modes
        """The modes whose events have a consumer, here or in an enclosing graph."""
        self.flows_during_nodes = bool(modes) and (
            eager or subgraphs or bool(modes & {"custom", "messages", "tools"})
        )
        """Whether events may come while a node runs: nodes then run beside the driver."""
        self.undelivered: deque[Event] = deque()
        """Events that the driver has not delivered yet."""
        self.blocks = False
        """Whether the consumer of `messages` takes models' answers in content blocks."""
        self.wake: Callable[[], None] = _wake_nothing
        """Wakes a driver that waits for tasks, so that it delivers events."""
        self.woken = False
        """Whether `wake` was called and the driver has not looked yet."""
        self.heard: set[str] = set()
        """Ids of messages that the consumer of `messages` has, or need not get."""
        if modes & {"messages", "tools"}:
            langchain_bridge.load()

    def join(self, parent: EventStream) -> None:
        """Pass events on to the stream of the enclosing graph, if it takes them."""
        if parent.takes_from_children:
            self.parent = parent
            self.wanted |= parent.wanted

    @property
    def takes_from_children(self) -> bool:
        """Whether events of inner graphs have a consumer."""
        return (self.subgraphs and bool(self.modes)) or self.parent is not None

    @property
    def takes_blocks(self) -> bool:
        """Whether models' answers come in content blocks; an enclosing stream may decide."""
        if "messages" in self.modes or self.parent is None:
            return self.blocks
        return self.parent.takes_blocks

    def deliver(self, event: Event) -> None:
        """Hand an event to the consumer, from any thread."""
        self.undelivered.append(event)
        if not self.woken:
            self.woken = True
            self.wake()

    def push(self, event: Event, *, from_child: bool = False) -> None:
        """Deliver an event here and to enclosing graphs, from any thread."""
        if event.mode in self.modes and (self.subgraphs or not from_child):
            self.deliver(event)
        if self.parent is not None:
            self.parent.push(event, from_child=True)

    def takers_of_messages(self) -> Iterator[EventStream]:
        """The streams that a message of this graph goes to: this one, and those around it."""
        taker: EventStream | None = self
        while taker is not None:
            if "messages" in taker.modes and (taker.subgraphs or taker is self):
                yield taker
            taker = taker.parent

    def know_messages(self, ids: Iterable[str | None]) -> None:
        """Remember messages that need not be streamed."""
        known = [id for id in ids if id is not None]
        for taker in self.takers_of_messages():
            taker.heard.update(known)


class RunEvents:
    """Tells a stream what happens in one run."""

    def __init__(
        self,
        stream: EventStream,
        program: ExecutableGraph,
        position: Position,
        config: RunnableConfig,
        keys: str | Sequence[str] | None,
    ) -> None:
        self.stream = stream
        self.program = program
        self.position = position
        self.config = config
        self.keys = program.stream_keys if keys is None else keys
        """The part of the state that the caller wants to see."""
        self.quiet = not stream.wanted
        """Whether the stream has no consumer."""
        self.observers: Sequence[RunObserver] = ()
        """Observers that follow the steps of the run."""
        self._takers: tuple[tuple[str, ...], list[EventStream]] | None = None
        """The namespace of messages and the streams that take them; set by the first message."""

    def push(self, mode: StreamMode, payload: Any) -> None:
        """Send an event of this graph."""
        self.stream.push(Event(self._ns(), mode, payload))

    def _ns(self) -> tuple[str, ...]:
        return shown_parts(self.position.ns, self.position)

    def _visible(self, task: Task) -> bool:
        """Whether a task shows in streams."""
        return task.name != START and TAG_HIDDEN not in payloads.tags_of(self.config, task)

    def _push_with_debug(self, mode: StreamMode, step: int, kind: str, payload: Any) -> None:
        """Send an event, and the same in the envelope of the `debug` mode."""
        self.push(mode, payload)
        if "debug" in self.stream.wanted:
            envelope = {"step": step, "timestamp": now(), "type": kind, "payload": payload}
            self.push("debug", envelope)

    def custom(self, chunk: Any) -> None:
        """A node sends something of its own."""
        if "custom" in self.stream.wanted:
            self.push("custom", chunk)

    # -- steps

    def checkpoint(
        self,
        channels: ChannelState,
        metadata: Mapping[str, object],
        made_by: Sequence[Writer],
        tasks: Sequence[Task] | None = None,
    ) -> None:
        """There is a new checkpoint; `tasks` follow it, if they are planned already."""
        if self.stream.wanted.isdisjoint(("checkpoints", "debug")):
            return
        event = checkpoint_event(self.program, self.position, channels, metadata, made_by, tasks)
        self._push_with_debug("checkpoints", self.position.step, "checkpoint", event)

    def tasks_start(self, tasks: Sequence[Task]) -> None:
        """Tasks are about to run."""
        if "messages" in self.stream.wanted:
            # Messages in a task's input are not streamed when the task passes them on.
            self.stream.know_messages(
                message.id
                for task in tasks
                if self._visible(task)
                for message in messages_of(task.input)
            )
        if self.stream.wanted.isdisjoint(("tasks", "debug")):
            return
        for task in tasks:
            if self._visible(task):
                started = payloads.task_started(self.config, task)
                self._push_with_debug("tasks", self.position.step + 1, "task", started)

    def tasks_recalled(self, tasks: Sequence[Task]) -> None:
        """A step is taken again: stream what its finished tasks wrote, marked as cached."""
        if "updates" in self.stream.wanted:
            for task in in_path_order(tasks):
                if task.finished and self._visible(task):
                    self.push("updates", payloads.update_of(self.keys, task))

    def task_ended(self, task: Task) -> None:
        """A task has ended."""
        wanted = self.stream.wanted
        if self.quiet or not self._visible(task):
            return
        if task.finished and "messages" in wanted:
            self.returned_messages(task)
        if task.finished and "updates" in wanted:
            self.push("updates", payloads.update_of(self.keys, task))
        if wanted.isdisjoint(("tasks", "debug")):
            return
        if payloads.is_cached(task) or isinstance(task.error, GraphBubbleUp):
            # The task has not run; or its command is for the enclosing graph; or an inner graph
            # was drained, and continues later.
            return
        if task.paused and not task.interrupts:
            return  # an inner graph stopped at a breakpoint: no result, no interrupt
        ended = payloads.task_ended(self.program.stream_keys, task)
        self._push_with_debug("tasks", self.position.step + 1, "task_result", ended)

    def interrupts(
        self, tasks: Sequence[Task], interrupts: Sequence[Interrupt], values: Any
    ) -> None:
        """The run has stopped at interrupts: an update for each task, and the state once."""
        if "updates" in self.stream.wanted:
            for task in in_path_order(tasks):
                if task.interrupts:
                    self.push("updates", {INTERRUPT: tuple(task.interrupts)})
        if "values" in self.stream.wanted:
            shown = {**values} if isinstance(values, dict) else {}
            self.push("values", {**shown, INTERRUPT: interrupts})

    def breakpoint(self) -> None:
        """The run has stopped at a breakpoint, which asks nothing."""
        self.push("updates", {INTERRUPT: ()})

    # -- messages

    def message(self, message: Any, metadata: dict[str, Any], *, once: bool) -> None:
        """Stream a message or a piece of one; `once`: only to streams that have not had it."""
        if self._takers is None:
            self._takers = self._ns(), [*self.stream.takers_of_messages()]
        ns, takers = self._takers
        id, event = message.id, Event(ns, "messages", (message, metadata))
        for taker in takers:
            if id not in taker.heard:
                if id is not None:
                    taker.heard.add(id)
            elif once:
                continue
            taker.deliver(event)

    def message_event(self, event: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Stream the begin, a content block or the end of a message."""
        self.push("messages", (event, dict(metadata)))

    def returned_messages(self, task: Task, shown: bool = True) -> None:
        """Stream the messages that an ended task has written.

        Those that a command from a graph inside has brought (a hand-over) are not shown.
        """
        if not self._visible(task):
            return  # the caller knows what the input was
        metadata: dict[str, Any] | None = None
        for _key, value in task.writes:
            for message in messages_in(value):
                if message.id is None:
                    message.id = random_uuid()  # the state gets it with the same id
                if not shown:
                    self.stream.know_messages([message.id])
                    continue
                if metadata is None:
                    config = node_config(self.config, self.position, task)
                    metadata = {"ls_integration": "langgraph", **(config.get("metadata") or {})}
                    if metadata.get("checkpoint_ns") == task.ns:
                        del metadata["checkpoint_ns"]  # only for models that the node calls
                self.message(message, metadata, once=True)
