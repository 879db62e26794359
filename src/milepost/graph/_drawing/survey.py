"""Finds the nodes and edges to draw in a compiled graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from milepost.constants import END, START
from milepost.graph._drawing.picture import Edge, Graph, Node

if TYPE_CHECKING:
    from milepost._engine.superstep.program import ExecutableGraph
    from milepost.graph._typing import AnyBuilder, AnyGraph


def survey(graph: AnyGraph, xray: int | bool = False, around: tuple[AnyGraph, ...] = ()) -> Graph:
    """A picture of the graph; `xray` shows inner graphs, so many levels deep.

    `around` are the graphs that this one is inside of: a function may call its own graph.
    """
    picture = Graph()
    picture.nodes[START] = Node(START, START, START if graph.builder else None)
    for name in graph.program.nodes:
        if name != START:
            picture.nodes[name] = _node(graph, name)
    picture.nodes[END] = Node(END, END)
    drawn: dict[tuple[str, str], Edge] = {}
    for edge in sorted(_edges(graph), key=_order):
        drawn.setdefault((edge.source, edge.target), edge)
    picture.edges = list(drawn.values())
    if not any(edge.target == END for edge in picture.edges):
        # An endless loop, or one that only Commands without declared targets leave.
        del picture.nodes[END]
    if xray:
        for name in list(picture.nodes):
            # The graph that a node is, or the only one that its function calls.
            node = graph.program.nodes.get(name)
            inner = node.subgraphs if node is not None else ()
            if len(inner) == 1 and inner[0] not in (graph, *around):
                levels = True if xray is True else xray - 1
                _open(picture, name, survey(inner[0], levels, (graph, *around)))
    return picture


def _node(graph: AnyGraph, name: str) -> Node:
    node = graph.program.nodes[name]
    metadata = dict(node.metadata)
    if graph.builder is not None and graph.builder.nodes[name].defer:
        metadata["defer"] = True
    pauses = [
        when
        for when, names in (
            ("before", graph.interrupt_before_nodes),
            ("after", graph.interrupt_after_nodes),
        )
        if names == "*" or name in names
    ]
    if pauses:
        metadata["__interrupt"] = ",".join(pauses)
    tools = getattr(node.callee.target, "tools_by_name", None)
    if isinstance(tools, Mapping) and tools:
        metadata["__tools"] = list(tools)
    return Node(name, name, node.callee.target, metadata or None)


def _edges(graph: AnyGraph) -> Iterator[Edge]:
    builder: AnyBuilder | None = graph.builder
    if builder is None:
        yield from _edges_by_channels(graph.program)
        return
    for name in (START, *graph.program.nodes):
        found = list(_edges_from(builder, name))
        # A node with no way out ends its path there.
        yield from found or (_ways_out(builder, name) if name != START else [])


def _ways_out(builder: AnyBuilder, name: str) -> list[Edge]:
    """Where a path goes that no edge leads on: to the node that waits for all others, or out."""
    waiting = [node for node, spec in builder.nodes.items() if spec.defer and node != name]
    if len(waiting) == 1 and not builder.nodes[name].defer:
        return [Edge(name, waiting[0], conditional=True)]
    return [Edge(name, END)]


def _order(edge: Edge) -> tuple[bool, str, str, bool, str]:
    """By the names of the nodes; plain edges to the end come last."""
    last = edge.target == END and not edge.conditional
    return (last, edge.source, edge.target, edge.conditional, edge.data or edge.target)


def _edges_by_channels(program: ExecutableGraph) -> Iterator[Edge]:
    """Edges where none was drawn: a node leads to those that the channels which it writes start.

    Of an entrypoint that is one function, whatever it calls.
    """
    taken = program.input_channel
    for channel in (taken,) if isinstance(taken, str) else taken:
        for name in program.triggers.get(channel, ()):
            yield Edge(START, name)
    for name, node in program.nodes.items():
        targets = [t for c in node.channels_written for t in program.triggers.get(c, ())]
        yield from (Edge(name, target) for target in targets or [END])


def _edges_from(builder: AnyBuilder, source: str) -> Iterator[Edge]:
    conditional = list(_conditional_edges(builder, source))
    # A plain edge beside a conditional one to the same node starts it by the same channel.
    targets = {edge.target for edge in conditional}
    for start, end in builder.edges:
        if start == source and end not in targets:
            yield Edge(source, end)
    for starts, end in builder.waiting_edges:
        if source in starts:
            yield Edge(source, end)
    yield from conditional


def _conditional_edges(builder: AnyBuilder, source: str) -> Iterator[Edge]:
    for branch in builder.branches.get(source, {}).values():
        if branch.ends is None:
            # Without a path map or a Literal return type, all but the node itself may be meant.
            every = (*builder.nodes, END)
            likely = [name for name in branch.likely if name in every]
            for name in likely or [name for name in every if name != source]:
                yield Edge(source, name, conditional=True)
        else:
            for answer, end in branch.ends.items():
                yield Edge(source, end, _label(answer, end), conditional=True)
    spec = builder.nodes.get(source)
    if spec is not None:
        ends = spec.ends if isinstance(spec.ends, Mapping) else dict.fromkeys(spec.ends)
        for end, label in ends.items():
            yield Edge(source, end, _label(label, end), conditional=True)


def _label(answer: object, end: str) -> str | None:
    return None if answer is None or str(answer) == end else str(answer)


# -- inner graphs


def _open(picture: Graph, name: str, inner: Graph) -> None:
    """Put an inner graph's picture in the place of its node."""
    entry = _only_neighbour(START, [(edge.source, edge.target) for edge in inner.edges])
    exit = _only_neighbour(END, [(edge.target, edge.source) for edge in inner.edges])
    trimmed = {id for id, node in ((START, entry), (END, exit)) if node is not None}
    inside = {
        f"{name}:{node.id}": node._replace(id=f"{name}:{node.id}")
        for node in inner.nodes.values()
        if node.id not in trimmed
    }
    first, last = f"{name}:{entry or START}", f"{name}:{exit or END}"
    if exit is None and last not in inside:  # the inner graph has no end that we know of
        last = next(reversed(inside))
    del picture.nodes[name]
    picture.nodes.update(inside)
    picture.edges = [
        edge._replace(
            source=last if edge.source == name else edge.source,
            target=first if edge.target == name else edge.target,
        )
        for edge in picture.edges
    ]
    picture.edges.extend(
        edge._replace(source=f"{name}:{edge.source}", target=f"{name}:{edge.target}")
        for edge in inner.edges
        if edge.source not in trimmed and edge.target not in trimmed
    )


def _only_neighbour(end: str, edges: list[tuple[str, str]]) -> str | None:
    """The node at the only edge of START or END, if that node has no other edge on this side.

    Edges from outside then lead to that node, and the picture does without START or END.
    """
    neighbours = [node for one, node in edges if one == end]
    others = {node for one, node in edges if one != end}
    return neighbours[0] if len(neighbours) == 1 and neighbours[0] not in others else None
