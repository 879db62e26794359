"""A thread that is deleted, or deleted and made again, between two reads of one call.

A delta channel is rebuilt from rows that are read after the checkpoint itself. If the checkpoint
is gone by then, that is an error: its value is not empty.
"""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import thread
from milepost import START, StateGraph
from milepost.channels import DeltaChannel
from milepost.checkpoint._contract.records import place_of
from milepost.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from milepost.checkpoint.memory import InMemorySaver
from milepost.errors import CheckpointNotFoundError

CONFIG = thread("t")


class State(TypedDict):
    log: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(x for w in new for x in w)])]


def graph_on(saver: Any, given: list[Any] | None = None) -> Any:
    def node(state: State) -> Any:
        if given is not None:
            given.append(state)
        return {"log": ["x"]}

    builder = StateGraph(State).add_node("a", node).add_node("b", node)
    return builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)


def between(saver: Any, monkeypatch: pytest.MonkeyPatch, happens: Any) -> None:
    """Let something happen after the next checkpoint was read, before its delta channels are."""
    kind = type(saver)
    waits = [happens]

    def first(method: Any) -> Any:
        def get_delta_channel_history(self: Any, **kwargs: Any) -> Any:
            if waits:
                waits.pop()()
            return method(self, **kwargs)

        return get_delta_channel_history

    for name in ("get_delta_channel_history", "aget_delta_channel_history"):
        monkeypatch.setattr(kind, name, first(getattr(kind, name)))


def test_a_history_is_not_empty_because_its_thread_was_deleted(saver: Any) -> None:
    graph = graph_on(saver)
    graph.invoke({"log": ["in"]}, CONFIG, durability="sync")
    states = graph.get_state_history(CONFIG)
    latest = next(states)
    assert latest.values == {"log": ["in", "x", "x"]}
    gone = latest.parent_config["configurable"]["checkpoint_id"]
    saver.delete_thread("t")
    with pytest.raises(CheckpointNotFoundError, match=f"'t'.*'{gone}'"):
        list(states)


@pytest.mark.parametrize("anew", [False, True])
def test_a_state_is_not_empty_because_its_thread_was_deleted(
    run: Any, saver: Any, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    graph = graph_on(saver)
    run.invoke(graph, {"log": ["in"]}, CONFIG, durability="sync")

    def happens() -> None:
        saver.delete_thread("t")
        if anew:
            graph_on(saver).invoke({"log": ["another life"]}, CONFIG, durability="sync")

    between(saver, monkeypatch, happens)
    with pytest.raises(CheckpointNotFoundError, match="'t'"):
        run.get_state(graph, CONFIG)
    now = {"log": ["another life", "x", "x"]} if anew else {}
    assert run.get_state(graph, CONFIG).values == now


@pytest.mark.parametrize("anew", [False, True])
def test_a_node_is_not_given_an_empty_value_because_its_thread_was_deleted(
    run: Any, saver: Any, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    given: list[Any] = []
    graph = graph_on(saver, given)
    run.invoke(graph, {"log": ["in"]}, CONFIG, durability="sync")
    given.clear()

    def happens() -> None:
        saver.delete_thread("t")
        if anew:
            graph_on(saver).invoke({"log": ["another life"]}, CONFIG, durability="sync")

    between(saver, monkeypatch, happens)
    with pytest.raises(CheckpointNotFoundError, match="'t'"):
        run.invoke(graph, {"log": ["more"]}, CONFIG, durability="sync")
    assert given == []
    now = {"log": ["another life", "x", "x"]} if anew else {}
    assert run.get_state(graph, CONFIG).values == now


def test_a_thread_that_is_restored_between_two_reads_is_read_as_it_was(
    run: Any, saver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is put back under the same ids is what was there."""
    graph = graph_on(saver)
    run.invoke(graph, {"log": ["in"]}, CONFIG, durability="sync")
    saver.copy_thread("t", "kept")

    def happens() -> None:
        saver.delete_thread("t")
        saver.copy_thread("kept", "t")

    between(saver, monkeypatch, happens)
    assert run.get_state(graph, CONFIG).values == {"log": ["in", "x", "x"]}


def test_a_thread_that_is_restored_to_an_earlier_state_is_not_read_as_empty(
    run: Any, saver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_on(saver)
    run.invoke(graph, {"log": ["in"]}, CONFIG, durability="sync")
    saver.copy_thread("t", "kept")
    run.invoke(graph, {"log": ["more"]}, CONFIG, durability="sync")

    def happens() -> None:
        saver.delete_thread("t")
        saver.copy_thread("kept", "t")

    between(saver, monkeypatch, happens)
    with pytest.raises(CheckpointNotFoundError, match="'t'"):
        run.get_state(graph, CONFIG)
    assert run.get_state(graph, CONFIG).values == {"log": ["in", "x", "x"]}


def test_a_value_of_an_earlier_life_is_not_remembered_into_a_later_one(saver: Any) -> None:
    """Ids and versions that were made by hand may come again, with other values."""

    def put(by: Any, value: str) -> Any:
        first = {**empty_checkpoint(), "id": "1", "channel_versions": {"log": "1"}}
        first["channel_values"] = {"log": [value] * 200}
        second = {**empty_checkpoint(), "id": "2", "channel_versions": {"log": "2"}}
        step = {"source": "loop", "step": 1, "parents": {}}
        head = by.put(thread("t"), first, step, {"log": "1"})
        return by.put(head, second, step, {"log": "2"})

    head = put(saver, "one life")
    assert saver.get_tuple(saver.get_tuple(head).parent_config) is not None
    other = saver.with_serde(saver.serde)
    other.delete_thread("t")
    put(other, "another life")
    found = saver.get_delta_channel_history(config=head, channels=["log"])
    assert found["log"]["seed"] == ["another life"] * 200


def test_a_memory_of_an_inner_graph_that_is_gone_is_not_taken_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saver = InMemorySaver()
    builder = StateGraph(State).add_node("a", lambda _: {"log": ["x"]}).add_edge(START, "a")
    inner = builder.compile(checkpointer=True)
    outer = StateGraph(State).add_node("inner", inner).add_edge(START, "inner")
    graph = outer.compile(checkpointer=saver)
    graph.invoke({"log": ["one"]}, CONFIG)
    past = graph.get_state(CONFIG).config
    graph.invoke({"log": ["two"]}, CONFIG)
    read = InMemorySaver.get_tuple

    def get_tuple(self: Any, config: Any) -> Any:
        place = place_of(config)
        return None if place.checkpoint_ns and place.checkpoint_id else read(self, config)

    monkeypatch.setattr(InMemorySaver, "get_tuple", get_tuple)
    with pytest.raises(CheckpointNotFoundError, match="'t'"):
        graph.invoke({"log": ["fork"]}, past)


def test_the_inherited_walk_does_not_take_a_missing_checkpoint_for_an_empty_one() -> None:
    """So does a saver that has the five methods only."""
    asked: list[Any] = []

    class Forgetful(BaseCheckpointSaver[int]):
        def get_tuple(self, config: Any) -> None:
            asked.append(config)

    named = {"configurable": {"thread_id": "t", "checkpoint_id": "gone"}}
    with pytest.raises(CheckpointNotFoundError, match=r"'t'.*'gone'"):
        Forgetful().get_delta_channel_history(config=named, channels=["log"])
    assert asked == [named]
    nothing = Forgetful().get_delta_channel_history(config=CONFIG, channels=["log"])
    assert nothing == {"log": {"writes": []}}  # a thread that has no checkpoints yet
