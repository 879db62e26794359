"""Graphs inside a run: when they begin and end, by the `tasks` events, and their own streams."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from milepost._internal.generators import adrive, drive
from milepost.constants import NS_END
from milepost.errors import GraphDrained, GraphInterrupt
from milepost.stream._mux import Hooks, StreamMux
from milepost.stream._types import Hook, ProtocolEvent, StreamTransformer, await_hook, call_hook
from milepost.stream.run_stream import AsyncSubgraphRunStream, SubgraphRunStream
from milepost.stream.stream_channel import StreamChannel

SubgraphStatus: TypeAlias = Literal["started", "completed", "failed", "interrupted", "drained"]
"""How far a graph inside a run is."""
Namespace: TypeAlias = tuple[str, ...]
Handle: TypeAlias = SubgraphRunStream | AsyncSubgraphRunStream


class ToolCallCause(TypedDict):
    """A model called a tool, and that called the graph."""

    type: Literal["toolCall"]
    tool_call_id: str


class LifecyclePayload(TypedDict, total=False):
    """A graph inside the run has begun or ended.

    Examples:
        >>> run = outer.stream_events({}, version="v3")
        >>> [payload["event"] for payload in run.lifecycle]
        ['started', 'completed']
    """

    event: SubgraphStatus
    """What has happened."""
    namespace: list[str]
    """The graph."""
    graph_name: NotRequired[str]
    """The name of the graph."""
    trigger_call_id: NotRequired[str]
    """The id of the task that it runs in."""
    cause: NotRequired[ToolCallCause]
    """The tool call that has started it."""
    error: NotRequired[str]
    """Why it failed."""


class _TasksLifecycleBase(StreamTransformer):
    """Finds out when inner graphs begin and end.

    A graph has begun when a task of it has, and has ended when the task that it runs in has.
    Subclasses choose the graphs that they follow, and act when one begins or ends. Events of tasks
    are not events of the run, but what subclasses make of them is.
    """

    required_stream_modes = ("tasks",)

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self._seen: set[Namespace] = set()
        self._open: dict[Namespace, str] = {}
        """Graphs that have begun, and the ids of the tasks that they run in."""
        self._lc_by_ns: dict[Namespace, str | None] = {}
        """Graph → the name of its agent, from the metadata of its first task."""
        self._pending_tool_calls: dict[str, str] = {}
        """Task id → the tool call that the task carries out."""
        self._pending_cause: ToolCallCause | None = None
        """The tool call that has started the graph of the present `_on_started`."""

    # -- for subclasses

    def _should_track(self, ns: Namespace) -> bool:
        """Whether to follow this graph."""
        raise NotImplementedError

    def _on_started(
        self, ns: Namespace, graph_name: str | None, trigger_call_id: str | None
    ) -> None:
        """A graph has begun."""
        raise NotImplementedError

    def _on_terminal(self, ns: Namespace, status: SubgraphStatus, error: str | None) -> None:
        """A graph has ended."""
        raise NotImplementedError

    # -- events of tasks

    def process(self, event: ProtocolEvent) -> bool:
        """Take an event of a task."""
        if event["method"] != "tasks":
            return True
        ns, data = tuple(event["params"]["namespace"]), event["params"]["data"]
        if "result" in data:
            for closed, status, error in self._pop_terminal_transitions(ns, data):
                self._on_terminal(closed, status, error)
        else:
            self._begin(ns, data)
        return False

    def _begin(self, ns: Namespace, data: dict[str, Any]) -> None:
        self._record_identity(ns, data)
        self._record_pending_tool_calls(data)
        self._handle_task_start(ns, data)

    def _record_identity(self, ns: Namespace, data: dict[str, Any]) -> None:
        self._lc_by_ns.setdefault(ns, (data.get("metadata") or {}).get("lc_agent_name"))

    def _record_pending_tool_calls(self, data: dict[str, Any]) -> None:
        task_id, given = data.get("id"), data.get("input")
        if isinstance(given, dict):
            given = [given.get("tool_call")]
        if not isinstance(task_id, str) or not isinstance(given, list):
            return
        for call in given:
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                self._pending_tool_calls[task_id] = call["id"]
                return

    def _handle_task_start(self, ns: Namespace, data: dict[str, Any]) -> None:
        if ns in self._seen or not self._should_track(ns):
            return
        self._seen.add(ns)
        node, _, task_id = ns[-1].partition(NS_END)
        agent = (data.get("metadata") or {}).get("lc_agent_name")
        call = self._pending_tool_calls.get(task_id)
        self._pending_cause = None
        if agent is not None and call:
            self._pending_cause = {"type": "toolCall", "tool_call_id": call}
        self._on_started(ns, (node or None) if agent is None else agent, task_id or None)
        if task_id:
            self._open[ns] = task_id

    def _pop_terminal_transitions(
        self, ns: Namespace, data: dict[str, Any]
    ) -> list[tuple[Namespace, SubgraphStatus, str | None]]:
        """The graphs that have ended because a task of the graph `ns` has, and how."""
        task_id = data.get("id")
        ended = [o for o, task in self._open.items() if task == task_id and o[:-1] == ns]
        for each in ended:
            del self._open[each]
        return [(each, *_outcome(data)) for each in ended]

    def finalize(self) -> None:
        """Open graphs have ended with the run."""
        self._end_open("completed", None)

    def fail(self, err: BaseException) -> None:
        """Open graphs have failed with the run."""
        self._end_open(*_status_from_exception(err))

    def _end_open(self, status: SubgraphStatus, error: str | None) -> None:
        ended, self._open = list(self._open), {}
        for ns in ended:
            self._on_terminal(ns, status, error)


def _status_from_exception(err: BaseException) -> tuple[SubgraphStatus, str | None]:
    """How graphs end in a run that ends with this error."""
    if isinstance(err, GraphDrained):
        return "drained", None
    if isinstance(err, GraphInterrupt):
        return "interrupted", None
    return "failed", str(err)


def _outcome(data: dict[str, Any]) -> tuple[SubgraphStatus, str | None]:
    """How a graph has ended in a task that has ended like this."""
    if data.get("interrupts"):
        return "interrupted", None
    error = data.get("error")
    return ("failed", str(error)) if error else ("completed", None)


class LifecycleTransformer(_TasksLifecycleBase):
    """`run.lifecycle`: the begin and end of all graphs inside, however deep.

    Args:
        scope: The graph whose inner graphs it sees: () for the outermost.

    Examples:
        >>> run = outer.stream_events({}, version="v3")
        >>> [payload["event"] for payload in run.lifecycle]
        ['started', 'completed']
    """

    _native = True

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self._channel: StreamChannel[LifecyclePayload] = StreamChannel("lifecycle")

    def init(self) -> dict[str, Any]:
        """The one stream."""
        return {"lifecycle": self._channel}

    def _should_track(self, ns: Namespace) -> bool:
        depth = len(self.scope)
        return len(ns) > depth and ns[:depth] == self.scope

    def _on_started(
        self, ns: Namespace, graph_name: str | None, trigger_call_id: str | None
    ) -> None:
        if trigger_call_id is None:
            return  # its end would not be known: a graph ends with its task
        payload: LifecyclePayload = {"event": "started", "namespace": list(ns)}
        if graph_name:
            payload["graph_name"] = graph_name
        payload["trigger_call_id"] = trigger_call_id
        if self._pending_cause is not None:
            payload["cause"] = self._pending_cause
        self._channel.push(payload)

    def _on_terminal(self, ns: Namespace, status: SubgraphStatus, error: str | None) -> None:
        payload: LifecyclePayload = {"event": status, "namespace": list(ns)}
        if error is not None:
            payload["error"] = error
        self._channel.push(payload)


class SubgraphTransformer(_TasksLifecycleBase):
    """`run.subgraphs`: every graph that a node calls, with streams from transformers of its own.

    What is inside such a graph is found by the transformers of that graph.

    Args:
        scope: The graph whose inner graphs it sees: () for the outermost.

    Examples:
        >>> run = outer.stream_events({}, version="v3")
        >>> [(one.graph_name, list(one.values)) for one in run.subgraphs]
        [('inner', [{'n': 1}])]
    """

    _native = True
    supports_sync = True

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self._log: StreamChannel[Handle] = StreamChannel()
        self._handles: dict[Namespace, Handle] = {}
        self._mux: StreamMux

    def init(self) -> dict[str, Any]:
        """The one stream."""
        return {"subgraphs": self._log}

    def _on_register(self, mux: StreamMux) -> None:
        self._mux = mux

    def _should_track(self, ns: Namespace) -> bool:
        return len(ns) == len(self.scope) + 1 and ns[:-1] == self.scope

    def _on_started(
        self, ns: Namespace, graph_name: str | None, trigger_call_id: str | None
    ) -> None:
        mux = self._mux._make_child(ns)
        make = AsyncSubgraphRunStream if mux.is_async else SubgraphRunStream
        handle = make(mux, path=ns, graph_name=graph_name, trigger_call_id=trigger_call_id)
        self._handles[ns] = handle
        self._log.push(handle)

    # -- hooks are called in sync code, and awaited on an event loop

    def process(self, event: ProtocolEvent) -> bool:
        """Pass an event on to the graph that it is of."""
        return drive(self._processing(event), call_hook)

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """`process`, for use on an event loop."""
        return await adrive(self._processing(event), await_hook)

    def finalize(self) -> None:
        """Open graphs have ended with the run."""
        drive(self._ending("completed", None), call_hook)

    async def afinalize(self) -> None:
        """`finalize`, for use on an event loop."""
        await adrive(self._ending("completed", None), await_hook)

    def fail(self, err: BaseException) -> None:
        """Open graphs have failed with the run."""
        drive(self._ending(*_status_from_exception(err), err), call_hook)

    async def afail(self, err: BaseException) -> None:
        """`fail`, for use on an event loop."""
        await adrive(self._ending(*_status_from_exception(err), err), await_hook)

    def _processing(self, event: ProtocolEvent) -> Generator[Hook, Any, bool]:
        ns, data = tuple(event["params"]["namespace"]), event["params"]["data"]
        is_task = event["method"] == "tasks"
        if is_task and "result" in data:
            for closed, status, error in self._pop_terminal_transitions(ns, data):
                yield from self._close(closed, status, error)
        elif is_task:
            self._begin(ns, data)
        depth = len(self.scope)
        handle = self._handles.get(ns[: depth + 1]) if len(ns) > depth else None
        if handle is not None and not handle._mux._events._closed:
            handle._observe_event(event)
            yield Hook(handle._mux, "push", (event,))
        return not is_task

    def _close(
        self,
        ns: Namespace,
        status: SubgraphStatus,
        error: str | None,
        cause: BaseException | None = None,
    ) -> Hooks:
        """A graph has ended, for the first time."""
        handle = self._handles.get(ns)
        if handle is None or handle._seen_terminal:
            return
        handle.status, handle.error, handle._seen_terminal = status, error, True
        if handle._mux._events._closed:
            return
        if status == "failed":
            reason = cause or RuntimeError(error or "The subgraph failed.")
            yield Hook(handle._mux, "fail", (reason,))
        else:
            yield Hook(handle._mux, "close")

    def _ending(
        self, status: SubgraphStatus, error: str | None, cause: BaseException | None = None
    ) -> Hooks:
        """The run has ended, and all graphs in it have, whatever one of them raises meanwhile."""
        self._open.clear()
        errors: list[Exception] = []
        for ns in list(self._handles):
            try:
                yield from self._close(ns, status, error, cause)
            except Exception as failure:
                errors.append(failure)
        if errors:
            raise errors[0]
