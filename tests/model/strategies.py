"""Random graphs and random operations, for hypothesis.

What is not generated, and why:

- a node that fails has the last name of its level, so that with one task at a time everything
  beside it has ended when it fails; there is one such node, and nothing sends to it (LangGraph
  drops what has not ended by then, milepost lets it end: see docs/differences.md)
- a graph has deferred nodes or Sends, not both: LangGraph's deferred nodes do not wait for Sends
- subgraphs have no loops, and in graphs that have subgraphs the recursion limit is not lowered:
  a subgraph that comes to the limit is a failure like those above
- with a join in the graph every update says its node: LangGraph finds a node that has two
  triggers ambiguous with itself; with Sends every update after the first does: a node that was
  sent to is never the one that is inferred
- with durability "exit" no join in a graph that may stop in mid-step: LangGraph then saves the
  join as if the step had ended
- a subgraph with memory of its own never runs beside itself, and its thread goes on from no old
  checkpoint: in LangGraph what it remembers is then that of the branch that was left
- a node leaves its subgraph by a Command only if nothing runs beside it there
- what is sent sends only onward, so that Sends do not breed
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from spec import Case, Go, Graph, Node, Op, Route

SIZES = ((3, 4, 5, 6, 2, 1), (2, 3, 1), (1, 2))
"""How many nodes a graph of each level has."""


def _remembers(node: Node) -> bool:
    inside = node.child.everywhere() if node.child is not None else ()
    return bool(node.memory) or any(inner.memory for inner in inside)


@st.composite
def routes(draw: Any, targets: list[str], sendable: list[str]) -> Route:
    # Now and then to a node that is not there.
    one = st.sampled_from([*targets, *targets, "nowhere"]).map(Go)
    if sendable:
        one |= st.builds(Go, st.sampled_from(sendable), st.integers(1, 3))
    some = st.lists(one, min_size=1, max_size=3, unique_by=lambda go: (go.node, go.arg))
    return tuple(map(tuple, draw(st.lists(some | some | st.just([]), min_size=1, max_size=3))))


@st.composite
def graphs(draw: Any, level: int = 0, prefix: str = "", fails: bool | None = None) -> Graph:
    if fails is None:
        fails = draw(st.integers(0, 2)) == 0
    size = draw(st.sampled_from(SIZES[level]))
    names = [f"{prefix}{letter}" for letter in "abcdef"[:size]]
    nodes: list[Node] = []
    for number, name in enumerate(names):
        failing = fails and number == size - 1
        child = None
        if level < 2 and draw(st.integers(0, 4 if level == 0 else 3)) == 0:
            child = draw(graphs(level + 1, name, failing))
        nodes.append(
            Node(
                name,
                asks=draw(st.sampled_from([0, 0, 1, 0, 2, 0])) if child is None else 0,
                fails=failing and child is None,
                child=child,
                memory=draw(st.sampled_from([None, None, True])) if child is not None else None,
                called=(called := child is not None and draw(st.booleans())),
                twice=called and draw(st.integers(0, 2)) == 0,
                stray=draw(st.integers(0, 3)) == 0,
            )
        )
    sendable = [
        node.name
        for node in nodes
        if not _remembers(node) and not (fails and node.name == names[-1])
    ]
    defers = draw(st.integers(0, 3)) == 0
    if defers:
        sendable = []
    wired = []
    for number, node in enumerate(nodes):
        later = names[number + 1 :]
        reach = later or (names if level == 0 else [])
        sent = [other for other in sendable if other in later]
        if later and node.child is not None and not node.memory and draw(st.booleans()):
            node = replace(node, child=draw(_leaving(node.child, later)))
        wired.append(draw(_wired(node, later, reach, sent, defers)))
    entry: tuple[str, ...] = ()
    entry_route: Route = ()
    if draw(st.integers(0, 3)) == 0:
        entry_route = draw(routes(names, sendable))
    else:
        entry = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))
    joins = []
    if size > 2 and draw(st.booleans()):
        target = draw(st.sampled_from(names if level == 0 else names[2:]))
        others = [name for name in names if (name < target if level else name != target)]
        sources = draw(st.lists(st.sampled_from(others), min_size=2, max_size=3, unique=True))
        joins.append((tuple(sources), target))
    return Graph(level, tuple(wired), entry, entry_route, tuple(joins))


@st.composite
def _leaving(draw: Any, child: Graph, targets: list[str]) -> Graph:
    """The subgraph, with a node that hands over to the graph around it."""
    at = draw(st.integers(0, len(child.nodes) - 1))
    if not child.serial() or child.nodes[at].child is not None:
        return child
    node = replace(child.nodes[at], leaves=draw(st.sampled_from(targets)), goto=())
    return replace(child, nodes=(*child.nodes[:at], node, *child.nodes[at + 1 :]))


@st.composite
def _wired(
    draw: Any, node: Node, later: list[str], reach: list[str], sent: list[str], defers: bool
) -> Node:
    """The node with edges: mostly onward, sometimes in a loop."""
    kind = draw(st.sampled_from(["edges", "edges", "edges", "route", "goto"]))
    edges: tuple[str, ...] = ()
    route: Route = ()
    goto: Route = ()
    if kind == "edges" and later:
        fewest = draw(st.sampled_from([1, 1, 0]))
        edges = tuple(
            draw(st.lists(st.sampled_from(later), min_size=fewest, max_size=2, unique=True))
        )
    elif kind == "route" and reach:
        route = draw(routes(reach, sent))
    elif kind == "goto" and reach and node.child is None:
        goto = draw(routes(reach, sent))
    defer = defers and draw(st.booleans())
    return replace(node, edges=edges, route=route, goto=goto, defer=defer)


numbers = st.integers(0, 7)
places = st.integers(0, 12)
nodes_by_number = st.integers(-1, 5)
streamed = st.booleans()

inputs = st.builds(
    Op,
    st.just("input"),
    number=numbers,
    limit=st.sampled_from([None, None, None, None, 1, 2, 3]),
    before=st.sampled_from([(), (), ()]) | st.tuples(st.integers(0, 5)),
    after=st.sampled_from([(), (), ()]) | st.tuples(st.integers(0, 5)),
    streamed=streamed,
)
going_on = st.builds(Op, st.just("go_on"), streamed=streamed)
resumes = st.builds(Op, st.just("resume"), number=numbers, streamed=streamed)
answers = st.builds(Op, st.just("answer"), number=numbers, streamed=streamed)
replays = st.builds(Op, st.just("replay"), at=places, streamed=streamed)
updates = st.builds(
    Op,
    st.just("update"),
    number=numbers,
    at=st.none() | places,
    as_node=st.none() | nodes_by_number,
)
forks = st.builds(
    Op,
    st.just("fork"),
    number=numbers,
    at=places,
    as_node=st.none() | nodes_by_number,
    explicit=st.booleans(),
    streamed=streamed,
)
operations = st.one_of(
    answers, resumes, replays, forks, going_on, updates, inputs, answers, replays
)


def _without_joins(graph: Graph) -> Graph:
    nodes = [
        replace(node, child=_without_joins(node.child)) if node.child is not None else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes), joins=())


@st.composite
def cases(draw: Any, durability: str = "sync") -> Case:
    """A graph, a first input, and what is done to the thread after it."""
    graph = draw(graphs())
    if durability == "exit" and any(node.asks or node.fails for node in graph.everywhere()):
        graph = _without_joins(graph)
    ops = (draw(inputs), *draw(st.lists(operations, min_size=2, max_size=5)))
    if any(node.child is not None for node in graph.nodes):
        ops = tuple(replace(op, limit=None) for op in ops)
    if any(node.memory for node in graph.everywhere()):
        ops = tuple(op for op in ops[:-1] if op.at is None) + ops[-1:]
        ops = tuple(op for op in ops if op.kind != "fork")
    return Case(graph, tuple(_named(graph, ops)))


def _named(graph: Graph, ops: tuple[Op, ...]) -> Iterator[Op]:
    """The operations, with a node for updates whose node is not inferred in the same way."""
    routes = [graph.entry_route, *(node.route + node.goto for node in graph.nodes)]
    sends = any(go.arg is not None for route in routes for option in route for go in option)
    updated = False
    for op in ops:
        unclear = op.as_node is None and (graph.joins or (sends and updated))
        yield replace(op, as_node=-1) if unclear and op.kind in ("update", "fork") else op
        updated |= op.kind in ("update", "fork")
