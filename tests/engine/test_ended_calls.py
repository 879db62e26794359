"""A graph that a node has called and that has ended, while the node waits or has failed.

Under every durability the node finds what the graph came to, and the graph does not run again.
"""

import threading
from typing import Any

import pytest

from graphs import Log
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.types import Command, Send, interrupt


@pytest.fixture
def inner(trace):
    """A graph of two nodes, which notes each run of a node."""
    return noting(trace, "one", "two").compile()


def noting(trace: list[str], *names: str) -> Any:
    builder = StateGraph(Log)
    before = START
    for name in names:
        builder.add_node(name, lambda _, name=name: trace.append(name) or {"log": [name]})
        builder.add_edge(before, name)
        before = name
    return builder


def outer(node: Any, saver: Any = None) -> Any:
    return StateGraph(Log).add_node("n", node).add_edge(START, "n").compile(checkpointer=saver)


def test_a_call_that_ended_does_not_run_again_when_the_node_is_answered(
    run, saver, config, durability, trace, inner
):
    graph = outer(lambda _: {"log": [*inner.invoke({})["log"], interrupt("?")]}, saver)
    run.invoke(graph, {}, config, durability=durability)
    found = run.invoke(graph, Command(resume="yes"), config, durability=durability)
    assert (found["log"], trace) == (["one", "two", "yes"], ["one", "two"])


def test_a_call_that_ended_does_not_run_again_when_the_node_has_failed(
    run, saver, config, durability, trace, inner
):
    failures = iter([ValueError("failed")])

    def node(_: Log) -> Any:
        found = inner.invoke({})
        for error in failures:
            raise error
        return found

    graph = outer(node, saver)
    with pytest.raises(ValueError, match="failed"):
        run.invoke(graph, {}, config, durability=durability)
    found = run.invoke(graph, None, config, durability=durability)
    assert (found["log"], trace) == (["one", "two"], ["one", "two"])


def test_its_answered_question_is_not_shown_while_the_next_call_asks(
    run, saver, config, durability
):
    inner = outer(lambda state: {"log": [interrupt(state["log"][0])]})
    graph = outer(
        lambda _: {"log": [inner.invoke({"log": [f"{x}?"]})["log"][-1] for x in (1, 2)]}, saver
    )
    run.invoke(graph, {}, config, durability=durability)
    run.invoke(graph, Command(resume="yes"), config, durability=durability)
    state = run.get_state(graph, config, subgraphs=True)
    assert [asked.value for asked in state.interrupts] == ["2?"]
    assert [asked.value for asked in state.tasks[0].state.interrupts] == []
    assert state.tasks[0].state.values == {"log": ["1?", "yes"]}
    found = run.invoke(graph, Command(resume="no"), config, durability=durability)
    assert found["log"] == ["yes", "no"]


def test_a_call_that_ended_at_any_depth_does_not_run_again(
    run, saver, config, durability, trace, inner
):
    middle = outer(lambda _: {"log": [*inner.invoke({})["log"], interrupt("?")]})
    graph = outer(lambda _: middle.invoke({}), saver)
    run.invoke(graph, {}, config, durability=durability)
    found = run.invoke(graph, Command(resume="yes"), config, durability=durability)
    assert (found["log"], trace) == (["one", "two", "yes"], ["one", "two"])


def test_a_call_that_ended_in_a_task_does_not_run_again(
    run, saver, config, durability, trace, inner
):
    @task
    def work() -> Any:
        return [*inner.invoke({})["log"], interrupt("?")]

    @entrypoint(checkpointer=saver)
    def flow(_: Any) -> Any:
        return work().result()

    run.invoke(flow, 1, config, durability=durability)
    found = run.invoke(flow, Command(resume="yes"), config, durability=durability)
    assert (found, trace) == (["one", "two", "yes"], ["one", "two"])


def test_under_exit_nothing_is_kept_of_it_when_the_node_has_ended(run, saver, config, inner):
    builder = StateGraph(Log).add_node("calls", lambda _: {"log": inner.invoke({})["log"]})
    builder.add_node("asks", lambda _: {"log": [interrupt("?")]})
    builder.add_conditional_edges(START, lambda _: [Send("calls", {}), Send("asks", {})])
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {}, config, durability="exit")
    stored = run.saver(saver, "list", {"configurable": {"thread_id": "t"}})
    assert {found.config["configurable"]["checkpoint_ns"] for found in stored} == {""}
    found = run.invoke(graph, Command(resume="yes"), config, durability="exit")
    assert found["log"] == ["one", "two", "yes"]


def test_under_exit_it_runs_again_if_its_state_cannot_be_stored(run, saver, config, trace):
    inner = outer(lambda _: trace.append("inner") or {"log": [threading.Lock()]})
    graph = outer(lambda _: {"log": [len(inner.invoke({})["log"]), interrupt("?")]}, saver)
    run.invoke(graph, {}, config, durability="exit")
    found = run.invoke(graph, Command(resume="yes"), config, durability="exit")
    assert (found["log"], trace) == ([1, "yes"], ["inner", "inner"])
