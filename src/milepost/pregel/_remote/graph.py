"""RemoteGraph: the methods of a compiled graph, carried out by a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from milepost._engine.context.config import merge_configs
from milepost._internal import log
from milepost._internal.generators import adrive, drive
from milepost.graph._runnable import be_a_runnable
from milepost.pregel._remote import wire
from milepost.pregel._remote.call import open_run
from milepost.pregel._remote.events import RemoteRunnable
from milepost.pregel._remote.requests import Headers, Request, Requests, sync_and_async

if TYPE_CHECKING:
    from milepost.graph._drawing.picture import Graph
    from milepost.pregel._remote.requests import RemoteRunOptions
    from milepost.types import RunnableConfig, StateSnapshot, StreamMode


class RemoteGraph(RemoteRunnable):
    """A graph on a server that speaks the protocol of LangGraph's, used like a compiled graph.

    It can be a node of a graph: its events come with those of that graph, its interrupts are that
    graph's, and an answer to one of them goes to the server. The thread on the server has the id of
    the thread here. Needs `pip install 'milepost[remote]'`.

    Args:
        assistant_id: The name of the graph there, or the id of an assistant.
        url: The address of the server.
        api_key: Sent with every request; by default from the environment.
        headers: Added to every request.
        client: An async client of `langgraph_sdk`, in place of `url`.
        sync_client: A sync client of `langgraph_sdk`, in place of `url`.
        config: What runs are told where the caller says nothing else.
        name: What the graph is called here.
        distributed_tracing: Send the ids of LangSmith's trace, so that the server's is a part of
            it.

    Examples:
        >>> from milepost.pregel.remote import RemoteGraph
        >>> graph = RemoteGraph("chat", url="http://127.0.0.1:2024")
        >>> graph.name
        'chat'
    """

    def __repr__(self) -> str:
        return f"<RemoteGraph {self.assistant_id!r}>"

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """The name that a node gets from this graph.

        Args:
            suffix: Added to the name.
            name: Taken in place of the graph's own.
        """
        return f"{name or self.name}{suffix or ''}"

    def copy(self, update: dict[str, Any]) -> Self:
        """A copy with other attributes.

        Args:
            update: Attributes and their new values.
        """
        attributes = {**self.__dict__, **update}
        return self.__class__(attributes.pop("assistant_id"), **attributes)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> Self:
        """A copy that runs with this config where the caller says nothing else.

        Args:
            config: What runs are told.
            **kwargs: Keys of the config.
        """
        return self.copy({"config": merge_configs(self.config, config, kwargs)})  # type: ignore[arg-type]

    # -- threads

    def _get_graph(
        self,
        config: RunnableConfig | None = None,
        *,
        xray: int | bool = False,
        headers: Headers = None,
        params: Any = None,
    ) -> Requests[Graph]:
        """A picture of the graph on the server.

        Args:
            config: Not sent.
            xray: Shows inner graphs too: a number of levels, or True for all.
            headers: Added to the request.
            params: Added to the address.
        """
        del config
        arguments = {"assistant_id": self.assistant_id, "xray": xray}
        arguments |= {"headers": headers, "params": params}
        return wire.picture_of((yield Request("assistants", "get_graph", arguments)))

    get_graph, aget_graph = sync_and_async(_get_graph)

    def _get_state(
        self,
        config: RunnableConfig,
        *,
        subgraphs: bool = False,
        headers: Headers = None,
        params: Any = None,
    ) -> Requests[StateSnapshot]:
        """The state at the checkpoint that `config` names, or at the latest of its thread.

        Args:
            config: Names the thread, and perhaps a checkpoint.
            subgraphs: Whether tasks that are graphs show their own state.
            headers: Added to the request.
            params: Added to the address.
        """
        arguments = {**self._on_thread(config, headers, params), "subgraphs": subgraphs}
        return wire.snapshot_of((yield Request("threads", "get_state", arguments)))

    get_state, aget_state = sync_and_async(_get_state)

    def _update_state(
        self,
        config: RunnableConfig,
        values: dict[str, Any] | Any | None,
        as_node: str | None = None,
        *,
        headers: Headers = None,
        params: Any = None,
    ) -> Requests[RunnableConfig]:
        """Write to a thread as if `as_node` had returned `values`; returns the new config.

        Args:
            config: Names the thread, and perhaps a checkpoint to go on from.
            values: What the node would have returned.
            as_node: The node.
            headers: Added to the request.
            params: Added to the address.
        """
        place = self._on_thread(config, headers, params)
        arguments = {**place, "values": values, "as_node": as_node}
        answer = yield Request("threads", "update_state", arguments)
        return wire.config_of(answer["checkpoint"])

    update_state, aupdate_state = sync_and_async(_update_state)

    def _history(
        self,
        config: RunnableConfig,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
        headers: Headers,
        params: Any,
    ) -> Requests[list[StateSnapshot]]:
        arguments = {
            **self._on_thread(config, headers, params),
            "limit": 10 if limit is None else limit,
            "before": None if before is None else wire.sent_checkpoint(before),
            "metadata": filter,
        }
        return [wire.snapshot_of(s) for s in (yield Request("threads", "get_history", arguments))]

    _read_history, _aread_history = sync_and_async(_history)

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
        headers: Headers = None,
        params: Any = None,
    ) -> Iterator[StateSnapshot]:
        """The states of a thread, newest first; ten of them unless `limit` says otherwise.

        Args:
            config: Names the thread.
            filter: Metadata that a checkpoint must have.
            before: Names a checkpoint; only older ones are given.
            limit: How many at most.
            headers: Added to the request.
            params: Added to the address.
        """
        yield from self._read_history(config, filter, before, limit, headers, params)

    async def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
        headers: Headers = None,
        params: Any = None,
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history`, for use on an event loop."""
        for state in await self._aread_history(config, filter, before, limit, headers, params):
            yield state

    def bulk_update_state(self, config: RunnableConfig, updates: Any) -> RunnableConfig:
        """Not offered by servers: call `update_state` for each.

        Args:
            config: Not used.
            updates: Not used.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("A server takes one update at a time: call update_state().")

    async def abulk_update_state(self, config: RunnableConfig, updates: Any) -> RunnableConfig:
        """Not offered by servers: call `aupdate_state` for each.

        Args:
            config: Not used.
            updates: Not used.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("A server takes one update at a time: call aupdate_state().")

    # -- running

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        version: Literal["v1", "v2"] = "v1",
        **options: Unpack[RemoteRunOptions],
    ) -> Iterator[Any]:
        """Run the graph on the server and yield its events as they come.

        They have the forms that a graph here gives them.

        Args:
            input: The input, None to go on with the thread, or a Command.
            config: Names the thread, and what else a caller says about a run.
            stream_mode: One mode or several; by default "updates".
            subgraphs: Whether to give the events of inner graphs too.
            version: With "v2" events are typed parts.
            **options: See `RemoteRunOptions`: `context`, `interrupt_before`, `headers` and so on.

        Raises:
            RemoteException: The run has failed on the server.
            GraphInterrupt: The graph has paused, and is a node of a graph here.
        """
        client = self._sync()
        opening = open_run(self, input, config, stream_mode, subgraphs, version)
        opened, events = drive(opening, lambda request: request.send(client))
        headers = self._headers(options.pop("headers", None))
        for part in client.runs.stream(**opened, **options, headers=headers):
            yield from events.shown(part)

    async def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        version: Literal["v1", "v2"] = "v1",
        **options: Unpack[RemoteRunOptions],
    ) -> AsyncIterator[Any]:
        """`stream`, for use on an event loop."""
        client = self._async()
        opening = open_run(self, input, config, stream_mode, subgraphs, version)
        opened, events = await adrive(opening, lambda request: request.send(client))
        headers = self._headers(options.pop("headers", None))
        async for part in client.runs.stream(**opened, **options, headers=headers):
            for event in events.shown(part):
                yield event

    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2"] = "v1",
        **options: Unpack[RemoteRunOptions],
    ) -> Any:
        """Run the graph on the server and return its output.

        Args:
            input: The input, None to go on with the thread, or a Command.
            config: Names the thread, and what else a caller says about a run.
            version: With "v2" a `GraphOutput` is returned.
            **options: See `RemoteRunOptions`: `context`, `interrupt_before`, `headers` and so on.

        Raises:
            RemoteException: The run has failed on the server.
        """
        last: Any = None
        events = self.stream(input, config, stream_mode="values", version=version, **options)
        for last in events:  # noqa: B007
            pass
        return self._output(last, version)

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2"] = "v1",
        **options: Unpack[RemoteRunOptions],
    ) -> Any:
        """`invoke`, for use on an event loop."""
        last: Any = None
        events = self.astream(input, config, stream_mode="values", version=version, **options)
        async for last in events:  # noqa: B007
            pass
        return self._output(last, version)

    def _output(self, last: Any, version: str) -> Any:
        if last is None:
            log.warning(log.RUN, "RemoteGraph '%s' got no values from its server.", self.name)
            return None
        if version != "v2":
            return last
        from milepost._stream_parts import GraphOutput

        return GraphOutput(last["data"], last["interrupts"])


be_a_runnable(RemoteGraph)
