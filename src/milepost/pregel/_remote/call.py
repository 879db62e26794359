"""One run on a server: the request, and what the caller sees of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._engine.context.config import merge_configs
from milepost._engine.context.task_context import TaskContext, find_context
from milepost._engine.streaming.events import Event
from milepost.constants import INTERRUPT, NS_SEP
from milepost.errors import GraphInterrupt, MilepostError, ParentCommand
from milepost.pregel._remote.requests import Request, Requests
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
    from milepost.pregel._remote.requests import RemoteClients
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
    """Turns the events of a server into those that the caller has asked for."""

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
        self._ns = () if context is None else tuple(context.task.ns.split(NS_SEP))
        self._resumable = resumable
        self._stream = context.run.events.stream if context is not None else None
        self._passed_on: set[str] = set()
        if self._stream is not None and self._stream.takes_from_children:
            self._passed_on = {mode for mode in _MODES if mode in self._stream.wanted}

    @property
    def asked_for(self) -> list[str]:
        """The modes that the server is asked for; interrupts come with `updates`."""
        modes = {*self._wanted, *self._passed_on, "updates"} - {"events"}
        return sorted("messages-tuple" if mode == "messages" else mode for mode in modes)

    @property
    def with_subgraphs(self) -> bool:
        """Whether the server is asked for events of inner graphs."""
        return self._subgraphs or bool(self._passed_on)

    def shown(self, part: Any) -> Iterator[Any]:
        """The parts that the caller gets for a part of the client's stream: one event, or none."""
        mode, _, inside = part.event.partition(NS_SEP)
        data: Any = tuple(part.data) if mode == "messages" else part.data
        inner = tuple(inside.split(NS_SEP)) if inside else ()
        if mode == "error":
            raise RemoteException(data)
        if mode == "command" and data.get("graph") == Command.PARENT:
            raise ParentCommand(command_of(data))
        ns = self._ns + inner
        if self._stream is not None and mode in self._passed_on:
            self._stream.push(Event(ns, mode, data), from_child=True)
        is_update = mode == "updates" and not inner and isinstance(data, dict)
        if self._resumable and is_update and INTERRUPT in data:
            raise GraphInterrupt(list(interrupts_of(data[INTERRUPT])))
        # A server sends a message once, in whichever graph it came up first.
        if mode in self._wanted and (not inner or self._subgraphs or mode == "messages"):
            yield self._event(ns, mode, data)

    def _event(self, ns: tuple[str, ...], mode: str, data: Any) -> Any:
        """An event in the form that the caller has asked for."""
        if self._version == "v2":
            asked: tuple[Interrupt, ...] = ()
            if mode == "values" and isinstance(data, dict):
                asked = interrupts_of(data.get(INTERRUPT))
                data = {key: value for key, value in data.items() if key != INTERRUPT}
            return {"type": mode, "ns": ns, "data": data, "interrupts": asked}
        if self._subgraphs:
            return (ns, data) if self._is_single else (ns, mode, data)
        return data if self._is_single else RemotePart(mode, data)


def open_run(
    graph: RemoteClients,
    input: Any,
    config: RunnableConfig | None,
    stream_mode: StreamMode | Sequence[StreamMode] | None,
    subgraphs: bool,
    version: str,
) -> Requests[tuple[dict[str, Any], RemoteEvents]]:
    """The arguments of the client's `runs.stream`, and what its events become.

    If the node around this call has answers, the server is asked first what its thread waits for.
    """
    context = find_context()
    given = merge_configs(graph.config, config)
    sent = sent_config(given)
    thread_id = sent.get("configurable", {}).pop("thread_id", None)
    thread_id = None if thread_id is None else str(thread_id)
    # A graph around this call is one whose node makes the call, or whose namespace is given.
    is_inside = context is not None or (given.get("configurable") or {}).get("checkpoint_ns")
    events = RemoteEvents(
        stream_mode,
        subgraphs=subgraphs,
        version=version,
        context=context,
        resumable=thread_id is not None and bool(is_inside),
    )
    command: dict[str, Any] | None = None
    if isinstance(input, Command):
        input, command = None, sent_command(input)
    elif thread_id is not None and (answers := _answers(context)):
        state = yield Request("threads", "get_state", {"thread_id": thread_id})
        asked = {i.id for i in snapshot_of(state).interrupts}
        if wanted := {id: answer for id, answer in answers.items() if id in asked}:
            input, command = None, {"resume": wanted}
    arguments = {
        "thread_id": thread_id,
        "assistant_id": graph.assistant_id,
        "input": input,
        "command": command,
        "config": sent,
        "stream_mode": events.asked_for,
        "stream_subgraphs": events.with_subgraphs,
        "if_not_exists": "create",
    }
    if context is None:
        # Inside a node the config names a checkpoint of the caller's thread, not of the server's.
        place = sent_checkpoint(given) or {}
        arguments["checkpoint"] = place if place.get("checkpoint_id") else None
    return arguments, events


def _answers(context: TaskContext | None) -> dict[str, Any]:
    """Answers to what the node around this call has asked, in an earlier attempt."""
    if context is None:
        return {}
    task, given = context.task, context.run.answers
    asked = (*task.answered_interrupts, *task.interrupts)
    return {i.id: given[i.id] for i in asked if i.id in given}
