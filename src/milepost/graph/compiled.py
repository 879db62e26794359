"""A compiled graph: what programs call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from typing_extensions import TypeVar

from milepost.constants import NS_SEP
from milepost.graph.running import RunningGraph
from milepost.graph.threads import ThreadedGraph

if TYPE_CHECKING:
    from milepost.graph.drawing import Graph
    from milepost.graph.state import StateGraph
    from milepost.types import RunnableConfig

StateT = TypeVar("StateT", default=Any)
ContextT = TypeVar("ContextT", default=None)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)


def _no_step_timeout(*_: Any) -> NoReturn:
    raise AttributeError(
        "A graph of milepost has no step_timeout. Say how long each node may take, with "
        "add_node(..., timeout=...) or @task(timeout=...)."
    )


class CompiledGraph(RunningGraph, ThreadedGraph):
    """What `StateGraph.compile` and `@entrypoint` make."""

    step_timeout = property(_no_step_timeout, _no_step_timeout)
    """Not there: to set it in vain would be worse than not being able to."""

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

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """A picture of the graph, to be drawn as Mermaid text, ASCII, JSON or PNG.

        `xray` shows inner graphs too: a number of levels, or True for all. No picture depends on
        `config`, which callers of other graph libraries pass.
        """
        from milepost.graph.drawing.survey import survey

        del config
        return survey(self, xray)

    async def aget_graph(
        self, config: RunnableConfig | None = None, *, xray: int | bool = False
    ) -> Graph:
        """`get_graph`, for use on an event loop."""
        return self.get_graph(config, xray=xray)


class CompiledStateGraph(CompiledGraph, Generic[StateT, ContextT, InputT, OutputT]):
    """A compiled StateGraph."""

    def __init__(self, *, builder: StateGraph[Any, Any, Any, Any], **options: Any) -> None:
        super().__init__(**options)
        self.builder = builder
        self.context_schema = builder.context_schema
