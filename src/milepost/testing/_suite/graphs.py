"""Graphs that clauses run on the saver."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from milepost.graph import END, START, StateGraph
from milepost.types import interrupt


class Log(TypedDict):
    """A state that shows which nodes ran."""

    log: Annotated[list[str], operator.add]


class Diary(TypedDict):
    """`Log`, for a graph with inner graphs, which return the whole log that they were given."""

    log: Annotated[list[str], lambda old, new: [*old, *(name for name in new if name not in old)]]


def noting(name: str, ran: list[str] | None = None) -> Callable[[Any], dict[str, Any]]:
    """A node that puts its name into the log; `ran` collects the calls themselves."""

    def node(_state: Any) -> dict[str, Any]:
        if ran is not None:
            ran.append(name)
        return {"log": [name]}

    return node


def line(*names: str, schema: Any = Log, ran: list[str] | None = None) -> StateGraph[Any]:
    """Nodes one after the other."""
    builder: StateGraph[Any] = StateGraph(schema)
    for name in names:
        builder.add_node(name, noting(name, ran))
    for start, end in zip((START, *names), (*names, END), strict=True):
        builder.add_edge(start, end)
    return builder


def story(ran: list[str]) -> StateGraph[Any]:
    """A graph with all that a saver has to do with.

    A node, two at once, a question to a human, an inner graph of two nodes, and a last node.
    """

    def ask(_state: Any) -> dict[str, Any]:
        answer = interrupt("go on?")
        ran.append("ask")
        return {"log": ["ask", answer]}

    inner = line("e", "f", schema=Diary, ran=ran).compile()
    builder: StateGraph[Any] = StateGraph(Diary)
    for name in ("a", "b", "c", "g"):
        builder.add_node(name, noting(name, ran))
    builder.add_node("ask", ask).add_node("inner", inner)
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c")
    builder.add_edge(["b", "c"], "ask").add_edge("ask", "inner")
    return builder.add_edge("inner", "g").add_edge("g", END)


STORY: Sequence[str] = ("in", "a", "b", "c", "ask", "yes", "e", "f", "g")
"""The log at the end of the story."""
