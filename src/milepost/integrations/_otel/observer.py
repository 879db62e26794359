"""Follows one run, and makes spans and measurements of it.

    invoke_workflow GRAPH        a run
      load                       the thread is found and loaded
      super_step N
        task NODE                see `task_spans.py`
        commit                   under `async` durability below the run: it is stored meanwhile

`detail` says how much of that is made: "run" leaves out what is done in every step, "task" the
super-steps and commits. A run that the sampler leaves out has no spans inside it either.

Only tasks, attempts and commits make their spans current. Where they have none, the run's is
current, so that what a node opens is in the trace of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context as TraceContext
from opentelemetry.context import attach, get_current
from opentelemetry.trace import INVALID_SPAN

from milepost._engine.observers import NOTHING, TRACE, RunObserver, StoredStep, trace_of
from milepost.errors import ThreadConflict
from milepost.integrations._otel import names, spans
from milepost.integrations._otel.spans import Attributes, OpenSpan, Telemetry
from milepost.integrations._otel.task_spans import TaskSpans, only_passes_input_on

if TYPE_CHECKING:
    from contextvars import Context

    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.drivers.effects import EffectGenerator
    from milepost._engine.run import GraphRun
    from milepost._engine.superstep.plan import Task
    from milepost.checkpoint._contract.records import CheckpointTuple


class TracingObserver(RunObserver):
    """Follows one run."""

    def __init__(self, run: GraphRun, telemetry: Telemetry) -> None:
        self.run = run
        self.follows_steps = telemetry.detail != "run"
        self.labels: Attributes = {names.WORKFLOW: run.program.name}
        self.telemetry = telemetry
        self._run = OpenSpan(INVALID_SPAN, get_current())
        self._step: OpenSpan | None = None
        self._step_began: float | None = None
        self._with_steps = False
        """Whether super-steps and commits have spans."""
        self._tasks = TaskSpans(telemetry, {}, are_made=False)
        self._planned: dict[Task, bool] = {}
        """The tasks of the step that were not started so far, and whether they were finished."""
        self._loading: tuple[int, float] = (0, 0.0)
        self._earlier: CheckpointTuple | None = None
        """The checkpoint that the run starts from."""
        self._steps = 0

    # -- the run

    def run_begins(self, input: Any) -> EffectGenerator[None]:
        """Begin the span of the run, and keep its context with the checkpoints."""
        run, telemetry = self.run, self.telemetry
        config = run.resources.config
        attributes: Attributes = {names.OPERATION: names.INVOKE_WORKFLOW, **self.labels}
        thread_id = (config.get("configurable") or {}).get("thread_id")
        if thread_id is not None:
            attributes[names.CONVERSATION] = thread_id = str(thread_id)
        if config.get("run_id") is not None:
            attributes[names.RUN_ID] = str(config["run_id"])
        name = f"{names.INVOKE_WORKFLOW} {run.program.name}"
        self._run = telemetry.begin(name, get_current(), attributes)
        span = self._run.span
        if span.is_recording():
            telemetry.show(span, names.INPUT, input)
            self._with_steps = telemetry.detail == "all"
            thread: Attributes = {} if thread_id is None else {names.CONVERSATION: thread_id}
            self._tasks = TaskSpans(telemetry, thread, are_made=self.follows_steps)
        context = span.get_span_context()
        if context.is_valid:
            run.checkpoints.given_metadata[TRACE] = spans.to_text(context)
        return NOTHING

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
            before = spans.from_text(trace_of(self._earlier))
            if before is not None:
                span.add_link(before, {names.LINK: self._why(), names.CHECKPOINT: checkpoint_id})
        return NOTHING

    def _why(self) -> str:
        """Why this run goes on where another one was."""
        assert self._earlier is not None
        if not self.run.resumed:
            return "continue"
        made_here = self.run.position.checkpoint_id != self._earlier.checkpoint["id"]
        return "fork" if made_here else "resume"

    def run_ends(self, output: Any, error: BaseException | None) -> EffectGenerator[None]:
        """End the span of the run, after the spans of tasks that were broken off."""
        run, telemetry = self.run, self.telemetry
        self._tasks.cancel_open()
        span = self._run.span
        outcome = spans.outcome_of(error, run.paused)
        if outcome == spans.INTERRUPTED:
            telemetry.mark_interrupts(span, run.interrupts)
        else:
            telemetry.mark(span, error)
        if error is None:
            telemetry.show(span, names.OUTPUT, output)
        span.set_attribute(names.OUTCOME, outcome)
        if self.follows_steps:
            span.set_attribute(names.STEPS, self._steps)
        if run.checkpoints.thread is not None and run.position.stored_id is not None:
            span.set_attribute(names.STORED, run.position.stored_id)
        instruments = telemetry.instruments
        instruments.runs.add(1, {**self.labels, names.OUTCOME: outcome}, self._run.context)
        if isinstance(error, ThreadConflict) and run.depth == 0:
            instruments.conflicts.add(1, self.labels, self._run.context)
        span.end()
        return NOTHING

    # -- super-steps

    def step_begins(self, tasks: Sequence[Task]) -> EffectGenerator[None]:
        """Begin the span of a super-step."""
        if all(map(only_passes_input_on, tasks)):
            return NOTHING
        self._steps += 1
        self._planned = {task: task.finished for task in tasks}
        if self._with_steps:
            position = self.run.position
            step = position.step + 1
            attributes: Attributes = {names.STEP: step, names.TASKS: len(tasks)}
            if position.stored_id is not None:
                attributes[names.CHECKPOINT] = position.stored_id
            self._step = self.telemetry.begin(f"super_step {step}", self._run.context, attributes)
        self._step_began = perf_counter()
        return NOTHING

    def step_ends(
        self, tasks: Sequence[Task], error: BaseException | None
    ) -> EffectGenerator[None]:
        """End the span of a super-step."""
        if self._step_began is None:
            return NOTHING
        taken = perf_counter() - self._step_began
        step, self._step, self._step_began = self._step, None, None
        context = (step or self._run).context
        for task, recalled in self._planned.items():
            if task.finished:
                self._tasks.add_finished(task, context, recalled=recalled)
        self.telemetry.instruments.step.record(taken, self.labels, context)
        if step is not None:
            paused = [i for task in tasks if not task.finished for i in task.interrupts]
            if paused and error is None:
                self.telemetry.mark_interrupts(step.span, paused)
            self.telemetry.mark(step.span, error)
            step.span.end()
        return NOTHING

    # -- tasks

    def task_begins(self, task: Task) -> EffectGenerator[None]:
        """Begin the span of a task."""
        self._planned.pop(task, None)
        self._tasks.begin(task, (self._step or self._run).context)
        return NOTHING

    def task_ends(self, task: Task, crash: BaseException | None) -> EffectGenerator[None]:
        """End the span of a task."""
        self._tasks.end(task, crash)
        return NOTHING

    def attempt_begins(self, context: TaskContext, handler: bool) -> EffectGenerator[None]:
        """Count a retry, and begin its span."""
        if context.attempt > 1 and not handler:
            labels: Attributes = {**self.labels, names.NODE: context.task.name}
            self.telemetry.instruments.retries.add(1, labels, self._innermost(context))
        self._tasks.begin_attempt(context, handler)
        return NOTHING

    def attempt_ends(
        self, context: TaskContext, output: Any, error: BaseException | None
    ) -> EffectGenerator[None]:
        """End the span of an attempt."""
        self._tasks.end_attempt(context, output, error)
        return NOTHING

    def enter(self, variables: Context, context: TaskContext) -> None:
        """Make the span of the task or attempt current, or that of the run."""
        variables.run(attach, self._innermost(context))

    def _innermost(self, context: TaskContext) -> TraceContext:
        """The context of the open span that an attempt is in."""
        return (self._tasks.current(context) or self._run).context

    # -- what is read and stored

    def load_begins(self) -> EffectGenerator[None]:
        """Take the time."""
        self._loading = (time_ns(), perf_counter())
        return NOTHING

    def load_ends(
        self, saved: CheckpointTuple | None, error: BaseException | None
    ) -> EffectGenerator[None]:
        """Make the span of the load.

        A graph inside a run has none if nothing was there to be read.
        """
        self._earlier = saved
        if saved is None and error is None and self.run.position.parent is not None:
            return NOTHING
        start, began = self._loading
        attributes: Attributes = {names.FOUND: saved is not None}
        if saved is not None:
            attributes[names.CHECKPOINT] = saved.checkpoint["id"]
        telemetry = self.telemetry
        opened = telemetry.begin("load", self._run.context, attributes, start)
        telemetry.mark(opened.span, error)
        telemetry.instruments.load.record(perf_counter() - began, self.labels, opened.context)
        opened.span.end()
        return NOTHING

    @contextmanager
    def commit(self, steps: Sequence[StoredStep]) -> Iterator[None]:
        """Time a commit and make its span, in which the spans of database clients are."""
        thread = self.run.checkpoints.thread
        deferred = thread is not None and thread.deferred
        context = (self._run if deferred or self._step is None else self._step).context
        weight = sum(step.weight for step in steps)
        opened = OpenSpan(INVALID_SPAN, context)
        if self._with_steps:
            attributes: Attributes = {
                names.STEPS: len(steps),
                names.WRITES: sum(step.writes for step in steps),
            }
            for step in steps:
                if step.checkpoint_id is not None:
                    attributes[names.CHECKPOINT] = step.checkpoint_id
            if weight:
                attributes[names.BYTES] = weight
            opened = self.telemetry.begin("commit", context, attributes)
        instruments = self.telemetry.instruments
        with self.telemetry.around(opened):
            began = perf_counter()
            try:
                yield
                if weight:
                    instruments.bytes.add(weight, self.labels, opened.context)
            finally:
                taken = perf_counter() - began
                instruments.commit.record(taken, self.labels, opened.context)
