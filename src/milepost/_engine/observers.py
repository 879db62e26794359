"""The hook through which others follow a run: LangChain's callbacks, traces, measurements.

Every run asks the watchers at its beginning; a watcher that wants to follow the run returns a
RunObserver. The observer is told when the run, each of its super-steps, each task and each attempt
of a task begin and end:

    run
      super-step
        task            a node, or a call of a `@task` function
          attempt       one call of the node; a retry is another one
            branch      the function of a conditional edge
          attempt       the error handler, after the last attempt has failed
      load              the checkpoint of the thread is read
      commit            steps are stored; in the background under `async` durability

The methods of an observer are generators of effects, like the rest of the engine. `Tell` is the
effect for a function that is called in sync code and awaited on an event loop; most observers yield
nothing. A run without observers makes none of these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from milepost._engine.context import langchain_bridge
from milepost._internal.dataclass_tools import record
from milepost.constants import TRACED

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.drivers.effects import EffectGenerator
    from milepost._engine.run import GraphRun
    from milepost._engine.superstep.plan import Task
    from milepost._engine.superstep.program import Branch
    from milepost.checkpoint._contract.records import CheckpointTuple

R = TypeVar("R")

TRACE = "milepost_trace"
"""The metadata key under which a checkpoint keeps the trace context of its run, if an observer
makes traces."""


class RunObserver:
    """Follows one run. Methods that are not overridden do nothing."""

    follows_steps = True
    """Whether the observer is told of super-steps, tasks, attempts, branches and commits. If not,
    it costs a step only the call of `enter`."""

    def run_begins(self, input: Any) -> EffectGenerator[None]:
        """The run begins, before anything is loaded; `input` is what the caller passed."""
        return nothing(input)

    def run_opened(self) -> EffectGenerator[None]:
        """The run has loaded its thread and taken its input; `run.resumed` marks a resume."""
        return nothing()

    def run_ends(self, output: Any, error: BaseException | None) -> EffectGenerator[None]:
        """The run has ended and is saved: with an output, at an interrupt, or with an error."""
        return nothing(output, error)

    def step_begins(self, tasks: Sequence[Task]) -> EffectGenerator[None]:
        """A super-step begins: `tasks` are all of its tasks, stored and cached ones too."""
        return nothing(tasks)

    def step_ends(
        self, tasks: Sequence[Task], error: BaseException | None
    ) -> EffectGenerator[None]:
        """A super-step has ended: applied and committed, stopped at an interrupt, or failed."""
        return nothing(tasks, error)

    def task_called(self, task: Task, context: TaskContext) -> None:
        """A node has called a task, which begins later; this runs in the context of the caller."""

    def task_begins(self, task: Task) -> EffectGenerator[None]:
        """A task is started; one whose result is stored or cached is not."""
        return nothing(task)

    def task_ends(self, task: Task, crash: BaseException | None) -> EffectGenerator[None]:
        """A task has ended; its outcome is in the task, or a `crash` ends the run."""
        return nothing(task, crash)

    def attempt_begins(self, context: TaskContext, handler: bool) -> EffectGenerator[None]:
        """A node is about to be called, or with `handler` its error handler."""
        return nothing(context, handler)

    def attempt_ends(
        self, context: TaskContext, output: Any, error: BaseException | None
    ) -> EffectGenerator[None]:
        """The node has returned and its branches were followed, or it has failed.

        A ParentCommand of an inner graph is passed as an error too, though the task goes on.
        """
        return nothing(context, output, error)

    def branch_begins(
        self, context: TaskContext, branch: Branch, state: Any
    ) -> EffectGenerator[None]:
        """The function of a conditional edge is about to be called."""
        return nothing(context, branch, state)

    def branch_ends(
        self, context: TaskContext, answer: Any, error: BaseException | None
    ) -> EffectGenerator[None]:
        """The function of a conditional edge has answered, or has failed."""
        return nothing(context, answer, error)

    def load_begins(self) -> EffectGenerator[None]:
        """The run is about to load its thread."""
        return nothing()

    def load_ends(
        self, saved: CheckpointTuple | None, error: BaseException | None
    ) -> EffectGenerator[None]:
        """The run has loaded the checkpoint that it starts from; None if there is none."""
        return nothing(saved, error)

    def commit(self, steps: Sequence[StoredStep]) -> AbstractContextManager[None] | None:  # noqa: ARG002
        """Entered while steps are stored, in the thread or task that stores them.

        The last step is of this observer's run; the others may be of enclosing or inner graphs.
        """
        return None

    def enter(self, variables: Context, context: TaskContext) -> None:
        """Set context variables that the code of an attempt sees: a span that is current."""


_EMPTY: Any = ()
NOTHING: EffectGenerator[None] = _EMPTY
"""What an observer method without effects returns. `yield from` takes an empty tuple as well as a
generator, and no object is made."""


def nothing(*_event: Any) -> EffectGenerator[None]:
    """NOTHING, whatever the event."""
    return NOTHING


@record
class StoredStep:
    """The description of a stored step for observers."""

    ns: str
    checkpoint_id: str | None
    """Of the new checkpoint; None if only writes of tasks are stored."""
    writes: int
    """How many values tasks have written."""
    weight: int
    """About how many bytes the encoded step has; 0 if the saver does not say."""


def trace_of(saved: CheckpointTuple) -> object:
    """The stored trace context of the last run at a checkpoint, or None.

    That run made the checkpoint, or it answered an interrupt there and stored no other checkpoint.
    """
    found: object = saved.metadata.get(TRACE)
    for _, channel, value in saved.pending_writes or ():
        if channel == TRACED:
            found = value
    return found


Watcher: TypeAlias = "Callable[[GraphRun, Any], RunObserver | None]"
"""Gets a run and its input; returns an observer if it wants to follow the run."""

WATCHERS: list[Watcher] = [langchain_bridge.watch]
"""The watchers that every run asks. A tool adds its watcher, and can remove it."""


def observers_of(run: GraphRun, input: Any) -> tuple[RunObserver, ...]:
    """Ask all watchers; returns the observers of the run."""
    asked = [watch(run, input) for watch in WATCHERS]
    return tuple([observer for observer in asked if observer is not None])


def observed(
    observers: Sequence[RunObserver],
    work: EffectGenerator[R],
    begins: Callable[[RunObserver], EffectGenerator[None]],
    ends: Callable[[RunObserver, R | None, BaseException | None], EffectGenerator[None]],
) -> EffectGenerator[R]:
    """Run a generator, and tell observers before and after it.

    The ends are told in reverse order, because spans are nested.
    """
    for observer in observers:
        yield from begins(observer)
    try:
        result = yield from work
    except GeneratorExit:
        raise  # the generator was dropped: no driver is left to carry out effects
    except BaseException as error:
        for observer in reversed(observers):
            yield from ends(observer, None, error)
        raise
    for observer in reversed(observers):
        yield from ends(observer, result, None)
    return result
