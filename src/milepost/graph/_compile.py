"""From a builder to an ExecutableGraph: every edge becomes a channel, every node a record."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost._engine.context.node_callable import Callee, callee_of, function_of, same
from milepost._engine.superstep.program import Branch, ExecutableGraph, Node, StateReader, Write
from milepost._engine.superstep.renames import Renames, checked_renames
from milepost._internal.noted_types import note_types
from milepost._schema import is_one_value, schema_of
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
from milepost.graph._reachable import called_by, calls_tasks, graphs_in, types_closed_over
from milepost.graph._routing import (
    Router,
    branch_route,
    edge_channel,
    join_channel,
    taking_aliases,
    update_writer,
)
from milepost.types import Send

if TYPE_CHECKING:
    from milepost.graph._spec import NodeSpec
    from milepost.graph._typing import AnyBuilder


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
    channels: dict[str, BaseChannel[Any, Any, Any]] = dict(builder.channels)
    channels[START] = EphemeralValue(builder.input_schema)
    channels[TASKS] = Topic(Send)
    triggers: dict[str, list[str]] = {name: [] for name in builder.nodes}
    edges: dict[str, list[Write]] = {name: [] for name in (START, *builder.nodes)}

    for spec in builder.nodes.values():
        channels[edge_channel(spec.name)] = (
            LastValueAfterFinish(Any) if spec.defer else EphemeralValue(Any, guard=False)
        )
        triggers[spec.name].append(edge_channel(spec.name))
    for start, end in sorted(builder.edges):
        if end != END:
            edges[start].append((edge_channel(end), None))
    joins: dict[tuple[frozenset[str], str], str] = {}
    for starts, end in sorted(builder.waiting_edges):
        if end == END or (frozenset(starts), end) in joins:
            continue
        join = joins[frozenset(starts), end] = join_channel(starts, end)
        if join in channels:
            raise GraphBuildError(
                f"Two edges to '{end}' wait for nodes that are stored under the same name, "
                f"'{'+'.join(starts)}': leave out the '+' in names of nodes."
            )
        barrier = NamedBarrierValueAfterFinish if builder.nodes[end].defer else NamedBarrierValue
        channels[join] = barrier(str, set(starts))
        triggers[end].append(join)
        for start in starts:
            edges[start].append((join, start))

    compiler = _NodeCompiler(builder, router)
    nodes = {START: compiler.start(edges[START])}
    for spec in builder.nodes.values():
        nodes[spec.name] = compiler.node(spec, triggers[spec.name], edges[spec.name])
    _register_types(builder)
    output = schema_of(builder.output_schema)
    return ExecutableGraph(
        name=name,
        nodes=nodes,
        channels=channels,
        keys=keys,
        output_keys=ROOT if output.is_root else output.keys,
        stream_keys=ROOT if is_one_value(builder.channels) else keys,
        delta=delta,
        goto=router.goto,
        writes_of_update=taking_aliases(
            update_writer(router, INPUT, compiler.keys, builder.managed),
            schema_of(builder.input_schema).aliases,
            compiler.keys,
        ),
        strictness=builder.strictness,
        renames=_renames(builder, joins, nodes, renamed_nodes, renamed_keys),
    )


def _renames(
    builder: AnyBuilder,
    joins: Mapping[tuple[frozenset[str], str], str],
    nodes: Mapping[str, Node],
    renamed_nodes: Mapping[str, str] | None,
    renamed_keys: Mapping[str, str] | None,
) -> Renames:
    old_nodes = _renamed_nodes(renamed_nodes, nodes)
    old_keys = checked_renames("key", renamed_keys, builder.channels)
    with_plus = {name for name in (*nodes, *old_nodes) if "+" in name}
    known_keys = {*builder.channels, *builder.managed, *old_keys}
    return Renames(old_nodes, old_keys, joins, with_plus, known_keys)


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


class _NodeCompiler:
    """Makes the nodes of one graph, with how they read the state and what follows them."""

    def __init__(self, builder: AnyBuilder, router: Router) -> None:
        self.keys = dict.fromkeys(builder.channels)
        """The keys of the state. A dict has their order, and finds one at once in a wide state."""
        self._builder = builder
        self._router = router
        self._readers: dict[int, StateReader] = {}
        """One reader for each schema, by its identity, however many nodes have it."""

    def start(self, edges: Sequence[Write]) -> Node:
        """The node that takes the input."""
        builder = self._builder
        read = schema_of(builder.input_schema)
        keys = dict.fromkeys(read.keys)
        writes_of = update_writer(self._router, START, keys, builder.managed)
        return Node(
            name=START,
            callee=Callee(START, same, None),
            triggers=(START,),
            reader=StateReader(channel=START),
            writes_of=taking_aliases(writes_of, read.aliases, keys),
            edges=tuple(edges),
            branches=self._branches(START, builder.state_schema),
        )

    def node(self, spec: NodeSpec, triggers: Sequence[str], edges: Sequence[Write]) -> Node:
        """A node as it was added, with the defaults of the graph."""
        defaults: Mapping[str, Any] = self._builder.defaults
        subgraphs = graphs_in(spec.action)
        writes_of = update_writer(
            self._router,
            spec.name,
            self.keys,
            self._builder.managed,
            lenient=bool(subgraphs) and subgraphs[0] is spec.action,
            culprit=function_of(spec.action),
        )
        reader = self._reader(spec.input_schema)
        handler = spec.error_handler or defaults.get("error_handler")
        return Node(
            name=spec.name,
            callee=callee_of(spec.action, spec.name),
            triggers=tuple(triggers),
            reader=reader,
            writes_of=writes_of,
            edges=tuple(edges),
            branches=self._branches(spec.name, spec.input_schema),
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
                retry=defaults.get("retry") or (),
                timeout=defaults.get("timeout"),
            ),
            metadata=dict(spec.metadata or {}),
            subgraphs=subgraphs,
            starts_tasks=calls_tasks(spec.action),
        )

    def _branches(self, source: str, schema: Any) -> tuple[Branch, ...]:
        """The conditional edges of a node, which read what the node reads by default."""
        return tuple(
            Branch(
                name=spec.name,
                callee=callee_of(spec.path, spec.name),
                reader=self._reader(spec.input_schema or schema),
                route=branch_route(self._router, source, spec.ends, function_of(spec.path)),
                sees_output=spec.input_schema is None,
            )
            for spec in self._builder.branches.get(source, {}).values()
        )

    def _reader(self, schema: Any) -> StateReader:
        reader = self._readers.get(id(schema))
        if reader is None:
            read = schema_of(schema)
            if read.is_root:
                reader = StateReader(channel=ROOT)
            else:
                managed = tuple((key, manager.get) for key, manager in read.managed.items())
                keys = None if self.keys.keys() == set(read.keys) else read.keys
                reader = StateReader(keys=keys, managed=managed, build=read.build)
            self._readers[id(schema)] = reader
        return reader


def _register_types(builder: AnyBuilder) -> None:
    """Allow what an ordinary program stores: its schemas' types, and its modules' data types."""
    modules: set[str] = set()
    specs = builder.nodes.values()
    inputs = [spec.input_schema for spec in specs]
    for schema in (builder.state_schema, builder.input_schema, builder.output_schema, *inputs):
        note_types(schema)
        modules.add(getattr(schema, "__module__", ""))
    for spec in specs:
        modules.add(getattr(called_by(spec.action), "__module__", None) or "")
        for one in types_closed_over(spec.action):
            note_types(one)
    for name in modules:
        module = sys.modules.get(name)
        if module is not None and name != "builtins":
            note_types(module)
