"""What there is to draw of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple

from milepost.constants import END, START


class Node(NamedTuple):
    """A node in a picture."""

    id: str
    """Unique in the picture: `outer:inner` for a node of an inner graph."""
    name: str
    data: Any = None
    """What runs: the node's function or object."""
    metadata: dict[str, Any] | None = None
    """What to know about it. `defer` and `__interrupt` are said by the graph itself."""

    @property
    def is_deferred(self) -> bool:
        """Whether it waits until nothing else is left to run."""
        return bool(self.metadata and self.metadata.get("defer"))


class Edge(NamedTuple):
    """An edge in a picture."""

    source: str
    target: str
    data: str | None = None
    """The label: what a conditional edge's function answered."""
    conditional: bool = False


@dataclass(slots=True)
class Graph:
    """A picture of a graph, to be drawn in several ways."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def first_node(self) -> Node | None:
        """Where a run starts."""
        return self.nodes.get(START)

    def last_node(self) -> Node | None:
        """Where a run ends."""
        return self.nodes.get(END)

    def draw_mermaid(self, *, with_styles: bool = True) -> str:
        """The graph in Mermaid's language, which many viewers of Markdown draw."""
        from milepost.graph._drawing.mermaid import mermaid

        return mermaid(self, with_styles=with_styles)

    def draw_mermaid_png(
        self,
        output_file_path: str | PathLike[str] | None = None,
        *,
        background_color: str = "white",
    ) -> bytes:
        """The graph as a PNG image, drawn by the program `mmdc` on this machine."""
        from milepost.graph._drawing.mermaid import png

        return png(self.draw_mermaid(), output_file_path, background_color)

    def draw_ascii(self) -> str:
        """The graph in plain characters."""
        from milepost.graph._drawing.ascii import ascii_text

        return ascii_text(self)

    def print_ascii(self) -> None:
        """Print `draw_ascii`."""
        print(self.draw_ascii())

    def to_json(self) -> dict[str, Any]:
        """The graph in types that JSON has."""
        return {
            "nodes": [_node_as_json(node) for node in self.nodes.values()],
            "edges": [_edge_as_json(edge) for edge in self.edges],
        }


def _node_as_json(node: Node) -> dict[str, Any]:
    result: dict[str, Any] = {"id": node.id}
    if node.data is not None:
        kind = node.data if hasattr(node.data, "__qualname__") else type(node.data)
        where = [*kind.__module__.split("."), kind.__qualname__]
        result |= {"type": "runnable", "data": {"id": where, "name": node.name}}
    if node.metadata:
        result["metadata"] = _plain(node.metadata)
    return result


def _edge_as_json(edge: Edge) -> dict[str, Any]:
    result: dict[str, Any] = {"source": edge.source, "target": edge.target}
    if edge.data is not None:
        result["data"] = edge.data
    if edge.conditional:
        result["conditional"] = True
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
