"""Draws a graph with plain characters.

Boxes are nodes. Lines of `|` and `-` are edges, lines of `:` and `.` conditional ones; `v` and
`^` are their heads, with the label beside them. Where lines merely cross, there is a `)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from milepost.graph._drawing.layout import Link, Place, arrange

if TYPE_CHECKING:
    from milepost.graph._drawing.picture import Graph, Node


def ascii_text(picture: Graph) -> str:
    """The picture as lines of text."""
    boxes = {id: _box(picture, node) for id, node in picture.nodes.items()}
    layers = arrange(picture, {id: len(lines[0]) + 4 for id, lines in boxes.items()})
    canvas = _Canvas()
    row = 0
    for layer in layers:
        height = max(len(boxes[place.id]) + 2 if place.id else 1 for place in layer)
        for place in layer:
            _draw_place(canvas, place, boxes, row, height)
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


def _draw_place(
    canvas: _Canvas, place: Place, boxes: dict[str, list[str]], row: int, height: int
) -> None:
    if place.id is None:
        canvas.down(place.centre, row, row + height, _line(place.above[0]))
        return
    border = f"+{'-' * (place.width - 2)}+"
    canvas.write(row, place.left, border)
    lines = boxes[place.id]
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
        free = [
            link
            for link in left
            if not any(other.exit == link.entry for other in left if other is not link)
        ]
        chosen = (free or left)[0]
        left.remove(chosen)
        tracks[chosen] = len(tracks)
    return tracks
