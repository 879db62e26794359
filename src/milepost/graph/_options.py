"""The options of a run: checked, completed, and put into one record; what its caller is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from milepost._engine.context.config import (
    RunSettings,
    merge_configs,
    run_config,
    unknown_interrupt_nodes,
)
from milepost._engine.context.langchain_bridge import callbacks_around, config_around
from milepost._engine.context.runtime import RunControl
from milepost._engine.context.task_context import TaskContext, find_context
from milepost._engine.run import GraphRun
from milepost._engine.streaming.events import Event, EventStream
from milepost._internal.warn import Strictness, warn_of
from milepost._schema import annotated_keys, is_pydantic, schema_of
from milepost.constants import CONF, CONFIG_KEY_CHECKPOINTER, INTERRUPT, START
from milepost.types import MISSING, Durability, OnConflict, RunOptions, StreamMode
from milepost.warnings import LangGraphDeprecatedSinceV10

if TYPE_CHECKING:
    from milepost._engine.superstep.subtasks import TaskDriver
    from milepost._stream_parts import GraphOutput
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.graph._typing import AnyGraph
    from milepost.types import All, RunnableConfig

_MODES = get_args(StreamMode)
_DURABILITIES = get_args(Durability)
_KNOWN = frozenset(RunOptions.__annotations__) - {"checkpoint_during"}
_FROM_LANGCHAIN = ("configurable", "metadata", "tags", "callbacks", "max_concurrency")
"""What a run takes over from the LangChain runnable that calls its graph.

Without the limit of steps: LangChain puts one of 25 into every config.
"""
_LIMITS = ("max_concurrency", "recursion_limit")
"""Keys of a config that are easily put into its `configurable`."""
_FROM_RUN = (*_FROM_LANGCHAIN, "recursion_limit", "run_id")
"""What a run takes over from the run that calls its graph."""


def new_run(
    graph: AnyGraph,
    stream: EventStream,
    config: RunnableConfig | None,
    options: RunOptions[Any],
    driver: TaskDriver,
) -> GraphRun:
    """A run that is ready to start."""
    options = _checked(options, graph.program.strictness)
    parent = find_context()
    settings = run_settings(graph, config, options, parent)
    if parent is not None and not settings.own_thread:
        stream.join(parent.run.events.stream)
    run = GraphRun(graph.program, settings, stream, parent)
    run.subtasks.driver = driver
    return run


def _names_thread(graph: AnyGraph, config: RunnableConfig | None, parent: TaskContext) -> bool:
    """Whether a graph that is called inside a run is given a thread, or has one bound to it.

    One that is given the config of a node, changed or not, is a part of the run: the config has the
    namespace and the checkpoint of the run.
    """
    given = {**(graph.config.get(CONF) or {}), **((config or {}).get(CONF) or {})}
    if given.get("thread_id") is None:
        return False
    place = (given.get("checkpoint_ns", MISSING), given.get("checkpoint_id", MISSING))
    around: TaskContext | None = parent
    while around is not None:
        position = around.run.position
        if place == (position.ns, position.stored_id):
            return False
        around = position.parent
    return True


def run_settings(
    graph: AnyGraph,
    config: RunnableConfig | None,
    options: RunOptions[Any],
    parent: TaskContext | None,
) -> RunSettings:
    """The settings of a run: the options of the caller, completed by those of the graph."""
    inherited = _inherited(parent)
    configs = [inherited, graph.config, config]
    if is_node := parent is not None and parent.task.node.graph is graph:
        # A node is called with the config of its run, which comes before what is bound to it.
        configs.append({"configurable": (inherited or {}).get(CONF) or {}})
    merged, saver = without_saver(run_config(*configs))
    if parent is None:
        _check_limits(graph, merged)
    return RunSettings(
        config=merged,
        checkpointer=graph.checkpointer if saver is None else saver,
        durability=options.get("durability"),
        on_conflict=checked_policy(options.get("on_conflict") or graph.on_conflict),
        context=_context(graph.context_schema, options.get("context")),
        interrupt_before=_breakpoints_of(graph, options.get("interrupt_before"))
        or graph.interrupt_before_nodes,
        interrupt_after=_breakpoints_of(graph, options.get("interrupt_after"))
        or graph.interrupt_after_nodes,
        output_keys=_checked_keys(graph, options.get("output_keys")),
        control=options.get("control"),
        step_timeout=graph.step_timeout or None,
        store=graph.store,
        cache=graph.cache,
        run_name=merged.get("run_name") or graph.name,
        run_id=(config or {}).get("run_id") or graph.config.get("run_id"),
        own_thread=parent is not None and not is_node and _names_thread(graph, config, parent),
    )


def _check_limits(graph: AnyGraph, config: RunnableConfig) -> None:
    """Refuse limits inside `configurable`, unless the program has keys of these names."""
    inside = config.get(CONF) or {}
    for key in _LIMITS:
        if key in inside and key not in config and not _is_own_key(graph.context_schema, key):
            error = ValueError(
                f"'{key}' limits nothing inside `configurable`: put it beside `configurable`, as "
                f'in config={{"{key}": 10}}.'
            )
            graph.program.strictness.check((CONF, key), error, "The run has no such limit.")


def _is_own_key(schema: Any, key: str) -> bool:
    return isinstance(schema, type) and key in annotated_keys(schema)


def _breakpoints_of(graph: AnyGraph, given: All | Sequence[str] | None) -> All | Sequence[str]:
    """Nodes of a graph to pause at."""
    names = breakpoints(given)
    if names:
        nodes = [name for name in graph.program.nodes if name != START]
        for error in unknown_interrupt_nodes(names, nodes):
            graph.program.strictness.check(str(error), error, "It is passed over.")
    return names


def _checked_keys(graph: AnyGraph, keys: str | Sequence[str] | None) -> str | Sequence[str] | None:
    """What a run shows, if the state has it."""
    for key in [keys] if isinstance(keys, str) else keys or ():
        if key not in graph.program.channels:
            raise ValueError(
                f"output_keys names '{key}', which is not in the state. "
                f"It has: {', '.join(graph.program.keys)}."
            )
    return keys


def breakpoints(given: All | Sequence[str] | None) -> All | Sequence[str]:
    """Nodes to pause at: "*", or names. A single name is one of several."""
    return [given] if isinstance(given, str) and given != "*" else given or ()


def without_saver(
    config: RunnableConfig,
) -> tuple[RunnableConfig, BaseCheckpointSaver[Any] | None]:
    """A config without the saver that it may bring, and that saver.

    It is that of the outermost graph: graphs in nodes take theirs from the run around them.
    """
    configurable = config.get(CONF)
    if not configurable or CONFIG_KEY_CHECKPOINTER not in configurable:
        return config, None
    rest = dict(configurable)
    saver = rest.pop(CONFIG_KEY_CHECKPOINTER)
    return {**config, "configurable": rest}, saver or None


def event_stream(
    graph: AnyGraph,
    modes: StreamMode | Sequence[StreamMode] | None,
    subgraphs: bool,
    options: RunOptions[Any],
) -> EventStream:
    """Where the events of a run go."""
    names = _mode_names(graph, "stream_mode", graph.stream_mode if modes is None else modes)
    eager = graph.program.starts_tasks
    if printed := _printed(graph, options):
        from milepost._engine.streaming.printing import PrintingStream

        stream: EventStream = PrintingStream(names, printed, subgraphs, eager=eager)
    else:
        stream = EventStream(names, subgraphs, eager=eager)
    stream.blocks = options.get("version") == "v3"
    return stream


def unread_stream(graph: AnyGraph, options: RunOptions[Any]) -> EventStream:
    """Where the events of a run without a consumer go: nowhere, or to the console."""
    if not (graph.debug or options.get("debug") or options.get("print_mode")):
        return EventStream()
    return event_stream(graph, (), False, options)


def _printed(graph: AnyGraph, options: RunOptions[Any]) -> frozenset[StreamMode]:
    """The modes whose events are printed."""
    debug = options.get("debug")
    if graph.debug if debug is None else debug:
        from milepost._engine.streaming.printing import DEBUG_MODES

        return DEBUG_MODES
    return _mode_names(graph, "print_mode", options.get("print_mode") or ())


def _mode_names(
    graph: AnyGraph, option: str, modes: StreamMode | Sequence[StreamMode]
) -> frozenset[StreamMode]:
    names = frozenset([modes] if isinstance(modes, str) else modes)
    for name in names.difference(_MODES):
        error = ValueError(f"Unknown {option} '{name}'. Use one of {', '.join(_MODES)}.")
        graph.program.strictness.check((option, name), error, "It has no events.")
    return names.intersection(_MODES)


def _checked(options: RunOptions[Any], strictness: Strictness) -> RunOptions[Any]:
    """The options of a run, if they are ones; older spellings are translated."""
    if "checkpoint_during" in options:
        options = options.copy()
        during = options.pop("checkpoint_during")
        warn_of(
            "`checkpoint_during` is deprecated: pass durability='async' or durability='exit'",
            category=LangGraphDeprecatedSinceV10,
        )
        if during is not None:
            if options.get("durability") is not None:
                raise ValueError("Pass durability or checkpoint_during, not both.")
            options["durability"] = "async" if during else "exit"
    for name in options:
        if name not in _KNOWN:
            unknown = TypeError(
                f"Unknown option '{name}'. Known ones are: {', '.join(sorted(_KNOWN))}."
            )
            strictness.check(("option", name), unknown, "It is passed over.")
    durability = options.get("durability")
    if durability is not None and durability not in _DURABILITIES:
        error = ValueError(f"Unknown durability '{durability}'. Use 'sync', 'async' or 'exit'.")
        place = ("durability", repr(durability))
        strictness.check(place, error, "It is taken for 'async'.")
        options = {**options, "durability": "async"}
    version = options.get("version")
    if version not in (None, "v1", "v2", "v3"):
        raise ValueError(f"There is no form '{version}' of events and results: 'v1', 'v2' or 'v3'.")
    checked_control(options.get("control"))
    return options


def checked_control(control: object) -> RunControl | None:
    """What the caller wants to stop runs with, if that can."""
    if control is not None and not isinstance(control, RunControl):
        raise TypeError("control must be a milepost.runtime.RunControl.")
    return control


def checked_policy(policy: OnConflict) -> OnConflict:
    """A policy for two runs on one thread, if it is one."""
    if policy not in ("newest", "reject"):
        raise ValueError(f"Unknown on_conflict '{policy}'. Use 'newest' or 'reject'.")
    return policy


def _context(schema: Any, context: Any) -> Any:
    """The context as its schema; what the caller passes if it is no dict of fields."""
    if schema is None or not isinstance(context, dict):
        return context
    return schema(**context) if is_dataclass(schema) or is_pydantic(schema) else context


def _inherited(parent: TaskContext | None) -> RunnableConfig | None:
    """What a graph takes over from the run, and from the LangChain runnable, that calls it."""
    around: Mapping[str, Any] | None = config_around()
    if parent is None:
        return None if around is None else {k: around[k] for k in _FROM_LANGCHAIN if around.get(k)}  # type: ignore[return-value]
    outer: Mapping[str, Any] = parent.run.resources.config
    config = {key: outer[key] for key in _FROM_RUN if key in outer}
    configurable = {
        key: value
        for key, value in (outer.get("configurable") or {}).items()
        if not key.startswith("checkpoint_")
    }
    if (callbacks := callbacks_around(parent)) is not None:
        config["callbacks"] = callbacks
    inherited: RunnableConfig = {**config, "configurable": configurable}  # type: ignore[typeddict-item]
    return inherited if around is None else merge_configs(inherited, _changed(around, parent))


def _changed(around: Mapping[str, Any], parent: TaskContext) -> RunnableConfig:
    """What the config of a LangChain runnable has beyond that of the node which it runs in."""
    node: Mapping[str, Any] = parent.config
    changed: dict[str, Any] = {"tags": around.get("tags")}
    for key in ("configurable", "metadata"):
        known = node.get(key) or {}
        changed[key] = {
            name: value
            for name, value in (around.get(key) or {}).items()
            if name not in known or known[name] is not value
        }
    return changed  # type: ignore[return-value]


# -- the forms in which events and results reach a caller: `version="v1"` and `version="v2"`

Build: TypeAlias = Callable[[dict[str, Any]], Any]
"""Makes a schema's own type out of a dict of values."""


_V1: dict[tuple[bool, bool], Callable[[Event], Any]] = {
    (False, False): attrgetter("payload"),
    (True, False): attrgetter("mode", "payload"),
    (False, True): attrgetter("ns", "payload"),
    (True, True): attrgetter("ns", "mode", "payload"),
}
"""What a caller sees of an event, by whether there are several modes, and several graphs."""


def form_of(
    graph: AnyGraph,
    modes: StreamMode | Sequence[StreamMode] | None,
    subgraphs: bool,
    version: str | None,
) -> Callable[[Event], Any]:
    """How the events of a run are shown to its caller."""
    if version in (None, "v1"):
        wanted = graph.stream_mode if modes is None else modes
        return _V1[not isinstance(wanted, str), subgraphs]
    output = state = None
    if graph.builder is not None:
        output = schema_of(graph.builder.output_schema).build
        state = schema_of(graph.builder.state_schema).build
    return lambda event: _part(event, output, state)


def _part(event: Event, output: Build | None, state: Build | None) -> dict[str, Any]:
    """An event as a part of a stream, with its mode, its graph and its data."""
    data = event.payload
    part: dict[str, Any] = {"type": event.mode, "ns": event.ns, "data": data}
    if event.mode == "values":
        part["interrupts"] = ()
        if isinstance(data, dict):
            part["interrupts"] = tuple(data.get(INTERRUPT, ()))
            data = {key: value for key, value in data.items() if key != INTERRUPT}
            part["data"] = data if output is None or event.ns else output(data)
    elif state is not None and not event.ns and event.mode in ("checkpoints", "debug"):
        part["data"] = _with_state(data, state)
    return part


def _with_state(payload: Mapping[str, Any], state: Build) -> Mapping[str, Any]:
    """The payload of a checkpoint with its values as the schema of the state."""
    if payload.get("type") == "checkpoint" and isinstance(payload.get("payload"), dict):
        return {**payload, "payload": _with_state(payload["payload"], state)}
    # At the beginning not every key has a value that the schema may need.
    if isinstance(payload.get("values"), dict) and START not in payload.get("next", ()):
        return {**payload, "values": state(payload["values"])}
    return payload


def output_of(parts: Iterable[Mapping[str, Any]]) -> GraphOutput[Any]:
    """What `invoke` returns, from the parts of the `values` stream."""
    from milepost._stream_parts import GraphOutput

    value: Any = None
    interrupts: list[Any] = []
    for part in parts:
        value = part["data"]
        interrupts.extend(part["interrupts"])
    return GraphOutput(value, tuple(interrupts))
