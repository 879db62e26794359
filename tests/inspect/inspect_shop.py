"""A graph that the tests of `milepost.inspect` and of the command line look at."""

import operator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.graph import START, StateGraph
from milepost.messages import AIMessage, HumanMessage
from milepost.types import Command, interrupt


@dataclass
class Order:
    """A class of the program that wrote the database."""

    number: int
    items: list[str]


class State(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]
    order: Order
    count: int
    text: str
    script: list[Any]


def plan(state: State) -> dict[str, Any]:
    if state.get("text") == "fail":
        raise RuntimeError("the plan failed")
    order = Order(state.get("count", 0), ["tea"])
    return {"messages": [AIMessage("planning")], "count": state.get("count", 0) + 1, "order": order}


def ask(state: State) -> dict[str, Any]:
    answer = interrupt({"question": "Buy it?", "count": state["count"]})
    return {"messages": [AIMessage(f"answer: {answer}")], "count": state["count"] + 1}


def builder() -> StateGraph:
    graph = StateGraph(State)
    graph.add_node("plan", plan)
    graph.add_node("ask", ask)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "ask")
    return graph


graph = builder()
"""What `file.py:graph` names on the command line."""


def at(thread_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id}}


def fill(saver: BaseCheckpointSaver) -> None:
    """`done` has ended and was forked, `open` asks something, `broken` has failed."""
    shop = builder().compile(checkpointer=saver)
    shop.invoke({"messages": [HumanMessage("hello")]}, at("done"))
    shop.invoke(Command(resume="yes"), at("done"))
    middle = list(shop.get_state_history(at("done")))[1]
    shop.update_state(middle.config, {"count": 50}, as_node="ask")
    shop.invoke({"messages": [HumanMessage("again")], "text": "one\ntwo\nthree"}, at("open"))
    with suppress(RuntimeError):
        shop.invoke({"messages": [], "text": "fail"}, at("broken"))
    saver.create_thread("open", {"owner": "ada", "tags": ["vip"]})
