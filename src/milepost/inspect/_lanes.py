"""How the forks of a history are drawn: lanes of text beside the entries of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from milepost.inspect._records import LogEntry


class GraphRow(NamedTuple):
    """A line of a drawing: an entry with its lanes, or a line between two entries.

    Examples:
        >>> row = next(inspect.graph_rows(inspect.log(db, "trip")))
        >>> row.lanes.strip(), row.entry.step
        ('*', 2)
    """

    lanes: str
    """The lanes as text."""
    entry: LogEntry | None
    """The entry; None for a line between two."""


def graph_rows(entries: Iterable[LogEntry]) -> Iterator[GraphRow]:
    """Entries, newest first, with the lanes that lead from each to its parent.

    Args:
        entries: What `log` gives.

    Examples:
        >>> [row.entry.step for row in inspect.graph_rows(inspect.log(db, "trip")) if row.entry]
        [2, 1, 0, -1]
    """
    waiting: list[str] = []
    """For each lane, the checkpoint that it leads to."""
    for entry in entries:
        id = entry.checkpoint_id
        if id not in waiting:
            waiting.append(id)
        at = waiting.index(id)
        yield GraphRow(" ".join("*" if n == at else "|" for n in range(len(waiting))), entry)
        if entry.parent_id is None:
            del waiting[at]
            continue
        waiting[at] = entry.parent_id
        left, *rest = (n for n, wanted in enumerate(waiting) if wanted == entry.parent_id)
        if rest:
            yield GraphRow(_joined(len(waiting), left, rest[0]), None)
            del waiting[rest[0]]


def _joined(lanes: int, left: int, right: int) -> str:
    """The line on which the lane `right` goes over to `left`, and those after it move up."""
    signs = [" "] * (2 * lanes)
    for n in range(lanes):
        signs[2 * n if n < right else 2 * n - 1] = "|" if n < right else "/"
    for n in range(2 * left + 1, 2 * right - 1):
        if signs[n] == " ":
            signs[n] = "_"
    return "".join(signs).rstrip()
