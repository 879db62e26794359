"""`as_langgraph(saver, fence=True)`: of two LangGraph workers on one thread, one is told."""

from __future__ import annotations

import asyncio
import operator
from contextvars import Context
from typing import Annotated, Any

import pytest
from libraries import opened
from typing_extensions import TypedDict

from milepost.errors import ThreadConflict
from milepost.integrations.langgraph import as_langgraph
from savers import WholeSaver

pytest.importorskip("langgraph.checkpoint.conformance")

from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

THREAD: Any = {"configurable": {"thread_id": "t"}}
KINDS = [
    "memory",
    "sqlite",
    "sqlite-async",
    "postgres",
]


class State(TypedDict):
    log: Annotated[list[str], operator.add]


@pytest.fixture(params=KINDS)
def ours(request: Any, opener: Any) -> Any:
    """One of milepost's savers."""
    if request.param == "sqlite-async" and opener.run.colour == "sync":
        pytest.skip("needs a loop")
    return opened("milepost", "Saver", request.param, request)


def graph_of(saver: Any, *nodes: Any) -> Any:
    builder = StateGraph(State).add_sequence(nodes)
    return builder.add_edge(START, nodes[0].__name__).compile(checkpointer=saver)


def step(state: State) -> dict[str, Any]:
    return {"log": ["step"]}


def last(state: State) -> dict[str, Any]:
    return {"log": ["last"]}


def overtaken_by(other: Any, run: Any) -> Any:
    """A node during which another worker runs on the thread.

    In a context of its own: otherwise it would be a graph inside the first.
    """

    def overtaken(state: State) -> dict[str, Any]:
        Context().run(other.invoke, {"log": ["other"]}, THREAD)
        return {"log": ["overtaken"]}

    async def overtaken_on_a_loop(state: State) -> dict[str, Any]:
        await asyncio.create_task(other.ainvoke({"log": ["other"]}, THREAD), context=Context())
        return {"log": ["overtaken"]}

    return overtaken if run.colour == "sync" else overtaken_on_a_loop


def test_a_worker_that_another_overtook_is_refused(run, ours):
    saver = as_langgraph(ours, fence=True)
    other = graph_of(saver, step)
    slow = graph_of(saver, overtaken_by(other, run), last)
    run.invoke(other, {"log": ["first"]}, THREAD)
    with pytest.raises(ThreadConflict, match="moved on"):
        run.invoke(slow, {"log": ["slow"]}, THREAD, durability="sync")
    values = run.get_state(other, THREAD).values["log"]
    assert values == ["first", "step", "slow", "other", "step"]


def test_without_the_fence_both_succeed_as_with_langgraphs_savers(run, ours):
    other = graph_of(as_langgraph(ours), step)
    slow = graph_of(as_langgraph(ours), overtaken_by(other, run), last)
    run.invoke(slow, {"log": ["slow"]}, THREAD, durability="sync")
    assert run.get_state(slow, THREAD).values["log"] == ["slow", "overtaken", "last"]


def test_runs_updates_forks_and_answers_go_on_as_without_a_fence(run, ours):
    def asks(state: State) -> dict[str, Any]:
        return {"log": [interrupt("?")]}

    graph = graph_of(as_langgraph(ours, fence=True), step, asks, last)
    run.invoke(graph, {"log": ["in"]}, THREAD)
    run.update_state(graph, THREAD, {"log": ["edit"]}, as_node="step")
    run.invoke(graph, Command(resume="yes"), THREAD)
    expected = ["in", "step", "edit", "yes", "last"]
    assert run.get_state(graph, THREAD).values["log"] == expected
    history = run.history(graph, THREAD)
    before = next(s for s in history if s.next == ("last",))
    fork = run.update_state(graph, before.config, {"log": ["forked"]}, as_node="asks")
    assert run.invoke(graph, None, fork)["log"] == ["in", "step", "edit", "yes", "forked", "last"]
    replayed = run.invoke(graph, None, before.config)["log"]
    assert replayed == expected


def test_a_put_on_a_parent_that_is_not_the_head_is_refused_and_stores_nothing(opener, ours):
    if opener.run.colour == "async":
        pytest.skip("sync is enough")
    saver = as_langgraph(ours, fence=True)
    graph = graph_of(saver, step)
    graph.invoke({"log": ["a"]}, THREAD)
    head = saver.get_tuple(THREAD)
    graph.invoke({"log": ["b"]}, THREAD)
    before = [found.config for found in saver.list(THREAD)]
    saver.get_tuple(THREAD)
    stale = {**head.checkpoint, "id": "1" + head.checkpoint["id"][1:]}
    with pytest.raises(ThreadConflict, match="moved on"):
        saver.put(head.config, stale, {"source": "loop", "step": 9, "parents": {}}, {})
    assert [found.config for found in saver.list(THREAD)] == before


def test_a_saver_that_cannot_compare_is_refused_at_once():
    with pytest.raises(TypeError, match="fence=True"):
        as_langgraph(WholeSaver(), fence=True)
