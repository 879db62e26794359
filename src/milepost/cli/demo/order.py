"""The graph of the demo.

An order is quoted, then charged and packed at the same time, then shipped:

    START -> quote -> charge -> ship -> END
                   -> pack   ->
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import TypedDict

from milepost.graph import END, START, StateGraph

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.graph.state import CompiledStateGraph
    from milepost.types import RunnableConfig

THREAD: Final = "order-1"
CONFIG: Final[RunnableConfig] = {"configurable": {"thread_id": THREAD}}
INPUT: Final = {"item": "tea", "count": 3}


class Order(TypedDict, total=False):
    """The state: what is known about the order."""

    item: str
    count: int
    price: int
    receipt: str
    parcel: str
    sent: str


class Journal:
    """A file in which every call of a node is noted, outside of what milepost saves."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, node: str, event: str) -> None:
        """Append a line before the node goes on."""
        with self.path.open("a", encoding="ascii") as file:
            file.write(f"{os.getpid()} {node} {event}\n")

    def calls(self) -> list[tuple[int, str, bool]]:
        """Process, node, and whether the call came to its end; in the order of starting."""
        lines = [line.split() for line in self.path.read_text(encoding="ascii").splitlines()]
        return [
            (int(pid), node, [pid, node, "finished"] in lines)
            for pid, node, event in lines
            if event == "started"
        ]


def quote(order: Order) -> Order:
    """What the order costs."""
    return {"price": 4 * order["count"]}


def charge(order: Order) -> Order:
    """Take the money: the node that must not run twice."""
    return {"receipt": f"{order['price']} coins taken"}


def pack(order: Order) -> Order:
    """Fill the parcel."""
    return {"parcel": f"{order['count']} x {order['item']}"}


def ship(order: Order) -> Order:
    """Send it."""
    return {"sent": f"{order['parcel']}, {order['receipt']}"}


def build(
    saver: BaseCheckpointSaver[Any], journal: Journal, stall: Callable[[], object] | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph, whose calls are noted in `journal`; `stall` keeps `pack` from finishing."""

    def noted(node: Callable[[Order], Order], wait: Callable[[], object] | None = None) -> Any:
        def call(order: Order) -> Order:
            journal.note(node.__name__, "started")
            if wait is not None:
                wait()
            update = node(order)
            journal.note(node.__name__, "finished")
            return update

        return call

    return (
        StateGraph(Order)
        .add_node("quote", noted(quote))
        .add_node("charge", noted(charge))
        .add_node("pack", noted(pack, stall))
        .add_node("ship", noted(ship))
        .add_edge(START, "quote")
        .add_edge("quote", "charge")
        .add_edge("quote", "pack")
        .add_edge(["charge", "pack"], "ship")
        .add_edge("ship", END)
        .compile(checkpointer=saver)
    )
