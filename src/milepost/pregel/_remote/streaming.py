"""The events of a run on a server, as those of a graph here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from milepost._engine.context.task_context import TaskContext
from milepost._engine.streaming.events import Event
from milepost.constants import INTERRUPT, NS_SEP
from milepost.errors import GraphInterrupt, MilepostError, ParentCommand
from milepost.pregel._remote.wire import command_of, interrupts_of
from milepost.types import Command, Interrupt, StreamMode

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
