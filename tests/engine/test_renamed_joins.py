"""Joins whose nodes are renamed, or listed in another order, while a thread waits for them."""

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.checkpoint.serde.evolution import dry_run
from milepost.errors import GraphBuildError, MissingNodeError
from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def says(word: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [word]}


def asks(question: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [interrupt(question)]}


def joining(saver: Any, *sources: str, **compiled: Any) -> Any:
    """The first source runs beside `ask`, the second one after it; then `last` runs.

    `sources` in the order of the join; the names without capitals say which is which.
    """
    first = next(name for name in sources if name.lower().startswith("first"))
    second = next(name for name in sources if name.lower().startswith("second"))
    builder = StateGraph(State).add_node(first, says("first")).add_node("ask", asks("sure?"))
    builder.add_node("wait", asks("still?")).add_node(second, says("second"))
    builder.add_node("last", says("last"))
    builder.add_edge(START, first).add_edge(START, "ask").add_edge("ask", "wait")
    builder.add_edge("wait", second).add_edge(list(sources), "last")
    return builder.compile(checkpointer=saver, **compiled)


def answered(run: Any, graph: Any, config: Any, answers: int) -> list[Any]:
    for number in range(answers):
        result = run.invoke(graph, Command(resume=str(number)), config)
    return result["log"]


class TestASourceThatHasNotRun:
    """`second` is renamed. `first` has run: in the step that waits, or in an earlier one."""

    @pytest.fixture(params=[0, 1], ids=["in-the-step", "applied"])
    def before(self, request) -> int:
        return request.param

    @pytest.fixture
    def waiting(self, run, saver, config, durability, before) -> Any:
        old = joining(saver, "first", "second")
        run.invoke(old, {"log": []}, config, durability=durability)
        for _ in range(before):
            run.invoke(old, Command(resume="0"), config, durability=durability)
        return saver

    def test_is_missed_without_a_map(self, run, waiting, config, before):
        new = joining(waiting, "first", "SECOND")
        report = dry_run(waiting, graph=new)
        assert report.threads == ["t"]
        for call in (
            lambda: run.get_state(new, config),
            lambda: run.invoke(new, Command(resume="yes"), config),
            lambda: run.update_state(new, config, {"log": ["x"]}, as_node="ask"),
        ):
            with pytest.raises(MissingNodeError, match="Thread 't' waits for 'second'"):
                call()
        old = joining(waiting, "first", "second")
        assert answered(run, old, config, 2 - before)[-2:] == ["second", "last"]

    def test_is_found_with_a_map(self, run, waiting, config, before):
        new = joining(waiting, "first", "SECOND", renamed_nodes={"second": "SECOND"})
        assert dry_run(waiting, graph=new)
        assert answered(run, new, config, 2 - before)[-2:] == ["second", "last"]


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("renamed", [{}, {"first": "FIRST"}])
def test_sources_may_be_listed_in_another_order(run, saver, config, before, renamed):
    old = joining(saver, "first", "second")
    run.invoke(old, {"log": []}, config)
    for _ in range(before):
        run.invoke(old, Command(resume="0"), config)
    new = joining(saver, "second", renamed.get("first", "first"), renamed_nodes=renamed)
    assert answered(run, new, config, 2 - before)[-2:] == ["second", "last"]
    assert run.get_state(new, config).next == ()


def test_a_join_that_is_listed_twice_is_one_join(run, saver, config):
    builder = StateGraph(State)
    for name in ("a", "b", "c"):
        builder.add_node(name, says(name))
    builder.add_edge(START, "a").add_edge(START, "b")
    builder.add_edge(["a", "b"], "c").add_edge(["b", "a"], "c")
    graph = builder.compile(checkpointer=saver)
    assert run.invoke(graph, {"log": []}, config)["log"] == ["a", "b", "c"]


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize(
    ("old", "new"), [("first+1", "first1"), ("first", "first+1"), ("first+second", "first2")]
)
def test_a_source_may_have_a_plus_in_its_name(run, saver, config, before, old, new):
    then = joining(saver, old, "second")
    run.invoke(then, {"log": []}, config)
    for _ in range(before):
        run.invoke(then, Command(resume="0"), config)
    now = joining(saver, "second", new, renamed_nodes={old: new})
    assert answered(run, now, config, 2 - before)[-2:] == ["second", "last"]


def test_two_joins_of_the_same_stored_name_are_refused():
    builder = StateGraph(State)
    for name in ("a", "b+c", "a+b", "c", "last"):
        builder.add_node(name, says(name)).add_edge(START, name)
    builder.add_edge(["a", "b+c"], "last").add_edge(["a+b", "c"], "last")
    with pytest.raises(GraphBuildError, match="leave out the '\\+'"):
        builder.compile()


def test_an_edge_that_is_attached_later_waits_under_the_old_names_too(run, saver, config):
    old = joining(saver, "first", "second")
    run.invoke(old, {"log": []}, config)
    new = joining(saver, "FIRST", "second", renamed_nodes={"first": "FIRST"})
    new.attach_edge("last", "wait")
    assert answered(run, new, config, 2)[-2:] == ["second", "last"]
    assert run.get_state(new, config).next == ("wait",)
