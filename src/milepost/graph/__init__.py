"""Graphs: StateGraph builds them; what it compiles to runs them."""

from typing import TYPE_CHECKING

from milepost.constants import END, START
from milepost.graph.state import StateGraph
from milepost.on_demand import on_demand

if TYPE_CHECKING:
    from milepost.graph.compiled import CompiledStateGraph
    from milepost.graph.message import MessagesState, add_messages
else:
    __getattr__, __dir__ = on_demand(
        __name__,
        {
            "CompiledStateGraph": "milepost.graph.compiled",
            "MessagesState": "milepost.graph.message",
            "add_messages": "milepost.graph.message",
        },
    )

__all__ = ["END", "START", "CompiledStateGraph", "MessagesState", "StateGraph", "add_messages"]
