"""What the runtime asks its driver to do.

The runtime's generators yield these and are sent the results; an error is thrown in. They never
wait, and never call a node or a saver themselves.

    yielded   by                          sent back
    Ask       a run, history, a store op  what the method returned
    Listing   history                     an iterator, for Next
    Next      history                     its next item, or None at the end
    Start     a run                       tasks that have ended, if any has; others are under way
    Await     a run                       tasks that have ended, at least one
    Save      a run, an update            None; the step is durable, or queued
    Flush     a run                       None; everything queued is durable
    Call      a task                      what the callable returned
    Pause     a task                      None, after some seconds
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from milepost.record import record

if TYPE_CHECKING:
    from milepost.runtime.calls import Callee
    from milepost.runtime.plan import Task
    from milepost.runtime.saving import Ledger
    from milepost.runtime.scope import Scope
    from milepost.types import TimeoutPolicy


@record
class Ask:
    """Call a method of a saver, store or cache: `method` in sync code, `amethod` on a loop."""

    target: Any
    method: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)


@record
class Listing:
    """Open `saver.list(...)` or `saver.alist(...)`."""

    target: Any
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]


@record
class Next:
    """The next item of an open listing."""

    cursor: Any


@record
class Start:
    """Start tasks. A step's only task may have ended by the time that this is answered."""

    tasks: Sequence[tuple[Task, TaskProgram]]
    at_once: int | None
    """How many may run at the same time."""
    apart: bool = False
    """Whether what they call is to be heard of while they run, also if there is only one."""


class Await:
    """Wait until a started task has ended; all that have are sent back together."""

    __slots__ = ()


AWAIT = Await()
STARTING = (Start, Await)
"""Where a run whose consumer has gone is stopped: before more begins, never while it saves."""


STACKED = 24
"""Graphs inside graphs whose calls may lie on one stack: Python allows for a thousand calls."""


def is_deep(depth: int) -> bool:
    """Whether a graph that has so many around it needs a stack of its own."""
    return depth > 0 and depth % STACKED == 0


class Abandoned(BaseException):
    """Thrown into a run whose consumer has gone: it saves what it has, and starts no more.

    Not GeneratorExit, which a program gets when it is dropped: then nobody carries out effects.
    """


@record
class Save:
    """Store a prepared step: now, or soon and in order."""

    ledger: Ledger
    steps: Sequence[Any]
    wait: bool


@record
class Flush:
    """Wait until everything that was queued is stored."""

    ledger: Ledger
    last: bool = True
    """Whether the run has nothing more to store."""


@record
class Call:
    """Call a node, a branch or an error handler in the scope of a task."""

    callee: Callee
    argument: Any
    scope: Scope
    timeout: TimeoutPolicy | None = None
    routes: bool = False
    """It is a branch: a quick decision, which need not leave the event loop for a thread."""


@record
class Pause:
    """Wait before the next attempt."""

    seconds: float


Effect: TypeAlias = Ask | Listing | Next | Start | Await | Save | Flush
TaskEffect: TypeAlias = Call | Pause | Ask
R = TypeVar("R")
RunProgram: TypeAlias = Generator[Effect, Any, R]
TaskProgram: TypeAlias = Generator[TaskEffect, Any, None]
Spawn: TypeAlias = "Callable[[Task, TaskProgram, Callable[[], None]], None]"
"""Starts a task that a running one has called, and tells when it has ended."""
