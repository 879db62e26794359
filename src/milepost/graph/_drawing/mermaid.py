"""The picture of a graph as Mermaid text, and as the PNG that a renderer makes of such text."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milepost.constants import END, START
from milepost.errors import MissingDependencyError

if TYPE_CHECKING:
    from os import PathLike

    from milepost.graph._drawing.picture import Edge, Graph, Node

_STYLES = {
    "default": "fill:#f2f0ff,line-height:1.2",
    "first": "fill-opacity:0",
    "last": "fill:#bfb6fc",
}
_DEFERRED = "\tclassDef deferred stroke-dasharray:5 3\n"
_WORDS = {"call", "class", "click", "default", "end", "graph", "href", "style", "subgraph"}
"""Words of Mermaid's language, which cannot be ids."""


def head(curve_style: Any, settings: Mapping[str, Any] | None) -> str:
    """The configuration at the top of the text."""
    given = dict(settings or {})
    config = dict(given.get("config") or {})
    curve = getattr(curve_style, "value", curve_style)
    config["flowchart"] = {**(config.get("flowchart") or {}), "curve": curve}
    return f"---\n{_yaml({**given, 'config': config}, '')}---\n"


def _yaml(settings: Mapping[str, Any], indent: str) -> str:
    text = ""
    for key, value in sorted(settings.items()):
        if isinstance(value, Mapping):
            text += f"{indent}{key}:\n{_yaml(value, indent + '  ')}"
        else:
            plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w-]*", value)
            text += f"{indent}{key}: {value if plain else json.dumps(value)}\n"
    return text


def body(picture: Graph, words_in_a_line: int, *, with_nodes: bool) -> str:
    """The nodes and edges; edges alone show nodes by their ids. Longer labels are broken."""
    lines = _cluster(picture, "", words_in_a_line, with_nodes=with_nodes)
    return "graph TD;\n" + "".join(f"\t{line}\n" for line in lines)


def styles(picture: Graph, node_colors: Any) -> str:
    """The classes of nodes: `default`, `first`, `last`, and what the caller adds."""
    given = (
        node_colors if isinstance(node_colors, Mapping) else getattr(node_colors, "__dict__", {})
    )
    named = {**_STYLES, **given}
    deferred = _DEFERRED if any(node.is_deferred for node in picture.nodes.values()) else ""
    return "".join(f"\tclassDef {name} {style}\n" for name, style in named.items()) + deferred


def _cluster(
    picture: Graph, prefix: str, words_in_a_line: int, *, with_nodes: bool
) -> Iterator[str]:
    """The nodes and edges of one level, then the levels inside it."""
    inside = [node for node in picture.nodes.values() if node.id.startswith(prefix)]
    own = [node for node in inside if _home(node.id) == prefix]
    if with_nodes:
        yield from (_node(node) for node in own)
    shared = [edge for edge in picture.edges if _shared_home(edge) == prefix]
    for edge in sorted(shared, key=lambda edge: edge.source == edge.target):
        yield _edge(edge, words_in_a_line)
    homes = dict.fromkeys(_home(node.id) for node in inside)
    deeper = [home for home in homes if home != prefix]
    for child in dict.fromkeys(prefix + home[len(prefix) :].split(":")[0] + ":" for home in deeper):
        id = child[:-1]
        name = id.rsplit(":", 1)[-1]
        is_clear = _id(name) == name and _is_only_one(picture, name)
        yield f"subgraph {name}" if is_clear else f"subgraph {_id(id)}[{_text(name)}]"
        yield from _cluster(picture, child, words_in_a_line, with_nodes=with_nodes)
        yield "end"


def _is_only_one(picture: Graph, name: str) -> bool:
    """Whether exactly one inner graph has this name, and no node has it as its id."""
    homes = {_home(id) for id in picture.nodes}
    called = {part for home in homes for part in _outwards(home) if part.split(":")[-2] == name}
    return len(called) == 1 and name not in picture.nodes


def _outwards(home: str) -> Iterator[str]:
    """An inner graph, and the inner graphs that it is in."""
    while home:
        yield home
        home = _home(home[:-1])


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
    text = f"<p>{node.name}</p>" if node.name in (START, END) else node.name
    metadata = ((key, _shown(value)) for key, value in (node.metadata or {}).items())
    facts = "<br/>".join(f"{key} = {value}" for key, value in metadata if value is not None)
    if facts:
        text = f"{text}<hr/><small><em>{facts}</em></small>"
    style = ":::deferred" if node.is_deferred else ""
    return f"{_id(node.id)}({_text(text)}){style}"


def _shown(value: Any) -> str | None:
    """A value in a picture: words and numbers, or several of them. Others have no short form."""
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (list, tuple, set)) and all(_shown(one) is not None for one in value):
        items = [str(one) for one in value]
        return ", ".join(sorted(items) if isinstance(value, set) else items)
    return None


def _edge(edge: Edge, words_in_a_line: int) -> str:
    arrow = "-.->" if edge.conditional else "-->"
    if edge.data is not None:
        label = _text(f"&nbsp;{_broken(edge.data, words_in_a_line)}&nbsp;")
        arrow = f"-. {label} .->" if edge.conditional else f"-- {label} -->"
    return f"{_id(edge.source)} {arrow} {_id(edge.target)};"


def _broken(text: str, most: int) -> str:
    """A label in lines of at most so many words."""
    words = text.split()
    lines = (" ".join(words[at : at + most]) for at in range(0, len(words), most))
    return "&nbsp<br>&nbsp".join(lines) if len(words) > most else text


def _id(id: str) -> str:
    """An id that Mermaid takes: other characters are written as their codes."""
    safe = re.sub(r"[^A-Za-z0-9_]", lambda found: f"\\{ord(found[0]):x}", id)
    return f"{safe}\\20" if safe.lower() in _WORDS else safe


def _text(text: str) -> str:
    """A label, in quotes if it has characters that would end it."""
    if re.fullmatch(r"[\w\s<>/=.,&;-]*", text):
        return text
    return '"' + text.replace('"', "#quot;") + '"'


def png(
    text: str,
    path: str | PathLike[str] | None,
    background: str,
    by_langchain: Mapping[str, Any],
) -> bytes:
    """The picture that a text in Mermaid's language describes; also written to `path`."""
    renderer = shutil.which("mmdc")
    if renderer is not None and not by_langchain:
        return _drawn_here(renderer, text, path, background)
    if find_spec("langchain_core") is None:
        raise MissingDependencyError(
            "A PNG is drawn by Mermaid's renderer `mmdc`, which is not installed: run "
            "`npm install -g @mermaid-js/mermaid-cli`, or paste draw_mermaid() into a viewer."
        )
    from langchain_core.runnables.graph_mermaid import draw_mermaid_png

    where = None if path is None else str(path)
    options: dict[str, Any] = {"background_color": background, **by_langchain}
    return draw_mermaid_png(text, output_file_path=where, **options)


def _drawn_here(
    renderer: str, text: str, path: str | PathLike[str] | None, background: str
) -> bytes:
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
