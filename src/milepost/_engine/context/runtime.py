"""What a node can ask of its run: what the caller passed, which attempt this is, who calls.

The public names are in `milepost.runtime`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, runtime_checkable

from typing_extensions import TypeVar

from milepost.types import StreamWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.store.base import BaseStore


GIVEN_RUNTIME = "__pregel_runtime"
"""The key of `configurable` under which a caller can give a Runtime, as in LangGraph."""


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


@dataclass(frozen=True, slots=True)
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


@runtime_checkable
class BaseUser(Protocol):
    """Who calls, as the server's authentication found; fields are keys too.

    Examples:
        >>> from milepost.runtime import BaseUser, Runtime
        >>> def node(state, runtime: Runtime):
        ...     user: BaseUser | None = runtime.server_info and runtime.server_info.user
        ...     return {"by": user.identity if user else "local"}
    """

    @property
    def is_authenticated(self) -> bool:
        """Whether the server knows who it is."""

    @property
    def display_name(self) -> str:
        """A name to show."""

    @property
    def identity(self) -> str:
        """The name that is one user's alone."""

    @property
    def permissions(self) -> Sequence[str]:
        """What the user may do."""

    def __getitem__(self, key: str) -> Any: ...
    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Which assistant and graph of a server this call is for, and who calls.

    Examples:
        >>> from milepost.runtime import ServerInfo
        >>> ServerInfo(assistant_id="a1", graph_id="chat").graph_id
        'chat'
    """

    assistant_id: str
    """The assistant: a graph with a configuration of its own."""
    graph_id: str
    """The name under which the server knows the graph."""
    user: BaseUser | None = None
    """Who calls; `None` without authentication."""


def server_info(configurable: Mapping[str, Any]) -> ServerInfo | None:
    """What a server has put into the config of a call; None if nothing is there."""
    assistant, graph = configurable.get("assistant_id"), configurable.get("graph_id")
    user = configurable.get("langgraph_auth_user")
    if not hasattr(user, "identity"):
        user = None
    if assistant is None and graph is None and user is None:
        return None
    return ServerInfo(str(assistant or ""), str(graph or ""), user)


ContextT = TypeVar("ContextT", default=Any)


def no_writer(_chunk: Any) -> None:
    return None


def no_heartbeat() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
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
    stream_writer: StreamWriter = no_writer
    """Sends to the `custom` stream."""
    heartbeat: Callable[[], None] = no_heartbeat
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
            if other.stream_writer is no_writer
            else other.stream_writer,
            heartbeat=self.heartbeat if other.heartbeat is no_heartbeat else other.heartbeat,
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
