"""Programs for the rows of docs/differences.md: each runs on both libraries and ends as it says."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from typing_extensions import TypedDict

T: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    a: int
    log: Annotated[list[Any], operator.add]


class Row(NamedTuple):
    """The first cell of a row, a program, and what it returns on each library."""

    where: str
    program: Callable[[Any], Any]
    langgraph: Any
    milepost: Any


class Rows(list[Row]):
    """The programs of one file."""

    def differ(self, where: str, *, langgraph: Any, milepost: Any) -> Callable[[Any], Any]:
        """Add a program for the row that begins with `where`."""

        def add(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
            self.append(Row(where, program, langgraph, milepost))
            return program

        return add


def says(*words: Any) -> Callable[[Any], Any]:
    """A node that notes that it has run."""
    return lambda _: {"log": list(words)}


def asks(lib: Any, question: Any = "?") -> Callable[[Any], Any]:
    """A node that asks, and notes the answer."""
    return lambda _: {"log": [lib.interrupt(question)]}


def fails(_: Any) -> Any:
    """A node that fails."""
    raise ValueError("failed")


def line(lib: Any, **nodes: Any) -> Any:
    """A builder of nodes that run one after the other."""
    builder = lib.StateGraph(State)
    before = lib.START
    for name, node in nodes.items():
        builder.add_node(name, node).add_edge(before, name)
        before = name
    return builder


def fan(lib: Any, **nodes: Any) -> Any:
    """A builder of nodes that run beside each other."""
    builder = lib.StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node).add_edge(lib.START, name)
    return builder


def saved(lib: Any, builder: Any) -> Any:
    """The graph of a builder, with a saver."""
    return builder.compile(checkpointer=lib.InMemorySaver())


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the names of the class and bases of what it raises."""
    try:
        return call()
    except Exception as error:
        return {cls.__name__ for cls in type(error).__mro__} - {"object", "BaseException"}


def asked(result: Any) -> list[Any]:
    """The questions that a result shows."""
    return sorted((one.value for one in result.get("__interrupt__", ())), key=str)
