"""A program whose imports were changed in part: what comes from LangGraph is named, not misread."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import langgraph.types
import pytest
from langgraph.checkpoint.memory import InMemorySaver

import milepost.checkpoint.memory
from milepost.graph import START, StateGraph
from milepost.types import interrupt

T: Any = {"configurable": {"thread_id": "1"}}
Graph = Callable[..., Any]


def graph_of(node: Any, *, answer: Any = None, saver: Any = None, **options: Any) -> Any:
    builder = StateGraph(dict).add_node("node", node, **options).add_edge(START, "node")
    if answer is not None:
        builder.add_conditional_edges("node", lambda _: answer, ["node"])
    return builder.compile(checkpointer=saver)


def returned(value: Any) -> Any:
    return graph_of(lambda _: value).invoke({})


def answered(command: Any) -> Any:
    saver = milepost.checkpoint.memory.InMemorySaver()
    graph = graph_of(lambda _: {"got": interrupt("well?")}, saver=saver)
    graph.invoke({}, T)
    try:
        return graph.invoke(command, T)
    finally:
        assert graph.get_state(T).interrupts, "what was asked stays asked"


SENT = langgraph.types.Send("node", {})
GIVEN = {
    "a node returns a Command": lambda: returned(langgraph.types.Command(update={"a": 1})),
    "a node returns a Send": lambda: returned(SENT),
    "an answer": lambda: answered(langgraph.types.Command(resume=1)),
    "an edge returns a Send": lambda: graph_of(lambda _: {}, answer=[SENT]).invoke({}),
    "a retry policy": lambda: graph_of(len, retry_policy=langgraph.types.RetryPolicy()),
    "retry policies": lambda: graph_of(len, retry_policy=[langgraph.types.RetryPolicy()]),
    "a saver": lambda: graph_of(len, saver=InMemorySaver()),
}


@pytest.mark.parametrize("give", GIVEN.values(), ids=GIVEN)
def test_the_error_says_that_an_object_is_langgraphs_and_what_to_import(give: Graph) -> None:
    with pytest.raises(Exception, match=r"LangGraph's.* from milepost\.") as caught:
        give()
    assert type(caught.value).__module__ in ("milepost.errors", "builtins")


def test_a_function_of_langgraphs_in_a_node_is_named() -> None:
    with pytest.raises(KeyError) as caught:
        graph_of(lambda _: langgraph.types.interrupt("well?")).invoke({})
    assert "import interrupt, get_stream_writer and the like" in caught.value.__notes__[-1]


def test_a_path_map_may_lead_on_from_objects_of_packages_below_langgraph() -> None:
    way: Any = Enum("Way", ["on"], module="langgraph.contributed")
    builder = StateGraph(dict).add_node("node", lambda _: {"a": 1})
    builder.add_conditional_edges(START, lambda _: way.on, {way.on: "node"})
    assert builder.compile().invoke({}) == {"a": 1}
