"""Imports from langgraph-checkpoint-redis from end to end: what can be done afterwards, the store,
damage, and servers that hold nothing of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from json_server import JsonServer
from libraries import MILEPOST
from moves import move_in, move_out
from stories import Log, thread
from test_redis_import import VERSIONS, recording

pytest.importorskip("langgraph.checkpoint.serde.jsonplus")
pytest.importorskip("redis")

from milepost.integrations.langgraph._moving.addresses import our_saver
from milepost.store.redis import RedisStore
from milepost.store.sqlite import SqliteStore
from redis_servers import DURABLE, started

ITEMS = {("users", "ann-1"): "k:1", ("a b", "c@d"): "two", ("users",): "ttl"}


@pytest.fixture(params=["sqlite", "redis"])
def ours(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/ours.db"
        return
    server = started(*DURABLE, tcp=True)
    yield f"redis://127.0.0.1:{server.port}/0"
    server.close()


def approval(lib: Any, saver: Any, ran: list[str]) -> Any:
    """The graph whose thread `ask:1` was recorded: it waits in a node and inside of a subgraph."""

    def says(name: str) -> Any:
        def node(_: Any) -> Any:
            ran.append(name)
            return {"log": [name]}

        return node

    def ask(_: Any) -> Any:
        return {"log": [lib.interrupt("first?"), lib.interrupt({"second": "?"})]}

    child = lib.StateGraph(Log).add_node("c1", says("c1")).add_node("inner", ask)
    child.add_edge(lib.START, "c1").add_edge("c1", "inner")
    builder = lib.StateGraph(Log).add_node("sub", child.compile()).add_node("side", says("side"))
    builder.add_node("ask", ask).add_node("item", says("item")).add_node("z", says("z"))
    sends = lambda _: [lib.Send("item", {"log": [one]}) for one in range(2)]  # noqa: E731
    builder.add_conditional_edges(lib.START, sends, ["item"])
    for name in ("sub", "side", "ask"):
        builder.add_edge("item", name)
    builder.add_edge(["sub", "side", "ask"], "z")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_an_interrupted_thread_goes_on_where_it_waited(version, ours):
    if version != VERSIONS[-1] and ours.startswith("redis"):
        pytest.skip("the target does not depend on the source's version")
    ran: list[str] = []
    with JsonServer(recording(version)["documents"]) as server:
        assert move_in(server.url, ours, "--thread", "ask:1") == 0
    with our_saver(ours) as saver:
        graph = approval(MILEPOST, saver, ran)
        for answer in ("A", "B"):
            questions = graph.get_state(thread("ask:1")).interrupts
            assert len(questions) == 2
            command = MILEPOST.Command(resume={one.id: answer for one in questions})
            result = graph.invoke(command, thread("ask:1"))
    assert sorted(ran) == ["z"]  # what had ended did not run again
    start = ["in", "item 0", "item 1"]
    assert sorted(result["log"]) == sorted([*start, *start, "A", "B", "A", "B", "c1", "side", "z"])


def test_an_interrupted_thread_of_langgraph_0_2_is_refused_with_the_reason(tmp_path, capsys):
    """As one from SQLite: its format does not say which node comes next."""
    with JsonServer(recording("0.0.1")["documents"]) as server:
        assert move_in(server.url, f"sqlite:///{tmp_path}/ours.db") == 1
    told = capsys.readouterr()
    assert "thread 'ask:1': it is of format 2 and waits in the middle" in told.err
    assert "7 threads:" in told.out


@pytest.mark.parametrize("version", VERSIONS)
def test_the_items_of_its_store_come_with_their_times(version, ours):
    if version != VERSIONS[-1] and ours.startswith("redis"):
        pytest.skip("the target does not depend on the source's version")
    told = recording(version)
    documents = {key: one for key, one in told["documents"].items() if key.startswith("store:")}
    now = int(time.time() * 1_000_000)
    for one in documents.values():
        one["created_at"], one["updated_at"] = now - 5_000_000, now - 5_000_000
    wanted = {
        (namespace, key): one["value"]
        for one in documents.values()
        for namespace, key in ITEMS.items()
        if one["key"] == key
    }
    with JsonServer(documents) as server:
        server.expiry = {key: 115_000 for key, one in documents.items() if one["key"] == "ttl"}
        assert move_in(server.url, ours) == 0
        assert move_in(server.url, ours) == 0
    kind: Any = RedisStore if ours.startswith("redis") else SqliteStore
    with kind.from_conn_string(ours.removeprefix("sqlite:///")) as store:
        items = {(one.namespace, one.key): one for one in store.search((), limit=100)}
        assert len(items) == len(documents)
        assert {place: items[place].value for place in wanted} == wanted
        for one in items.values():
            assert int(one.created_at.timestamp() * 1_000_000) in range(now - 5_000_002, now)
            assert one.created_at == one.updated_at
        if (("m",), "msg") in items:  # since 0.3 it can hold messages
            assert items[("m",), "msg"].value["m"].content == "hi"


def test_an_item_expires_when_it_would_have(ours):
    now = int(time.time() * 1_000_000)
    times = {"created_at": now, "updated_at": now}
    documents = {
        "store:1": {"prefix": "users", "key": "soon", "value": {"n": 1}, **times},
        "store:2": {"prefix": "users", "key": "never", "value": {"n": 2}, **times},
    }
    with JsonServer(documents) as server:
        server.expiry["store:1"] = 60_000
        assert move_in(server.url, ours) == 0
    clock = [time.time()]
    kind: Any = RedisStore if ours.startswith("redis") else SqliteStore
    with kind.from_conn_string(
        ours.removeprefix("sqlite:///"), clock=lambda: clock[0], ttl={"refresh_on_read": False}
    ) as store:
        clock[0] = now / 1_000_000 + 58
        assert store.get(("users",), "soon") is not None
        clock[0] = now / 1_000_000 + 62
        assert store.get(("users",), "soon") is None
        assert store.get(("users",), "never") is not None


# -- damage


def test_what_is_damaged_is_named_and_the_rest_is_copied(tmp_path, capsys):
    documents = recording("0.5.2")["documents"]
    of_chat = next(key for key in documents if key.startswith("checkpoint:chat:"))
    write = next(key for key in documents if key.startswith("checkpoint_write:odd:"))
    item = next(key for key in documents if key.startswith("store:"))
    documents[of_chat]["checkpoint"]["channel_values"] = 7
    documents[write]["blob"] = "{not json"
    documents[item]["created_at"] = "yesterday"
    documents["checkpoint:strange"] = {"thread_id": 7}
    documents["checkpoint:text"] = b"no document"
    documents["checkpoint_write:text"] = b"no document"
    ours = f"sqlite:///{tmp_path}/ours.db"
    with JsonServer(documents) as server:
        assert move_in(server.url, ours) == 1
    told = capsys.readouterr()
    assert "6 threads:" in told.out
    assert "3 store items" in told.out
    for reason in (
        "thread 'chat': its checkpoint",
        "thread 'odd': the stored text is not JSON",
        f"item at key '{item}'",
        "key 'checkpoint:strange': its document names no thread",
        "key 'checkpoint:text': it is no JSON document",
        "key 'checkpoint_write:text': it is no JSON document",
    ):
        assert f"not copied: {reason}" in told.err
    with our_saver(ours) as saver:
        assert saver.get_tuple(thread("chat")) is None
        assert saver.get_tuple(thread("number")) is not None


def test_a_type_of_the_program_is_refused_by_name(tmp_path, capsys):
    documents = recording("0.5.2")["documents"]
    name = {"lc": 2, "type": "constructor", "id": ["app", "state", "Plan"], "kwargs": {"n": 1}}
    for key, one in documents.items():
        if key.startswith("checkpoint:true:"):
            one["checkpoint"]["channel_values"]["data"] = name
    with JsonServer(documents) as server:
        assert move_in(server.url, f"sqlite:///{tmp_path}/o.db", "--thread", "true") == 1
    assert "app.state.Plan is not registered; allow it with --types" in capsys.readouterr().err


def test_a_value_that_has_only_a_document_of_its_own_is_read_from_there(tmp_path):
    documents = recording("0.0.8")["documents"]
    for key, one in documents.items():
        if key.startswith("checkpoint:odd:"):
            one["checkpoint"]["channel_values"].pop("messages", None)
    ours = f"sqlite:///{tmp_path}/ours.db"
    with JsonServer(documents) as server:
        assert move_in(server.url, ours, "--thread", "odd") == 0
    with our_saver(ours) as saver:
        found = saver.get_tuple(thread("odd"))
        assert [one.content for one in found.checkpoint["channel_values"]["messages"]] == [
            "answer 0",
            "done",
        ]


# -- addresses


def test_prefixes_that_a_program_has_chosen_are_named_in_the_address(tmp_path, capsys):
    prefixes = {"checkpoint": "app*cp", "checkpoint_write": "app_w", "store": "app_items"}
    documents = {}
    for key, one in recording("0.5.2")["documents"].items():
        prefix, _, rest = key.partition(":")
        documents[f"{prefixes[prefix]}:{rest}"] = one
    documents["appXcp:other"] = {"thread_id": 7}
    with JsonServer(documents) as server:
        ours = f"sqlite:///{tmp_path}/ours.db"
        assert move_in(server.url, ours) != 0
        assert "checkpoint_prefix" in capsys.readouterr().err
        names = "checkpoint_prefix=app*cp&checkpoint_write_prefix=app_w&store_prefix=app_items"
        assert move_in(f"{server.url}?{names}", ours) == 0
    told = capsys.readouterr().out
    assert "8 threads" in told
    assert "4 store items" in told


def test_a_server_without_the_module_or_without_threads_says_so(tmp_path, capsys):
    ours = f"sqlite:///{tmp_path}/ours.db"
    server = started(tcp=True)
    url = f"redis://127.0.0.1:{server.port}/0"
    try:
        assert move_in(url, ours) != 0
        assert "No key begins with 'checkpoint:'" in capsys.readouterr().err
        with server.client() as client:
            client.set("checkpoint:1", "x")
        assert move_in(url, ours) != 0
        assert "does not know JSON.GET" in capsys.readouterr().err
    finally:
        server.close()
    assert move_in(url, ours) != 0
    told = capsys.readouterr().err
    assert "The database says" in told
    assert "Traceback" not in told


def test_an_export_neither_reads_nor_writes_redis(tmp_path, capsys):
    for ours, theirs in (("redis://h/0", "sqlite:///x.db"), ("sqlite:///x.db", "redis://h/0")):
        file = f"{tmp_path}/x.db"
        Path(file).touch()
        assert move_out(ours.replace("x.db", file), theirs.replace("x.db", file)) != 0
        assert "'redis://h/0' names no database that this can use" in capsys.readouterr().err
