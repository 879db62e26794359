"""A node of a compiled graph, called alone. Every test is one program on both libraries."""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import TypedDict

from milepost.types import RunnableConfig


class State(TypedDict):
    x: int


def node_of(lib: Any, action: Any) -> Any:
    builder = lib.StateGraph(State)
    builder.add_node("node", action)
    builder.add_edge(lib.START, "node")
    return builder.compile().nodes["node"]


def test_a_node_is_called_with_its_input_and_gives_what_it_returns(lib):
    node = node_of(lib, lambda state: {"x": state["x"] + 1})
    assert node.invoke({"x": 1}) == {"x": 2}
    assert asyncio.run(node.ainvoke({"x": 1})) == {"x": 2}


def test_an_async_node_is_awaited(lib):
    async def action(state: State) -> Any:
        return {"x": state["x"] + 1}

    assert asyncio.run(node_of(lib, action).ainvoke({"x": 1})) == {"x": 2}


def test_a_node_gets_the_config_that_is_given(lib):
    def action(state: State, config: RunnableConfig) -> Any:
        return {"x": config["configurable"]["y"]}

    assert node_of(lib, action).invoke({"x": 1}, {"configurable": {"y": 5}}) == {"x": 5}


def test_a_graph_that_is_a_node_is_run(lib):
    inner = lib.StateGraph(State)
    inner.add_node("inner", lambda state: {"x": state["x"] + 1})
    inner.add_edge(lib.START, "inner")
    assert node_of(lib, inner.compile()).invoke({"x": 1}) == {"x": 2}
