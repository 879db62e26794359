"""A compiled graph: the face that programs call, in two colours.

Nothing is decided here. Every method builds the program of what is to be done and hands it to
the driver of its colour.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from typing_extensions import TypeVar

from milepost.checkpoint.records import place_of
from milepost.constants import NS_SEP, START
from milepost.errors import CheckpointNotFoundError, GraphBuildError
from milepost.graph.drawing.survey import survey
from milepost.runtime import workers
from milepost.runtime.aio import AsyncDriver
from milepost.runtime.caching import namespace_of
from milepost.runtime.checkpoints import strip_ids
from milepost.runtime.config import check_interrupt_nodes, merge_configs
from milepost.runtime.effects import Ask
from milepost.runtime.history import View, read_history, read_state
from milepost.runtime.scope import RunControl, Scope, find_scope
from milepost.runtime.session import Options, Session
from milepost.runtime.stream import Feed, Part, shown
from milepost.runtime.sync import SyncDriver
from milepost.runtime.update import UpdateSession
from milepost.state.schema import is_pydantic
from milepost.types import StateSnapshot, StateUpdate

if TYPE_CHECKING:
    from milepost.cache.base import BaseCache
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.graph.drawing import Graph
    from milepost.graph.state import StateGraph
    from milepost.runtime.effects import RunProgram
    from milepost.runtime.program import Program
    from milepost.store.base import BaseStore
    from milepost.types import All, Checkpointer, Durability, RunnableConfig, StreamMode

StateT = TypeVar("StateT", default=Any)
ContextT = TypeVar("ContextT", default=None)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)

_MODES = ("values", "updates", "checkpoints", "tasks", "debug", "messages", "custom")
_INHERITED = (
    "configurable",
    "metadata",
    "tags",
    "callbacks",
    "recursion_limit",
    "max_concurrency",
    "run_id",
)


class CompiledGraph:
    """What `StateGraph.compile` and `@entrypoint` make."""

    context_schema: Any = None
    stream_mode: StreamMode = "updates"
    starts_tasks: bool = False
    """Whether its nodes are functions that call tasks, whose events are wanted meanwhile."""

    def __init__(
        self,
        *,
        program: Program,
        checkpointer: Checkpointer = None,
        store: BaseStore | None = None,
        cache: BaseCache[Any] | None = None,
        interrupt_before: All | Sequence[str] = (),
        interrupt_after: All | Sequence[str] = (),
        debug: bool = False,
        name: str = "LangGraph",
        config: RunnableConfig | None = None,
    ) -> None:
        self.program = program
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.interrupt_before = interrupt_before
        self.interrupt_after = interrupt_after
        self.debug = debug
        self.name = name
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

    def get_name(self) -> str:
        """The name that a node gets from this graph."""
        return self.name

    def with_config(self, config: RunnableConfig | None = None, **options: Any) -> Self:
        """A copy of the graph that runs with this config where the caller says nothing else."""
        copy = self.__class__.__new__(self.__class__)
        copy.__dict__.update(self.__dict__)
        copy.config = merge_configs(self.config, config, options)  # type: ignore[arg-type]
        return copy

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """A copy with other attributes."""
        copy = self.with_config()
        copy.__dict__.update(update or {})
        return copy

    # -- running

    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        **options: Any,
    ) -> Any:
        """Run the graph and return its output.

        `input` is the input, None to go on with the thread, or a Command. Options are those of
        `stream`. With another `stream_mode` than "values" the list of its events is returned.
        """
        if stream_mode != "values":
            return list(self.stream(input, config, stream_mode=stream_mode, **options))
        session = self._session(Feed(), config, options)
        driver = SyncDriver(session.feed)
        session.spawner = driver.spawn
        return driver.run(session.run(input))

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        **options: Any,
    ) -> Any:
        """`invoke`, for use on an event loop."""
        if stream_mode != "values":
            events = self.astream(input, config, stream_mode=stream_mode, **options)
            return [event async for event in events]
        session = self._session(Feed(), config, options)
        driver = AsyncDriver(session.feed)
        session.spawner = driver.spawn
        return await driver.run(session.run(input))

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """Run the graph and yield its events as they come.

        Options:
            context: what nodes find in `runtime.context`.
            output_keys: a key, or several, to show instead of the output schema's.
            interrupt_before, interrupt_after: nodes to pause at, or "*", in this run.
            durability: "sync", "async" (default) or "exit"; see `milepost.types.Durability`.
            control: a RunControl, to ask the run to stop.
        """
        feed, many = self._feed(stream_mode, subgraphs)
        session = self._session(feed, config, options)
        driver = SyncDriver(session.feed)
        session.spawner = driver.spawn
        return self._shown(driver.stream(session.run(input)), many, subgraphs)

    @staticmethod
    def _shown(parts: Any, many: bool, subgraphs: bool) -> Iterator[Any]:
        try:
            for part in parts:
                yield shown(part, many_modes=many, subgraphs=subgraphs)
        finally:
            parts.close()

    async def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """`stream`, for use on an event loop."""
        feed, many = self._feed(stream_mode, subgraphs)
        session = self._session(feed, config, options)
        driver = AsyncDriver(session.feed)
        session.spawner = driver.spawn
        parts = driver.stream(session.run(input))
        try:
            async for part in parts:
                yield shown(part, many_modes=many, subgraphs=subgraphs)
        finally:
            await parts.aclose()

    # -- many runs

    def batch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Run the graph on several inputs at once; those for one thread run in order."""
        configs = _configs(config, len(inputs))
        results: list[Any] = [None] * len(inputs)
        groups = self._by_thread(configs)
        done = threading.Semaphore(0)
        at_once = threading.Semaphore(_at_once(configs))

        def work(group: list[int]) -> None:
            for at in group:
                with at_once:
                    try:
                        results[at] = self.invoke(inputs[at], configs[at], **options)
                    except Exception as error:
                        results[at] = error
            done.release()

        for group in groups:
            context = contextvars.copy_context()
            workers.submit(lambda c=context, g=group: c.run(work, g))  # type: ignore[misc]
        for _ in groups:
            done.acquire()
        return _settled(results, return_exceptions)

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """`batch`, for use on an event loop."""
        configs = _configs(config, len(inputs))
        results: list[Any] = [None] * len(inputs)
        at_once = asyncio.Semaphore(_at_once(configs))

        async def work(group: list[int]) -> None:
            for at in group:
                async with at_once:
                    try:
                        results[at] = await self.ainvoke(inputs[at], configs[at], **options)
                    except Exception as error:
                        results[at] = error

        await asyncio.gather(*(work(group) for group in self._by_thread(configs)))
        return _settled(results, return_exceptions)

    def _by_thread(self, configs: Sequence[RunnableConfig]) -> list[list[int]]:
        groups: dict[Any, list[int]] = {}
        for at, config in enumerate(configs):
            thread = None
            if self.checkpointer:
                merged = merge_configs(self.config, config)
                thread = (merged.get("configurable") or {}).get("thread_id")
            groups.setdefault(object() if thread is None else str(thread), []).append(at)
        return list(groups.values())

    # -- threads

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """The state at the checkpoint that `config` names, or at the latest of its thread."""
        view, config = self._view(config)
        return SyncDriver().run(read_state(view, config, subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state`, for use on an event loop."""
        view, config = self._view(config)
        return await AsyncDriver().run(read_state(view, config, subgraphs=subgraphs))

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The states of a thread, newest first.

        `filter` compares metadata; `before` names a checkpoint, and only older ones are given.
        """
        feed, program = self._history(config, filter, before, limit)
        for part in SyncDriver(feed).stream(program):
            yield part.payload

    async def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history`, for use on an event loop."""
        feed, program = self._history(config, filter, before, limit)
        async for part in AsyncDriver(feed).stream(program):
            yield part.payload

    def update_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Write to a thread as if `as_node` had returned `values`; returns the new config.

        Without `as_node` it is the last node that wrote, if that is clear.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    async def aupdate_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """`update_state`, for use on an event loop."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Several updates: one checkpoint for each inner sequence."""
        return SyncDriver().run(self._update(config, supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """`bulk_update_state`, for use on an event loop."""
        return await AsyncDriver().run(self._update(config, supersteps))

    def delete_thread(self, thread_id: str) -> None:
        """Remove everything that is saved of a thread."""
        SyncDriver().ask(Ask(self._saver(), "delete_thread", (thread_id,)))

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread`, for use on an event loop."""
        await AsyncDriver().ask(Ask(self._saver(), "delete_thread", (thread_id,)))

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Forget cached results of some nodes, or of all."""
        if self.cache is None:
            raise ValueError("The graph has no cache: compile it with one.")
        self.cache.clear(self._cache_namespaces(nodes))

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """`clear_cache`, for use on an event loop."""
        if self.cache is None:
            raise ValueError("The graph has no cache: compile it with one.")
        await self.cache.aclear(self._cache_namespaces(nodes))

    def _cache_namespaces(self, nodes: Sequence[str] | None) -> list[tuple[str, ...]]:
        wanted = [name for name in self.program.nodes if name != START] if nodes is None else nodes
        return [namespace_of(self.program.nodes[name]) for name in wanted]

    # -- drawing

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """A picture of the graph, to be drawn as Mermaid text, ASCII, JSON or PNG.

        `xray` shows inner graphs too: a number of levels, or True for all. No picture depends on
        `config`, which callers of other graph libraries pass.
        """
        del config
        return survey(self, xray)

    async def aget_graph(
        self, config: RunnableConfig | None = None, *, xray: int | bool = False
    ) -> Graph:
        """`get_graph`, for use on an event loop."""
        return self.get_graph(config, xray=xray)

    # -- inner graphs

    def get_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> Iterator[tuple[str, CompiledGraph]]:
        """Graphs inside nodes, with the names of their nodes; `outer|inner` where it recurses."""
        for name, node in self.program.nodes.items():
            for graph in node.subgraphs[:1]:
                if graph.checkpointer is False:
                    continue
                if namespace is None or namespace == name:
                    yield name, graph
                if recurse or (namespace is not None and namespace.startswith(f"{name}{NS_SEP}")):
                    rest = None if namespace is None else namespace[len(name) + 1 :]
                    for inner, deeper in graph.get_subgraphs(namespace=rest, recurse=recurse):
                        yield f"{name}{NS_SEP}{inner}", deeper

    async def aget_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> AsyncIterator[tuple[str, CompiledGraph]]:
        """`get_subgraphs`, for use on an event loop."""
        for found in self.get_subgraphs(namespace=namespace, recurse=recurse):
            yield found

    # -- building programs

    def _session(
        self, feed: Feed, config: RunnableConfig | None, options: dict[str, Any]
    ) -> Session:
        """A run that is ready to start."""
        settings = _settings(options)
        parent = find_scope()
        if parent is not None and parent.session.feed.takes_from_children:
            feed.parent = parent.session.feed
        return Session(self.program, self._options(config, settings, parent), feed, parent)

    def _options(
        self, config: RunnableConfig | None, settings: dict[str, Any], parent: Scope | None
    ) -> Options:
        before = settings.get("interrupt_before")
        after = settings.get("interrupt_after")
        nodes = [name for name in self.program.nodes if name != START]
        check_interrupt_nodes(before, nodes)
        check_interrupt_nodes(after, nodes)
        keys = settings.get("output_keys")
        for key in [keys] if isinstance(keys, str) else keys or ():
            if key not in self.program.channels:
                raise ValueError(
                    f"output_keys names '{key}', which is not in the state. "
                    f"It has: {', '.join(self.program.keys)}."
                )
        return Options(
            config=merge_configs(self.config, _inherited(parent), config),
            checkpointer=self.checkpointer,
            durability=settings.get("durability"),
            context=self._context(settings.get("context")),
            interrupt_before=self.interrupt_before if before is None else before,
            interrupt_after=self.interrupt_after if after is None else after,
            output_keys=keys,
            control=settings.get("control"),
            store=self.store,
            cache=self.cache,
        )

    def _context(self, context: Any) -> Any:
        schema = self.context_schema
        if schema is None or not isinstance(context, dict):
            return context
        return schema(**context) if is_dataclass(schema) or is_pydantic(schema) else context

    def _feed(
        self, modes: StreamMode | Sequence[StreamMode] | None, subgraphs: bool
    ) -> tuple[Feed, bool]:
        wanted = self.stream_mode if modes is None else modes
        many = not isinstance(wanted, str)
        names = frozenset([wanted] if isinstance(wanted, str) else wanted)
        for name in names:
            if name not in _MODES:
                raise ValueError(f"Unknown stream_mode '{name}'. Use one of {', '.join(_MODES)}.")
        return Feed(names, subgraphs, eager=self.starts_tasks), many

    def _saver(self) -> BaseCheckpointSaver[Any]:
        saver = self.checkpointer
        if saver is None or isinstance(saver, bool):
            scope = find_scope()
            if saver is not False and scope is not None and scope.session.ledger is not None:
                return scope.session.ledger.saver
            raise GraphBuildError(
                "No checkpointer set: threads need one. Compile the graph with "
                "`compile(checkpointer=InMemorySaver())` or another saver."
            )
        return saver

    def _view(self, config: RunnableConfig) -> tuple[View, RunnableConfig]:
        """How to read the thread that `config` names, and the graph in it."""
        config = merge_configs(self.config, config)
        view = self._own_view(self._saver())
        place = place_of(config)
        for name in filter(None, strip_ids(place.checkpoint_ns).split(NS_SEP)):
            inner = view.inside(name)
            if inner is None:
                raise CheckpointNotFoundError(
                    f"Subgraph '{place.checkpoint_ns}' was not found: '{name}' is not a node of "
                    f"graph '{view.program.name}' with a saved graph inside."
                )
            view = inner
        return view, config

    def _own_view(self, saver: BaseCheckpointSaver[Any]) -> View:
        def inside(name: str) -> View | None:
            node = self.program.nodes.get(name)
            for graph in node.subgraphs if node is not None else ():
                if graph.checkpointer is not False:
                    own = graph.checkpointer
                    inner: View = graph._own_view(
                        saver if own is None or isinstance(own, bool) else own
                    )
                    return inner
            return None

        return View(self.program, saver, inside)

    def _history(
        self,
        config: RunnableConfig,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> tuple[Feed, RunProgram[None]]:
        view, config = self._view(config)
        feed = Feed()

        def emit(snapshot: StateSnapshot) -> None:
            feed.parts.append(Part((), "values", snapshot))

        return feed, read_history(
            view, config, filter=filter, before=before, limit=limit, emit=emit
        )

    def _update(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunProgram[RunnableConfig]:
        view, config = self._view(config)
        scope = find_scope()
        options = replace(
            self._options(config, {}, None), checkpointer=view.saver, durability="sync"
        )
        session = UpdateSession(view.program, options, Feed(), None)
        if scope is not None:
            session.share_ledger(scope.session.ledger)
        return session.update(supersteps)


class CompiledStateGraph(CompiledGraph, Generic[StateT, ContextT, InputT, OutputT]):
    """A compiled StateGraph."""

    def __init__(self, *, builder: StateGraph[Any, Any, Any, Any], **options: Any) -> None:
        super().__init__(**options)
        self.builder = builder
        self.context_schema = builder.context_schema


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a run, checked; older spellings are translated."""
    known = {
        "context",
        "control",
        "debug",
        "durability",
        "interrupt_after",
        "interrupt_before",
        "output_keys",
        "print_mode",
        "version",
    }
    settings = dict(options)
    if "checkpoint_during" in settings:
        during = settings.pop("checkpoint_during")
        warnings.warn(
            "checkpoint_during is deprecated: pass durability='async' or durability='exit'.",
            DeprecationWarning,
            stacklevel=4,
        )
        if during is not None:
            if settings.get("durability") is not None:
                raise ValueError("Pass durability or checkpoint_during, not both.")
            settings["durability"] = "async" if during else "exit"
    for name in settings:
        if name not in known:
            raise TypeError(f"Unknown option '{name}'. Known ones are: {', '.join(sorted(known))}.")
    durability: Durability | Literal[""] | None = settings.get("durability")
    if durability not in (None, "sync", "async", "exit"):
        raise ValueError(f"Unknown durability '{durability}'. Use 'sync', 'async' or 'exit'.")
    control = settings.get("control")
    if control is not None and not isinstance(control, RunControl):
        raise TypeError("control must be a milepost.runtime.RunControl.")
    return settings


def _inherited(parent: Scope | None) -> RunnableConfig | None:
    """What a graph called inside a node takes over from the run around it."""
    if parent is None:
        return None
    outer: Mapping[str, Any] = parent.session.config
    config = {key: outer[key] for key in _INHERITED if key in outer}
    configurable = {
        key: value
        for key, value in (outer.get("configurable") or {}).items()
        if not key.startswith("checkpoint_")
    }
    return {**config, "configurable": configurable}  # type: ignore[return-value]


def _configs(
    config: RunnableConfig | Sequence[RunnableConfig] | None, count: int
) -> list[RunnableConfig]:
    if config is None:
        return [{} for _ in range(count)]
    if isinstance(config, Sequence):
        if len(config) != count:
            raise ValueError(
                f"{count} inputs need as many configs or one for all, not {len(config)}."
            )
        return list(config)
    return [config for _ in range(count)]


def _at_once(configs: Sequence[RunnableConfig]) -> int:
    limit = configs[0].get("max_concurrency") if configs else None
    return limit or max(1, len(configs))


def _settled(results: list[Any], return_exceptions: bool) -> list[Any]:
    if not return_exceptions:
        for result in results:
            if isinstance(result, Exception):
                raise result
    return results
