"""Runs that the page starts, and threads that it follows."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from events import listening, until
from serving import Running, State, asking_graph, chatting_graph, on, serving

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph
from milepost.server import Limits

FAST = Limits(poll=0.02)


class Held:
    """A graph whose only node waits until it may end."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()
        builder = StateGraph(State)
        builder.add_node("hold", self.hold)
        builder.add_edge(START, "hold")
        self.graph = builder.compile()

    def hold(self, state: State) -> State:
        self.began.set()
        assert self.may_end.wait(20)
        return {"log": ["held"]}


def failing(state: State) -> State:
    raise ValueError("no <b>luck</b>")


def failing_graph() -> Any:
    builder = StateGraph(State)
    builder.add_node("fail", failing)
    builder.add_edge(START, "fail")
    return builder.compile()


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.may_end.set()


@pytest.fixture
def live(address: str, held: Held) -> Iterator[Running]:
    """A server that may write and looks often."""
    graphs = {
        "asking": asking_graph(),
        "chatting": chatting_graph(),
        "failing": failing_graph(),
        "held": held.graph,
    }
    with serving(address, graphs=graphs, write=True, limits=FAST) as running:
        yield running


def ran(running: Running, thread_id: str, graph_id: str = "asking", **body: Any) -> list[Any]:
    """All events of a run."""
    path = f"/milepost/threads/{thread_id}/run"
    with (
        running.client() as client,
        listening(client, "POST", path, json={"graph_id": graph_id, **body}) as events,
    ):
        return list(events)


def names(events: list[Any]) -> list[str]:
    return [event.name for event in events]


def state(running: Running, thread_id: str) -> Any:
    with running.client() as client:
        return client.get(f"/threads/{thread_id}/state").json()


def test_a_run_asks_and_the_answer_lets_it_end(live: Running) -> None:
    events = ran(live, "a", input={"log": ["in"]})
    assert names(events)[-2:] == ["interrupted", "end"]
    asked = until(iter(events), "interrupted").data
    assert asked["next"] == ["ask"]
    (question,) = asked["interrupts"]
    assert question["value"] == {"question": "Go on?"}
    assert {"plan": {"log": ["planned"]}} in [e.data for e in events if e.name == "updates"]
    answered = ran(live, "a", resume={question["id"]: "yes"})
    assert names(answered)[-1] == "end"
    assert "interrupted" not in names(answered)
    found = state(live, "a")
    assert found["values"] == {"log": ["in", "planned", "asked"], "answer": "yes"}
    last = [event.data for event in answered if event.name == "checkpoint"][-1]
    assert last["checkpoint_id"] == found["checkpoint"]["checkpoint_id"]
    assert answered[-1].data == {"checkpoint_id": last["checkpoint_id"]}
    with live.client() as client:
        metadata = client.get("/threads/a").json()["metadata"]
    assert metadata["graph_id"] == "asking"


def test_tokens_of_an_inner_graph_come_one_by_one(live: Running) -> None:
    said = {"messages": [{"role": "user", "content": "<hi>"}]}
    events = ran(live, "tokens", "chatting", input=said)
    spoken = [event for event in events if event.name.startswith("messages|inner:")]
    words = [event.data[0]["content"] for event in spoken if event.data[0]["type"] == "ai"]
    assert "".join(words).startswith("one two three")
    assert len(words) >= 5
    assert spoken[0].data[1]["langgraph_node"] == "speak"
    final = [event.data for event in events if event.name == "values"][-1]
    assert [one["type"] for one in final["messages"]] == ["human", "ai"]


def test_an_edit_forks_and_the_run_goes_on_from_there(live: Running) -> None:
    ran(live, "b", input={"log": ["in"]})
    first = state(live, "b")["parent_checkpoint"]["checkpoint_id"]
    events = ran(
        live, "b", checkpoint_id=first, update={"values": {"log": ["edited"]}, "as_node": "plan"}
    )
    assert names(events)[-2:] == ["interrupted", "end"]
    assert state(live, "b")["values"]["log"] == ["in", "edited"]
    replayed = ran(live, "b", checkpoint_id=first)
    assert {"plan": {"log": ["planned"]}} in [e.data for e in replayed if e.name == "updates"]
    found = state(live, "b")
    assert found["values"]["log"] == ["in", "planned"]
    assert replayed[-1].data == {"checkpoint_id": found["checkpoint"]["checkpoint_id"]}
    (asked,) = until(iter(replayed), "interrupted").data["interrupts"]
    answered = ran(live, "b", resume={asked["id"]: "yes"})
    assert "interrupted" not in names(answered)


@pytest.mark.parametrize("graphs", [{}, {"failing": None}], ids=["without a graph", "with one"])
def test_the_state_of_a_failed_thread_is_shown(file: str, graphs: dict[str, Any]) -> None:
    def node(_: Any) -> None:
        raise ValueError("boom")

    builder = StateGraph(dict).add_node("node", node).add_edge(START, "node")
    with SqliteSaver.from_conn_string(file) as saver:
        failing = builder.compile(checkpointer=saver)
        with pytest.raises(ValueError, match="boom"):
            failing.invoke({"n": 1}, {"configurable": {"thread_id": "t"}, "metadata": GRAPH})
    made = {name: builder.compile() for name in graphs}
    with serving(file, graphs=made) as running, running.client() as client:
        state = client.get("/threads/t/state")
        assert state.status_code == 200, state.text
        assert "boom" in state.json()["tasks"][0]["error"]
        history = client.get("/threads/t/history")
        assert history.status_code == 200, history.text


GRAPH = {"graph_id": "failing", "assistant_id": "failing"}


def test_a_run_that_fails_says_why(live: Running) -> None:
    events = ran(live, "c", "failing", input={"log": []})
    assert names(events)[-1] == "error"
    assert events[-1].data == {"error": "ValueError", "message": "no <b>luck</b>"}
    with live.client() as client:
        assert client.get("/threads/c").json()["status"] == "error"
        (task,) = client.get("/milepost/threads/c/log").json()["entries"][0]["tasks"]
    assert task["name"] == "fail"
    assert "no <b>luck</b>" in task["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"graph_id": "nothing", "input": {}}, 404),
        ({"input": {}}, 422),
        ({"graph_id": "asking", "input": {}, "resume": 1}, 422),
        ({"graph_id": "asking", "checkpoint_id": "nothing"}, 404),
        ({"graph_id": "asking", "update": {"values": {"log": 7}, "as_node": "plan"}}, 422),
        ({"graph_id": "asking", "on_disconnect": "explode"}, 422),
    ],
)
def test_a_run_that_cannot_begin_is_refused(live: Running, body: Any, status: int) -> None:
    with live.client() as client:
        answer = client.post("/milepost/threads/d/run", json=body)
    assert answer.status_code == status
    assert answer.json()["detail"]


def test_a_thread_has_one_run_at_a_time(live: Running, held: Held) -> None:
    path = "/milepost/threads/e/run"
    body = {"graph_id": "held", "input": {"log": ["in"]}}
    with live.client() as client, listening(client, "POST", path, json=body) as events:
        until(events, "values")
        assert held.began.wait(20)
        with live.client() as other:
            assert other.post(path, json=body).status_code == 409
            assert other.get("/milepost/info").status_code == 200
            edit = other.post("/threads/e/state", json={"values": {"log": ["x"]}})
            assert edit.status_code == 409
        held.may_end.set()
        assert until(events, "end")
    assert state(live, "e")["values"]["log"] == ["in", "held"]


def test_a_run_goes_on_when_the_client_leaves(live: Running, held: Held) -> None:
    body = {"graph_id": "held", "input": {"log": ["in"]}}
    with (
        live.client() as client,
        listening(client, "POST", "/milepost/threads/f/run", json=body) as events,
    ):
        until(events, "values")
    assert held.began.wait(20)
    held.may_end.set()
    eventually(lambda: state(live, "f")["values"].get("log") == ["in", "held"])


def test_a_run_is_cancelled_and_the_thread_can_go_on(live: Running, held: Held) -> None:
    body = {"graph_id": "held", "input": {"log": ["in"]}}
    with (
        live.client() as client,
        live.client() as other,
        listening(client, "POST", "/milepost/threads/g/run", json=body) as events,
    ):
        until(events, "values")
        assert held.began.wait(20)
        held.may_end.set()
        ended = other.post("/milepost/threads/g/cancel").json()
        assert ended in ({"cancelled": True}, {"cancelled": False})
        list(events)
        assert other.post("/milepost/threads/g/cancel").json() == {"cancelled": False}
    ran(live, "g", "held")
    assert state(live, "g")["values"]["log"] == ["in", "held"]


def test_a_run_may_end_with_the_visit(file: str) -> None:
    began = threading.Event()

    async def wait(state: State) -> State:
        began.set()
        await asyncio.sleep(3600)
        return {}

    builder = StateGraph(State)
    builder.add_node("wait", wait)
    builder.add_edge(START, "wait")
    body = {"graph_id": "waiting", "input": {"log": []}, "on_disconnect": "cancel"}
    path = "/milepost/threads/t/run"
    with serving(file, graphs={"waiting": builder.compile()}, write=True) as running:
        with running.client() as client, listening(client, "POST", path, json=body) as events:
            until(events, "values")
            assert began.wait(20)
        eventually(lambda: not running.app.state.server.runs._tasks)
        with running.client() as other:
            assert other.get("/threads/t").json()["status"] != "busy"


def eventually(holds: Any) -> None:
    """Wait until something holds, 20 seconds at most."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# -- following


def test_a_thread_is_followed_while_another_process_runs_it(live: Running, address: str) -> None:
    from milepost.inspect import attached, open_database

    ran(live, "h", input={"log": ["in"]})
    with (
        live.client() as client,
        listening(client, "GET", "/milepost/threads/h/live") as events,
        open_database(address, write=True) as elsewhere,
    ):
        row = until(events, "thread").data
        assert (row["thread_id"], row["status"]) == ("h", "interrupted")
        attached(asking_graph(), elsewhere).invoke({"log": ["again"]}, on("h"))
        steps = [until(events, "checkpoint") for _ in range(3)]
        assert [one.data["source"] for one in steps[:1]] == ["input"]
        assert all(one.id == one.data["checkpoint_id"] for one in steps)
        asked = steps[-1]
        while not asked.data["tasks"][0]["interrupts"]:
            asked = until(events, "checkpoint")  # the same one, of which more is known by now
        assert asked.data["next"] == ["ask"]
        elsewhere.saver.delete_thread("h")
        assert until(events, "deleted").data == {"thread_id": "h"}
        assert list(events) == []


def test_a_client_that_was_cut_off_gets_what_it_has_missed(live: Running) -> None:
    ran(live, "i", input={"log": ["in"]})
    with live.client() as client:
        entries = client.get("/milepost/threads/i/log").json()["entries"]
        ids = [entry["checkpoint_id"] for entry in entries][::-1]
        path = "/milepost/threads/i/live"
        with listening(client, "GET", path, headers={"last-event-id": ids[0]}) as events:
            missed = [until(events, "checkpoint").data["checkpoint_id"] for _ in ids]
        assert missed == ids
        with listening(client, "GET", path, params={"after": ids[-1]}) as events:
            assert until(events, "checkpoint").data["checkpoint_id"] == ids[-1]


def test_a_thread_that_is_not_there_cannot_be_followed(live: Running) -> None:
    with live.client() as client:
        assert client.get("/milepost/threads/nothing/live").status_code == 404


def test_more_streams_than_the_limit_are_refused(file: str) -> None:
    limits = Limits(poll=0.02, streams=2)
    with (
        serving(file, graphs={"asking": asking_graph()}, write=True, limits=limits) as running,
        running.client() as client,
    ):
        client.post("/threads", json={"thread_id": "t"})
        path = "/milepost/threads/t/live"
        with listening(client, "GET", path) as one, listening(client, "GET", path) as two:
            until(one, "thread")
            until(two, "thread")
            assert client.get(path).status_code == 429
            body = {"graph_id": "asking", "input": {}}
            assert client.post("/milepost/threads/new/run", json=body).status_code == 429
            assert client.get("/threads/new").status_code == 404, "it has begun all the same"
        with running.client() as other:
            eventually(lambda: is_open(other, path))


def is_open(client: Any, path: str) -> bool:
    with client.stream("GET", path) as answer:
        return bool(answer.status_code == 200)


def test_a_server_that_stops_ends_its_streams(file: str) -> None:
    import httpx

    held = Held()
    with serving(file, graphs={"held": held.graph}, write=True, limits=FAST) as running:
        client = httpx.Client(base_url=running.url, headers=running.headers, timeout=20)
        client.post("/threads", json={"thread_id": "t"})
        stream = listening(client, "GET", "/milepost/threads/t/live")
        events = stream.__enter__()
        until(events, "thread")
    assert list(events) == []
    stream.__exit__(None, None, None)
    client.close()
