"""Keys whose value lasts for one step. Every test is one program on both libraries."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict


def seen_by_edges(run: Any, lib: Any, hint: Any, second: dict[str, Any]) -> list[Any]:
    """What conditional edges see of a key that the first of two nodes writes."""
    seen: list[Any] = []

    class State(TypedDict, total=False):
        word: Any

    State.__annotations__["word"] = hint

    def edge(target: str) -> Any:
        def route(state: dict[str, Any]) -> str:
            seen.append(state.get("word"))
            return target

        return route

    builder = lib.StateGraph(State)
    builder.add_node("first", lambda _: {"word": "one"})
    builder.add_node("second", lambda _: second)
    builder.add_edge(lib.START, "first")
    builder.add_conditional_edges("first", edge("second"))
    builder.add_conditional_edges("second", edge("__end__"))
    run.invoke(builder.compile(), {})
    return seen


def test_the_edge_of_the_next_node_no_longer_sees_it(run, lib):
    hint = Annotated[str, lib.EphemeralValue(str)]
    assert seen_by_edges(run, lib, hint, {}) == ["one", None]


def test_the_edge_of_a_node_that_writes_it_again_sees_that(run, lib):
    hint = Annotated[str, lib.EphemeralValue(str)]
    assert seen_by_edges(run, lib, hint, {"word": "two"}) == ["one", "two"]


@pytest.mark.parametrize(("second", "later"), [({}, None), ({"word": "two"}, ["two"])])
def test_a_topic_shows_an_edge_what_its_own_step_wrote(run, lib, second, later):
    hint = Annotated[Any, lib.Topic(str)]
    assert seen_by_edges(run, lib, hint, second) == [["one"], later]
