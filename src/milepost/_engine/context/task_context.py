"""What a running task can reach: its config, the store, the stream, its interrupts.

One typed object, the TaskContext, travels with a task, in a context variable. Functions that work
only inside a node (`interrupt`, `get_config`, `get_stream_writer`, ...) and graphs called inside a
node find the run that they belong to through it.
"""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from dataclasses import field, replace
from sys import modules
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from milepost._engine.context.config import node_config
from milepost._engine.context.langchain_bridge import LANGCHAIN, share_config, with_callbacks
from milepost._engine.context.server_info import ServerInfo, server_info
from milepost._internal.dataclass_tools import frozen
from milepost._internal.ids import interrupt_id
from milepost.constants import NS_SEP
from milepost.errors import GraphInterrupt, NodeError, OutsideRunError, ParentCommand
from milepost.types import MISSING, Interrupt, RunnableConfig, StreamWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from milepost._engine.context.response_schema import ResponseSchema
    from milepost._engine.run import GraphRun
    from milepost._engine.superstep.plan import Task
    from milepost.store.base import BaseStore

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


class RunControl:
    """Lets other code ask a run to stop at the end of its present step.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.errors import GraphDrained
        >>> from milepost.graph import StateGraph
        >>> from milepost.runtime import RunControl
        >>> nodes = [("first", lambda state: {"n": 1}), ("second", lambda state: {"n": 2})]
        >>> builder = StateGraph(dict).add_sequence(nodes).set_entry_point("first")
        >>> graph = builder.compile(checkpointer=InMemorySaver())
        >>> config = {"configurable": {"thread_id": "1"}}
        >>> control = RunControl()
    """

    __slots__ = ("_reason",)

    def __init__(self) -> None:
        self._reason: str | None = None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Ask the run to finish the tasks in flight, save, and stop.

        Args:
            reason: Why, for the log and the error.

        Examples:
            >>> control.request_drain("deploy")
            >>> try:
            ...     graph.invoke({"n": 0}, config, control=control)
            ... except GraphDrained as drained:
            ...     print(drained)
            Graph drained: deploy
            >>> graph.invoke(None, config)  # goes on, here or in another process
            {'n': 2}
        """
        self._reason = reason

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop."""
        return self._reason is not None

    @property
    def drain_reason(self) -> str | None:
        """The reason given to `request_drain`."""
        return self._reason


@frozen()
class ExecutionInfo:
    """Which attempt of which task this is.

    Examples:
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.runtime import Runtime
        >>> def node(state, runtime: Runtime):
        ...     return {"attempt": runtime.execution_info.node_attempt}
        >>> graph = StateGraph(dict).add_node("node", node).add_edge(START, "node").compile()
        >>> graph.invoke({})
        {'attempt': 1}
    """

    checkpoint_id: str | None
    """The checkpoint that the task starts from."""
    checkpoint_ns: str
    """The namespace of the task: that of its graph, its node and its id."""
    task_id: str
    """The same for every attempt at the task."""
    thread_id: str | None = None
    """The thread that the run is on."""
    run_id: str | None = None
    """The run, if its caller or the runtime has named it."""
    node_attempt: int = 1
    """1 for the first attempt, 2 for the first retry, and so on."""
    node_first_attempt_time: float | None = None
    """When the first attempt began, in seconds since 1970."""
    idempotency_key: str = ""
    """The same on a retry and on a resume after a crash, another one on a replay or fork.

    Pass it to services that deduplicate requests, so that an effect is not repeated.
    """

    def patch(self, **overrides: Any) -> ExecutionInfo:
        """A copy with some fields changed.

        Args:
            **overrides: Fields and their new values.
        """
        return replace(self, **overrides)


ContextT = TypeVar("ContextT", default=Any)


def _no_writer(_chunk: Any) -> None:
    return None


def _no_heartbeat() -> None:
    return None


@frozen(kw_only=True)
class Runtime(Generic[ContextT]):
    """What a node gets when it has a parameter `runtime`.

    Examples:
        >>> from dataclasses import dataclass
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.runtime import Runtime
        >>> @dataclass
        ... class Context:
        ...     user: str
        >>> def greet(state: dict, runtime: Runtime[Context]):
        ...     return {"text": f"Hello {runtime.context.user}"}
        >>> builder = StateGraph(dict, Context).add_node("greet", greet).add_edge(START, "greet")
        >>> builder.compile().invoke({}, context=Context("Ada"))
        {'text': 'Hello Ada'}
    """

    context: ContextT = None  # type: ignore[assignment]
    """What the caller passed as `context=`."""
    store: BaseStore | None = None
    """The store that the graph was compiled with."""
    stream_writer: StreamWriter = _no_writer
    """Sends to the `custom` stream."""
    heartbeat: Callable[[], None] = _no_heartbeat
    """Tells an idle timeout that the node is alive."""
    previous: Any = None
    """For an entrypoint: what its last run on this thread returned."""
    execution_info: ExecutionInfo | None = None
    """Which attempt of which task this is."""
    server_info: ServerInfo | None = None
    """What the server that runs the graph says about the call; None if there is no server."""
    control: RunControl | None = field(default=None, repr=False)
    """What the caller passed as `control=`: ask it whether the run is to stop."""

    def merge(self, other: Runtime[ContextT]) -> Runtime[ContextT]:
        """The fields of `other`; where `other` has none, the fields of this runtime.

        Args:
            other: The runtime whose fields come first.
        """
        return Runtime(
            context=other.context or self.context,
            store=self.store if other.store is None else other.store,
            stream_writer=self.stream_writer
            if other.stream_writer is _no_writer
            else other.stream_writer,
            heartbeat=self.heartbeat if other.heartbeat is _no_heartbeat else other.heartbeat,
            previous=self.previous if other.previous is None else other.previous,
            execution_info=other.execution_info or self.execution_info,
            server_info=other.server_info or self.server_info,
            control=other.control or self.control,
        )

    def override(self, **changes: Any) -> Runtime[ContextT]:
        """A copy with some fields changed.

        Args:
            **changes: Fields and their new values.
        """
        return replace(self, **changes)

    def patch_execution_info(self, **overrides: Any) -> Runtime[ContextT]:
        """A copy with some fields of its `execution_info` changed.

        Args:
            **overrides: Fields of `execution_info` and their new values.
        """
        if self.execution_info is None:
            raise RuntimeError("This runtime has no execution_info: it is not that of a node.")
        return replace(self, execution_info=self.execution_info.patch(**overrides))

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop: a long node may want to end early."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """The reason given to `RunControl.request_drain`."""
        return None if self.control is None else self.control.drain_reason


DEFAULT_RUNTIME: Runtime[Any] = Runtime()
"""A runtime that belongs to no run: no context, no store, writers that drop what they get."""


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
    return current_context("get_runtime").runtime


class TaskContext:
    """One attempt of one task."""

    # Defaults are kept on the class: a context is made for every attempt, and few are changed.
    failure: NodeError | None = None
    """For an error handler: the error that it handles."""
    heartbeat: Callable[[], None] = staticmethod(_no_heartbeat)
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
            if config.get("callbacks") or run.events.stream.wants_callbacks:
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
        if self._runtime is None:
            self._runtime = self._make_runtime()
        return self._runtime

    def _make_runtime(self) -> Runtime[Any]:
        task, position, resources = self.task, self.run.position, self.run.resources
        run_id = resources.config.get("run_id")
        configurable = resources.config.get("configurable") or {}
        return Runtime(
            context=resources.context,
            store=resources.store,
            stream_writer=self.stream_writer,
            heartbeat=self.heartbeat,
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

    def child_ns(self) -> str:
        """The namespace of the next graph that this task calls."""
        at = self.children
        self.children += 1
        return self.task.ns if at == 0 else f"{self.task.ns}{NS_SEP}{at}"
