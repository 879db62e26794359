"""Clients that take a server for a graph, and graphs of LangGraph's that a server runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from events import listening
from langgraph_sdk import get_sync_client
from serving import TOKEN, Chat, Running, State, asking_graph, on, plan, serving

from milepost.graph import START, StateGraph


def nested_graph() -> Any:
    """A graph whose inner graph asks."""
    outer = StateGraph(State)
    outer.add_node("plan", plan)
    outer.add_node("inner", asking_graph())
    outer.add_edge(START, "plan")
    outer.add_edge("plan", "inner")
    return outer.compile()


def their_graph() -> Any:
    """LangGraph's: says hello, then asks."""
    from langgraph.graph import StateGraph as TheirStateGraph
    from langgraph.types import interrupt

    def hello(state: Chat) -> Chat:
        return {"messages": [("ai", "hello")]}

    def wait(state: Chat) -> Chat:
        return {"messages": [("user", interrupt("name?"))]}

    builder = TheirStateGraph(Chat)
    builder.add_node("hello", hello)
    builder.add_node("wait", wait)
    builder.add_edge("__start__", "hello")
    builder.add_edge("hello", "wait")
    return builder.compile()


@pytest.fixture
def running(file: str) -> Iterator[Running]:
    graphs = {"nested": nested_graph(), "theirs": their_graph()}
    with serving(file, graphs=graphs, write=True) as made:
        yield made


@contextmanager
def remote(kind: str, running: Running, graph_id: str) -> Iterator[Any]:
    """A server's graph, as one library's programs see it."""
    if kind == "langgraph":
        from langgraph.pregel.remote import RemoteGraph
    else:
        from milepost.pregel.remote import RemoteGraph  # type: ignore[assignment]
    with get_sync_client(url=running.url, api_key=TOKEN) as client:
        yield RemoteGraph(graph_id, sync_client=client)


def start(running: Running, thread_id: str, graph_id: str, **body: Any) -> list[Any]:
    path = f"/milepost/threads/{thread_id}/run"
    with (
        running.client() as client,
        listening(client, "POST", path, json={"graph_id": graph_id, **body}) as events,
    ):
        return list(events)


@pytest.mark.parametrize("kind", ["milepost", "langgraph"])
def test_a_remote_graph_reads_draws_and_changes_a_thread(running: Running, kind: str) -> None:
    start(running, "t", "nested", input={"log": ["in"]})
    with remote(kind, running, "nested") as graph:
        state = graph.get_state(on("t"))
        assert state.values == {"log": ["in", "planned"]}
        assert state.next == ("inner",)
        assert [one.value for one in state.interrupts] == [{"question": "Go on?"}]
        deeper = graph.get_state(on("t"), subgraphs=True)
        (task,) = deeper.tasks
        assert task.state.next == ("ask",)
        history = list(graph.get_state_history(on("t")))
        assert [one.metadata["step"] for one in history] == [1, 0, -1]
        drawn = graph.get_graph()
        assert {"plan", "inner"} <= set(drawn.nodes)
        graph.update_state(history[1].config, {"log": ["forked"]}, as_node="plan")
        assert graph.get_state(on("t")).values == {"log": ["in", "forked"]}
    with running.client() as client:
        inner = client.get("/assistants/nested/subgraphs").json()
        assert set(inner) == {"inner"}
        shown = client.get("/milepost/graphs/nested").json()
    assert {"id": "inner", "kind": "graph"} in shown["nodes"]


def test_a_graph_of_langgraphs_runs_and_is_answered(running: Running) -> None:
    events = start(running, "u", "theirs", input={"messages": [("user", "hi")]})
    asked = next(event.data for event in events if event.name == "interrupted")
    (question,) = asked["interrupts"]
    assert question["value"] == "name?"
    answered = start(running, "u", "theirs", resume={question["id"]: "ann"})
    assert answered[-1].name == "end"
    with running.client() as client:
        state = client.get("/threads/u/state").json()
        shown = client.get("/milepost/threads/u/log").json()["entries"]
        said = [one["content"] for one in state["values"]["messages"]]
        assert said == ["hi", "hello", "ann"]
        assert [entry["step"] for entry in shown] == [2, 1, 0, -1]
        body = {"values": {"messages": [["user", "more"]]}, "as_node": "wait"}
        assert client.post("/threads/u/state", json=body).status_code == 200


def test_an_answer_inside_of_an_inner_graph_lets_it_end(running: Running) -> None:
    start(running, "v", "nested", input={"log": ["in"]})
    with running.client() as client:
        (asked,) = client.get("/threads/v/state").json()["interrupts"]
        start(running, "v", "nested", resume={asked["id"]: "yes"})
        state = client.get("/threads/v/state").json()
    assert state["next"] == []
    assert state["values"]["answer"] == "yes"
