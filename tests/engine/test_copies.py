"""Copies of checkpoints, `update_state(config, None, as_node="__copy__")`, next to LangGraph's."""

import operator
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import id_of, thread
from harness import SyncHarness
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import InvalidUpdateError

COPY = "__copy__"
LARGE = "x" * 3000
"""Longer than what a saver keeps with other small values."""


def joined(value: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return [*value, *(item for write in writes for item in write)]


def library(root: str) -> Any:
    """The names of one library."""
    modules = ("graph", "types", "channels.delta", "checkpoint.memory")
    return SimpleNamespace(
        **{k: v for name in modules for k, v in vars(import_module(f"{root}.{name}")).items()}
    )


OURS, THEIRS = library("milepost"), library("langgraph")


def build(lib: Any, saver: Any, *, frequency: int = 100, asks: bool = False) -> Any:
    """START -> a -> b -> c; with `asks`, c has a sibling that finishes while c waits."""

    class State(TypedDict, total=False):
        count: int
        text: str
        log: Annotated[list[Any], operator.add]
        delta: Annotated[list[Any], lib.DeltaChannel(joined, snapshot_frequency=frequency)]

    def node(name: str) -> Any:
        def run(state: Any) -> Any:
            new = [name + LARGE]
            return {"count": state.get("count", 0) + 1, "text": name, "log": new, "delta": new}

        return run

    def ask(state: Any) -> Any:
        return {"log": [lib.interrupt("sure?")]}

    builder = lib.StateGraph(State)
    builder.add_node("a", node("a")).add_node("b", node("b"))
    builder.add_node("c", ask if asks else node("c"))
    builder.add_edge(lib.START, "a").add_edge("a", "b").add_edge("b", "c")
    if asks:
        builder.add_node("beside", lambda state: {"log": ["beside"]}).add_edge("b", "beside")
    return builder.compile(checkpointer=saver)


INPUT = {"count": 0, "log": ["in" + LARGE], "delta": ["in"]}


def seen(state: Any) -> dict[str, Any]:
    """What both libraries show of a state."""
    return {
        "values": state.values,
        "next": sorted(state.next),
        "source": state.metadata["source"],
        "step": state.metadata["step"],
        "asks": [one.value for task in state.tasks for one in task.interrupts],
    }


def copied(run: Any, graph: Any, original: Any) -> dict[str, Any]:
    """Copy a checkpoint; what the copy is like, and what follows it."""
    parent = original.parent_config and id_of(original.parent_config)
    config = run.update_state(graph, original.config, None, as_node=COPY)
    head = run.get_state(graph, thread("t"))
    state = run.get_state(graph, config)
    assert id_of(head.config) == id_of(config) > id_of(original.config)
    assert (state.parent_config and id_of(state.parent_config)) == parent
    before = run.saver(graph.checkpointer, "get_tuple", original.config).checkpoint
    after = run.saver(graph.checkpointer, "get_tuple", config).checkpoint
    assert after["channel_versions"] == before["channel_versions"]
    result = run.invoke(graph, None, config)
    asked = [question.value for question in result.pop("__interrupt__", ())]
    return {"copy": seen(state), "on": result, "asked": asked}


def observe(run: Any, graph: Any) -> list[Any]:
    """Copy every checkpoint of a thread, the newest first, and look at all of it at the end."""
    run.invoke(graph, INPUT, thread("t"))
    history = run.history(graph, thread("t"))
    found: list[Any] = [copied(run, graph, original) for original in history]
    again = run.history(graph, thread("t"))
    assert again[-len(history) :] == history
    return [*found, [seen(state) for state in again]]


@cache
def expected(frequency: int, asks: bool) -> list[Any]:
    """What LangGraph does."""
    graph = build(THEIRS, THEIRS.InMemorySaver(), frequency=frequency, asks=asks)
    return observe(SyncHarness(), graph)


def is_sound(run: Any, saver: Any) -> bool:
    return not hasattr(saver, "verify") or run.saver(saver, "verify") == []


@pytest.mark.parametrize("asks", [False, True], ids=["done", "interrupted"])
@pytest.mark.parametrize("frequency", [1, 2, 100])
def test_every_checkpoint_can_be_copied(run, saver, frequency, asks):
    """The head, those in the middle, the first; with deltas that are stored whole, or not."""
    graph = build(OURS, saver, frequency=frequency, asks=asks)
    assert observe(run, graph) == expected(frequency, asks)
    assert is_sound(run, saver)


def test_copies_are_read_after_the_file_was_opened_again(tmp_path):
    run, place = SyncHarness(), str(tmp_path / "threads.db")
    with SqliteSaver.from_conn_string(place) as saver:
        observe(run, build(OURS, saver))
    with SqliteSaver.from_conn_string(place) as saver:
        history = run.history(build(OURS, saver), thread("t"))
        assert [seen(state) for state in history] == expected(100, False)[-1]
        assert is_sound(run, saver)


def test_copies_of_what_another_process_has_stored(tmp_path):
    """Nothing is remembered of the rows that the copies share."""
    run, place = SyncHarness(), str(tmp_path / "threads.db")
    with SqliteSaver.from_conn_string(place) as saver:
        run.invoke(build(OURS, saver), INPUT, thread("t"))
    with SqliteSaver.from_conn_string(place) as saver:
        originals = run.history(build(OURS, saver), thread("t"))
    assert len(originals) == len(expected(100, False)) - 1 > 3
    for at, original in enumerate(originals):
        with SqliteSaver.from_conn_string(place) as saver:
            found = copied(run, build(OURS, saver), original)
            assert found == expected(100, False)[at]
            assert is_sound(run, saver)


def test_a_thread_of_many_copies_stays_sound(run, saver):
    """Each copy goes on and is copied again, while values grow by differences."""
    graph = build(OURS, saver, frequency=7)
    run.invoke(graph, INPUT, thread("t"))
    count = 3
    for _ in range(40):
        head = run.get_state(graph, thread("t"))
        config = run.update_state(graph, thread("t"), None, as_node=COPY)
        assert run.get_state(graph, config).values == head.values
        run.invoke(graph, {"log": ["more"]}, thread("t"))
        count += 3
        head = run.get_state(graph, thread("t"))
        assert (head.values["count"], len(head.values["delta"])) == (count, count + 1)
    assert is_sound(run, saver)


def test_a_copy_has_what_a_command_brought_while_the_thread_waited(run, saver, config):
    graph = build(OURS, saver, asks=True)
    run.invoke(graph, INPUT, config)
    run.invoke(graph, OURS.Command(update={"text": "new", "delta": ["new"]}), config)
    head = run.get_state(graph, config)
    copy = run.get_state(graph, run.update_state(graph, config, None, as_node=COPY))
    assert head.values["text"] == copy.values["text"] == "new"
    assert copy.values["delta"] == head.values["delta"]
    assert head.values["delta"][-1] == "new"


def test_a_copy_keeps_channels_that_the_graph_no_longer_has(run, saver, config):
    run.invoke(build(OURS, saver), INPUT, config)

    class Less(TypedDict, total=False):
        count: int

    builder = OURS.StateGraph(Less).add_node("a", lambda state: None)
    less = builder.add_edge(OURS.START, "a").compile(checkpointer=saver)
    copy = run.update_state(less, config, None, as_node=COPY)
    values = run.get_state(build(OURS, saver), copy).values
    assert (values["text"], len(values["log"]), values["count"]) == ("c", 4, 3)


def test_a_copy_keeps_the_memory_of_inner_graphs(run, saver, config):
    inner = build(OURS, True)
    builder = OURS.StateGraph(inner.builder.state_schema).add_node("inner", inner)
    graph = builder.add_edge(OURS.START, "inner").compile(checkpointer=saver)
    run.invoke(graph, {"count": 0, "log": ["in"]}, config)
    first = run.get_state(graph, config)
    run.invoke(graph, {"log": ["later"]}, config)
    copy = run.update_state(graph, first.config, None, as_node=COPY)
    assert run.get_state(graph, copy).values == first.values
    was = run.saver(saver, "get_tuple", first.config).checkpoint["versions_seen"]["__children__"]
    now = run.saver(saver, "get_tuple", copy).checkpoint["versions_seen"]["__children__"]
    assert was == now


def test_a_copy_can_be_updated_in_the_same_call(run, saver):
    def outcome(run: Any, graph: Any) -> Any:
        run.invoke(graph, INPUT, thread("t"))
        middle = run.history(graph, thread("t"))[2]
        update = [({"log": ["x"], "delta": ["x"]}, "a")]
        config = run.update_state(graph, middle.config, update, as_node=COPY)
        state = run.get_state(graph, config)
        return seen(state), seen(run.get_state(graph, state.parent_config))

    theirs = outcome(SyncHarness(), build(THEIRS, THEIRS.InMemorySaver()))
    assert outcome(run, build(OURS, saver)) == theirs


def test_a_copy_may_follow_other_updates(run, saver):
    def outcome(run: Any, lib: Any, graph: Any) -> list[Any]:
        run.invoke(graph, INPUT, thread("t"))
        middle = run.history(graph, thread("t"))[2]
        config = run.bulk_update_state(
            graph,
            middle.config,
            [
                [lib.StateUpdate({"log": ["x"]}, "a")],
                [lib.StateUpdate(None, COPY)],
                [lib.StateUpdate({"log": ["y"]}, "b")],
            ],
        )
        state = run.get_state(graph, config)
        line = [seen(state)]
        while state.parent_config is not None:
            state = run.get_state(graph, state.parent_config)
            line.append(seen(state))
        return line

    theirs = outcome(SyncHarness(), THEIRS, build(THEIRS, THEIRS.InMemorySaver()))
    assert outcome(run, OURS, build(OURS, saver)) == theirs


def test_an_input_can_be_copied_in_the_same_call(run, saver, config):
    graph = build(OURS, saver)
    update = OURS.StateUpdate
    run.bulk_update_state(graph, config, [[update(INPUT, "__input__")], [update(None, COPY)]])
    history = run.history(graph, config)
    assert [state.next for state in history] == [("__start__",), ("__start__",)]
    assert [state.parent_config for state in history] == [None, None]
    assert run.invoke(graph, None, config)["count"] == 3


@pytest.mark.usefixtures("strictly")
def test_a_copy_takes_no_values_for_itself(run, saver, config):
    graph = build(OURS, saver)
    run.invoke(graph, INPUT, config)
    before = run.history(graph, config)
    for values in ({"count": 1}, ["count"], [{"count": 1}]):
        with pytest.raises(InvalidUpdateError, match="copy"):
            run.update_state(graph, config, values, as_node=COPY)
    assert run.history(graph, config) == before


def test_a_thread_without_checkpoints_has_nothing_to_copy(run, saver, config):
    with pytest.raises(InvalidUpdateError, match="no checkpoint to copy"):
        run.update_state(build(OURS, saver), config, None, as_node=COPY)
