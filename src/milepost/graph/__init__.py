"""Graphs: StateGraph builds them; what it compiles to runs them."""

from typing import TYPE_CHECKING

from milepost._internal.lazy_imports import on_demand
from milepost.constants import END, START
from milepost.graph.state import StateGraph

if TYPE_CHECKING:
    from milepost.graph._compiled_state import CompiledStateGraph
    from milepost.graph.message import MessageGraph, MessagesState, add_messages
else:
    __getattr__, __dir__ = on_demand(
        __name__,
        {
            "CompiledStateGraph": "milepost.graph._compiled_state",
            "MessageGraph": "milepost.graph.message",
            "MessagesState": "milepost.graph.message",
            "add_messages": "milepost.graph.message",
        },
    )

__all__ = [
    "END",
    "START",
    "CompiledStateGraph",
    "MessageGraph",
    "MessagesState",
    "StateGraph",
    "add_messages",
]
