"""The spans of a run's tasks, and of the attempts of tasks that may have several.

    task NODE            or `execute_tool TOOL`, for the calls of a ToolNode
      attempt N          of a node with a retry policy or an error handler
      error_handler

The innermost of these is current while the node runs. A node that is called only once has no
attempt: the span of its task is the span of the call.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context as TraceContext
from opentelemetry.context import get_current
from opentelemetry.util.types import AttributeValue

from milepost.constants import START
from milepost.integrations._otel import names
from milepost.integrations._otel.spans import CANCELLED, Attributes, OpenSpan, Telemetry

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.superstep.plan import Task


class TaskSpans:
    """The open spans of one run's tasks; none, unless they `are_made`."""

    def __init__(self, telemetry: Telemetry, labels: Attributes, *, are_made: bool) -> None:
        self._telemetry = telemetry
        self._labels = labels
        self._are_made = are_made
        self._tasks: dict[Task, OpenSpan] = {}
        self._attempts: dict[TaskContext, OpenSpan] = {}

    # -- tasks

    def begin(self, task: Task, parent: TraceContext) -> None:
        """Begin the span of a task. One that was called is inside the span that called it."""
        if self._are_made and not only_passes_input_on(task):
            self._tasks[task] = self._begin(task, get_current() if task.called else parent)

    def _begin(self, task: Task, parent: TraceContext) -> OpenSpan:
        attributes: Attributes = {names.NODE: task.name, names.TASK: task.id, **self._labels}
        name = f"task {task.name}"
        if task.called and (tool := tool_call_of(task)) is not None:
            attributes |= tool
            name = f"{names.EXECUTE_TOOL} {tool[names.TOOL]!s}"
        return self._telemetry.begin(name, parent, attributes)

    def end(self, task: Task, crash: BaseException | None) -> None:
        """End the span of a task."""
        opened = self._tasks.pop(task, None)
        if opened is None:
            return
        span = opened.span
        if task.finished:
            span.set_attribute(names.WRITES, len(task.writes))
            if task.called and task.started is None:
                span.set_attribute(names.CACHED, True)
        elif crash is None and task.paused:
            self._telemetry.mark_interrupts(span, task.interrupts)
        else:
            self._telemetry.mark(span, task.error if crash is None else crash)
        span.end()

    def add_finished(self, task: Task, parent: TraceContext, *, recalled: bool) -> None:
        """Make the span of a task that was not started, since its result was stored or cached."""
        if not self._are_made:
            return
        opened = self._begin(task, parent)
        opened.span.set_attribute(names.RECALLED if recalled else names.CACHED, True)
        opened.span.end()

    # -- attempts

    def begin_attempt(self, context: TaskContext, handler: bool) -> None:
        """A node is about to be called: begin a span if it may be called again."""
        task = context.task
        if (opened := self._tasks.get(task)) is None:
            return
        node = task.node
        if node.retry or node.error_handler is not None:
            attempt = context.attempt
            attributes: Attributes = {names.NODE: task.name, names.ATTEMPT: attempt}
            if handler:
                attributes[names.HANDLER] = True
            name = "error_handler" if handler else f"attempt {attempt}"
            opened = self._telemetry.begin(name, opened.context, attributes)
            self._attempts[context] = opened
        self._telemetry.show(opened.span, names.INPUT, task.input)

    def end_attempt(self, context: TaskContext, output: Any, error: BaseException | None) -> None:
        """A node has returned, or has failed."""
        opened = self._attempts.pop(context, None)
        shown = opened or self._tasks.get(context.task)
        if error is None and shown is not None:
            self._telemetry.show(shown.span, names.OUTPUT, output)
        if opened is not None:
            self._telemetry.mark(opened.span, error)
            opened.span.end()

    def current(self, context: TaskContext) -> OpenSpan | None:
        """The span that is current while an attempt runs."""
        return self._attempts.get(context) or self._tasks.get(context.task)

    def cancel_open(self) -> None:
        """End the spans that the run has left open."""
        left: dict[Any, OpenSpan]
        for left in (self._attempts, self._tasks):
            while left:
                try:
                    _, opened = left.popitem()  # others may be ended on their threads right now
                except KeyError:
                    break
                opened.span.set_attribute(names.OUTCOME, CANCELLED)
                opened.span.end()


def only_passes_input_on(task: Task) -> bool:
    """Whether a task calls nothing of the user's."""
    return task.name == START and not task.node.branches


_TOOL_NODE = "milepost.prebuilt._tools.node"


def tool_call_of(task: Task) -> dict[str, AttributeValue] | None:
    """What the conventions say of a call that a ToolNode makes as a task; None for other tasks."""
    module = sys.modules.get(_TOOL_NODE)
    if module is None or not isinstance(task.node.callee.target, module.ToolNode):
        return None
    call = task.input.call
    return {
        names.OPERATION: names.EXECUTE_TOOL,
        names.TOOL: call["name"],
        names.TOOL_CALL: call["id"] or "",
        names.TOOL_TYPE: "function",
    }
