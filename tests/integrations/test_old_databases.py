"""Databases that LangGraph wrote long ago, or sealed, or that are no longer whole."""

import operator
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from libraries import LANGGRAPH, MILEPOST
from moves import move_in, move_out
from stories import line, says, thread
from test_moving import Approval, answers

from milepost._db.addresses import sqlite_file
from milepost.integrations.langgraph._moving.addresses import our_saver, their_saver

pytest.importorskip("langgraph.checkpoint.sqlite")


# -- formats


def test_sends_of_an_older_format_are_found_among_the_writes_of_the_parent(addresses):
    """Version 3 kept them there; the checkpoint itself says nothing of them."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.types import Send

    theirs, ours = addresses
    first, second = empty_checkpoint(), empty_checkpoint()
    with their_saver(theirs) as saver:
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        first |= {"v": 3, "channel_versions": {"__start__": "1.0"}}
        above = saver.put(config, first, {"source": "input", "step": -1, "parents": {}}, {})
        saver.put_writes(above, [("__pregel_tasks", Send("square", {"n": 5}))], "task")
        second |= {
            "v": 3,
            "channel_values": {"log": []},
            "channel_versions": {"__start__": "2.0", "log": "2.0"},
        }
        saver.put(above, second, {"source": "loop", "step": 0, "parents": {}}, {})
    move_in(theirs, ours)

    def square(arg: Any) -> Any:
        return {"log": [arg["n"] ** 2]}

    with our_saver(ours) as saver:
        graph = line(MILEPOST, square).compile(checkpointer=saver)
        assert graph.get_state(thread()).next == ("square",)
        assert graph.invoke(None, thread()) == {"log": [25]}


def test_pickle_is_refused(files, capsys):
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver as TheirSqliteSaver

    theirs, ours = files
    connection = sqlite3.connect(theirs.removeprefix("sqlite:///"), check_same_thread=False)
    saver = TheirSqliteSaver(connection, serde=JsonPlusSerializer(pickle_fallback=True))
    keep = ("keep", lambda state: {"log": [operator.add]})
    line(LANGGRAPH, keep).compile(checkpointer=saver).invoke({"log": []}, thread())
    connection.close()
    assert move_in(theirs, ours) == 1
    assert "is pickle, which can run code" in capsys.readouterr().err


def test_edges_of_an_older_format_get_todays_channels():
    from milepost.integrations.langgraph._formats.old_checkpoints import Edges, upgraded

    old = {
        "v": 1,
        "id": "i",
        "ts": "t",
        "channel_values": {"start:a": "__start__", "branch:a:cond:b": "a", "log": [1]},
        "channel_versions": {"start:a": 2, "branch:a:cond:b": 3, "branch:c:cond:b": 4, "log": 1},
        "versions_seen": {"b": {"branch:a:cond:b": 3}},
        "pending_sends": [MILEPOST.Send("b", 1)],
    }
    new = upgraded(old, Edges(), list)
    assert new["v"] == 4
    assert new["channel_values"] == {
        "branch:to:a": "__start__",
        "branch:to:b": "a",
        "log": [1],
        "__pregel_tasks": [MILEPOST.Send("b", 1)],
    }
    assert new["channel_versions"] == {
        "branch:to:a": f"{2:032}.0",
        "branch:to:b": f"{4:032}.0",
        "log": f"{1:032}.0",
        "__pregel_tasks": f"{4:032}.0",
    }
    assert new["versions_seen"] == {"b": {"branch:to:b": f"{3:032}.0"}}
    assert "pending_sends" not in new


def test_json_of_an_older_format_is_read_under_the_same_rules():
    import json

    from milepost.errors import UnregisteredTypeError
    from milepost.integrations.langgraph._formats.decoding import StrictSerializer

    def stored(*id: str, **kwargs: Any) -> tuple[str, bytes]:
        content = {"lc": 2, "type": "constructor", "id": list(id), "kwargs": kwargs}
        return "json", json.dumps({"x": [content]}).encode()

    serde = StrictSerializer()
    read = serde.loads_typed(stored("langchain_core", "messages", "ai", "AIMessage", content="hi"))
    assert read["x"][0].content == "hi"
    assert serde.loads_typed(stored("langgraph", "types", "Send", node="a", arg=1)) == {
        "x": [MILEPOST.Send("a", 1)]
    }
    with pytest.raises(UnregisteredTypeError, match=r"the stored type os\.system"):
        serde.loads_typed(stored("os", "system", command="true"))


def test_nothing_is_imported_because_the_database_names_it():
    import sys

    import ormsgpack

    from milepost.errors import UnregisteredTypeError
    from milepost.integrations.langgraph._formats.decoding import StrictSerializer

    inside = ormsgpack.packb(("antigravity", "geohash", [1]))
    body = ormsgpack.packb(ormsgpack.Ext(1, inside))
    with pytest.raises(UnregisteredTypeError, match=r"antigravity\.geohash"):
        StrictSerializer().loads_typed(("msgpack", body))
    assert "antigravity" not in sys.modules


def test_a_short_text_that_has_many_members_is_not_iterated_over():
    """An IP network is one; a small one, so that this ends in any case."""
    import json

    import ormsgpack
    from ormsgpack import Ext

    from milepost.errors import DeserializationError
    from milepost.integrations.langgraph._formats.decoding import StrictSerializer

    serde = StrictSerializer()
    network = Ext(0, ormsgpack.packb(("ipaddress", "IPv4Network", "10.0.0.0/30")))
    assert serde.loads_typed(("msgpack", ormsgpack.packb(network))).num_addresses == 4
    kinds = [
        ("builtins", "set"),
        ("builtins", "frozenset"),
        ("builtins", "tuple"),
        ("collections", "deque"),
    ]
    hostile = [
        *(Ext(0, ormsgpack.packb((*kind, network))) for kind in kinds),
        Ext(1, ormsgpack.packb(("datetime", "timedelta", network))),
        *(Ext(code, ormsgpack.packb(network)) for code in range(7)),
        Ext(6, ormsgpack.packb(("<i4", network, "C", b"\0" * 16))),
    ]
    for stored in hostile:
        with pytest.raises(DeserializationError):
            serde.loads_typed(("msgpack", ormsgpack.packb(stored)))
    made = {
        "lc": 2,
        "type": "constructor",
        "id": ["ipaddress", "IPv4Network"],
        "args": ["10.0.0.0/30"],
    }
    for older in (
        {**made, "id": made},
        {**made, "args": made},
        {**made, "id": ["builtins", "set"], "args": [made]},
    ):
        with pytest.raises(DeserializationError):
            serde.loads_typed(("json", json.dumps(older).encode()))


class Older:
    """Writes the checkpoints of a graph START -> a -> b as the first formats had them.

    Every kind of edge had a channel of its own, and versions were plain numbers.
    """

    def __init__(self, saver: Any, v: int) -> None:
        self.saver = saver
        self.v = v
        self.at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        self.step = -2
        self.log: list[str] = []
        self.versions: dict[str, int] = {}
        self.seen: dict[str, dict[str, int]] = {"__input__": {}}

    def after(self, node: str, triggered_by: str | None, *writes: str) -> None:
        """The checkpoint that followed a step."""
        from langgraph.checkpoint.base import empty_checkpoint

        if triggered_by is not None:
            self.seen[node] = {triggered_by: self.versions[triggered_by]}
        new = max(self.versions.values(), default=0) + 1
        self.versions |= {name: new for name in (*writes, triggered_by) if name is not None}
        self.step += 1
        if node in "ab":
            self.log = [*self.log, node]
        checkpoint = empty_checkpoint() | {
            "v": self.v,
            "channel_values": {
                **({"log": self.log} if "log" in self.versions else {}),
                **{name: node for name in writes if name != "log"},
            },
            "channel_versions": dict(self.versions),
            "versions_seen": {name: dict(those) for name, those in self.seen.items()},
            "pending_sends": [],
        }
        source = "input" if node == "input" else "loop"
        metadata = {"source": source, "step": self.step, "parents": {}, "writes": None}
        self.at = self.saver.put(self.at, checkpoint, metadata, {})

    def until_a(self) -> None:
        """A run that has come as far as a."""
        self.after("input", None, "__start__")
        self.after("__start__", "__start__", "log", "start:a")
        self.after("a", "start:a", "log", "a")

    def waits(self) -> None:
        from langgraph.types import Interrupt

        self.saver.put_writes(self.at, [("__interrupt__", [Interrupt("b?", id="i")])], "some-task")


def asking(lib: Any) -> Any:
    def b(state: Any) -> Any:
        return {"log": [lib.interrupt("b?")]}

    return line(lib, says("a"), b)


@pytest.mark.parametrize("v", [1, 2])
def test_a_thread_with_edges_of_an_older_format_goes_on(v, files):
    theirs, ours = files
    with their_saver(theirs) as saver:
        old = Older(saver, v)
        old.until_a()
        old.after("b", "a", "log", "b")
    assert move_in(theirs, ours) == 0
    with our_saver(ours) as saver:
        graph = line(MILEPOST, says("a"), says("b")).compile(checkpointer=saver)
        history = list(graph.get_state_history(thread()))
        assert [s.next for s in history] == [(), ("b",), ("a",), ("__start__",)]
        assert graph.invoke({"log": []}, thread()) == {"log": ["a", "b", "a", "b"]}


@pytest.mark.parametrize("v", [1, 2])
def test_a_thread_of_an_older_format_that_waits_is_asked_again(v, files, capsys):
    """LangGraph itself does not find the tasks of these formats any more, either."""
    theirs, ours = files
    with their_saver(theirs) as saver:
        old = Older(saver, v)
        old.until_a()
        old.after("b", "a", "log", "b")
        old.until_a()
        old.waits()
    assert move_in(theirs, ours) == 0
    assert "1 finished tasks" in capsys.readouterr().out
    with our_saver(ours) as saver:
        graph = asking(MILEPOST).compile(checkpointer=saver)
        assert graph.get_state(thread()).next == ("b",)
        assert graph.invoke(None, thread())["__interrupt__"][0].value == "b?"
        assert graph.invoke(MILEPOST.Command(resume="B"), thread())["log"][-2:] == ["a", "B"]


def test_a_thread_that_waits_at_an_edge_which_is_not_stored_is_named(files, capsys):
    theirs, ours = files
    with their_saver(theirs) as saver:
        old = Older(saver, 2)
        old.until_a()
        old.waits()
    assert move_in(theirs, ours) == 1
    said = capsys.readouterr().err
    assert "not copied: thread 't': it is of format 2 and waits in the middle of its first" in said
    assert "which node comes after a is not stored there" in said
    with our_saver(ours) as saver:
        assert list(saver.list_threads()) == []


def run_sql(address: str, statement: str) -> None:
    if (file := sqlite_file(address)) is not None:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(statement)
        connection.close()
        return
    import psycopg

    with psycopg.connect(address) as connection:
        connection.execute(statement)


def test_a_thread_interrupted_before_paths_were_stored_is_resumed(addresses):
    theirs, ours = addresses
    flow = Approval()
    with their_saver(theirs) as saver:
        graph = flow.build(LANGGRAPH, saver)
        graph.invoke({"log": ["in"]}, thread())
    table = "writes" if sqlite_file(theirs) else "checkpoint_writes"
    run_sql(theirs, f"ALTER TABLE {table} DROP COLUMN task_path")
    assert move_in(theirs, ours) == 0
    flow.ran.clear()
    with our_saver(ours) as saver:
        graph = flow.build(MILEPOST, saver)
        snapshot = graph.get_state(thread())
        assert [question.value for question in snapshot.interrupts] == ["first?", "first?"]
        graph.invoke(answers(MILEPOST, snapshot, "A"), thread())
    assert sorted(flow.ran) == ["ask", "ask"]
    with pytest.raises(Exception, match="task_path"):  # the source is as it was
        run_sql(theirs, f"SELECT task_path FROM {table}")


def test_a_database_older_than_namespaces_is_named(files, capsys):
    theirs, ours = files
    run_sql(theirs, "CREATE TABLE checkpoints (thread_id TEXT, thread_ts TEXT, checkpoint BLOB)")
    assert move_in(theirs, ours) == 4
    assert "older than LangGraph 0.2" in capsys.readouterr().err


def test_items_from_before_there_were_times_to_live_are_copied(addresses, capsys):
    theirs, ours = addresses
    run_sql(
        theirs,
        "CREATE TABLE store (prefix TEXT, key TEXT, value TEXT, created_at TEXT, updated_at TEXT)",
    )
    moment = "2024-10-01 12:00:00"
    values = f"('notes', 'a', '{{\"n\": 1}}', '{moment}', '{moment}')"
    run_sql(theirs, f"INSERT INTO store VALUES {values}")
    assert move_in(theirs, ours) == 0
    assert "1 store items copied" in capsys.readouterr().out


def test_a_database_that_holds_neither_threads_nor_items_is_named(files, capsys):
    theirs, ours = files
    run_sql(theirs, "CREATE TABLE notes (text TEXT)")
    assert move_in(theirs, ours) == 4
    assert "Is it the right database?" in capsys.readouterr().err


def test_a_database_of_milepost_is_not_taken_for_langgraphs(files, capsys):
    _, ours = files
    with our_saver(ours) as saver:
        line(MILEPOST, says("a")).compile(checkpointer=saver).invoke({"log": []}, thread())
    assert move_in(ours, f"{ours}.new") == 4
    assert "holds threads of milepost" in capsys.readouterr().err
    assert move_in(ours, ours) == 4


def test_a_database_of_langgraph_is_not_written_to(files, capsys):
    theirs, _ = files
    with their_saver(theirs) as saver:
        line(LANGGRAPH, says("a")).compile(checkpointer=saver).invoke({"log": []}, thread())
    assert move_in(theirs, theirs) == 1
    assert "holds checkpoints of LangGraph" in capsys.readouterr().err


def test_a_file_that_is_no_database_is_named(files, tmp_path, capsys):
    theirs, ours = files
    tmp_path.joinpath("theirs.db").write_text("this is a letter to my aunt, not a database" * 50)
    assert move_in(theirs, ours) == 4
    assert "not a database" in capsys.readouterr().err


def test_a_row_that_is_broken_is_named_and_the_others_are_copied(files, capsys):
    theirs, ours = files
    with their_saver(theirs) as saver:
        graph = line(LANGGRAPH, says("a")).compile(checkpointer=saver)
        for name in ("good", "bad", "worse"):
            graph.invoke({"log": []}, thread(name))
    run_sql(theirs, "UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = 'bad'")
    run_sql(theirs, "UPDATE checkpoints SET metadata = '{' WHERE thread_id = 'worse'")
    assert move_in(theirs, ours) == 1
    said = capsys.readouterr()
    assert "1 threads:" in said.out
    assert "not copied: thread 'bad': the stored bytes do not decode" in said.err
    assert "not copied: thread 'worse': its checkpoint" in said.err


# -- sealed values


KEY = "0123456789abcdef"


def sealed_thread(address: str) -> None:
    with their_saver(address, encrypted=True) as saver:
        asking(LANGGRAPH).compile(checkpointer=saver).invoke({"log": ["secret words"]}, thread())


def test_a_sealed_database_is_moved_sealed_and_back(addresses, monkeypatch, tmp_path):
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    monkeypatch.setenv("MILEPOST_AES_KEY", KEY[::-1])
    theirs, ours = addresses
    sealed_thread(theirs)
    assert move_in(theirs, ours, "--encrypted") == 0
    with our_saver(ours, encrypted=True) as saver:
        graph = asking(MILEPOST).compile(checkpointer=saver)
        assert graph.get_state(thread()).interrupts[0].value == "b?"
        result = graph.invoke(MILEPOST.Command(resume="B"), thread())
        assert result["log"] == ["secret words", "a", "B"]
    if (file := sqlite_file(ours)) is not None:
        with open(file, "rb") as stored:
            assert b"secret words" not in stored.read()
    back = f"sqlite:///{tmp_path}/back.db"
    assert move_out(ours, back, "--encrypted") == 0
    with open(sqlite_file(back), "rb") as stored:
        assert b"secret words" not in stored.read()
    with their_saver(back, encrypted=True) as saver:
        graph = asking(LANGGRAPH).compile(checkpointer=saver)
        assert graph.get_state(thread()).values["log"] == ["secret words", "a", "B"]


def test_sealed_values_are_named_and_the_way_to_open_them(files, monkeypatch, capsys):
    theirs, ours = files
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    sealed_thread(theirs)
    assert move_in(theirs, ours) == 1
    said = capsys.readouterr().err
    assert "it is encrypted: set LANGGRAPH_AES_KEY to its key and pass --encrypted" in said


def test_a_wrong_key_is_said(files, monkeypatch, capsys):
    theirs, ours = files
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    sealed_thread(theirs)
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY[::-1])
    assert move_in(theirs, ours, "--encrypted") == 1
    assert "does not open with the key in LANGGRAPH_AES_KEY" in capsys.readouterr().err


def test_a_missing_key_is_said(files, monkeypatch, capsys):
    theirs, ours = files
    with their_saver(theirs) as saver:
        asking(LANGGRAPH).compile(checkpointer=saver).invoke({"log": []}, thread())
    monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)
    assert move_in(theirs, ours, "--encrypted") == 1
    assert "LANGGRAPH_AES_KEY environment variable is not set" in capsys.readouterr().err


def test_a_cipher_of_a_programs_own_is_named(files, monkeypatch, capsys):
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    class Rot:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "rot", bytes((byte + 1) % 256 for byte in plaintext)

    theirs, ours = files
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    with their_saver(theirs) as saver:
        saver.serde = EncryptedSerializer(Rot())
        saver.put(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ""}},
            {
                "v": 4,
                "id": "1f1e1403-16ff-6b3c-bfff-216f097767f2",
                "ts": "2026-01-01T00:00:00+00:00",
                "channel_values": {},
                "channel_versions": {},
                "versions_seen": {},
            },
            {"source": "input", "step": -1, "parents": {}},
            {},
        )
    assert move_in(theirs, ours, "--encrypted") == 1
    assert "the cipher 'rot', which is a program's own" in capsys.readouterr().err
