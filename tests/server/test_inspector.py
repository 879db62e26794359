"""The page's own routes: log, state, differences, authorship, sizes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from serving import Chat, State, asking_graph, chatting_graph, on, serving

from milepost.graph import START, StateGraph
from milepost.inspect import Database, attached, open_database
from milepost.server import create_app
from milepost.server._json import encode

LARGE = "x" * 300_000
HOSTILE = "</script><img src=x onerror=alert(1)>\u2028\x1b[31m"


def fill(database: Database) -> None:
    """Threads that wait, were forked, have inner graphs, large values and hostile names."""
    asking = attached(asking_graph(), database)
    asking.invoke({"log": ["in"]}, on("asked"))
    forked = on("forked")
    asking.invoke({"log": ["in"]}, forked)
    before = list(asking.get_state_history(forked))[1].config
    asking.update_state(before, {"log": ["other"]}, as_node="plan")
    said = {"messages": [{"role": "user", "content": "hi"}]}
    asyncio.run(attached(chatting_graph(), database).ainvoke(said, on("chat")))
    growing = attached(growing_graph(), database)
    growing.invoke({"log": ["small", LARGE]}, on("large"))
    growing.invoke({"log": [HOSTILE]}, on(HOSTILE))
    database.saver.threads.create("asked", {"owner": "ann"})  # type: ignore[attr-defined]


def growing_graph() -> Any:
    builder = StateGraph(State)
    builder.add_node("grow", lambda state: {"log": ["grown"]})
    builder.add_edge(START, "grow")
    return builder.compile()


@pytest.fixture(scope="module")
def filled(address: str) -> str:
    with open_database(address, write=True) as database:
        fill(database)
    return address


@pytest.fixture(scope="module")
def client(filled: str) -> Iterator[Any]:
    """A client of a server without graphs, that only reads."""
    with serving(filled) as running, running.client() as made:
        yield made


@pytest.fixture(scope="module")
def with_graph(filled: str) -> Iterator[Any]:
    """A client of a server that knows the graphs of the threads."""
    with serving(filled, graphs={"asking": asking_graph()}) as running, running.client() as made:
        yield made


def got(client: Any, route: str, **params: Any) -> Any:
    answer = client.get(f"/milepost/{route}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_info_says_what_is_looked_at_without_a_password(client: Any, filled: str) -> None:
    info = got(client, "info")
    assert info["write"] is False
    assert info["graphs"] == []
    assert info["store"] is True
    assert info["database"]["flavour"] == "milepost"
    assert info["database"]["kind"] in ("sqlite", "postgres")


def test_threads_are_listed_by_activity_searched_and_paged(client: Any) -> None:
    listed = got(client, "threads")
    assert listed["total"] == 5
    assert {row["thread_id"] for row in listed["threads"]} == {
        "asked",
        "forked",
        "chat",
        "large",
        HOSTILE,
    }
    times = [row["updated_at"] for row in listed["threads"]]
    assert times == sorted(times, reverse=True)
    found = got(client, "threads", search="ork")
    assert [row["thread_id"] for row in found["threads"]] == ["forked"]
    waiting = got(client, "threads", status="interrupted", sort="thread_id", order="desc")
    assert [row["thread_id"] for row in waiting["threads"]][-1] == "asked"
    assert got(client, "threads", unfinished=True)["total"] == waiting["total"]
    owned = got(client, "threads", metadata=json.dumps({"owner": "ann"}))
    assert [row["thread_id"] for row in owned["threads"]] == ["asked"]
    page = got(client, "threads", sort="thread_id", limit=2, offset=1)
    assert (len(page["threads"]), page["total"]) == (2, 5)
    assert got(client, "threads/asked")["checkpoints"] == 3


def test_a_log_has_forks_and_comes_in_pages(client: Any) -> None:
    whole = got(client, "threads/forked/log")
    entries = whole["entries"]
    assert whole["more"] is False
    parents = [entry["parent_id"] for entry in entries]
    assert len(parents) != len(set(parents)), "two have the same parent"
    assert entries[0]["source"] == "update"
    assert entries[-1]["writes"] == {"__start__": ["log"]}
    first = got(client, "threads/forked/log", limit=2)
    assert (first["entries"], first["more"]) == (entries[:2], True)
    rest = got(client, "threads/forked/log", before=entries[1]["checkpoint_id"], limit=100)
    assert rest == {"entries": entries[2:], "more": False}


def test_a_log_says_what_waits(client: Any) -> None:
    newest = got(client, "threads/asked/log")["entries"][0]
    (task,) = newest["tasks"]
    assert (task["name"], newest["next"]) == ("ask", ["ask"])
    assert task["interrupts"][0]["value"] == {"question": "Go on?"}


def test_inner_graphs_have_logs_and_states_of_their_own(client: Any) -> None:
    outer, inner = got(client, "threads/chat/namespaces")["namespaces"]
    assert outer == ""
    assert inner.startswith("inner:")
    entries = got(client, "threads/chat/log", checkpoint_ns=inner)["entries"]
    assert entries[0]["writes"] == {"speak": ["messages"]}
    state = got(client, "threads/chat/state", checkpoint_ns=inner)
    assert [one["type"] for one in state["values"]["messages"]] == ["human", "ai"]


def test_a_large_value_is_left_out_until_it_is_asked_for(client: Any) -> None:
    answer = client.get("/milepost/threads/large/state")
    assert len(answer.content) < 20_000
    log = answer.json()["values"]["log"]
    assert log[0] == "small"
    assert log[1]["$more"] > 300_000
    whole = got(client, "threads/large/state", path=json.dumps(log[1]["path"]), limit=1_000_000)
    assert whole["values"] == LARGE
    changes = client.get("/milepost/threads/large/changes", params={"checkpoint_id": ""})
    assert len(changes.content) < 20_000
    blamed = client.get("/milepost/threads/large/blame", params={"path": '["log"]'})
    assert len(blamed.content) < 20_000
    assert [part["nodes"] for part in blamed.json()["parts"]][-1] == ["grow"]


def test_a_state_is_that_of_its_checkpoint(client: Any) -> None:
    entries = got(client, "threads/forked/log")["entries"]
    first = got(client, "threads/forked/state", checkpoint_id=entries[-2]["checkpoint_id"])
    assert first["values"] == {"log": ["in"]}
    assert got(client, "threads/forked/state")["values"] == {"log": ["in", "other"]}


def test_changes_of_a_step_and_between_any_two(client: Any) -> None:
    entries = got(client, "threads/forked/log")["entries"]
    added = {"path": ["log", 1], "kind": "added", "before": None, "after": "other", "lines": None}
    step = got(client, "threads/forked/changes", checkpoint_id=entries[0]["checkpoint_id"])
    assert step["changes"] == [added]
    other = got(client, "diff", a=f"forked@{entries[1]['checkpoint_id']}", b="forked")
    assert [change["path"] for change in other["changes"]] == [["log", 1]]
    threads = got(client, "diff", a="asked", b="forked")
    assert threads["changes"][0]["after"] == "other"
    start = got(client, "threads/forked/changes", checkpoint_id=entries[-1]["checkpoint_id"])
    assert all(change["kind"] == "added" for change in start["changes"])


def test_parts_of_a_value_have_authors(client: Any) -> None:
    parts = got(client, "threads/asked/blame", path='["log"]')["parts"]
    assert [(part["value"], part["nodes"]) for part in parts] == [
        ("in", ["__start__"]),
        ("planned", ["plan"]),
    ]


def test_sizes_are_told_for_all_and_for_one(client: Any) -> None:
    every, one = got(client, "stats"), got(client, "stats", thread_id="large")
    assert every["threads"] == 5
    assert 300_000 < one["bytes"] < every["bytes"]
    assert every["largest"][0]["thread_id"] == "large"


def test_a_graph_is_drawn_with_kinds(with_graph: Any) -> None:
    drawn = got(with_graph, "graphs/asking")
    assert [(node["id"], node["kind"]) for node in drawn["nodes"]] == [
        ("__start__", "start"),
        ("plan", "node"),
        ("ask", "node"),
        ("__end__", "end"),
    ]
    assert drawn["edges"][0].keys() == {"source", "target", "conditional", "label"}
    assert with_graph.get("/milepost/graphs/nothing").status_code == 404
    said = with_graph.get("/threads/t/runs").json()["detail"]
    assert "POST /milepost/threads/{id}/run runs a graph" in said


def test_a_state_read_without_its_graph_is_the_same(client: Any, with_graph: Any) -> None:
    for thread_id in ("asked", "forked"):
        without = client.get(f"/threads/{thread_id}/state").json()
        known = with_graph.get(f"/threads/{thread_id}/state").json()
        for field in (
            "values",
            "next",
            "checkpoint",
            "parent_checkpoint",
            "interrupts",
            "metadata",
        ):
            assert without[field] == known[field], field
        assert [task["id"] for task in without["tasks"]] == [task["id"] for task in known["tasks"]]
        history = client.get(f"/threads/{thread_id}/history").json()
        theirs = with_graph.get(f"/threads/{thread_id}/history").json()
        # Before the first step only the graph knows that a list is empty.
        assert [one["values"] for one in history[:-1]] == [one["values"] for one in theirs[:-1]]
        assert [one["next"] for one in history] == [one["next"] for one in theirs]


def test_messages_are_dictionaries_that_a_client_can_send_back(client: Any) -> None:
    values = client.get("/threads/chat/state").json()["values"]
    human, ai = values["messages"]
    assert (human["type"], human["content"]) == ("human", "hi")
    assert (ai["type"], ai["content"]) == ("ai", "one two three")
    from milepost.graph import add_messages

    assert [message.content for message in add_messages([], values["messages"])] == [
        "hi",
        "one two three",
    ]


def test_hostile_names_and_values_are_json_and_nothing_else(client: Any) -> None:
    name = quote(HOSTILE, safe="")
    for path in (f"threads/{name}/state", f"threads/{name}/log", "threads", f"threads/{name}x"):
        answer = client.get(f"/milepost/{path}")
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
    state = got(client, f"threads/{name}/state")
    assert state["thread_id"] == HOSTILE
    assert state["values"]["log"][0] == HOSTILE


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("threads/nothing/log", 404),
        ("threads/nothing/state", 404),
        ("threads/nothing/namespaces", 404),
        ("threads/nothing", 404),
        ("threads/asked/state?checkpoint_id=nothing", 404),
        ("threads/asked/log?checkpoint_ns=nothing", 404),
        ("threads/asked/blame?path=%5B%22nokey%22%5D", 404),
        ("threads/asked/blame?path=%5B%5D", 422),
        ("threads/asked/blame", 422),
        ("threads/asked/state?path=log", 422),
        ("threads/asked/state?path=%7B%7D", 422),
        ("threads/asked/state?path=%5Btrue%5D", 422),
        ("threads/asked/log?limit=0", 422),
        ("threads/asked/log?limit=x", 422),
        ("threads?status=busy", 422),
        ("threads?metadata=%5B%5D", 422),
        ("threads?metadata=x", 422),
        ("threads?offset=-1", 422),
        ("diff?a=asked", 422),
        ("diff?a=%40&b=asked", 422),
        ("diff?a=nothing&b=asked", 404),
        ("stats?thread_id=nothing", 404),
        ("threads/%FF/log", 422),
        ("threads/a%00b/log", 404),
    ],
)
def test_wrong_input_is_named(client: Any, path: str, status: int) -> None:
    answer = client.get(f"/milepost/{path}")
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]


def test_a_history_that_is_too_large_for_one_answer_is_refused(filled: str) -> None:
    from milepost.server import Limits

    with serving(filled, limits=Limits(answer=100_000)) as running, running.client() as client:
        assert client.get("/threads/large/history").status_code == 422
        assert client.post("/threads/search", json={}).status_code == 422
        assert client.post("/threads/search", json={"select": ["status"]}).status_code == 200
        small = client.post("/threads/large/history", json={"select": ["next"], "limit": 2})
        assert small.status_code == 200
        assert small.json()[0] == {"next": []}


def test_a_search_that_looks_into_too_many_threads_is_refused(filled: str) -> None:
    from milepost.server import Limits

    with serving(filled, limits=Limits(scanned=3)) as running, running.client() as client:
        answer = client.post("/threads/search", json={"values": {"log": ["in"]}})
        assert answer.status_code == 422
        assert "metadata" in answer.json()["detail"]
        assert client.post("/threads/search", json={}).status_code == 200


def test_a_database_of_langgraph_is_read_and_not_written(tmp_path: Any, monkeypatch: Any) -> None:
    from langgraph.checkpoint.sqlite import SqliteSaver as TheirSaver
    from langgraph.graph import StateGraph as TheirStateGraph

    from milepost.inspect import ReadOnlyError, Ref, show

    file = str(tmp_path / "theirs.db")
    builder = TheirStateGraph(Chat)
    builder.add_node("speak", lambda state: {"messages": [("ai", "hello")]})
    builder.add_edge("__start__", "speak")
    with TheirSaver.from_conn_string(file) as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": [("user", "hi")]}, on("theirs"))
    with serving(file) as running, running.client() as client:
        assert got(client, "info")["database"]["flavour"] == "langgraph"
        assert got(client, "threads")["total"] == 1
        assert got(client, "threads/theirs/log")["entries"][0]["writes"] == {"speak": ["messages"]}
        state = client.get("/threads/theirs/state").json()
        assert [one["content"] for one in state["values"]["messages"]] == ["hi", "hello"]
        assert len(client.get("/threads/theirs/history").json()) == 3
        assert client.post("/threads/search", json={}).json()[0]["thread_id"] == "theirs"
    opened: list[Any] = []

    def opening(*given: Any, **options: Any) -> Any:
        opened.append(open_database(*given, **options))
        return opened[-1]

    monkeypatch.setattr("milepost.server._app.open_database", opening)
    with pytest.raises(ReadOnlyError):
        create_app(file, token=None, write=True)
    with pytest.raises(Exception, match="closed"):
        show(opened[0], Ref("theirs"))


def test_a_server_that_writes_needs_a_database_that_may_be_written(filled: str) -> None:
    from milepost.inspect import ReadOnlyError

    with open_database(filled) as database, pytest.raises(ReadOnlyError):
        serving(database, write=True).__enter__()


def test_half_of_a_surrogate_pair_is_sent_as_a_question_mark() -> None:
    assert encode({"a\ud800": ["x\udfffé\n"]}).decode() == '{"a?":["x?é\\n"]}'
