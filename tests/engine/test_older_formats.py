"""Checkpoints of formats that LangGraph had before, put into a saver by a program."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.graph import START, StateGraph
from milepost.types import Send

ID = "1f00fd5f-2149-6faa-800{}-9d848038f10a"


def v(number: int) -> str:
    """A version as LangGraph's savers have written it."""
    return f"{number:032}.0.5"


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def graph(saver: Any) -> Any:
    builder = StateGraph(State)
    for name in ("a", "b", "c"):
        builder.add_node(name, lambda _, name=name: {"log": [name]})
    builder.add_edge(START, "a").add_edge("a", "b")
    builder.add_conditional_edges("b", lambda _: "c", ["c"])
    return builder.compile(checkpointer=saver)


def put(run: Any, saver: Any, at: int, parent: int | None, **checkpoint: Any) -> Any:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    if parent is not None:
        config["configurable"]["checkpoint_id"] = ID.format(parent)
    made = {"id": ID.format(at), "ts": "2025-04-02T15:20:01+00:00", "versions_seen": {}}
    whole: Any = {**made, "pending_sends": [], **checkpoint}
    metadata: Any = {"source": "loop", "step": at, "parents": {}}
    return run.saver(saver, "put", config, whole, metadata, dict(whole["channel_versions"]))


@pytest.mark.parametrize(
    ("waiting", "ran"),
    [
        ({"start:a": v(2)}, ["a", "b", "c"]),
        ({"start:a": v(2), "a": v(3)}, ["b", "c"]),
        ({"start:a": v(2), "a": v(3), "branch:b:condition:c": v(4)}, ["c"]),
    ],
)
def test_a_run_goes_on_along_the_edges_of_format_2(run, saver, config, waiting, ran):
    seen = {"__start__": {"__start__": v(1)}, "a": {"start:a": v(2)}, "b": {"a": v(3)}}
    begun = dict(list(seen.items())[: len(waiting)])
    newest = max(waiting.values())
    put(
        run,
        saver,
        1,
        None,
        v=2,
        channel_values={"log": ["old"], **{k: None for k, at in waiting.items() if at == newest}},
        channel_versions={"__start__": v(1), "log": newest, **waiting},
        versions_seen=begun,
    )
    made = graph(saver)
    assert run.get_state(made, config).next == (ran[0],)
    assert run.invoke(made, None, config)["log"] == ["old", *ran]


@pytest.mark.parametrize("pruned", [False, True])
def test_the_sends_of_format_3_are_among_the_writes_of_the_parent(run, saver, config, pruned):
    first = put(
        run, saver, 1, None, v=3, channel_values={"log": []}, channel_versions={"log": v(1)}
    )
    writes = [("__pregel_tasks", Send("c", {"log": []})), ("log", ["old"])]
    run.saver(saver, "put_writes", first, writes, "11111111-1111-1111-1111-111111111111")
    put(run, saver, 2, 1, v=3, channel_values={"log": ["old"]}, channel_versions={"log": v(2)})
    if pruned:
        run.saver(saver, "prune", [config["configurable"]["thread_id"]])
    assert run.invoke(graph(saver), None, config)["log"] == ["old", "c"]
