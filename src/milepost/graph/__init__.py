"""Graphs: StateGraph builds them; what it compiles to runs them."""

from typing import TYPE_CHECKING, Any

from milepost.constants import END, START
from milepost.graph.message import MessagesState, add_messages
from milepost.graph.state import StateGraph

if TYPE_CHECKING:
    from milepost.graph.compiled import CompiledStateGraph

__all__ = ["END", "START", "CompiledStateGraph", "MessagesState", "StateGraph", "add_messages"]


def __getattr__(name: str) -> Any:
    if name == "CompiledStateGraph":
        from milepost.graph.compiled import CompiledStateGraph

        return CompiledStateGraph
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
