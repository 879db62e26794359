"""What a running task can reach: its config, the store, the stream, its interrupts.

One typed object, the TaskContext, travels with a task, in a context variable. Functions that work
only inside a node (`interrupt`, `get_config`, `get_stream_writer`, ...) and graphs called inside a
node find the run that they belong to through it.
"""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from copy import copy
from sys import modules
from typing import TYPE_CHECKING, Any

from milepost._engine.context.config import node_config
from milepost._engine.context.langchain_bridge import (
    LANGCHAIN,
    config_around,
    share_config,
    with_callbacks,
)
from milepost._engine.context.runtime import (
    GIVEN_RUNTIME,
    ExecutionInfo,
    Runtime,
    no_heartbeat,
    server_info,
)
from milepost._internal.ids import interrupt_id
from milepost.constants import NS_SEP
from milepost.errors import (
    GraphInterrupt,
    MissingDependencyError,
    NodeError,
    OutsideRunError,
    ParentCommand,
    mark_invalid_resume,
)
from milepost.types import MISSING, Interrupt, RunnableConfig, StreamWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from milepost._engine.run import GraphRun
    from milepost._engine.superstep.plan import Task

_current: ContextVar[TaskContext | None] = ContextVar("milepost_task_context", default=None)

for_configs: list[Callable[[TaskContext], dict[str, Any]]] = []
"""What integrations put into `config["configurable"]` of a node, each time a config is made."""


def find_context() -> TaskContext | None:
    """The context of the task that this code runs in, if it runs in one."""
    return _current.get()


def current_context(wanted_by: str) -> TaskContext:
    """The context of the task that this code runs in; `wanted_by` is named in the error."""
    context = _current.get()
    if context is None:
        raise OutsideRunError(
            f"{wanted_by}() works only inside a node or task of a running graph. "
            "Call it from a node's function, not from the code that calls the graph."
        )
    return context


def get_runtime(context_schema: type[object] | None = None) -> Runtime:  # noqa: ARG001
    """The runtime of the node that this is called in.

    Args:
        context_schema: Only tells type checkers what `runtime.context` is.

    Raises:
        OutsideRunError: It is called outside of a node.

    Examples:
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.runtime import get_runtime
        >>> builder = StateGraph(dict).add_edge(START, "node")
        >>> builder = builder.add_node("node", lambda state: {"by": get_runtime().context["user"]})
        >>> builder.compile().invoke({}, context={"user": "Ada"})
        {'by': 'Ada'}
    """
    return given_runtime() or current_context("get_runtime").runtime


def given_runtime() -> Runtime | None:
    """The runtime that code outside a run has put into the config of a LangChain runnable."""
    around = config_around() if _current.get() is None else None
    return None if around is None else (around.get("configurable") or {}).get(GIVEN_RUNTIME)


class ResponseSchema:
    """JSON Schema for callers, and the check of their answers."""

    __slots__ = ("_adapter", "shown")

    def __init__(self, schema: type[Any] | dict[str, Any]) -> None:
        self._adapter: Any = None
        self.shown: dict[str, Any]
        """The JSON Schema that callers see."""
        if isinstance(schema, dict):
            self.shown = schema
            return
        try:
            from pydantic import TypeAdapter
        except ImportError as error:
            raise MissingDependencyError(
                "interrupt(response_schema=) with a class is checked by pydantic: run "
                "`pip install pydantic`, or pass JSON Schema as a dict."
            ) from error
        self._adapter = TypeAdapter(schema)
        self.shown = self._adapter.json_schema()

    def checked(self, answer: Any) -> Any:
        """The answer as the node gets it; pydantic's ValidationError if it does not fit."""
        if self._adapter is None:
            return answer
        try:
            return self._adapter.validate_python(answer)
        except ValueError as error:
            mark_invalid_resume(error)
            raise


class TaskContext:
    """One attempt of one task."""

    # Defaults are kept on the class: a context is made for every attempt, and few are changed.
    failure: NodeError | None = None
    """For an error handler: the error that it handles."""
    heartbeat: Callable[[], None] = staticmethod(no_heartbeat)
    open_inside: tuple[Interrupt, ...] = ()
    """Interrupts that an inner graph left open when the inner graph failed."""
    interrupts_asked: int = 0
    children: int = 0
    """Number of graphs called in this attempt so far: keeps their namespaces distinct."""
    calls: int = 0
    """Number of tasks called in this attempt so far: keeps their ids distinct."""
    came_up: ParentCommand | None = None
    """A command that an inner graph of the node has sent to the graph of this task."""
    callbacks: Any = None
    """Callbacks for LangChain's runnables inside the node, if something listens."""
    pushed: Sequence[tuple[str, Any]] = ()
    """Writes from inside the node: applied before the writes that the node returns."""
    _config: RunnableConfig | None = None
    _runtime: Runtime[Any] | None = None

    def __init__(self, run: GraphRun, task: Task, attempt: int) -> None:
        self.run = run
        self.task = task
        self.attempt = attempt

    def for_handler(self, attempt: int) -> TaskContext:
        """The context of an attempt of the error handler, after this attempt of the node.

        Interrupts and calls are counted on from where the node has failed.
        """
        context = copy(self)
        context.attempt, context._config, context._runtime = attempt, None, None
        return context

    def entered(self) -> Context:
        """A copy of the present context variables, with this TaskContext among them.

        Since it is a copy, variables that a node sets end with the node.
        """
        variables = copy_context()
        variables.run(_current.set, self)
        if LANGCHAIN in modules:
            share_config(variables, self)
        for observer in self.run.observers:
            observer.enter(variables, self)
        return variables

    def interrupt(self, value: Any, schema: ResponseSchema | None = None) -> Any:
        """The answer to this interrupt if there is one; otherwise the run pauses."""
        at = self.interrupts_asked
        self.interrupts_asked += 1
        task = self.task
        if at < len(task.answers):
            answer = task.answers[at]
            return answer if schema is None else schema.checked(answer)
        identity = interrupt_id(task.ns, at)
        answer = self.run.answers.get(identity, MISSING)
        if answer is MISSING:
            shown = None if schema is None else schema.shown
            raise GraphInterrupt([Interrupt(value, identity, response_schema=shown)])
        given = answer
        if schema is not None:
            try:
                given = schema.checked(answer)
            except ValueError:
                # The interrupt stays open: enclosing graphs must not count it as answered.
                self.run.answers.pop(identity, None)
                raise
        task.answers = [*task.answers, answer]
        return given

    @property
    def config(self) -> RunnableConfig:
        """What the node sees as its config."""
        if self._config is None:
            run = self.run
            config = node_config(run.resources.config, run.position, self.task)
            for keys_for in for_configs:
                config["configurable"].update(keys_for(self))
            if self.callbacks is not None:
                config["callbacks"] = self.callbacks
            # Events of these modes come from LangChain's callbacks.
            heard = not run.events.stream.wanted.isdisjoint(("messages", "tools"))
            if LANGCHAIN in modules or config.get("callbacks") or heard:
                config = with_callbacks(config, self)
            self._config = config
        return self._config

    def report_to(self, callbacks: Any) -> None:
        """Let LangChain's runnables inside the node report to these callbacks from now on."""
        self.callbacks = callbacks
        self._config = None

    @property
    def stream_writer(self) -> StreamWriter:
        """Sends to the `custom` stream."""

        def write(chunk: Any) -> None:
            self.heartbeat()
            self.run.events.custom(chunk)

        return write

    @property
    def runtime(self) -> Runtime[Any]:
        """What the node sees as its runtime."""
        if self._runtime is not None:
            return self._runtime
        task, position, resources = self.task, self.run.position, self.run.resources
        run_id = resources.config.get("run_id")
        configurable = resources.config.get("configurable") or {}
        self._runtime = Runtime(
            context=resources.context,
            store=resources.store,
            stream_writer=self.stream_writer,
            heartbeat=lambda: self.heartbeat(),  # its timeout may begin later
            previous=resources.previous,
            execution_info=ExecutionInfo(
                task_id=task.id,
                checkpoint_id=position.stored_id,
                checkpoint_ns=task.ns,
                thread_id=position.thread_id,
                run_id=None if run_id is None else str(run_id),
                node_attempt=self.attempt,
                node_first_attempt_time=task.started,
                idempotency_key=position.idempotency_key(self.run.channels, task),
            ),
            server_info=server_info(configurable),
            control=resources.control,
        )
        return self._runtime

    def child_ns(self) -> str:
        """The namespace of the next graph that this task calls."""
        at = self.children
        self.children += 1
        return self.task.ns if at == 0 else f"{self.task.ns}{NS_SEP}{at}"
