"""The rule for what is stored: programs that LangGraph runs with values, metadata, savers and
namespaces that are most likely a mistake end alike here, with a warning."""

from __future__ import annotations

import importlib
import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from both import names_of
from milepost.errors import (
    InvalidNamespaceError,
    MilepostError,
    MissingThreadError,
    SerializationError,
)
from milepost.warnings import MilepostWarning

T: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def one(lib: Any, node: Any, saver: Any = None) -> Any:
    builder = lib.StateGraph(State).add_node("x", node).add_edge(lib.START, "x")
    return builder.compile(checkpointer=saver)


def made() -> Any:
    @dataclass
    class Local:
        n: int

    return Local(1)


def failed() -> Any:
    class Failed(Exception):
        pass

    return Failed("x")


def a_value_of_a_type_that_no_module_shows(lib: Any) -> Any:
    graph = one(lib, lambda _: {"log": [made()]}, lib.InMemorySaver())
    return graph.invoke({"log": []}, T)["log"][0].n


def an_exception_in_the_state(lib: Any) -> Any:
    graph = one(lib, lambda _: {"log": [failed()]}, lib.InMemorySaver())
    graph.invoke({"log": []}, T)
    return "x" in str(graph.get_state(T).values["log"][0])


def metadata_that_cannot_be_saved(lib: Any) -> Any:
    graph = one(lib, lambda _: {"log": [1]}, lib.InMemorySaver())
    result = graph.invoke({"log": []}, {**T, "metadata": {"user": "u", "client": object()}})
    saved = graph.get_state(T).metadata
    return result, saved["user"], "client" in saved


def metadata_of_an_update_that_cannot_be_saved(lib: Any) -> Any:
    graph = one(lib, lambda _: {"log": [1]}, lib.InMemorySaver())
    graph.update_state({**T, "metadata": {"client": object()}}, {"log": [5]}, as_node="x")
    return graph.get_state(T).values


def a_saver_inside_and_no_thread(lib: Any) -> Any:
    inner = one(lib, lambda _: {"log": ["inner"]}, lib.InMemorySaver())
    called = one(lib, lambda state: inner.invoke(state))
    return one(lib, inner).invoke({"log": []}), called.invoke({"log": []})


def a_text_as_a_namespace(lib: Any) -> Any:
    store = importlib.import_module(f"{lib.name}.store.memory").InMemoryStore()
    store.put("users", "k", {"a": 1})
    return store.get("users", "k").value, [item.key for item in store.search("us")]


CASES: list[tuple[Any, str, type[MilepostError]]] = [
    (a_value_of_a_type_that_no_module_shows, "Local", SerializationError),
    (an_exception_in_the_state, "Failed", SerializationError),
    (metadata_that_cannot_be_saved, "metadata 'client'", SerializationError),
    (metadata_of_an_update_that_cannot_be_saved, "metadata 'client'", SerializationError),
    (a_saver_inside_and_no_thread, "has a saver of its own", MissingThreadError),
    (a_text_as_a_namespace, "not 'us", InvalidNamespaceError),
]
each_case = pytest.mark.parametrize(
    ("program", "said", "refusal"), CASES, ids=[case[0].__name__ for case in CASES]
)


@pytest.fixture
def no_memory() -> None:
    """A namespace is warned of once; forget those of other tests."""
    namespaces: Any = importlib.import_module("milepost.store._core.namespaces")
    namespaces._known.cache_clear()


@each_case
@pytest.mark.usefixtures("no_memory")
def test_a_program_with_a_stored_mistake_ends_as_in_langgraph_with_a_warning(
    program: Any, said: str, refusal: Any
) -> None:
    with pytest.warns(MilepostWarning, match=said):
        ours = program(names_of("milepost"))
    assert ours == program(names_of("langgraph"))
    assert refusal


@each_case
@pytest.mark.usefixtures("no_memory")
def test_strict_rules_refuse_it(
    program: Any, said: str, refusal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILEPOST_STRICT", "1")
    with pytest.raises(refusal, match=said):
        program(names_of("milepost"))
