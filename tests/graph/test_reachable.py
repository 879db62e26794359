"""Graphs inside a node are found where its function reaches for them, as in LangGraph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import TypedDict

from both import names_of


class State(TypedDict, total=False):
    a: int


class Holders(list[Any]):
    """A list that may have attributes, too."""


def decorated(inner: Any) -> Any:
    def log(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(function)
        def logged(state: Any) -> Any:
            return function(state)

        return logged

    @log
    def node(state: Any) -> Any:
        return inner.invoke(state)

    return node


def in_an_attribute_of_an_attribute(inner: Any) -> Any:
    holder = SimpleNamespace(agents=SimpleNamespace(writer=inner))

    def node(state: Any) -> Any:
        return holder.agents.writer.invoke(state)

    return node


def in_an_attribute_of_a_list(inner: Any) -> Any:
    holder = Holders()
    holder.inner = inner  # type: ignore[attr-defined]

    def node(state: Any) -> Any:
        return holder.inner.invoke(state)  # type: ignore[attr-defined]

    return node


@pytest.mark.parametrize("lib", [names_of("langgraph"), names_of("milepost")], ids=lambda m: m.name)
@pytest.mark.parametrize(
    "made", [decorated, in_an_attribute_of_an_attribute, in_an_attribute_of_a_list]
)
def test_a_graph_that_a_node_calls_is_found(made: Callable[[Any], Any], lib: Any) -> None:
    inner = lib.StateGraph(State).add_node("x", lambda state: {"a": 2}).add_edge(lib.START, "x")
    builder = lib.StateGraph(State).add_node("n", made(inner.compile()))
    graph = builder.add_edge(lib.START, "n").compile()
    assert graph.invoke({"a": 1}) == {"a": 2}
    assert [name for name, _ in graph.get_subgraphs()] == ["n"]
