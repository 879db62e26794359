"""Keywords that LangGraph has renamed and still takes work here too, with the same warning."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from typing_extensions import TypedDict

from both import names_of
from milepost.graph import StateGraph
from milepost.warnings import MilepostWarning


class State(TypedDict, total=False):
    a: int
    b: int


class Part(TypedDict, total=False):
    a: int


class Context(TypedDict):
    who: str


def _keep(state: Any) -> Any:
    return {"b": len(state)}


def _run(graph: Any) -> Any:
    return graph.invoke({"a": 1, "b": 2})


def _builder(lib: Any, **options: Any) -> Any:
    return lib.StateGraph(State, **options)


def _finished(builder: Any) -> Any:
    return builder.add_edge("__start__", "n").compile()


def graph_input(lib: Any) -> Any:
    return _finished(_builder(lib, input=Part).add_node("n", _keep)).invoke({"a": 1})


def graph_output(lib: Any) -> Any:
    return _run(_finished(_builder(lib, output=Part).add_node("n", _keep)))


def graph_context(lib: Any) -> Any:
    builder = _builder(lib, config_schema=Context).add_node("n", _keep)
    return builder.context_schema.__name__


def node_input(lib: Any) -> Any:
    return _run(_finished(_builder(lib).add_node("n", _keep, input=Part)))


def _fails_once() -> Callable[[Any], Any]:
    calls: list[int] = []

    def fails(state: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("once")
        return {"b": len(calls)}

    return fails


def node_retry(lib: Any) -> Any:
    retry = lib.RetryPolicy(initial_interval=0.001)
    return _run(_finished(_builder(lib).add_node("n", _fails_once(), retry=retry)))


def entrypoint_retry(lib: Any) -> Any:
    retry = [lib.RetryPolicy(initial_interval=0.001)]
    return _run(lib.entrypoint(retry=retry)(_fails_once()))


def entrypoint_context(lib: Any) -> Any:
    return lib.entrypoint(config_schema=Context)(_keep).context_schema.__name__


def task_retry(lib: Any) -> Any:
    work = lib.task(retry=lib.RetryPolicy(initial_interval=0.001))(_fails_once())

    @lib.entrypoint()
    def program(given: Any) -> Any:
        return work(given).result()

    return _run(program)


def pregel_context(lib: Any) -> Any:
    graph = lib.Pregel(
        nodes={"n": lib.NodeBuilder().subscribe_only("a").do(_keep).write_to("b")},
        channels={"a": lib.LastValue(int), "b": lib.LastValue(int)},
        input_channels="a",
        output_channels="b",
        config_type=Context,
    )
    return graph.context_schema.__name__


PROGRAMS = {
    graph_input: "LangGraphDeprecatedSinceV05",
    graph_output: "LangGraphDeprecatedSinceV05",
    graph_context: "LangGraphDeprecatedSinceV10",
    node_input: "LangGraphDeprecatedSinceV05",
    node_retry: "LangGraphDeprecatedSinceV05",
    entrypoint_retry: "LangGraphDeprecatedSinceV05",
    entrypoint_context: "LangGraphDeprecatedSinceV10",
    task_retry: "LangGraphDeprecatedSinceV05",
    pregel_context: "LangGraphDeprecatedSinceV10",
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_older_keyword_means_the_same_in_both_libraries(program: Callable[[Any], Any]) -> None:
    results = []
    for root in ("langgraph", "milepost"):
        category = getattr(import_module(f"{root}.warnings"), PROGRAMS[program])
        with pytest.warns(category, match="is deprecated") as caught:
            results.append(program(names_of(root)))
        assert {w.category for w in caught} == {category}
        if root == "milepost":
            assert [w.filename for w in caught] == [__file__]
    assert results[0] == results[1]


def test_todays_keyword_counts_if_both_are_given() -> None:
    with pytest.warns(DeprecationWarning, match="config_schema"):
        builder: Any = StateGraph(State, Context, config_schema=Part)
    assert builder.context_schema is Context


def test_a_keyword_that_never_was_is_passed_over_with_a_warning() -> None:
    make: Any = StateGraph
    with pytest.warns(MilepostWarning, match="StateGraph has no keyword 'shape'"):
        make(State, shape="round")
    with pytest.raises(TypeError, match="shape"):
        make(State, shape="round", strict=True)
