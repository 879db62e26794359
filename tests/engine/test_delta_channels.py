"""A delta channel has the value that a plain one would have, whatever has changed it."""

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.channels import DeltaChannel
from milepost.graph import START, StateGraph
from milepost.pregel import NodeBuilder, Pregel
from milepost.types import Command, interrupt


def joined(old: list[Any], writes: list[list[Any]]) -> list[Any]:
    return [*old, *(item for write in writes for item in write)]


class Plain(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    number: int


class Delta(TypedDict, total=False):
    log: Annotated[list[Any], DeltaChannel(joined)]
    number: int


class Renamed(TypedDict, total=False):
    lines: Annotated[list[Any], DeltaChannel(joined)]
    number: int


def asking(schema: Any, saver: Any, key: str = "log", **compiled: Any) -> Any:
    builder = StateGraph(schema)
    builder.add_node("say", lambda state: {key: ["said"]})
    builder.add_node("ask", lambda state: {key: [interrupt("sure?")]})
    builder.add_edge(START, "say").add_edge("say", "ask")
    return builder.compile(checkpointer=saver, **compiled)


def new_input(run: Any, graph: Any, config: Any, durability: str) -> None:
    run.invoke(graph, {"log": ["again"]}, config, durability=durability)


def replay(run: Any, graph: Any, config: Any, durability: str) -> None:
    run.invoke(graph, None, run.get_state(graph, config).config, durability=durability)


def update(run: Any, graph: Any, config: Any, durability: str) -> None:
    run.update_state(graph, config, {"number": 9}, as_node="say")


def same_key(run: Any, graph: Any, config: Any, durability: str) -> None:
    run.update_state(graph, config, {"log": ["updated"]}, as_node="say")


def answer(run: Any, graph: Any, config: Any, durability: str) -> None:
    run.invoke(graph, Command(resume="yes"), config, durability=durability)


@pytest.mark.parametrize("then", [new_input, replay, update, same_key, answer])
def test_what_a_command_brought_to_a_paused_thread_is_kept(
    run: Any, saver: Any, config: Any, durability: str, then: Callable[..., None]
) -> None:
    values = {}
    for schema in (Plain, Delta):
        graph = asking(schema, saver)
        own = {"configurable": {"thread_id": schema.__name__}}
        run.invoke(graph, {"log": ["in"], "number": 1}, own, durability=durability)
        run.invoke(graph, Command(update={"log": ["brought"]}), own, durability=durability)
        then(run, graph, own, durability)
        values[schema] = run.get_state(graph, own).values
    assert "brought" in values[Delta]["log"]
    assert values[Delta] == values[Plain]


def test_a_replayed_checkpoint_of_an_inner_graph_keeps_its_value(
    run: Any, saver: Any, config: Any, durability: str
) -> None:
    inner = asking(Delta, None)

    def calls(state: Delta) -> Any:
        return {"log": inner.invoke({"log": ["inside"]})["log"]}

    graph = StateGraph(Delta).add_node(calls).add_edge(START, "calls").compile(checkpointer=saver)
    run.invoke(graph, {"log": ["in"]}, config, durability=durability)
    [task] = run.get_state(graph, config, subgraphs=True).tasks
    run.invoke(graph, None, task.state.config, durability=durability)
    [task] = run.get_state(graph, config, subgraphs=True).tasks
    assert task.state.values == {"log": ["inside", "said"]}
    result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
    assert result == {"log": ["in", "inside", "said", "yes"]}


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ({"number": 9}, ["in", "said"]),
        ({"lines": ["updated"]}, ["in", "said", "updated"]),
    ],
)
def test_an_update_keeps_the_value_of_a_renamed_key(
    run: Any, saver: Any, config: Any, durability: str, values: Any, kept: list[str]
) -> None:
    run.invoke(asking(Delta, saver), {"log": ["in"]}, config, durability=durability)
    renamed = asking(Renamed, saver, "lines", renamed_keys={"log": "lines"})
    run.update_state(renamed, config, values, as_node="say")
    assert run.get_state(renamed, config).values["lines"] == kept
    # The update has stored the value under its new name.
    assert run.get_state(asking(Renamed, saver, "lines"), config).values["lines"] == kept


def test_an_input_that_is_written_to_a_delta_channel_directly_is_kept(
    run: Any, saver: Any, config: Any, durability: str
) -> None:
    node = NodeBuilder().subscribe_only("log").do(lambda log: [len(log)]).write_to("log")
    graph = Pregel(
        nodes={"node": node},
        channels={"log": DeltaChannel(joined, list)},
        input_channels="log",
        output_channels="log",
        checkpointer=saver,
        interrupt_before_nodes=["node"],
    )
    run.invoke(graph, ["in"], config, durability=durability)
    assert run.get_state(graph, config).values == {"log": ["in"]}
    run.invoke(graph, ["more"], config, durability=durability)
    assert run.get_state(graph, config).values == {"log": ["in", "more"]}


def test_a_key_that_is_no_delta_channel_any_more_keeps_its_value(
    run: Any, saver: Any, config: Any, durability: str
) -> None:
    def saying(schema: Any, said: dict[str, Any]) -> Any:
        builder = StateGraph(schema).add_node("say", lambda state: said)
        return builder.add_edge(START, "say").compile(checkpointer=saver)

    before, silent = saying(Delta, {"log": ["a"]}), saying(Plain, {"number": 2})
    run.invoke(before, {"log": ["in"]}, config, durability=durability)
    assert run.invoke(silent, {"number": 1}, config, durability=durability)["log"] == ["in", "a"]
    run.update_state(silent, config, None, as_node="__copy__")
    run.invoke(silent, {"number": 1}, config, durability=durability)
    run.saver(saver, "prune", ["t"], strategy="keep_latest")
    assert [state.values["log"] for state in run.history(silent, config)] == [["in", "a"]]
    now = saying(Plain, {"log": ["b"]})
    run.invoke(now, {}, config, durability=durability)
    assert run.get_state(now, config).values["log"] == ["in", "a", "b"]
    assert "counters_since_delta_snapshot" not in run.get_state(now, config).metadata
    assert run.invoke(before, {}, config)["log"] == ["in", "a", "b", "a"]


@pytest.mark.parametrize("stored_whole_after", [1, 100])
def test_a_former_delta_channel_that_is_renamed_keeps_its_value(
    run: Any, saver: Any, config: Any, stored_whole_after: int
) -> None:
    class Former(TypedDict):
        lines: Annotated[list[Any], DeltaChannel(joined, snapshot_frequency=stored_whole_after)]

    def saying(schema: Any, key: str, **compiled: Any) -> Any:
        builder = StateGraph(schema).add_node("say", lambda state: {key: ["said"]})
        return builder.add_edge(START, "say").compile(checkpointer=saver, **compiled)

    run.invoke(saying(Former, "lines"), {"lines": ["in"]}, config)
    now = saying(Plain, "log", renamed_keys={"lines": "log"})
    assert run.invoke(now, {"log": ["on"]}, config)["log"] == ["in", "said", "on", "said"]
