"""What the engine asks its driver to do.

The engine's generators yield effects and are sent the results; an error is thrown in. They never
wait, and never call a node, a branch, a saver or a cache themselves, but for functions without I/O:
reducers, the key function of a cache policy, a saver's `prepare` and `get_next_version`.

Each effect is a class: effects of steps and tasks are here, effects of savers and caches in
`saver_effects.py`. A driver finds the method that carries out an effect in a table, by the class;
what is not there is a call of a saver or a cache.

    effect     of       result
    Start      a run    tasks that have ended, if any has; others are under way
    Await      a run    tasks that have ended, at least one; none after the deadline
    Save       a run    None; the step is durable, or queued
    Flush      a run    None; everything queued is durable
    KeepClaim  a run    None; the run's claim is renewed from now on
    Call       a task   what the callable returned
    Decide     a task   what the function of a branch returned
    Pause      a task   None, after some seconds
    Tell       both     what the function of an observer returned
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from milepost._internal.dataclass_tools import record

if TYPE_CHECKING:
    from milepost._engine.context.node_callable import Callee
    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.superstep.plan import Task
    from milepost._engine.thread_writer import ThreadWriter
    from milepost.checkpoint._contract.step_saver import Fence, StepSaver
    from milepost.types import TimeoutPolicy

R = TypeVar("R")


class Effect(Generic[R]):
    """Something that a driver does for a generator. `yield from effect` is typed as its result."""

    __slots__ = ()

    def __iter__(self) -> Generator[Self, R, R]:
        return (yield self)


EffectGenerator: TypeAlias = Generator[Effect[Any], Any, R]
"""Yields effects, is sent their results, and returns a result of its own."""
TaskGenerator: TypeAlias = EffectGenerator[None]
"""The effects of one task; its outcome is in the task."""


@record
class Start(Effect["Sequence[Task]"]):
    """Start tasks. The only task of a step may already have ended when the result is sent."""

    tasks: Sequence[tuple[Task, TaskGenerator]]
    at_once: int | None
    """How many may run at the same time."""
    beside_driver: bool = False
    """Whether a single task, too, runs beside the driver, which stores called tasks meanwhile."""


class Await(Effect["Sequence[Task]"]):
    """Wait until a started task has ended; all that have ended are sent back together."""

    __slots__ = ("deadline",)

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        """When to stop the running tasks, by `time.monotonic`; the result may then be empty."""


AWAIT = Await()
STARTING = (Start, Await)
"""Where a run whose consumer has gone is stopped: before tasks begin, never while it saves."""


@record
class Save(Effect[None]):
    """Store prepared steps: now, or soon and in order if the writer is `deferred`."""

    writer: ThreadWriter
    steps: Sequence[Any]


@record
class Flush(Effect[None]):
    """Wait until everything that was queued is stored."""

    writer: ThreadWriter
    last: bool = True
    """Whether the run has nothing more to store."""


@record
class KeepClaim(Effect[None]):
    """Renew a run's claim on its thread in the background, until the run has ended."""

    saver: StepSaver[Any]
    thread_id: str
    fence: Fence


@record
class Call(Effect[Any]):
    """Call a node or an error handler in the context of a task."""

    callee: Callee
    argument: Any
    context: TaskContext
    timeout: TimeoutPolicy | None = None


class Decide(Call):
    """Ask the function of a branch where to go, in the context of a task."""

    __slots__ = ()


@record
class Pause(Effect[None]):
    """Wait before the next attempt."""

    seconds: float


@record
class Tell(Effect[Any]):
    """Call a function of an observer in sync code, or await another one on an event loop."""

    call: Callable[[], Any]
    acall: Callable[[], Any] | None = None
    """Called and awaited on an event loop; `call` if it is None."""


AFTER_EVENTS = (Start, Tell)
"""What begins only when the consumer has all events so far."""


class Abandoned(BaseException):
    """Thrown into a run whose consumer has gone: the run saves what it has, and starts no more.

    Not GeneratorExit, which a generator gets when it is dropped: then no driver carries out
    effects any more.
    """


STACKED = 24
"""How many nested graphs may share one stack: Python allows a thousand nested calls."""


def is_deep(depth: int) -> bool:
    """Whether a graph at this depth of nesting needs a stack of its own."""
    return depth > 0 and depth % STACKED == 0
