"""From a builder to a Program: every edge becomes a channel, every node a record."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from milepost._engine.context.node_callable import Callee, callee_of, function_of
from milepost._engine.superstep.program import Branch, ExecutableGraph, Node, Reader, Write
from milepost._engine.superstep.renames import Renames, checked_renames
from milepost._internal.noted_types import note_types
from milepost._schema import schema_of
from milepost.channels import (
    BaseChannel,
    DeltaChannel,
    EphemeralValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
)
from milepost.constants import END, INPUT, ROOT, START, TASKS
from milepost.errors import GraphBuildError
from milepost.graph._reachable import called_by, calls_tasks, graphs_in, types_held
from milepost.graph._routing import (
    Router,
    branch_route,
    edge_channel,
    join_channel,
    update_writer,
)
from milepost.types import Send

if TYPE_CHECKING:
    from milepost.graph._spec import BranchSpec, NodeSpec
    from milepost.graph._typing import AnyBuilder

Channels = dict[str, BaseChannel[Any, Any, Any]]


def compile_program(
    builder: AnyBuilder,
    name: str,
    renamed_nodes: Mapping[str, str] | None = None,
    renamed_keys: Mapping[str, str] | None = None,
) -> ExecutableGraph:
    """What the runtime needs to know of a graph."""
    keys = tuple(builder.channels)
    delta = tuple(key for key in keys if isinstance(builder.channels[key], DeltaChannel))
    router = Router(name, builder.nodes, builder.strictness, delta)
    known = dict.fromkeys(keys)
    readers = _Readers(keys)
    channels: Channels = dict(builder.channels)
    channels[START] = _keyed(START, EphemeralValue(builder.input_schema))
    channels[TASKS] = _keyed(TASKS, Topic(Send))
    triggers: dict[str, list[str]] = {name: [] for name in (START, *builder.nodes)}
    triggers[START].append(START)
    edges: dict[str, list[Write]] = {name: [] for name in (START, *builder.nodes)}

    for spec in builder.nodes.values():
        channel: BaseChannel[Any, Any, Any] = (
            LastValueAfterFinish(Any) if spec.defer else EphemeralValue(Any, guard=False)
        )
        channels[edge_channel(spec.name)] = _keyed(edge_channel(spec.name), channel)
        triggers[spec.name].append(edge_channel(spec.name))
    for start, end in sorted(builder.edges):
        if end != END:
            edges[start].append((edge_channel(end), None))
    for starts, end in sorted(builder.waiting_edges):
        if end == END:
            continue
        join = join_channel(starts, end)
        barrier = NamedBarrierValueAfterFinish if builder.nodes[end].defer else NamedBarrierValue
        channels[join] = _keyed(join, barrier(str, set(starts)))
        triggers[end].append(join)
        for start in starts:
            edges[start].append((join, start))

    nodes = {
        START: _start_node(builder, router, readers, tuple(edges[START])),
        **{
            spec.name: _node(
                builder, router, readers, known, spec, tuple(triggers[spec.name]), edges[spec.name]
            )
            for spec in builder.nodes.values()
        },
    }
    by_channel: dict[str, tuple[str, ...]] = {TASKS: ()}
    for node, listens in triggers.items():
        for channel_name in listens:
            by_channel[channel_name] = (*by_channel.get(channel_name, ()), node)
    _register_types(builder)
    output = schema_of(builder.output_schema)
    return ExecutableGraph(
        name=name,
        nodes=nodes,
        channels=channels,
        keys=keys,
        output_keys=ROOT if output.is_root else output.keys,
        stream_keys=ROOT if ROOT in builder.channels else keys,
        triggers=by_channel,
        waiting=tuple(name for name, channel in channels.items() if channel.waits_for_finish),
        delta=delta,
        goto=router.goto,
        writes_of_update=update_writer(router, INPUT, keys, builder.managed),
        strictness=builder.strictness,
        renames=Renames(
            _renamed_nodes(renamed_nodes, nodes), checked_renames("key", renamed_keys, keys)
        ),
    )


def _renamed_nodes(given: Mapping[str, str] | None, nodes: Mapping[str, Node]) -> dict[str, str]:
    renamed = checked_renames("node", given, nodes.keys() - {START})
    for old, new in renamed.items():
        if any(graph.checkpointer is True for graph in nodes[new].subgraphs):
            raise GraphBuildError(
                f"renamed_nodes says that '{old}' is called '{new}' now. A graph inside it has "
                "memory of its own (checkpointer=True), which is stored under the name of the "
                "node and would be lost: keep the name."
            )
    return renamed


def _start_node(
    builder: AnyBuilder,
    router: Router,
    readers: _Readers,
    edges: tuple[Write, ...],
) -> Node:
    schema = schema_of(builder.input_schema)
    return Node(
        name=START,
        callee=Callee(START, _identity, None, quick=True),
        triggers=(START,),
        reader=Reader(channel=START),
        writes_of=update_writer(router, START, schema.keys, builder.managed),
        edges=edges,
        branches=_branches(builder, router, readers, START, builder.state_schema),
    )


def _identity(value: Any) -> Any:
    return value


def _node(
    builder: AnyBuilder,
    router: Router,
    readers: _Readers,
    keys: Mapping[str, None],
    spec: NodeSpec,
    triggers: tuple[str, ...],
    edges: list[Write],
) -> Node:
    defaults: Mapping[str, Any] = builder.defaults
    subgraphs = graphs_in(spec.action)
    is_graph = bool(subgraphs) and subgraphs[0] is spec.action
    writes_of = update_writer(
        router,
        spec.name,
        keys,
        builder.managed,
        lenient=is_graph,
        culprit=function_of(spec.action),
    )
    reader = readers.of(spec.input_schema)
    handler = spec.error_handler or defaults.get("error_handler")
    metadata = dict(spec.metadata or {})
    return Node(
        name=spec.name,
        callee=callee_of(spec.action, spec.name),
        triggers=triggers,
        reader=reader,
        writes_of=writes_of,
        edges=tuple(edges),
        branches=_branches(builder, router, readers, spec.name, spec.input_schema),
        retry=(spec.retry if spec.retry is not None else defaults.get("retry")) or (),
        cache=spec.cache or defaults.get("cache"),
        timeout=spec.timeout or defaults.get("timeout"),
        trace=spec.trace,
        error_handler=None
        if handler is None
        else Node(
            name=spec.name,
            callee=callee_of(handler),
            triggers=(),
            reader=reader,
            writes_of=writes_of,
            timeout=defaults.get("timeout"),
        ),
        metadata=metadata,
        subgraphs=subgraphs,
        starts_tasks=calls_tasks(spec.action),
    )


def _branches(
    builder: AnyBuilder,
    router: Router,
    readers: _Readers,
    source: str,
    schema: Any,
) -> tuple[Branch, ...]:
    return tuple(
        _branch(router, readers, source, spec, schema)
        for spec in builder.branches.get(source, {}).values()
    )


def _branch(
    router: Router,
    readers: _Readers,
    source: str,
    spec: BranchSpec,
    schema: Any,
) -> Branch:
    return Branch(
        name=spec.name,
        callee=callee_of(spec.path, spec.name),
        reader=readers.of(spec.input_schema or schema),
        route=branch_route(router, source, spec.ends, function_of(spec.path)),
        sees_output=spec.input_schema is None,
    )


class _Readers:
    """How nodes read the state: one reader for each schema, however many nodes have it."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = frozenset(keys)
        self._made: dict[int, tuple[Any, Reader]] = {}

    def of(self, schema: Any) -> Reader:
        """The reader for a schema."""
        if (made := self._made.get(id(schema))) is None:
            made = self._made[id(schema)] = (schema, self._make(schema))
        return made[1]

    def _make(self, schema: Any) -> Reader:
        read = schema_of(schema)
        if read.is_root:
            return Reader(channel=ROOT)
        managed = tuple((key, manager.get) for key, manager in read.managed.items())
        keys = None if self._keys == set(read.keys) else read.keys
        return Reader(keys=keys, managed=managed, build=read.build)


def _keyed(name: str, channel: BaseChannel[Any, Any, Any]) -> BaseChannel[Any, Any, Any]:
    channel.key = name
    return channel


def _register_types(builder: AnyBuilder) -> None:
    """Allow what an ordinary program stores: its schemas' types, and its modules' data types."""
    modules: set[str] = set()
    for schema in (builder.state_schema, builder.input_schema, builder.output_schema):
        note_types(schema)
        modules.add(getattr(schema, "__module__", ""))
    for spec in builder.nodes.values():
        note_types(spec.input_schema)
        modules.add(getattr(spec.input_schema, "__module__", ""))
        modules.add(getattr(called_by(spec.action), "__module__", None) or "")
        for held in types_held(spec.action):
            note_types(held)
    for name in modules:
        module = sys.modules.get(name)
        if module is not None and name != "builtins":
            note_types(module)
