"""The nodes and edges of a picture of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from types import FunctionType, MethodType
from typing import Any, Final, NamedTuple

from milepost.constants import END, START


class Node(NamedTuple):
    """A node in a picture."""

    id: str
    """Unique in the picture: `outer:inner` for a node of an inner graph."""
    name: str
    data: Any = None
    """What runs: the node's function or object."""
    metadata: dict[str, Any] | None = None
    """The metadata of the node. `defer` and `__interrupt` come from the graph itself."""

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

    def draw_mermaid(
        self,
        *,
        with_styles: bool = True,
        curve_style: Any = "linear",
        node_colors: Any = None,
        wrap_label_n_words: int = 9,
        frontmatter_config: Mapping[str, Any] | None = None,
    ) -> str:
        """The graph in Mermaid's language, which many viewers of Markdown draw.

        `curve_style` and `node_colors` are names, or LangChain's `CurveStyle` and `NodeStyles`;
        `frontmatter_config` is Mermaid's own configuration.
        """
        from milepost.graph._drawing.mermaid import body, head, styles

        text = body(self, wrap_label_n_words, with_nodes=with_styles)
        if not with_styles:
            return text
        return head(curve_style, frontmatter_config) + text + styles(self, node_colors)

    def draw_mermaid_png(
        self,
        output_file_path: str | PathLike[str] | None = None,
        *,
        curve_style: Any = "linear",
        node_colors: Any = None,
        wrap_label_n_words: int = 9,
        frontmatter_config: Mapping[str, Any] | None = None,
        background_color: str = "white",
        **by_langchain: Any,
    ) -> bytes:
        """The graph as a PNG image.

        It is drawn by the program `mmdc` on this machine. Where that is not installed, or one of
        its options is given (`draw_method`, `padding`, `max_retries`, `retry_delay`, `base_url`,
        `proxies`), LangChain draws it, which asks a service on the network by default.
        """
        from milepost.graph._drawing.mermaid import png

        text = self.draw_mermaid(
            curve_style=curve_style,
            node_colors=node_colors,
            wrap_label_n_words=wrap_label_n_words,
            frontmatter_config=frontmatter_config,
        )
        return png(text, output_file_path, background_color, by_langchain)

    def draw_ascii(self) -> str:
        """The graph in plain characters."""
        from milepost.graph._drawing.ascii import ascii_text

        return ascii_text(self)

    def print_ascii(self) -> None:
        """Print `draw_ascii`."""
        print(self.draw_ascii())

    def to_json(self, *, with_schemas: bool = False) -> dict[str, Any]:
        """The graph in types that JSON has. `with_schemas` changes nothing: no node is a schema."""
        del with_schemas
        return {
            "nodes": [_node_as_json(node) for node in self.nodes.values()],
            "edges": [_edge_as_json(edge) for edge in self.edges],
        }


def _node_as_json(node: Node) -> dict[str, Any]:
    result: dict[str, Any] = {"id": node.id}
    if node.data is not None:
        result |= {"type": "runnable", "data": {"id": _kind(node.data), "name": node.id}}
    if node.metadata:
        result["metadata"] = _plain(node.metadata)
    return result


_FUNCTION: Final = ["langgraph", "_internal", "_runnable", "RunnableCallable"]
"""The kind of a node that is a function, in the words of viewers of such JSON."""


def _kind(data: Any) -> list[str]:
    """What a node is: the path of its class, in the words of viewers of such JSON."""
    if callable(lc_id := getattr(data, "lc_id", None)) and not isinstance(data, type):
        return list(lc_id())
    kind = type(data)
    if data is START or isinstance(data, (FunctionType, MethodType, partial)):
        return _FUNCTION
    if kind.__module__.startswith("milepost.graph._"):
        return ["langgraph", "graph", "state", kind.__name__]
    if kind.__module__.startswith("milepost.prebuilt."):
        return ["langgraph", "prebuilt", "tool_node", kind.__name__]
    root, *inside = kind.__module__.split(".")
    return ["langgraph" if root == "milepost" else root, *inside, kind.__name__]


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
