"""What a graph of many nodes costs: as much for each node as a small one.

Counted in calls of functions, which do not depend on the machine.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from typing_extensions import TypedDict

from milepost.checkpoint.memory import InMemorySaver
from milepost.graph import START, StateGraph
from milepost.types import Command


class State(TypedDict, total=False):
    n: int


def edges(count: int) -> Any:
    builder = StateGraph(State)
    for at in range(count):
        builder.add_node(f"n{at}", lambda _: {"n": 1})
        builder.add_edge(START if at == 0 else f"n{at - 1}", f"n{at}")
    return builder


def branches(count: int) -> Any:
    builder = StateGraph(State).add_edge(START, "n0")
    for at in range(count):
        builder.add_node(f"n{at}", lambda _: {"n": 1})
        if at:
            builder.add_conditional_edges(f"n{at - 1}", lambda _, to=f"n{at}": to)
    return builder


def commands(count: int) -> Any:
    builder = StateGraph(State).add_edge(START, "n0")
    for at in range(count):
        to = f"n{at + 1}" if at + 1 < count else ()
        builder.add_node(f"n{at}", lambda _, to=to: Command(update={"n": 1}, goto=to))
    return builder


def keys(count: int) -> Any:
    """Each node has a key of its own."""
    builder = StateGraph(TypedDict("Wide", {f"k{at}": int for at in range(count)}, total=False))  # type: ignore[operator]
    for at in range(count):
        builder.add_node(f"n{at}", lambda _, at=at: {f"k{at}": 1})
        builder.add_edge(START if at == 0 else f"n{at - 1}", f"n{at}")
    return builder


def calls(chain: Any, count: int, checkpointer: Any) -> int:
    """Functions that are called to build, compile and run a chain."""
    made = 0

    def tell(frame: Any, event: str, argument: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    given = {"k0": 0} if chain is keys else {"n": 0}
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": count + 10}
    before = sys.getprofile()
    sys.setprofile(tell)
    try:
        graph = chain(count).compile(checkpointer=checkpointer)
        graph.invoke(given, config)
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.parametrize("saver", [None, InMemorySaver])
@pytest.mark.parametrize("chain", [edges, branches, commands, keys])
def test_a_chain_of_four_times_as_many_nodes_costs_four_times_as_much(chain, saver):
    few, many = 60, 240
    calls(chain, few, saver and saver())  # what is imported and cached on first use
    cost = {count: calls(chain, count, saver and saver()) for count in (few, many)}
    assert cost[many] < 4.5 * cost[few]
