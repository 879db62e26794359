"""Graphs: StateGraph builds them; what it compiles to runs them."""

from milepost.constants import END, START
from milepost.graph.message import MessagesState, add_messages
from milepost.graph.state import CompiledStateGraph, StateGraph

__all__ = ["END", "START", "CompiledStateGraph", "MessagesState", "StateGraph", "add_messages"]
