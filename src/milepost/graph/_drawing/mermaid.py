"""The picture of a graph as Mermaid text, and as PNG by Mermaid's own renderer."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from milepost.constants import END, START
from milepost.errors import MissingDependencyError

if TYPE_CHECKING:
    from os import PathLike

    from milepost.graph._drawing.picture import Edge, Graph, Node

_HEAD = """\
---
config:
  flowchart:
    curve: linear
---
"""
_STYLES = """\
	classDef default fill:#f2f0ff,line-height:1.2
	classDef first fill-opacity:0
	classDef last fill:#bfb6fc
"""
_DEFERRED = "\tclassDef deferred stroke-dasharray:5 3\n"
_WORDS = {"call", "class", "click", "default", "end", "graph", "href", "style", "subgraph"}
"""Words of Mermaid's language, which cannot be ids."""


def mermaid(picture: Graph, *, with_styles: bool = True) -> str:
    """The picture in Mermaid's language."""
    lines = [*_cluster(picture, "", with_nodes=with_styles)]
    body = "".join(f"\t{line}\n" for line in lines)
    if not with_styles:
        return f"graph TD;\n{body}"
    deferred = _DEFERRED if any(node.is_deferred for node in picture.nodes.values()) else ""
    return f"{_HEAD}graph TD;\n{body}{_STYLES}{deferred}"


def _cluster(picture: Graph, prefix: str, *, with_nodes: bool) -> Iterator[str]:
    """The nodes and edges of one level, then the levels inside it."""
    inside = [node for node in picture.nodes.values() if node.id.startswith(prefix)]
    own = [node for node in inside if _home(node.id) == prefix]
    if with_nodes:
        yield from (_node(node) for node in own)
    for edge in picture.edges:
        if _shared_home(edge) == prefix:
            yield _edge(edge)
    homes = dict.fromkeys(_home(node.id) for node in inside)
    deeper = [home for home in homes if home != prefix]
    for child in dict.fromkeys(prefix + home[len(prefix) :].split(":")[0] + ":" for home in deeper):
        id = child[:-1]
        name = id.rsplit(":", 1)[-1]
        yield f"subgraph {id}" if _id(id) == name else f"subgraph {_id(id)}[{_text(name)}]"
        yield from _cluster(picture, child, with_nodes=with_nodes)
        yield "end"


def _home(id: str) -> str:
    """The inner graph that a node belongs to, as the prefix of its nodes' ids."""
    return id[: id.rfind(":") + 1]


def _shared_home(edge: Edge) -> str:
    source, target = _home(edge.source), _home(edge.target)
    while not target.startswith(source):
        source = _home(source[:-1])
    return source


def _node(node: Node) -> str:
    if node.id == START:
        return f"{_id(node.id)}([<p>{START}</p>]):::first"
    if node.id == END:
        return f"{_id(node.id)}([<p>{END}</p>]):::last"
    text = node.name
    if node.metadata:
        facts = "<br/>".join(f"{key} = {value}" for key, value in node.metadata.items())
        text = f"{text}<hr/><small><em>{facts}</em></small>"
    style = ":::deferred" if node.is_deferred else ""
    return f"{_id(node.id)}({_text(text)}){style}"


def _edge(edge: Edge) -> str:
    arrow = "-.->" if edge.conditional else "-->"
    if edge.data is not None:
        label = _text(f"&nbsp;{edge.data}&nbsp;")
        arrow = f"-. {label} .->" if edge.conditional else f"-- {label} -->"
    return f"{_id(edge.source)} {arrow} {_id(edge.target)};"


def _id(id: str) -> str:
    """An id that Mermaid takes: other characters are written as their codes."""
    safe = re.sub(r"[^A-Za-z0-9_]", lambda found: f"\\{ord(found[0]):x}", id)
    return f"{safe}\\20" if safe.lower() in _WORDS else safe


def _text(text: str) -> str:
    """A label, in quotes if it has characters that would end it."""
    if re.fullmatch(r"[\w\s<>/=.,&;-]*", text):
        return text
    return '"' + text.replace('"', "#quot;") + '"'


def png(text: str, path: str | PathLike[str] | None, background: str) -> bytes:
    """The picture as PNG; also written to `path`, if there is one."""
    renderer = shutil.which("mmdc")
    if renderer is None:
        raise MissingDependencyError(
            "A PNG is drawn by Mermaid's renderer `mmdc`, which is not installed: run "
            "`npm install -g @mermaid-js/mermaid-cli`, or paste draw_mermaid() into a viewer."
        )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "graph.mmd"), Path(folder, "graph.png")
        source.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [renderer, "-i", str(source), "-o", str(target), "-b", background],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not target.exists():
            raise RuntimeError(f"`mmdc` could not draw the graph: {done.stderr or done.stdout}")
        image = target.read_bytes()
    if path is not None:
        Path(path).write_bytes(image)
    return image
