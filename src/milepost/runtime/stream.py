"""Events of a run, and the way they take to whoever consumes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.checkpoint.records import now
from milepost.constants import NS_SEP, RETURN, START
from milepost.runtime import bridge

if TYPE_CHECKING:
    from milepost.runtime.plan import Task
    from milepost.runtime.program import Program
    from milepost.types import StreamMode


class Part(NamedTuple):
    """One event."""

    ns: tuple[str, ...]
    """The graph that it comes from: () for the root."""
    mode: StreamMode
    payload: Any


def _nobody() -> None:
    return None


class Feed:
    """Collects the events of one graph, and passes them on to the graph around it."""

    __slots__ = ("eager", "heard", "may_wait", "modes", "parent", "parts", "subgraphs", "wake")

    def __init__(
        self,
        modes: frozenset[StreamMode] = frozenset(),
        subgraphs: bool = False,
        parent: Feed | None = None,
        *,
        eager: bool = False,
    ) -> None:
        self.modes = modes
        self.subgraphs = subgraphs
        """Whether the consumer wants events of inner graphs too."""
        self.parent = parent if parent is not None and parent.takes_from_children else None
        self.eager = eager
        """Whether nodes of this graph start tasks whose events should not wait for them."""
        self.parts: deque[Part] = deque()
        """Events that the driver has not delivered yet."""
        self.may_wait = False
        """Whether the driver's thread waits anyway: then a run can do so for itself."""
        self.wake: Callable[[], None] = _nobody
        """Tells a driver that waits for tasks to look here."""
        self.heard: set[str] = set()
        """Ids of the messages that the consumer of `messages` knows."""
        if "messages" in modes:
            bridge.load()

    @property
    def takes_from_children(self) -> bool:
        """Whether events of inner graphs have somewhere to go."""
        return (self.subgraphs and bool(self.modes)) or self.parent is not None

    @property
    def flows_during_nodes(self) -> bool:
        """Whether events may come up while a node runs, so that nodes must not block them."""
        return bool(self.modes) and (
            self.eager or self.subgraphs or bool(self.modes & {"custom", "messages"})
        )

    def wants(self, mode: StreamMode) -> bool:
        """Whether an event of this mode has somewhere to go."""
        if mode in self.modes:
            return True
        return self.parent is not None and self.parent.wants(mode)

    @property
    def silent(self) -> bool:
        """Whether no event has anywhere to go."""
        return not self.modes and self.parent is None

    def push(self, part: Part, *, from_child: bool = False) -> None:
        """Deliver an event, from any thread."""
        if part.mode in self.modes and (self.subgraphs or not from_child):
            self.parts.append(part)
            self.wake()
        if self.parent is not None:
            self.parent.push(part, from_child=True)

    def push_message(
        self, part: Part, id: str | None, *, once: bool, from_child: bool = False
    ) -> None:
        """Deliver a message; with `once` only where its id was not heard yet."""
        if "messages" in self.modes and (self.subgraphs or not from_child):
            known = id in self.heard
            if id is not None:
                self.heard.add(id)
            if not (once and known):
                self.parts.append(part)
                self.wake()
        if self.parent is not None:
            self.parent.push_message(part, id, once=once, from_child=True)

    def know_messages(self, ids: Iterable[str | None], *, from_child: bool = False) -> None:
        """Remember messages that need not be told."""
        known = [id for id in ids if id is not None]
        if "messages" in self.modes and (self.subgraphs or not from_child):
            self.heard.update(known)
        if self.parent is not None:
            self.parent.know_messages(known, from_child=True)


def ns_parts(ns: str) -> tuple[str, ...]:
    """A namespace as the tuple that streams show."""
    return tuple(ns.split(NS_SEP)) if ns else ()


def shown(part: Part, *, many_modes: bool, subgraphs: bool) -> Any:
    """An event in the form that the caller of `stream` asked for."""
    if subgraphs:
        return (part.ns, part.mode, part.payload) if many_modes else (part.ns, part.payload)
    return (part.mode, part.payload) if many_modes else part.payload


def result_of(keys: str | Sequence[str], writes: Sequence[tuple[str, Any]]) -> Any:
    """The part of some writes that concerns these keys; None if there is none."""
    if isinstance(keys, str):
        found = [value for name, value in writes if name in (keys, RETURN)]
        if not found:
            return None
        return found[0] if len(found) == 1 else found
    result: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for name, value in writes:
        if name == RETURN:
            return value
        if name not in keys:
            continue
        if name in result:
            repeated.setdefault(name, [result[name]]).append(value)
        result[name] = value
    if repeated:
        # A node that wrote a key several times: one update for each of its writes.
        return [{name: value} for name, value in writes if name in keys]
    return result or None


def written(keys: str | Sequence[str], writes: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Key → what was written to it; several writes to one key: {"$writes": [...]}."""
    names = (keys, RETURN) if isinstance(keys, str) else (*keys, RETURN)
    values: dict[str, list[Any]] = {}
    for name, value in writes:
        if name in names:
            values.setdefault(name, []).append(value)
    return {
        name: found[0] if len(found) == 1 else {"$writes": found} for name, found in values.items()
    }


def is_cached(task: Task) -> bool:
    """Whether a task was never called, because the node cache had its result."""
    return task.finished and task.started is None


def update_of(keys: str | Sequence[str], task: Task) -> dict[str, Any]:
    """The `updates` event of a finished task."""
    update = {task.name: result_of(keys, task.writes)}
    if is_cached(task):
        update["__metadata__"] = {"cached": True}
    return update


def task_started(task: Task) -> dict[str, Any]:
    """The first `tasks` event of a task."""
    return {
        "id": task.id,
        "name": task.name,
        "input": task.input,
        "triggers": tuple(task.triggers),
    }


def task_ended(program: Program, task: Task) -> dict[str, Any]:
    """The last `tasks` event of a task."""
    waiting = () if task.finished else task.interrupts
    return {
        "id": task.id,
        "name": task.name,
        "error": None if task.error is None else repr(task.error),
        "result": written(program.stream_keys, task.writes),
        "interrupts": [{"value": i.value, "id": i.id} for i in waiting],
    }


def as_debug(step: int, kind: str, payload: Any) -> dict[str, Any]:
    """An event in the envelope of the `debug` mode."""
    return {"step": step, "timestamp": now(), "type": kind, "payload": payload}


def visible(task: Task) -> bool:
    """Whether a task shows in streams."""
    return task.name != START
