"""A compiled StateGraph, which nodes and edges can still be attached to.

An attachment leaves the builder of the graph as it is. The compiled graph gets a copy of the
builder with the addition, and is compiled again from that copy; runs in progress keep the program
that they have begun with.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from milepost.constants import END, START
from milepost.errors import GraphBuildError
from milepost.graph._compile import compile_program
from milepost.graph._compiled import Pregel
from milepost.graph._typing import ContextT, InputT, OutputT, StateT

if TYPE_CHECKING:
    from milepost.graph._spec import BranchSpec, NodeSpec
    from milepost.graph.state import StateGraph


class CompiledStateGraph(Pregel[StateT, ContextT, InputT, OutputT]):
    """A compiled StateGraph.

    Args:
        builder: The StateGraph.
        **options: Those of `Pregel`.

    Examples:
        >>> from milepost.graph import START, StateGraph
        >>> builder = StateGraph(dict).add_node("add", lambda state: {"n": state["n"] + 1})
        >>> graph = builder.add_edge(START, "add").compile()
        >>> type(graph).__name__, graph.builder is builder
        ('CompiledStateGraph', True)
    """

    builder: StateGraph[StateT, ContextT, InputT, OutputT]

    def __init__(
        self, *, builder: StateGraph[StateT, ContextT, InputT, OutputT], **options: Any
    ) -> None:
        super().__init__(context_schema=builder.context_schema, **options)
        self.builder = builder

    def validate(self) -> Self:
        """The graph, if its builder is sound; raises GraphBuildError otherwise."""
        self.builder.validate()
        return self

    def attach_node(self, key: str, node: NodeSpec | None) -> None:
        """Add a node to this graph alone: what its builder has in `nodes`.

        Args:
            key: The name of the node.
            node: What the builder has in `nodes`; None for START, which every graph has.
        """
        if key == START or node is None:
            return
        builder = self._copied_builder()
        builder.add_schema(node.input_schema)
        builder.nodes[key] = node
        self._recompile(builder)

    def attach_edge(self, starts: str | Sequence[str], end: str) -> None:
        """Add an edge to this graph alone; with several starts, it waits for all of them.

        Args:
            starts: The node before, or several.
            end: The node after.
        """
        self._check_known(*([starts] if isinstance(starts, str) else starts), end)
        self._recompile(self._copied_builder().add_edge(starts, end))

    def attach_branch(
        self,
        start: str,
        name: str,
        branch: BranchSpec,
        *,
        with_reader: bool = True,  # noqa: ARG002
    ) -> None:
        """Add a conditional edge to this graph alone: what its builder has in `branches`.

        Args:
            start: The node before.
            name: The name of the branch.
            branch: What the builder has in `branches`.
            with_reader: Changes nothing: the function reads the state as the node has left it.
        """
        self._check_known(start)
        builder = self._copied_builder()
        builder.branches.setdefault(start, {})[name] = branch
        self._recompile(builder)

    def _check_known(self, *names: str) -> None:
        for name in names:
            if name not in self.builder.nodes and name not in (START, END):
                raise GraphBuildError(
                    f"'{name}' is not a node of graph '{self.program.name}': attach the node first."
                )

    def _copied_builder(self) -> StateGraph[StateT, ContextT, InputT, OutputT]:
        builder = copy.copy(self.builder)
        for name, value in vars(builder).items():
            if isinstance(value, (dict, set)):
                setattr(builder, name, value.copy())
        builder.branches = {source: dict(known) for source, known in builder.branches.items()}
        return builder

    def _recompile(self, builder: StateGraph[StateT, ContextT, InputT, OutputT]) -> None:
        program = compile_program(builder, self.program.name)
        object.__setattr__(program, "renames", program.renames.with_old_names(self.program.renames))
        self.builder, self.program = builder, program
