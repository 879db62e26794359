"""Threads that wait for a node which was not deferred when they were stored, or is not any more."""

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.checkpoint.serde.evolution import dry_run
from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def says(word: str) -> Any:
    return lambda state: {"log": [word]}


def asks(state: Any) -> Any:
    return {"log": [interrupt("sure?")]}


def leading_to_last(how: str, saver: Any, *, defer: bool, **compiled: Any) -> Any:
    """`last` is after `a` by an edge, or after `a` and `c` by a join; `ask` and `b` come before
    `c`."""
    builder = StateGraph(State).add_node("last", says("last"), defer=defer).add_node("ask", asks)
    for name in ("a", "b", "c"):
        builder.add_node(name, says(name))
    builder.add_edge(START, "a").add_edge(START, "b").add_edge("b", "ask").add_edge("ask", "c")
    builder.add_edge("a" if how == "edge" else ["a", "c"], "last")
    return builder.compile(checkpointer=saver, **compiled)


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("how", ["edge", "join"])
def test_a_thread_that_waits_elsewhere_runs_the_node_once(
    run, saver, config, durability, how, defer
):
    old = leading_to_last(how, saver, defer=not defer)
    run.invoke(old, {"log": []}, config, durability=durability)
    new = leading_to_last(how, saver, defer=defer)
    assert not dry_run(saver, graph=new).failures
    log = run.invoke(new, Command(resume="yes"), config, durability=durability)["log"]
    assert sorted(log) == ["a", "b", "c", "last", "yes"]
    assert how == "edge" or log[-1] == "last"
    assert run.get_state(new, config).next == ()


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("how", ["edge", "join"])
def test_a_thread_that_waits_before_the_node_goes_on_there(run, saver, config, how, defer):
    def only_last(defer: bool, **compiled: Any) -> Any:
        builder = StateGraph(State).add_node("a", says("a")).add_node("b", says("b"))
        builder.add_node("last", says("last"), defer=defer)
        builder.add_edge(START, "a").add_edge(START, "b")
        for start in ("a", "b") if how == "edge" else (["a", "b"],):
            builder.add_edge(start, "last")
        return builder.compile(checkpointer=saver, **compiled)

    run.invoke(only_last(not defer, interrupt_before=["last"]), {"log": []}, config)
    new = only_last(defer)
    assert run.get_state(new, config).next == ("last",)
    assert run.invoke(new, None, config)["log"] == ["a", "b", "last"]


def test_what_the_node_wrote_in_an_unfinished_step_is_kept(run, saver, config):
    """The node ran beside one that asks, and was deferred since: it does not run again."""

    def beside(defer: bool) -> Any:
        builder = StateGraph(State).add_node("a", says("a")).add_node("ask", asks)
        builder.add_node("last", says("last"), defer=defer)
        builder.add_edge(START, "a").add_edge("a", "ask").add_edge("a", "last")
        return builder.compile(checkpointer=saver)

    run.invoke(beside(False), {"log": []}, config)
    resumed = run.invoke(beside(True), Command(resume="yes"), config)
    assert resumed["log"] == ["a", "yes", "last"]
