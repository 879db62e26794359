"""The hook through which others follow a run: LangChain's callbacks, traces, measurements.

A watcher is asked at the beginning of every run whether it wants to follow it, and answers with a
RunObserver. The observer is told when the run, each of its super-steps, each task and each attempt
of a task begin and end:

    run
      super-step
        task            a node, or a call of a `@task` function
          attempt       one call of the node; a retry is another one
            branch      the function of a conditional edge
          attempt       the error handler, after the last attempt has failed
      load              what is saved of the thread is read
      commit            steps are stored; in the background under `async` durability

What an observer does is a generator of effects like the rest of the engine. Something that has to
be called in sync code and awaited on an event loop is a `Tell`; most observers yield nothing. A
run that is not followed has no observers, and asks for nothing.
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
"""The key of a checkpoint's metadata under which the trace context of its run is kept, if some
observer makes traces."""


class RunObserver:
    """Follows one run. Methods that are not overridden do nothing."""

    follows_steps = True
    """Whether the observer is told of super-steps, tasks, attempts, branches and commits. One that
    is not costs a step nothing, but for `enter`."""

    def run_begins(self, input: Any) -> EffectGenerator[None]:
        """The run begins, before anything is loaded; `input` is what the caller passed."""
        return nothing(input)

    def run_opened(self) -> EffectGenerator[None]:
        """The run has loaded its thread and taken its input; `run.resumed` says if it goes on."""
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
        """The code of an attempt calls a task, which begins later; told in the caller's context."""

    def task_begins(self, task: Task) -> EffectGenerator[None]:
        """A task is started; one whose result is stored or cached is not."""
        return nothing(task)

    def task_ends(self, task: Task, crash: BaseException | None) -> EffectGenerator[None]:
        """A task has ended; the outcome is in the task, unless something ended the run."""
        return nothing(task, crash)

    def attempt_begins(self, context: TaskContext, handler: bool) -> EffectGenerator[None]:
        """A node is about to be called, or with `handler` its error handler."""
        return nothing(context, handler)

    def attempt_ends(
        self, context: TaskContext, output: Any, error: BaseException | None
    ) -> EffectGenerator[None]:
        """The node has returned and its branches were followed, or it has failed.

        A command that an inner graph has handed up is an error too, though the task goes on.
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
        """The run is about to find its thread, and to load what is saved there."""
        return nothing()

    def load_ends(
        self, saved: CheckpointTuple | None, error: BaseException | None
    ) -> EffectGenerator[None]:
        """The run has loaded the checkpoint that it starts from; None if there is none."""
        return nothing(saved, error)

    def commit(self, steps: Sequence[StoredStep]) -> AbstractContextManager[None] | None:  # noqa: ARG002
        """Entered while steps are stored, in the thread or task that stores them.

        The last of the steps is of this observer's run, the others may be of graphs around it or
        inside it.
        """
        return None

    def enter(self, variables: Context, context: TaskContext) -> None:
        """Set context variables that the code of an attempt sees: a span that is current."""


_EMPTY: Any = ()
NOTHING: EffectGenerator[None] = _EMPTY
"""What an observer returns that has nothing for the driver to do: `yield from` takes an empty
tuple as well as a generator, and the tuple need not be made."""


def nothing(*_told: Any) -> EffectGenerator[None]:
    """NOTHING, whatever was told."""
    return NOTHING


@record
class StoredStep:
    """What observers are told of a step that is stored."""

    ns: str
    checkpoint_id: str | None
    """Of the new checkpoint; None if only writes of tasks are stored."""
    writes: int
    """How many values tasks have written."""
    weight: int
    """About how many bytes the encoded step has; 0 if the saver does not say."""


def trace_of(saved: CheckpointTuple) -> object:
    """The trace context of the run that was last at a checkpoint, as it is stored; or None.

    That is the run that made it, or one that has answered there and has come no further.
    """
    found: object = saved.metadata.get(TRACE)
    for _, channel, value in saved.pending_writes or ():
        if channel == TRACED:
            found = value
    return found


Watcher: TypeAlias = "Callable[[GraphRun, Any], RunObserver | None]"
"""Asked with a run and its input, whether it follows the run."""

WATCHERS: list[Watcher] = [langchain_bridge.watch]
"""All that are asked; a tool that adds one can remove it again."""


def observers_of(run: GraphRun, input: Any) -> tuple[RunObserver, ...]:
    """Those that follow a run that begins."""
    found: tuple[RunObserver, ...] = ()
    for watch in WATCHERS:
        observer = watch(run, input)
        if observer is not None:
            found = (*found, observer)
    return found


def observed(
    observers: Sequence[RunObserver],
    work: EffectGenerator[R],
    begins: Callable[[RunObserver], EffectGenerator[None]],
    ends: Callable[[RunObserver, R | None, BaseException | None], EffectGenerator[None]],
) -> EffectGenerator[R]:
    """Do some work, and tell observers before it and after it.

    What was begun is ended in the opposite order, as spans are nested.
    """
    for observer in observers:
        yield from begins(observer)
    try:
        result = yield from work
    except GeneratorExit:
        raise  # it was dropped: no driver carries out what it would ask for
    except BaseException as error:
        for observer in reversed(observers):
            yield from ends(observer, None, error)
        raise
    for observer in reversed(observers):
        yield from ends(observer, result, None)
    return result
