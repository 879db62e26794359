"""A compiled graph: what programs call.

Nothing is decided here. A method makes a generator of effects, and a driver carries them out: the
sync driver for `invoke`, the asyncio driver for `ainvoke`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, overload

from milepost._engine.context.config import check_interrupt_nodes, run_config
from milepost._engine.drivers import async_driver
from milepost._engine.drivers.at_exit import end_at_exit
from milepost._engine.drivers.effects import ClearCache, DeleteThread
from milepost._engine.drivers.sync import SyncDriver
from milepost._engine.superstep.node_cache import namespace_of
from milepost._internal.older_names import older_names
from milepost._internal.texts import plain
from milepost.constants import NS_SEP, START
from milepost.graph import _batch, _thread_state
from milepost.graph._methods import reading, sync_and_async
from milepost.graph._options import (
    breakpoints,
    checked_policy,
    event_stream,
    form_of,
    new_run,
    output_of,
    unread_stream,
)
from milepost.graph._runnable import RunnableMethods, be_a_runnable
from milepost.graph._schemas import Schemas
from milepost.graph._typing import ContextT, InputT, OutputT, StateT
from milepost.types import StateUpdate, ensure_valid_checkpointer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from milepost._engine.drivers.effects import EffectGenerator
    from milepost._engine.superstep.program import ExecutableGraph
    from milepost._stream_parts import GraphOutput, StreamPart
    from milepost.cache.base import BaseCache
    from milepost.graph._drawing.picture import Graph
    from milepost.graph._events import CallbackEventOptions
    from milepost.graph._low_level import ChannelGraph
    from milepost.graph._typing import AnyGraph
    from milepost.store.base import BaseStore
    from milepost.stream._mux import TransformerFactory
    from milepost.stream.run_stream import AsyncGraphRunStream, GraphRunStream
    from milepost.types import (
        All,
        Checkpointer,
        Command,
        OnConflict,
        RunnableConfig,
        RunOptions,
        StateSnapshot,
        StreamMode,
        UnversionedRunOptions,
    )


class Pregel(RunnableMethods, Schemas, Generic[StateT, ContextT, InputT, OutputT]):
    """A graph that can be run: what `StateGraph.compile` and `@entrypoint` make.

    Args:
        program: The graph in the form that runs: `StateGraph.compile` and `@entrypoint` give it.
        checkpointer: Saves every step of a thread.
        store: Memory across threads.
        cache: Keeps results of nodes that have a cache policy.
        interrupt_before_nodes: Nodes to pause before, or "*".
        interrupt_after_nodes: Nodes to pause after, or "*".
        on_conflict: What a run does that finds another run on its thread.
        debug: Print what runs do.
        name: What the graph is called.
        config: The default config of runs.
        context_schema: The type of `runtime.context`.
        stream_mode: The mode of `stream` where the caller names none.
        step_timeout: Seconds that one step may take.
        stream_transformers: Make streams of their own for `stream_events(version="v3")`.
        **channel_graph: `nodes`, `channels` and so on (`ChannelGraph`), for a graph that is made
            from channels.

    Examples:
        >>> from typing_extensions import TypedDict
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.graph import START, StateGraph
        >>> class State(TypedDict):
        ...     n: int
        >>> builder = StateGraph(State).add_node("add", lambda state: {"n": state["n"] + 1})
        >>> graph = builder.add_edge(START, "add").compile(checkpointer=InMemorySaver())
        >>> config = {"configurable": {"thread_id": "1"}}
        >>> graph.invoke({"n": 1}, config)
        {'n': 2}
    """

    def __init__(
        self,
        *,
        program: ExecutableGraph | None = None,
        checkpointer: Checkpointer = None,
        store: BaseStore | None = None,
        cache: BaseCache[Any] | None = None,
        interrupt_before_nodes: All | Sequence[str] = (),
        interrupt_after_nodes: All | Sequence[str] = (),
        on_conflict: OnConflict = "newest",
        debug: bool | None = None,
        name: str = "LangGraph",
        config: RunnableConfig | None = None,
        context_schema: Any = None,
        stream_mode: StreamMode | None = None,
        step_timeout: float | None = None,
        stream_transformers: Sequence[TransformerFactory] | None = None,
        **channel_graph: Unpack[ChannelGraph],
    ) -> None:
        if program is None:
            from milepost.graph._low_level import channel_program

            if missing := {"nodes", "input_channels", "output_channels"}.difference(channel_graph):
                raise TypeError(f"Pregel needs {', '.join(sorted(missing))}.")
            program = channel_program(name, channel_graph)
            if "config_type" in channel_graph:
                given = {"config_type": channel_graph["config_type"]}
                older = older_names("Pregel", given, frozenset(given), program.strictness)
                context_schema = context_schema or older["context_schema"]
            for names in (interrupt_before_nodes, interrupt_after_nodes):
                check_interrupt_nodes(names, program.nodes)
            ensure_valid_checkpointer(checkpointer)
            stream_mode = stream_mode or "values"
        elif channel_graph:
            raise TypeError(f"A ready program has its own {', '.join(channel_graph)}.")
        self.program = program
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.interrupt_before_nodes = breakpoints(interrupt_before_nodes)
        self.interrupt_after_nodes = breakpoints(interrupt_after_nodes)
        self.on_conflict = checked_policy(on_conflict)
        self.debug = bool(debug)
        self.name = name
        self.context_schema = context_schema
        self.stream_mode: StreamMode = stream_mode or "updates"
        self.step_timeout = step_timeout
        """How many seconds a super-step may take."""
        self.stream_transformers: tuple[TransformerFactory, ...] = ()
        """What makes streams of events besides those that `stream_events` always has."""
        if stream_transformers:
            from milepost.graph._events import checked_factories

            self.stream_transformers = checked_factories(stream_transformers)
        self.config: RunnableConfig = config or {}

    def __repr__(self) -> str:
        nodes = [name for name in self.program.nodes if name != START]
        return f"<{type(self).__name__} {self.name!r} with nodes {', '.join(nodes)}>"

    @property
    def nodes(self) -> Mapping[str, Any]:
        """The nodes by name, START included."""
        return self.program.nodes

    @property
    def channels(self) -> Mapping[str, Any]:
        """The channels by name."""
        return self.program.channels

    @property
    def trigger_to_nodes(self) -> Mapping[str, Sequence[str]]:
        """The nodes that a new value in a channel may start."""
        return self.program.triggers

    def with_config(self, config: RunnableConfig | None = None, **options: Any) -> Self:
        """A copy of the graph with this config as the default of its runs.

        Args:
            config: Added to the default config that the graph has.
            **options: Keys of the config, such as `recursion_limit=50`.

        Examples:
            >>> short = graph.with_config(recursion_limit=5, tags=["test"])
            >>> short.invoke({"n": 1}, config)
            {'n': 2}
        """
        copy = self.__class__.__new__(self.__class__)
        copy.__dict__.update(self.__dict__)
        copy.config = run_config(self.config, config, options)  # type: ignore[arg-type]
        return copy

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """A copy with other attributes.

        Args:
            update: Attributes and their new values.
        """
        copy = self.with_config()
        copy.__dict__.update(update or {})
        return copy

    def validate(self) -> Self:
        """The graph itself: it was checked when it was made."""
        return self

    # -- running

    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: Literal["values"] = "values",
        subgraphs: bool = False,
        version: Literal["v2"],
        **options: Unpack[UnversionedRunOptions[ContextT]],
    ) -> GraphOutput[OutputT]: ...

    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        subgraphs: bool = False,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Any: ...

    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        subgraphs: bool = False,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Any:
        """Run the graph and return its output.

        The output has the keys of the output schema, or those that `output_keys` names. A run that
        pauses returns with the open interrupts under the key `__interrupt__`.

        Args:
            input: The input, None to go on with the thread, or a Command.
            config: Names the thread; `RunnableConfig` has the other keys.
            stream_mode: With another mode than "values" the list of its events is returned.
            subgraphs: Whether that list has the events of inner graphs.
            **options: See `RunOptions`: `context`, `durability`, `interrupt_before` and so on.

        Raises:
            EmptyInputError: There is no input, and nothing to go on with.
            GraphRecursionError: The run has taken as many steps as `recursion_limit` allows.
            InvalidUpdateError: A node wrote what the state cannot take.
            MissingThreadError: The graph has a checkpointer, and the config names no thread.
            ThreadConflict: Another run has the thread, or has taken it over.

        Examples:
            >>> graph.invoke({"n": 41}, config, durability="sync")
            {'n': 42}
        """
        self._show_output(options)
        if stream_mode != "values":
            events = self.stream(
                input, config, stream_mode=stream_mode, subgraphs=subgraphs, **options
            )
            return list(events)
        if options.get("version") == "v2":
            return output_of(self.stream(input, config, stream_mode="values", **options))
        stream = unread_stream(self, options)
        driver = SyncDriver(stream)
        return driver.run(new_run(self, stream, config, options, driver).run(input))

    @overload
    async def ainvoke(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: Literal["values"] = "values",
        subgraphs: bool = False,
        version: Literal["v2"],
        **options: Unpack[UnversionedRunOptions[ContextT]],
    ) -> GraphOutput[OutputT]: ...

    @overload
    async def ainvoke(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        subgraphs: bool = False,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Any: ...

    async def ainvoke(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        subgraphs: bool = False,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Any:
        """`invoke`, for use on an event loop."""
        self._show_output(options)
        if stream_mode != "values":
            events = self.astream(
                input, config, stream_mode=stream_mode, subgraphs=subgraphs, **options
            )
            return [event async for event in events]
        if options.get("version") == "v2":
            parts = self.astream(input, config, stream_mode="values", **options)
            return output_of([part async for part in parts])
        stream = unread_stream(self, options)
        driver = async_driver(stream)
        return await driver.run(new_run(self, stream, config, options, driver).run(input))

    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        version: Literal["v2"],
        **options: Unpack[UnversionedRunOptions[ContextT]],
    ) -> Iterator[StreamPart[StateT, OutputT]]: ...

    @overload
    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Iterator[Any]: ...

    def stream(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        **options: Unpack[RunOptions[ContextT]],
    ) -> Iterator[Any]:
        """Run the graph and yield its events as they come.

        An event is what its mode carries. With several modes it is `(mode, event)`, and with
        `subgraphs` the namespace of the graph that the event comes from is in front.

        Args:
            input: The input, None to go on with the thread, or a Command.
            config: Names the thread; `RunnableConfig` has the other keys.
            stream_mode: One mode or several, see `StreamMode`; by default "updates".
            subgraphs: Whether to give the events of inner graphs too.
            **options: See `RunOptions`.

        Raises:
            ThreadConflict: Another run has the thread, or has taken it over; and what `invoke`
                raises.

        Examples:
            >>> list(graph.stream({"n": 1}, config))
            [{'add': {'n': 2}}]
            >>> list(graph.stream({"n": 1}, config, stream_mode=["values", "updates"]))
            [('values', {'n': 1}), ('updates', {'add': {'n': 2}}), ('values', {'n': 2})]
        """
        stream = event_stream(self, stream_mode, subgraphs, options)
        driver = SyncDriver(stream)
        run = new_run(self, stream, config, options, driver)
        show = form_of(self, stream_mode, subgraphs, options.get("version"))
        return end_at_exit(driver.stream(run.run(input), show))

    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        version: Literal["v2"],
        **options: Unpack[UnversionedRunOptions[ContextT]],
    ) -> AsyncGenerator[StreamPart[StateT, OutputT], None]: ...

    @overload
    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        **options: Unpack[RunOptions[ContextT]],
    ) -> AsyncGenerator[Any, None]: ...

    def astream(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        **options: Unpack[RunOptions[ContextT]],
    ) -> AsyncGenerator[Any, None]:
        """`stream`, for use on an event loop."""
        driver = async_driver()
        show = form_of(self, stream_mode, subgraphs, options.get("version"))

        def begin() -> EffectGenerator[Any]:
            driver.events = event_stream(self, stream_mode, subgraphs, options)
            return new_run(self, driver.events, config, options, driver).run(input)

        return end_at_exit(driver.stream(begin, show), driver)

    @overload
    def stream_events(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v3"],
        transformers: Sequence[TransformerFactory] | None = None,
        **options: Unpack[UnversionedRunOptions[ContextT]],
    ) -> GraphRunStream: ...

    @overload
    def stream_events(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2"] = "v2",
        **options: Unpack[CallbackEventOptions[ContextT]],
    ) -> Iterator[Any]: ...

    def stream_events(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2", "v3"] = "v2",
        transformers: Sequence[TransformerFactory] | None = None,
        **options: Any,
    ) -> Any:
        """Run the graph, and get a stream for each kind of its events: a `GraphRunStream`.

        That is `version="v3"`. The caller who iterates drives the run. Versions 1 and 2 are
        LangChain's, which has them for async code only.

        Args:
            input: The input, None to go on with the thread, or a Command.
            config: Names the thread; `RunnableConfig` has the other keys.
            version: The form of the events.
            transformers: Make more streams, after those that the graph was compiled with.
            **options: Those of `stream`.

        Raises:
            NotImplementedError: For versions 1 and 2, which are async.

        Examples:
            >>> run = graph.stream_events({"n": 1}, config, version="v3")
            >>> list(run.values)
            [{'n': 1}, {'n': 2}]
            >>> run.output
            {'n': 2}
        """
        if version == "v3":
            from milepost.graph._events import run_stream

            return run_stream(self, input, config, transformers, options, is_async=False)
        return super().stream_events(input, config, version=version, **options)

    @overload
    def astream_events(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v3"],
        transformers: Sequence[TransformerFactory] | None = None,
        **options: Unpack[UnversionedRunOptions[ContextT]],
    ) -> Awaitable[AsyncGraphRunStream]: ...

    @overload
    def astream_events(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2"] = "v2",
        **options: Unpack[CallbackEventOptions[ContextT]],
    ) -> AsyncIterator[Any]: ...

    def astream_events(
        self,
        input: InputT | Command[Any] | None,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2", "v3"] = "v2",
        transformers: Sequence[TransformerFactory] | None = None,
        **options: Any,
    ) -> Any:
        """`stream_events`, for use on an event loop: with "v3" await it for the run stream.

        Versions 1 and 2 are LangChain's: async iterators over the events of callbacks.
        """
        if version == "v3":
            from milepost.graph._events import run_stream

            async def run() -> Any:
                return run_stream(self, input, config, transformers, options, is_async=True)

            return run()
        return super().astream_events(input, config, version=version, **options)

    def batch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        **options: Unpack[RunOptions[ContextT]],
    ) -> list[Any]:
        """Run the graph on several inputs at once; those for one thread run in order.

        Ctrl-C ends all of them: each finishes the tasks in flight, saves, and stops, and no other
        is begun. A second one does not wait for that.

        Args:
            inputs: One input for each run.
            config: One config for all runs, or one for each.
            return_exceptions: Give the error of a failed run in its place instead of raising it.
            stream_mode: As for `invoke`.
            **options: See `RunOptions`.

        Examples:
            >>> configs = [{"configurable": {"thread_id": name}} for name in ("a", "b")]
            >>> graph.batch([{"n": 1}, {"n": 2}], configs)
            [{'n': 2}, {'n': 3}]
        """
        call = {**options, "stream_mode": stream_mode}
        return _batch.batch(self, inputs, config, call, return_exceptions)

    async def abatch(
        self,
        inputs: Sequence[InputT | Command[Any] | None],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        **options: Unpack[RunOptions[ContextT]],
    ) -> list[Any]:
        """`batch`, for use on an event loop. A cancellation waits until its runs have ended."""
        call = {**options, "stream_mode": stream_mode}
        return await _batch.abatch(self, inputs, config, call, return_exceptions)

    def _show_output(self, options: RunOptions[Any]) -> None:
        """Let a run show what it returns, unless the caller names what to show."""
        if options.get("output_keys") is None:
            options["output_keys"] = self.program.output_keys

    # -- threads

    def _get_state(
        self, config: RunnableConfig, *, subgraphs: bool = False
    ) -> EffectGenerator[StateSnapshot]:
        """The state at the checkpoint that `config` names, or at the latest of its thread.

        Args:
            config: Names the thread, and perhaps a checkpoint.
            subgraphs: Whether tasks that are graphs show their own state.

        Raises:
            CheckpointError: The graph has no checkpointer.
            MissingThreadError: The config names no thread.

        Examples:
            >>> snapshot = graph.get_state(config)
            >>> snapshot.values, snapshot.next
            ({'n': 2}, ())
        """
        return _thread_state.state(self, config, subgraphs)

    get_state, aget_state = reading(_get_state)

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The states of a thread, newest first.

        Args:
            config: Names the thread.
            filter: Metadata that a checkpoint must have: all pairs must be equal.
            before: Names a checkpoint; only older ones are given.
            limit: How many at most.

        Examples:
            >>> [snapshot.values for snapshot in graph.get_state_history(config, limit=2)]
            [{'n': 2}, {'n': 1}]
        """
        stream, program = _thread_state.history(self, config, filter, before, limit)
        yield from end_at_exit(SyncDriver(stream).stream(program, attrgetter("payload")))

    def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[StateSnapshot, None]:
        """`get_state_history`, for use on an event loop."""
        driver = async_driver()

        def begin() -> EffectGenerator[None]:
            driver.events, program = _thread_state.history(self, config, filter, before, limit)
            return program

        return end_at_exit(driver.stream(begin, attrgetter("payload")), driver)

    def _update_state(
        self,
        config: RunnableConfig,
        values: dict[str, Any] | Any | None,
        as_node: str | None = None,
        task_id: str | None = None,
        *,
        on_conflict: OnConflict | None = None,
        context: ContextT | None = None,
    ) -> EffectGenerator[RunnableConfig]:
        """Write to a thread as if a node had returned `values`; returns the new config.

        Args:
            config: Names the thread, and perhaps a checkpoint to go on from.
            values: What the node would have returned.
            as_node: The node; by default the last one that wrote, if that is clear.
            task_id: The task that the update comes from, where a node has several.
            on_conflict: If a run is on the thread, whether to take it over or to be refused.
            context: What `runtime.context` is in the edges of the node, which decide what is next.

        Raises:
            InvalidUpdateError: The node is not clear or not known, or the state cannot take it.
            ThreadConflict: Another run has the thread.

        Examples:
            >>> _ = graph.update_state(config, {"n": 10}, as_node="add")
            >>> graph.get_state(config).values
            {'n': 10}
        """
        steps = [[StateUpdate(values, plain(as_node), task_id)]]
        return _thread_state.update(self, config, steps, on_conflict, context)

    update_state, aupdate_state = sync_and_async(_update_state)

    def _bulk_update_state(
        self,
        config: RunnableConfig,
        supersteps: Sequence[Sequence[StateUpdate]],
        *,
        on_conflict: OnConflict | None = None,
        context: ContextT | None = None,
    ) -> EffectGenerator[RunnableConfig]:
        """Several updates: one checkpoint for each inner sequence.

        Args:
            config: Names the thread, and perhaps a checkpoint to go on from.
            supersteps: Updates in the order of their steps; those of one step are applied together.
            on_conflict: If a run is on the thread, whether to take it over or to be refused.
            context: What `runtime.context` is in the edges of the nodes.

        Raises:
            InvalidUpdateError: There is no update, or the state cannot take one.
            ThreadConflict: Another run has the thread.

        Examples:
            >>> from milepost.types import StateUpdate
            >>> steps = [[StateUpdate({"n": 1}, "add")], [StateUpdate({"n": 2}, "add")]]
            >>> _ = graph.bulk_update_state(config, steps)
            >>> graph.get_state(config).values
            {'n': 2}
        """
        steps = [[u._replace(as_node=plain(u.as_node)) for u in step] for step in supersteps or ()]
        return _thread_state.update(self, config, steps, on_conflict, context)

    bulk_update_state, abulk_update_state = sync_and_async(_bulk_update_state)

    def _delete_thread(self, thread_id: str) -> EffectGenerator[None]:
        """Remove everything that is saved of a thread.

        Args:
            thread_id: The thread.

        Examples:
            >>> graph.delete_thread("1")
            >>> graph.get_state(config).values
            {}
        """
        given: object = thread_id
        if isinstance(given, dict):
            raise TypeError(
                "delete_thread takes the id of a thread, not a config: pass "
                'config["configurable"]["thread_id"].'
            )
        yield DeleteThread(_thread_state.saver_of(self), thread_id)

    delete_thread, adelete_thread = sync_and_async(_delete_thread)

    def _clear_cache(self, nodes: Sequence[str] | None = None) -> EffectGenerator[None]:
        """Forget cached results of some nodes, or of all.

        Args:
            nodes: Their names; all nodes by default.

        Examples:
            >>> from milepost.cache.memory import InMemoryCache
            >>> cached = builder.compile(cache=InMemoryCache())
            >>> cached.clear_cache(["add"])
        """
        if self.cache is None:
            raise ValueError("The graph has no cache: compile it with one.")
        wanted = [name for name in self.program.nodes if name != START] if nodes is None else nodes
        yield ClearCache(self.cache, [namespace_of(self.program.nodes[n]) for n in wanted])

    clear_cache, aclear_cache = sync_and_async(_clear_cache)

    # -- structure

    def get_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> Iterator[tuple[str, AnyGraph]]:
        """Graphs inside nodes, with the names of their nodes; `outer|inner` where it recurses.

        Args:
            namespace: Only the graph at this place.
            recurse: Whether to look into inner graphs too.

        Examples:
            >>> outer = StateGraph(State).add_node("inner", graph).set_entry_point("inner")
            >>> [name for name, subgraph in outer.compile().get_subgraphs()]
            ['inner']
        """
        for name, node in self.program.nodes.items():
            for graph in node.subgraphs[:1]:
                if graph.checkpointer is False:
                    continue
                if namespace is None or namespace == name:
                    yield name, graph
                below = f"{name}{NS_SEP}"
                if (recurse and namespace is None) or (namespace or "").startswith(below):
                    rest = namespace and namespace.removeprefix(below)
                    for inner, deeper in graph.get_subgraphs(namespace=rest, recurse=recurse):
                        yield f"{name}{NS_SEP}{inner}", deeper

    async def aget_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> AsyncIterator[tuple[str, AnyGraph]]:
        """`get_subgraphs`, for use on an event loop."""
        for found in self.get_subgraphs(namespace=namespace, recurse=recurse):
            yield found

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """A picture of the graph, to be drawn as Mermaid text, ASCII, JSON or PNG.

        Args:
            config: No picture depends on it; callers of other graph libraries pass it.
            xray: Shows inner graphs too: a number of levels, or True for all.

        Examples:
            >>> print(graph.get_graph().draw_mermaid(with_styles=False))
            graph TD;
                    __start__ --> add;
                    add --> __end__;
        """
        from milepost.graph._drawing.survey import survey

        del config
        return survey(self, xray)

    async def aget_graph(
        self, config: RunnableConfig | None = None, *, xray: int | bool = False
    ) -> Graph:
        """`get_graph`, for use on an event loop."""
        return self.get_graph(config, xray=xray)


be_a_runnable(Pregel)
