"""`run.subgraphs`: a run stream for each graph inside."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from milepost._internal.generators import adrive, drive
from milepost.stream._lifecycle import (
    Namespace,
    SubgraphStatus,
    _status_from_exception,
    _TasksLifecycleBase,
)
from milepost.stream._mux import Hooks, StreamMux
from milepost.stream._types import Hook, ProtocolEvent, await_hook, call_hook
from milepost.stream.run_stream import AsyncSubgraphRunStream, SubgraphRunStream
from milepost.stream.stream_channel import StreamChannel

Handle: TypeAlias = SubgraphRunStream | AsyncSubgraphRunStream


class SubgraphTransformer(_TasksLifecycleBase):
    """Gives every graph that a node calls streams of its own, from transformers of its own.

    What is inside such a graph is found by the transformers of that graph.

    Args:
        scope: The graph whose inner graphs it sees: () for the outermost.

    Examples:
        >>> from milepost.graph import START, StateGraph
        >>> inner = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> inner = inner.add_edge(START, "work")
        >>> outer = StateGraph(dict).add_node("inner", inner.compile()).add_edge(START, "inner")
        >>> run = outer.compile().stream_events({}, version="v3")
        >>> [(graph.graph_name, list(graph.values)) for graph in run.subgraphs]
        [('inner', [{'n': 1}])]
    """

    _native = True
    supports_sync = True

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self._log: StreamChannel[Handle] = StreamChannel()
        self._handles: dict[Namespace, Handle] = {}
        self._mux: StreamMux | None = None

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
        if self._mux is None:
            return
        try:
            mux = self._mux._make_child(ns)
        except RuntimeError:
            return  # the transformers cannot be made again for an inner graph
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
