"""One run on a server: what is sent, and what is shown of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._engine.context.config import merge_configs
from milepost._engine.context.task_context import TaskContext, find_context
from milepost._engine.streaming.events import Event
from milepost.constants import INTERRUPT, NS_SEP
from milepost.errors import GraphInterrupt, MilepostError, ParentCommand
from milepost.pregel._remote.asking import Ask, Asking
from milepost.pregel._remote.wire import (
    command_of,
    interrupts_of,
    sent_checkpoint,
    sent_command,
    sent_config,
    snapshot_of,
)
from milepost.types import Command, Interrupt, StreamMode

if TYPE_CHECKING:
    from milepost.pregel._remote.graph import RemoteGraph
    from milepost.types import RunnableConfig

_MODES: Final[tuple[StreamMode, ...]] = (
    *("values", "updates", "custom"),
    *("messages", "checkpoints", "tasks", "debug"),
)


class RemoteException(MilepostError):
    """A graph on a server has failed. Its argument is what the server says about it."""


class RemotePart(NamedTuple):
    """An event of one of several modes. The fields are called as those of the client's parts."""

    event: str
    data: Any


class RemoteEvents:
    """What a caller sees of the events of a server, one after the other."""

    def __init__(
        self,
        stream_mode: StreamMode | Sequence[StreamMode] | None,
        *,
        subgraphs: bool,
        version: str,
        context: TaskContext | None,
        resumable: bool,
    ) -> None:
        wanted = stream_mode or "updates"
        self._is_single = isinstance(wanted, str)
        self._wanted: set[str] = {wanted} if isinstance(wanted, str) else set(wanted)
        if "messages-tuple" in self._wanted:  # as servers call it
            self._wanted = {*self._wanted, "messages"} - {"messages-tuple"}
        self._subgraphs = subgraphs
        self._version = version
        self._context = context
        self._resumable = resumable
        self._stream = context.run.events.stream if context is not None else None
        self._passed_on: set[str] = set()
        if self._stream is not None and self._stream.takes_from_children:
            self._passed_on = {mode for mode in _MODES if self._stream.wants(mode)}

    @property
    def asked_for(self) -> list[str]:
        """The modes that the server is asked for; interrupts come with `updates`."""
        modes = {*self._wanted, *self._passed_on, "updates"} - {"events"}
        return sorted("messages-tuple" if mode == "messages" else mode for mode in modes)

    @property
    def with_subgraphs(self) -> bool:
        """Whether the server is asked for events of inner graphs."""
        return self._subgraphs or bool(self._passed_on)

    def shown(self, event: str, data: Any) -> Iterator[Any]:
        """What the caller gets of an event: one thing, or nothing."""
        mode, _, inside = event.partition(NS_SEP)
        if mode == "error":
            raise RemoteException(data)
        if mode == "command" and data.get("graph") == Command.PARENT:
            raise ParentCommand(command_of(data))
        if mode == "messages":
            data = tuple(data)
        inner = tuple(inside.split(NS_SEP)) if inside else ()
        ns = self._ns_of_caller() + inner
        if self._stream is not None and mode in self._passed_on:
            self._stream.push(Event(ns, mode, data), from_child=True)  # type: ignore[arg-type]
        updates = data if mode == "updates" and isinstance(data, dict) and not inner else {}
        if self._resumable and INTERRUPT in updates:
            raise GraphInterrupt(list(interrupts_of(updates[INTERRUPT])))
        # A server sends a message once, in whichever graph it came up first.
        if mode not in self._wanted or (inner and not self._subgraphs and mode != "messages"):
            return
        if self._version == "v2":
            asked: tuple[Interrupt, ...] = ()
            if mode == "values" and isinstance(data, dict):
                asked = interrupts_of(data.get(INTERRUPT))
                data = {key: value for key, value in data.items() if key != INTERRUPT}
            yield {"type": mode, "ns": ns, "data": data, "interrupts": asked}
        elif self._subgraphs:
            yield (ns, data) if self._is_single else (ns, mode, data)
        else:
            yield data if self._is_single else RemotePart(mode, data)

    def _ns_of_caller(self) -> tuple[str, ...]:
        if self._context is None:
            return ()
        return tuple(self._context.task.ns.split(NS_SEP))


class RemoteCall:
    """One run on the server: what is sent, and what is shown of the answer."""

    def __init__(
        self,
        graph: RemoteGraph,
        input: Any,
        config: RunnableConfig | None,
        stream_mode: StreamMode | Sequence[StreamMode] | None,
        subgraphs: bool,
        version: str,
    ) -> None:
        self._graph = graph
        self._input = input
        self._context = find_context()
        self._given = merge_configs(graph.config, config)
        self._config = sent_config(self._given)
        thread_id = self._config.get("configurable", {}).pop("thread_id", None)
        self._thread_id = None if thread_id is None else str(thread_id)
        self.events = RemoteEvents(
            stream_mode,
            subgraphs=subgraphs,
            version=version,
            context=self._context,
            resumable=self._thread_id is not None and self._is_inside(),
        )

    def _is_inside(self) -> bool:
        """Whether the call is made for a graph around it: in a node, or in its namespace."""
        return self._context is not None or bool(
            (self._given.get("configurable") or {}).get("checkpoint_ns")
        )

    def open(self) -> Asking[dict[str, Any]]:
        """The arguments of the run. What the server waits for is asked first, if that matters."""
        input: Any = self._input
        command: dict[str, Any] | None = None
        if isinstance(input, Command):
            command = sent_command(input)
            input = None
        elif answers := self._answers():
            state = yield Ask("threads", "get_state", {"thread_id": self._thread_id})
            asked = {i.id for i in snapshot_of(state).interrupts}
            if wanted := {id: answer for id, answer in answers.items() if id in asked}:
                input, command = None, {"resume": wanted}
        arguments = {
            "thread_id": self._thread_id,
            "assistant_id": self._graph.assistant_id,
            "input": input,
            "command": command,
            "config": self._config,
            "stream_mode": self.events.asked_for,
            "stream_subgraphs": self.events.with_subgraphs,
            "if_not_exists": "create",
        }
        if self._context is None:
            # Inside a node these are places of the thread here.
            arguments["checkpoint"] = self._checkpoint()
        return arguments

    def _checkpoint(self) -> Mapping[str, Any] | None:
        """The checkpoint of the server's thread to go on from, if the caller names one."""
        place = sent_checkpoint(self._given) or {}
        return place if place.get("checkpoint_id") else None

    def _answers(self) -> dict[str, Any]:
        """Answers to what the node around this call has asked, in an earlier attempt."""
        if self._context is None or self._thread_id is None:
            return {}
        task, given = self._context.task, self._context.run.answers
        asked = (*task.asked, *task.interrupts)
        return {i.id: given[i.id] for i in asked if i.id in given}
