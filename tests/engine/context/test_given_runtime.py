"""A Runtime in the config of a call, as services give it that run a graph for somebody."""

from __future__ import annotations

from typing import Any

import pytest

from both import Library
from milepost._engine.context.runtime import GIVEN_RUNTIME

BOTH = pytest.mark.parametrize(
    "lib", [Library("langgraph"), Library("milepost")], ids=lambda x: x.name
)


def reader(lib: Any, seen: list[Any], **compiled: Any) -> Any:
    """A graph that notes the context and the store of its runtime."""

    def read(_: Any, runtime: Any) -> None:
        seen.append((runtime.context, runtime.store))

    read.__annotations__["runtime"] = lib.Runtime
    return lib.StateGraph(dict).add_node(read).add_edge(lib.START, "read").compile(**compiled)


def given(lib: Any, **fields: Any) -> Any:
    return {"configurable": {GIVEN_RUNTIME: lib.Runtime(**fields)}}


@BOTH
def test_the_run_has_its_context_and_its_store(lib: Any, run: Any) -> None:
    seen: list[Any] = []
    store = lib.InMemoryStore()
    graph = reader(lib, seen, store=lib.InMemoryStore())
    run.invoke(graph, {}, given(lib, context="Ada", store=store))
    assert seen == [("Ada", store)]


@BOTH
def test_the_context_of_the_call_itself_comes_first(lib: Any, run: Any) -> None:
    seen: list[Any] = []
    run.invoke(reader(lib, seen), {}, given(lib, context="Ada"), context="Bob")
    assert seen == [("Bob", None)]


@BOTH
def test_a_graph_inside_has_that_of_the_run_unless_it_is_given_another(lib: Any, run: Any) -> None:
    seen: list[Any] = []
    inner = reader(lib, seen)
    own, other = lib.InMemoryStore(), lib.InMemoryStore()

    def calls(_: Any) -> None:
        inner.invoke({})
        inner.invoke({}, given(lib, context="Bob", store=other))

    outer = lib.StateGraph(dict).add_node(calls).add_edge(lib.START, "calls").compile()
    run.invoke(outer, {}, given(lib, context="Ada", store=own))
    assert seen == [("Ada", own), ("Bob", other)]


def test_a_graph_inside_has_the_context_that_the_run_changed(run: Any) -> None:
    lib, seen = Library("milepost"), []
    inner = reader(lib, seen)
    outer = lib.StateGraph(dict).add_node("inner", inner).add_edge(lib.START, "inner").compile()
    run.invoke(outer, {}, given(lib, context="Ada"), context="Bob")
    assert seen == [("Bob", None)]


def test_it_is_not_stored(run: Any, saver: Any) -> None:
    lib, seen = Library("milepost"), []
    config = given(lib, context="Ada")
    config["configurable"]["thread_id"] = "1"
    run.invoke(reader(lib, seen, checkpointer=saver), {}, config)
    assert GIVEN_RUNTIME not in run.get_state(reader(lib, [], checkpointer=saver), config).metadata
    assert seen == [("Ada", None)]
