"""Follows one run, and makes spans and measurements of it.

    invoke_workflow GRAPH        a run
      load                       the thread is found and loaded
      super_step N
        task NODE                or `execute_tool TOOL`, for the calls of a ToolNode
          attempt N              current while the node runs: spans of the user's code are inside
        commit                   under `async` durability below the run: it is stored meanwhile

Parents are given explicitly, since the parts of a run may be on any thread or task. Only an
attempt and a commit make their spans current.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context as TraceContext
from opentelemetry.context import attach, get_current
from opentelemetry.trace import INVALID_SPAN, Span, Tracer, set_span_in_context, use_span
from opentelemetry.util.types import AttributeValue

from milepost._engine.observers import TRACE, RunObserver, StoredStep, nothing
from milepost._internal.dataclass_tools import record
from milepost.constants import START
from milepost.errors import GraphInterrupt, ThreadConflict
from milepost.integrations._otel import marks, names
from milepost.integrations._otel.tools import tool_call_of

if TYPE_CHECKING:
    from contextvars import Context

    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.drivers.effects import EffectGenerator
    from milepost._engine.run import GraphRun
    from milepost._engine.superstep.plan import Task
    from milepost.checkpoint._contract.records import CheckpointTuple
    from milepost.integrations._otel.instruments import Instruments

Attributes = dict[str, AttributeValue]


@record
class Telemetry:
    """Where spans and measurements go, and what may be in them."""

    tracer: Tracer
    instruments: Instruments
    record_values: bool


@record
class _Open:
    """A span that has not ended, and the context in which it is current."""

    span: Span
    around: TraceContext
    began: float


class TracingObserver(RunObserver):
    """Follows one run."""

    def __init__(self, run: GraphRun, telemetry: Telemetry) -> None:
        self.run = run
        self._telemetry = telemetry
        self._labels: Attributes = {names.WORKFLOW: run.program.name}
        self._around: TraceContext = get_current()
        self._run = _Open(INVALID_SPAN, self._around, 0.0)
        self._step: _Open | None = None
        self._planned: dict[Task, bool] = {}
        """The tasks of the step that were not started so far, and whether they were finished."""
        self._open: dict[Any, _Open] = {}
        """Spans of tasks and attempts that have not ended, by Task and TaskContext."""
        self._loading: tuple[int, float] = (0, 0.0)
        self._earlier: CheckpointTuple | None = None
        """The checkpoint that the run starts from."""
        self._steps = 0

    # -- spans

    def _begin(
        self, name: str, parent: TraceContext, attributes: Attributes, start: int | None = None
    ) -> _Open:
        span = self._telemetry.tracer.start_span(
            name, parent, attributes=attributes, start_time=start
        )
        return _Open(span, set_span_in_context(span, parent), perf_counter())

    def _mark(self, span: Span, error: BaseException | None) -> None:
        marks.mark_end(span, error, with_text=self._telemetry.record_values)

    def _show(self, span: Span, name: str, value: Any) -> None:
        if self._telemetry.record_values:
            span.set_attribute(name, marks.shown(value))

    # -- the run

    def run_begins(self, input: Any) -> EffectGenerator[None]:
        """Begin the span of the run, and keep its context with the checkpoints."""
        run = self.run
        config = run.resources.config
        about: Attributes = {names.OPERATION: names.INVOKE_WORKFLOW, **self._labels}
        thread_id = (config.get("configurable") or {}).get("thread_id")
        if thread_id is not None:
            about[names.CONVERSATION] = str(thread_id)
        if config.get("run_id") is not None:
            about[names.RUN_ID] = str(config["run_id"])
        name = f"{names.INVOKE_WORKFLOW} {run.program.name}"
        self._around = get_current()
        self._run = self._begin(name, self._around, about)
        self._show(self._run.span, names.INPUT, input)
        context = self._run.span.get_span_context()
        if context.is_valid:
            run.checkpoints.keep_with_checkpoints(TRACE, marks.to_text(context))
        return nothing()

    def run_opened(self) -> EffectGenerator[None]:
        """Say where the run starts, and connect it with the run that stopped there."""
        run, span = self.run, self._run.span
        position = run.position
        span.set_attribute(names.RESUMED, run.resumed)
        if position.ns:
            span.set_attribute(names.NAMESPACE, position.ns)
        if (thread := run.checkpoints.thread) is not None:
            span.set_attribute(names.DURABILITY, thread.durability)
            span.set_attribute(names.SAVER, type(thread.saver).__name__)
        if self._earlier is not None:
            checkpoint_id = self._earlier.checkpoint["id"]
            span.set_attribute(names.CHECKPOINT, checkpoint_id)
            before = marks.from_text(self._earlier.metadata.get(TRACE))
            if before is not None:
                span.add_link(before, {names.LINK: self._why(), names.CHECKPOINT: checkpoint_id})
        return nothing()

    def _why(self) -> str:
        """Why this run goes on where another one was."""
        assert self._earlier is not None
        if not self.run.resumed:
            return "continue"
        made_here = self.run.position.checkpoint_id != self._earlier.checkpoint["id"]
        return "fork" if made_here else "resume"

    def run_ends(self, output: Any, error: BaseException | None) -> EffectGenerator[None]:
        """End the span of the run, and before it what was broken off."""
        run, instruments = self.run, self._telemetry.instruments
        for key in list(self._open):
            if (cut := self._open.pop(key, None)) is not None:
                cut.span.set_attribute(names.OUTCOME, marks.CANCELLED)
                cut.span.end()
        span = self._run.span
        outcome = marks.outcome_of(error, run.paused)
        if outcome == marks.INTERRUPTED:
            values = self._telemetry.record_values
            marks.mark_interrupts(span, run.interrupts, with_values=values)
        else:
            self._mark(span, error)
        if error is None:
            self._show(span, names.OUTPUT, output)
        span.set_attribute(names.OUTCOME, outcome)
        span.set_attribute(names.STEPS, self._steps)
        if run.checkpoints.thread is not None and run.position.stored_id is not None:
            span.set_attribute(names.STORED, run.position.stored_id)
        instruments.runs.add(1, {**self._labels, names.OUTCOME: outcome}, self._run.around)
        if isinstance(error, ThreadConflict) and run.depth == 0:
            instruments.conflicts.add(1, self._labels, self._run.around)
        span.end()
        return nothing()

    # -- super-steps

    def step_begins(self, tasks: Sequence[Task]) -> EffectGenerator[None]:
        """Begin the span of a super-step."""
        if all(map(_only_passes_input_on, tasks)):
            return nothing()
        position = self.run.position
        about: Attributes = {names.STEP: position.step + 1, names.TASKS: len(tasks)}
        if position.stored_id is not None:
            about[names.CHECKPOINT] = position.stored_id
        self._planned = {task: task.finished for task in tasks}
        self._step = self._begin(f"super_step {position.step + 1}", self._run.around, about)
        self._steps += 1
        return nothing()

    def step_ends(
        self, tasks: Sequence[Task], error: BaseException | None
    ) -> EffectGenerator[None]:
        """End the span of a super-step."""
        step, self._step = self._step, None
        if step is None:
            return nothing()
        for task, recalled in self._planned.items():
            if task.finished:
                known = names.RECALLED if recalled else names.CACHED
                self._begin_task(task, step.around, {known: True}).span.end()
        paused = [i for task in tasks if not task.finished for i in task.interrupts]
        if paused and error is None:
            values = self._telemetry.record_values
            marks.mark_interrupts(step.span, paused, with_values=values)
        self._mark(step.span, error)
        taken = perf_counter() - step.began
        self._telemetry.instruments.step.record(taken, self._labels, step.around)
        step.span.end()
        return nothing()

    # -- tasks

    def _begin_task(self, task: Task, parent: TraceContext, more: Attributes) -> _Open:
        about: Attributes = {names.NODE: task.name, names.TASK: task.id, **more}
        if (thread_id := self.run.position.thread_id) is not None:
            about[names.CONVERSATION] = thread_id
        name = f"task {task.name}"
        if (tool := tool_call_of(task)) is not None:
            about |= tool
            name = f"{names.EXECUTE_TOOL} {tool[names.TOOL]!s}"
        return self._begin(name, parent, about)

    def task_begins(self, task: Task) -> EffectGenerator[None]:
        """Begin the span of a task. One that was called is inside the span that called it."""
        self._planned.pop(task, None)
        if _only_passes_input_on(task):
            return nothing()
        if task.called:
            parent = get_current()
        else:
            parent = (self._step or self._run).around
        self._open[task] = self._begin_task(task, parent, {})
        return nothing()

    def task_ends(self, task: Task, crash: BaseException | None) -> EffectGenerator[None]:
        """End the span of a task."""
        opened = self._open.pop(task, None)
        if opened is None:
            return nothing()
        span = opened.span
        if task.finished:
            span.set_attribute(names.WRITES, len(task.writes))
            if task.called and task.started is None:
                span.set_attribute(names.CACHED, True)
        elif crash is not None:
            self._mark(span, crash)
        elif task.paused:
            self._mark(span, GraphInterrupt(task.interrupts))
        elif isinstance(task.error, BaseException):
            self._mark(span, task.error)
        elif task.error is not None:
            marks.mark_error(span, task.error, with_text=False)
        span.end()
        return nothing()

    def attempt_begins(self, context: TaskContext, handler: bool) -> EffectGenerator[None]:
        """Begin the span that is current while a node runs."""
        task = context.task
        if (around := self._open.get(task)) is None:
            return nothing()
        attempt = context.attempt
        about: Attributes = {names.NODE: task.name, names.ATTEMPT: attempt}
        if handler:
            about[names.HANDLER] = True
        elif attempt > 1:
            labels: Attributes = {**self._labels, names.NODE: task.name}
            self._telemetry.instruments.retries.add(1, labels, around.around)
        name = "error_handler" if handler else f"attempt {attempt}"
        self._open[context] = opened = self._begin(name, around.around, about)
        if self._telemetry.record_values:
            self._show(opened.span, names.INPUT, task.input)
        return nothing()

    def attempt_ends(
        self, context: TaskContext, output: Any, error: BaseException | None
    ) -> EffectGenerator[None]:
        """End that span."""
        opened = self._open.pop(context, None)
        if opened is None:
            return nothing()
        self._mark(opened.span, error)
        if error is None:
            self._show(opened.span, names.OUTPUT, output)
        opened.span.end()
        return nothing()

    def enter(self, variables: Context, context: TaskContext) -> None:
        """Make the span of an attempt the current one."""
        if (opened := self._open.get(context)) is not None:
            variables.run(attach, opened.around)

    # -- what is read and stored

    def load_begins(self) -> EffectGenerator[None]:
        """Take the time."""
        self._loading = (time_ns(), perf_counter())
        return nothing()

    def load_ends(
        self, saved: CheckpointTuple | None, error: BaseException | None
    ) -> EffectGenerator[None]:
        """Make the span of the load.

        A graph inside a run has none if nothing was there to be read.
        """
        self._earlier = saved
        if saved is None and error is None and self.run.position.parent is not None:
            return nothing()
        start, began = self._loading
        about: Attributes = {names.FOUND: saved is not None}
        if saved is not None:
            about[names.CHECKPOINT] = saved.checkpoint["id"]
        opened = self._begin("load", self._run.around, about, start)
        self._mark(opened.span, error)
        self._telemetry.instruments.load.record(perf_counter() - began, self._labels, opened.around)
        opened.span.end()
        return nothing()

    @contextmanager
    def commit(self, steps: Sequence[StoredStep]) -> Iterator[None]:
        """Make the span of a commit, and let the spans of database clients be inside it."""
        thread = self.run.checkpoints.thread
        deferred = thread is not None and thread.deferred
        parent = self._run if deferred or self._step is None else self._step
        about: Attributes = {
            names.STEPS: len(steps),
            names.WRITES: sum(step.writes for step in steps),
        }
        made = [step.checkpoint_id for step in steps if step.checkpoint_id is not None]
        if made:
            about[names.CHECKPOINT] = made[-1]
        weight = sum(step.weight for step in steps)
        if weight:
            about[names.BYTES] = weight
        opened = self._begin("commit", parent.around, about)
        instruments = self._telemetry.instruments
        try:
            with use_span(opened.span, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            self._mark(opened.span, error)
            raise
        else:
            if weight:
                instruments.bytes.add(weight, self._labels, opened.around)
        finally:
            taken = perf_counter() - opened.began
            instruments.commit.record(taken, self._labels, opened.around)
            opened.span.end()


def _only_passes_input_on(task: Task) -> bool:
    """Whether a task calls nothing of the user's."""
    return task.name == START and not task.node.branches
