"""Graphs whose traces the tests look at; child processes import them too."""

import operator
from typing import Annotated, Any, TypedDict

from milepost.graph import START, StateGraph
from milepost.types import RetryPolicy, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


AT_ONCE = RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=2, retry_on=ValueError)


def story() -> StateGraph[Any]:
    """Two branches side by side, one with a retry, one with a graph inside; then a question."""
    failures = [ValueError("not yet")]

    def flaky(state: State) -> State:
        if failures:
            raise failures.pop()
        return {"log": ["flaky"]}

    def deep(state: State) -> State:
        return {"log": ["deep"]}

    def ask(state: State) -> State:
        return {"log": [interrupt("sure?")]}

    inner = StateGraph(State).add_node("deep", deep).add_edge(START, "deep").compile(name="inner")
    builder = StateGraph(State)
    builder.add_node("flaky", flaky, retry_policy=AT_ONCE)
    builder.add_node("inside", inner).add_node("ask", ask)
    builder.add_edge(START, "flaky").add_edge(START, "inside")
    builder.add_edge(["flaky", "inside"], "ask")
    return builder


STORY = [
    "invoke_workflow outer",
    "  load",
    "  super_step 1",
    "    task flaky",
    "      attempt 1",
    "      attempt 2",
    "    task inside",
    "      invoke_workflow inner",
    "        super_step 1",
    "          task deep",
    "  super_step 2",
    "    task ask",
]
"""The tree of its first run, without commits: where those are depends on the durability."""

RESUMED = [
    "invoke_workflow outer",
    "  load",
    "  super_step 2",
    "    task ask",
]
"""The tree of the run that answers."""
