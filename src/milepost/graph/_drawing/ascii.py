"""Draws a graph with plain characters: nodes in layers, so that edges run downwards.

Boxes are nodes. Lines of `|` and `-` are edges, lines of `:` and `.` conditional ones; `v` and
`^` are their heads, with the label beside them. Where lines merely cross, there is a `)`.

The layout is the usual one of a flow chart, in its simplest form: turn round the edges that close
a cycle, give every node a layer below its predecessors, let an edge that skips layers pass through
a place in each of them, sort the layers so that few edges cross, and move everything towards its
neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.graph._drawing.picture import Edge, Graph, Node


def ascii_text(picture: Graph) -> str:
    """The picture as lines of text."""
    canvas = _Canvas()
    row = 0
    for layer in arrange(picture):
        height = max(len(place.lines) + 2 if place.lines else 1 for place in layer)
        for place in layer:
            _draw_place(canvas, place, row, height)
        row = _draw_links(canvas, layer, row + height)
    return canvas.text()


def _box(picture: Graph, node: Node) -> list[str]:
    """The lines inside a node's box, all of one length."""
    lines = [node.id]
    if node.is_deferred:
        lines.append("(deferred)")
    pause = (node.metadata or {}).get("__interrupt")
    if pause:
        lines.append(f"(interrupt {pause})")
    for edge in picture.edges:
        if edge.source == edge.target == node.id:
            lines.append(f"(loop: {edge.data})" if edge.data else "(loop)")
    width = max(map(len, lines)) | 1
    return [line.center(width) for line in lines]


# -- the places of nodes and edges

_GAP = 3
"""Columns between two neighbours."""


@dataclass(eq=False, slots=True)
class Place:
    """A node's place in the layout, or one that an edge only passes through."""

    lines: list[str] = field(default_factory=list)
    """What is in the node's box; nothing in a place on the way of a long edge."""
    width: int = 1
    layer: int = 0
    centre: int = 0
    above: list[Link] = field(default_factory=list)
    below: list[Link] = field(default_factory=list)

    @property
    def left(self) -> int:
        """The first column."""
        return self.centre - self.width // 2


@dataclass(eq=False, slots=True)
class Link:
    """A piece of an edge, from one layer to the next."""

    upper: Place
    lower: Place
    edge: Edge
    is_turned: bool
    """The edge runs upwards here: it closes a cycle."""
    exit: int = 0
    """The column in which it leaves the upper place."""
    entry: int = 0
    """The column in which it meets the lower one."""

    @property
    def ends_below(self) -> bool:
        """Whether the edge's arrow head is at the lower end."""
        return not self.is_turned and bool(self.lower.lines)

    @property
    def ends_above(self) -> bool:
        """Whether it is at the upper end."""
        return self.is_turned and bool(self.upper.lines)

    @property
    def label(self) -> str:
        """The text beside the head of the arrow."""
        return self.edge.data or ""

    @property
    def span(self) -> int:
        """Columns that an end of the edge needs."""
        return len(self.label) + 3 if self.ends_below or self.ends_above else 2


def arrange(picture: Graph) -> list[list[Place]]:
    """Layers of places from top to bottom, each from left to right."""
    edges = _downwards(picture)
    boxes = {id: _box(picture, node) for id, node in picture.nodes.items()}
    places = {id: Place(lines, len(lines[0]) + 4) for id, lines in boxes.items()}
    depth = _depths(list(places), [(upper, lower) for _, upper, lower in edges])
    layers: list[list[Place]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for id, place in places.items():
        place.layer = depth[id]
        layers[place.layer].append(place)
    for edge, upper, lower in edges:
        _connect(edge, places[upper], places[lower], upper == edge.target, layers)
    for layer in layers:
        for place in layer:
            place.width = max(place.width, _room(place.above), _room(place.below)) | 1
    _sort(layers)
    _move(layers)
    for layer in layers:
        for place in layer:
            for link, column in _columns(place, place.below, lambda link: link.lower.centre):
                link.exit = column
            for link, column in _columns(place, place.above, lambda link: link.upper.centre):
                link.entry = column
    return layers


def _downwards(picture: Graph) -> list[tuple[Edge, str, str]]:
    """Every edge with its upper and lower node; loops at one node are left out."""
    targets: dict[str, list[str]] = {id: [] for id in picture.nodes}
    for edge in picture.edges:
        targets[edge.source].append(edge.target)
    turned: set[tuple[str, str]] = set()
    state: dict[str, int] = {}  # 1: on the way down from here, 2: done
    for root in picture.nodes:
        stack = [(root, iter(targets[root]))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            id, rest = stack[-1]
            for target in rest:
                if state.get(target) == 1:
                    turned.add((id, target))
                elif target not in state:
                    state[target] = 1
                    stack.append((target, iter(targets[target])))
                    break
            else:
                state[id] = 2
                stack.pop()
    return [
        (edge, edge.target, edge.source)
        if (edge.source, edge.target) in turned
        else (edge, edge.source, edge.target)
        for edge in picture.edges
        if edge.source != edge.target
    ]


def _depths(ids: list[str], pairs: list[tuple[str, str]]) -> dict[str, int]:
    """The length of the longest way to each node. The pairs form no cycle."""
    above: dict[str, list[str]] = {id: [] for id in ids}
    for upper, lower in pairs:
        above[lower].append(upper)
    depth: dict[str, int] = {}
    for id in TopologicalSorter(above).static_order():
        depth[id] = max((depth[upper] + 1 for upper in above[id]), default=0)
    return depth


def _connect(
    edge: Edge, upper: Place, lower: Place, is_turned: bool, layers: list[list[Place]]
) -> None:
    before = upper
    for layer in range(upper.layer + 1, lower.layer + 1):
        after = lower
        if layer < lower.layer:
            after = Place(layer=layer)
            layers[layer].append(after)
        link = Link(before, after, edge, is_turned)
        before.below.append(link)
        after.above.append(link)
        before = after


def _room(links: Sequence[Link]) -> int:
    """Columns that the ends of some edges need beside each other, labels included."""
    return sum(link.span for link in links) + 1 if len(links) > 1 else 1


def _sort(layers: list[list[Place]]) -> None:
    """Put each place near the middle of its neighbours in the layer before."""
    for layer in layers:
        _number(layer)
    for sweep in range(6):
        goes_down = sweep % 2 == 0
        for layer in layers[1:] if goes_down else layers[-2::-1]:
            middles: dict[Place, float] = {}
            for place in layer:
                above = [link.upper.centre for link in place.above]
                below = [link.lower.centre for link in place.below]
                middles[place] = _mean(above if goes_down else below, place.centre)
            layer.sort(key=middles.__getitem__)
            _number(layer)


def _number(layer: list[Place]) -> None:
    for at, place in enumerate(layer):
        place.centre = at * 2 - len(layer)


def _mean(values: Sequence[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _move(layers: list[list[Place]]) -> None:
    """Find columns: near the neighbours, in order, without overlap."""
    for layer in layers:
        _assign_columns(layer, [0.0] * len(layer))
    for sweep in range(8):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = []
            for place in layer:
                near = [link.upper.centre for link in place.above]
                if sweep % 2 or sweep > 5:
                    near += [link.lower.centre for link in place.below]
                wanted.append(_mean(near, place.centre))
            _assign_columns(layer, wanted)
    leftmost = min((place.left for layer in layers for place in layer), default=0)
    for layer in layers:
        for place in layer:
            place.centre -= leftmost


def _assign_columns(layer: Sequence[Place], wanted: Sequence[float]) -> None:
    """Give each place the column it wanted for, as near as order and widths allow.

    Counted from where a place would be if all were packed to the left, columns must only not
    decrease; the nearest such numbers come from pooling neighbours that are out of order.
    """
    packed: list[int] = []
    at = 0
    for place in layer:
        packed.append(at + place.width // 2)
        at += place.width + _GAP
    pools: list[tuple[float, int]] = []  # mean shift, how many places
    for column, base in zip(wanted, packed, strict=True):
        mean, count = column - base, 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean = (mean * count + other * others) / (count + others)
            count += others
        pools.append((mean, count))
    shifts = [mean for mean, count in pools for _ in range(count)]
    for place, base, shift in zip(layer, packed, shifts, strict=True):
        place.centre = base + round(shift)


def _columns(
    place: Place, links: Sequence[Link], order: Callable[[Link], int]
) -> Iterator[tuple[Link, int]]:
    """Columns for the ends of edges at a place: in order, with room for their labels."""
    total = sum(link.span for link in links)
    column = place.left + 1 + max(0, (place.width - 1 - total) // 2)
    for link in sorted(links, key=order):
        yield link, place.centre if len(links) == 1 else column
        column += link.span


# -- drawing


class _Canvas:
    """Characters by row and column."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], str] = {}

    def write(self, row: int, column: int, text: str) -> None:
        for at, character in enumerate(text):
            self.cells[row, column + at] = character

    def across(self, row: int, first: int, last: int, dash: str) -> None:
        """A line from one corner to another. Lines that it crosses go on below it."""
        for column in range(min(first, last), max(first, last) + 1):
            before = self.cells.get((row, column), " ")
            is_corner = column in (first, last) or before == "+"
            self.cells[row, column] = "+" if is_corner else ")" if before in "|:" else dash

    def down(self, column: int, first: int, last: int, line: str) -> None:
        """A line from a row to before another."""
        for row in range(first, last):
            before = self.cells.get((row, column), " ")
            self.cells[row, column] = ")" if before in "-." else before if before == "+" else line

    def text(self) -> str:
        columns = range(max((column for _, column in self.cells), default=-1) + 1)
        rows = range(max((row for row, _ in self.cells), default=-1) + 1)
        lines = ("".join(self.cells.get((row, at), " ") for at in columns) for row in rows)
        return "\n".join(line.rstrip() for line in lines)


def _draw_place(canvas: _Canvas, place: Place, row: int, height: int) -> None:
    lines = place.lines
    if not lines:
        canvas.down(place.centre, row, row + height, _line(place.above[0]))
        return
    border = f"+{'-' * (place.width - 2)}+"
    canvas.write(row, place.left, border)
    for at, line in enumerate(lines, 1):
        canvas.write(row + at, place.left, f"|{line.center(place.width - 2)}|")
    canvas.write(row + len(lines) + 1, place.left, border)
    for link in place.below:  # the box may be lower than others in its row
        canvas.down(link.exit, row + len(lines) + 2, row + height, _line(link))


def _line(link: Link) -> str:
    return ":" if link.edge.conditional else "|"


def _draw_links(canvas: _Canvas, layer: Sequence[Place], row: int) -> int:
    """Draw what leads from a layer to the next; returns the row where that begins."""
    links = [link for place in layer for link in place.below]
    if not links:
        return row
    tracks = _tracks([link for link in links if link.exit != link.entry])
    top = row + 1
    bottom = top + max(len(tracks), 1)
    for link in links:
        line = _line(link)
        bend = top + tracks[link] if link in tracks else bottom
        canvas.down(link.exit, row, bend, line)
        canvas.down(link.entry, bend + (link in tracks), bottom + 1, line)
    for link, track in tracks.items():
        canvas.across(top + track, link.exit, link.entry, "." if link.edge.conditional else "-")
    for link in links:
        if link.ends_above:
            canvas.write(row, link.exit, f"^ {link.label}".rstrip())
        if link.ends_below:
            canvas.write(bottom, link.entry, f"v {link.label}".rstrip())
    return bottom + 1


def _tracks(links: Sequence[Link]) -> dict[Link, int]:
    """A row for the horizontal part of each edge.

    An edge that leaves in the column where another arrives must turn above that one, or their
    vertical parts would lie on each other.
    """
    tracks: dict[Link, int] = {}
    left = list(links)
    while left:
        free = (
            link for link in left if not any(o.exit == link.entry for o in left if o is not link)
        )
        chosen = next(free, left[0])
        left.remove(chosen)
        tracks[chosen] = len(tracks)
    return tracks
