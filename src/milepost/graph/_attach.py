"""Adding to a graph that is compiled already: `attach_node`, `attach_edge`, `attach_branch`.

The builder of the graph is left as it is. The compiled graph gets a copy of the builder with the
addition, and is made again from that; runs in progress keep what they have begun with.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from milepost.constants import END, START
from milepost.errors import GraphBuildError
from milepost.graph._compile import compile_program

if TYPE_CHECKING:
    from milepost.graph._compiled import CompiledStateGraph
    from milepost.graph._spec import BranchSpec, NodeSpec
    from milepost.graph._typing import AnyBuilder

    Compiled = CompiledStateGraph[Any, Any, Any, Any]


def attach_node(graph: Compiled, key: str, node: NodeSpec | None) -> None:
    """Add a node under a name; None for START, which every graph has."""
    if key == START or node is None:
        return
    builder = _copied(graph)
    builder.add_schema(node.input_schema)
    builder.nodes[key] = node
    _remake(graph, builder)


def attach_edge(graph: Compiled, starts: str | Sequence[str], end: str) -> None:
    """Add an edge, or a join of several nodes."""
    builder = _copied(graph)
    _check(graph, *([starts] if isinstance(starts, str) else starts), end)
    builder.add_edge(starts if isinstance(starts, str) else list(starts), end)
    _remake(graph, builder)


def attach_branch(graph: Compiled, start: str, name: str, branch: BranchSpec) -> None:
    """Add a conditional edge under a name."""
    builder = _copied(graph)
    _check(graph, start)
    builder.branches.setdefault(start, {})[name] = branch
    _remake(graph, builder)


def _check(graph: Compiled, *names: str) -> None:
    for name in names:
        if name not in graph.builder.nodes and name not in (START, END):
            raise GraphBuildError(
                f"'{name}' is not a node of graph '{graph.program.name}': attach the node first."
            )


def _copied(graph: Compiled) -> AnyBuilder:
    builder: AnyBuilder = copy.copy(graph.builder)
    for name, value in vars(builder).items():
        if isinstance(value, (dict, set)):
            setattr(builder, name, value.copy())
    builder.branches = {source: dict(known) for source, known in builder.branches.items()}
    return builder


def _remake(graph: Compiled, builder: AnyBuilder) -> None:
    renames = graph.program.renames
    program = compile_program(builder, graph.program.name)
    object.__setattr__(program, "renames", renames)
    graph.builder, graph.program = builder, program
