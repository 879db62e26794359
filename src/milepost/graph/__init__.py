"""Graphs: StateGraph builds them; what it compiles to runs them."""

from milepost.constants import END, START
from milepost.graph.state import CompiledStateGraph, StateGraph

__all__ = ["END", "START", "CompiledStateGraph", "StateGraph"]
