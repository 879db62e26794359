"""RemoteGraph against a server on loopback, beside LangGraph's RemoteGraph against the same one."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

pytest.importorskip("langgraph_sdk")

from langgraph.pregel.remote import RemoteGraph as TheirRemoteGraph
from stub_server import Server, serving

from milepost.checkpoint.memory import InMemorySaver
from milepost.config import get_stream_writer
from milepost.errors import GraphBuildError, MissingThreadError
from milepost.graph import START, StateGraph
from milepost.pregel._remote.requests import RemoteRunOptions
from milepost.pregel.remote import RemoteException, RemoteGraph
from milepost.types import Command, Interrupt, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    ask: bool
    fail: bool
    hand_over: bool


def inner(state: State) -> State:
    get_stream_writer()({"from": "inner"})
    return {"log": ["inner"]}


def first(state: State) -> Any:
    if state.get("fail"):
        raise RuntimeError("broken on purpose")
    get_stream_writer()({"from": "first"})
    return {"log": ["first"]}


def second(state: State) -> Any:
    if state.get("ask"):
        return {"log": [f"answer {interrupt('which?')}"]}
    return {"log": ["second"]}


@pytest.fixture
def server() -> Iterator[Server]:
    below = StateGraph(State).add_node(inner).add_edge(START, "inner").compile()
    builder = StateGraph(State).add_node(first).add_node("below", below).add_node(second)
    builder.add_edge(START, "first").add_edge("first", "below").add_edge("below", "second")
    with serving(builder.compile(InMemorySaver())) as running:
        yield running


@pytest.fixture
def ours(server, run) -> Iterator[RemoteGraph]:
    graph = RemoteGraph("agent", url=server.url)
    yield graph
    close(graph, run)


@pytest.fixture
def theirs(server, run) -> Any:
    graph = TheirRemoteGraph("agent", url=server.url)
    yield graph
    close(graph, run)


def close(graph: Any, run: Any) -> None:
    """Close what the clients have opened: they leave that to the garbage collector."""
    graph.sync_client.http.client.close()
    if run.colour == "async":
        run._runner.run(graph.client.http.client.aclose())


def thread(name: str = "t", **more: Any) -> Any:
    return {"configurable": {"thread_id": name, **more}}


def without_ids(value: Any) -> Any:
    """The same, whichever thread and run it is of."""
    if isinstance(value, dict):
        return {k: without_ids(v) for k, v in value.items() if k not in ("id", "created_at", "ts")}
    if isinstance(value, (list, tuple)):
        return [without_ids(one) for one in value]
    return value.partition(":")[0] if isinstance(value, str) else value


def in_colour(run: Any, graph: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method, or its async form, and collect what it yields."""
    if run.colour == "sync":
        result = getattr(graph, method)(*args, **kwargs)
        return list(result) if hasattr(result, "__next__") else result
    result = getattr(graph, f"a{method}")(*args, **kwargs)

    async def collect() -> Any:
        return [one async for one in result]

    return run._runner.run(collect() if hasattr(result, "__anext__") else result)


MODES = ["values", "updates", "custom", "tasks", "checkpoints", "debug", "messages"]


@pytest.mark.parametrize("subgraphs", [False, True], ids=["alone", "subgraphs"])
@pytest.mark.parametrize("mode", [*MODES, MODES[:3]], ids=[*MODES, "several"])
def test_events_are_those_that_langgraph_gives(run, ours, theirs, server, mode, subgraphs):
    options = {"stream_mode": mode, "subgraphs": subgraphs}
    events = in_colour(run, ours, "stream", {"log": ["in"]}, thread("a"), **options)
    expected = in_colour(run, theirs, "stream", {"log": ["in"]}, thread("b"), **options)
    if isinstance(mode, list) and not subgraphs:
        expected = [(part.event, part.data) for part in expected]  # the client's own record
    if mode in ("values", "updates", "custom") or isinstance(mode, list):
        assert without_ids(events) == without_ids(expected)
    assert len(events) == len(expected)
    assert bool(events) == (mode != "messages")
    bodies = [body for _, path, body in server.requests if path.endswith("/stream")]
    for body in bodies:
        body["stream_mode"] = sorted(body["stream_mode"])
        body.pop("checkpoint", None)
    assert bodies[0] == bodies[1]


def test_a_result_is_that_of_the_graph_with_and_without_a_thread(run, ours, theirs):
    expected = {"log": ["in", "first", "in", "first", "inner", "second"]}
    assert in_colour(run, ours, "invoke", {"log": ["in"]}) == expected
    assert in_colour(run, ours, "invoke", {"log": ["in"]}, thread()) == expected
    assert in_colour(run, theirs, "invoke", {"log": ["in"]}, thread("other")) == expected


def test_a_config_is_sent_without_what_only_means_something_here(run, ours, server):
    config = {
        **thread(user=["a", object(), {"b": None, 1: 2}], secret=object(), checkpoint_ns="x"),
        "tags": ["tag", 1],
        "recursion_limit": 7,
        "metadata": {"m": 1, "o": object()},
        "callbacks": [object()],
    }
    in_colour(run, ours.with_config(tags=["own"]), "invoke", {"log": []}, config)
    (sent,) = [body["config"] for _, path, body in server.requests if path.endswith("/stream")]
    assert sent == {
        "configurable": {"user": ["a", {}]},
        "tags": ["own", "tag"],
        "recursion_limit": 7,
        "metadata": {"m": 1},
    }


def test_a_question_is_shown_and_answered(run, ours, theirs):
    for graph, name in ((ours, "a"), (theirs, "b")):
        asked = in_colour(run, graph, "invoke", {"log": [], "ask": True}, thread(name))
        assert [i["value"] for i in asked["__interrupt__"]] == ["which?"]
        state = in_colour(run, graph, "get_state", thread(name))
        assert (state.next, state.interrupts[0].value) == (("second",), "which?")
        done = in_colour(
            run,
            graph,
            "invoke",
            Command(resume="this") if graph is ours else their_command("this"),
            thread(name),
        )
        assert done["log"][-1] == "answer this"


def their_command(answer: str) -> Any:
    from langgraph.types import Command

    return Command(resume=answer)


def test_states_and_history_are_read_and_changed(run, ours, theirs):
    in_colour(run, ours, "invoke", {"log": ["in"]}, thread())
    mine, other = (in_colour(run, graph, "get_state", thread()) for graph in (ours, theirs))
    assert mine == (*other[:6], (), ())
    history = in_colour(run, ours, "get_state_history", thread(), limit=3)
    expected = in_colour(run, theirs, "get_state_history", thread(), limit=3)
    assert [tuple(one)[:6] for one in history] == [tuple(one)[:6] for one in expected]
    older = in_colour(run, ours, "get_state_history", thread(), before=history[1].config)
    assert older[0].config == history[2].config
    named = in_colour(run, ours, "get_state", history[2].config)
    assert named.values == history[2].values
    config = in_colour(run, ours, "update_state", thread(), {"log": ["by hand"]}, "second")
    assert in_colour(run, ours, "get_state", config).values["log"][-1] == "by hand"


def test_a_run_goes_on_from_the_checkpoint_that_a_config_names(run, ours):
    in_colour(run, ours, "invoke", {"log": ["in"]}, thread())
    before_second = in_colour(run, ours, "get_state_history", thread(), limit=2)[1]
    assert before_second.next == ("second",)
    in_colour(run, ours, "invoke", None, before_second.config)
    newest = in_colour(run, ours, "get_state_history", thread(), limit=2)
    assert newest[1].metadata["source"] == "fork"


def test_the_graph_is_drawn(run, ours, theirs):
    picture = in_colour(run, ours, "get_graph")
    expected = in_colour(run, theirs, "get_graph")
    assert list(picture.nodes) == list(expected.nodes)
    assert {(e.source, e.target) for e in picture.edges} == {
        (e.source, e.target) for e in expected.edges
    }
    assert "first" in picture.draw_mermaid()


def test_a_failure_there_is_an_error_here(run, ours):
    with pytest.raises(RemoteException, match="broken on purpose"):
        in_colour(run, ours, "invoke", {"fail": True}, thread())


def test_typed_parts_say_their_mode_and_their_interrupts(run, ours):
    parts = in_colour(
        run, ours, "stream", {"ask": True}, thread(), stream_mode=["values"], version="v2"
    )
    assert {part["type"] for part in parts} == {"values"}
    (asked,) = parts[-1]["interrupts"]
    assert isinstance(asked, Interrupt)
    assert "__interrupt__" not in parts[-1]["data"]


# -- as a node


@pytest.fixture
def around(ours, saver) -> Any:
    builder = StateGraph(State).add_node("remote", ours)
    builder.add_node("after", lambda state: {"log": ["after"]})
    return builder.add_edge(START, "remote").add_edge("remote", "after").compile(saver)


def test_as_a_node_its_question_is_the_graphs_and_the_answer_goes_to_the_server(
    run, around, server
):
    asked = run.invoke(around, {"log": ["here"], "ask": True}, thread())
    (question,) = asked["__interrupt__"]
    assert question.value == "which?"
    assert run.get_state(around, thread()).interrupts == (question,)
    done = run.invoke(around, Command(resume="this"), thread())
    assert done["log"][-2:] == ["answer this", "after"]
    runs = [body for _, path, body in server.requests if path.endswith("/stream")]
    assert [body.get("command") for body in runs] == [None, {"resume": {question.id: "this"}}]
    assert runs[1].get("input") is None


def test_as_a_node_its_events_come_with_those_of_the_graph(run, around):
    events = run.stream(
        around, {"log": []}, thread(), stream_mode=["updates", "custom"], subgraphs=True
    )
    inside = [(ns[0].partition(":")[0], len(ns), mode, data) for ns, mode, data in events if ns]
    assert ("remote", 1, "custom", {"from": "first"}) in inside
    assert ("remote", 2, "custom", {"from": "inner"}) in inside
    assert ("remote", 1, "updates", {"second": {"log": ["second"]}}) in inside


def test_the_options_of_a_run_are_those_that_the_client_takes():
    from langgraph_sdk.client import RunsClient, SyncRunsClient

    named_by_us = {
        *("thread_id", "assistant_id", "input", "command", "config", "stream_mode"),
        *("stream_subgraphs", "if_not_exists", "checkpoint", "version"),
    }
    for client in (RunsClient, SyncRunsClient):
        taken = inspect.signature(client.stream).parameters.keys() - {"self", *named_by_us}
        assert set(RemoteRunOptions.__annotations__) == taken


def test_what_is_missing_is_said(run):
    graph = RemoteGraph("agent")
    with pytest.raises(GraphBuildError, match="give it `url=`"):
        in_colour(run, graph, "get_graph")
    with pytest.raises(MissingThreadError, match="RemoteGraph 'agent'"):
        in_colour(run, graph, "get_state", {})
