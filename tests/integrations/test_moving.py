"""LangGraph's databases, moved to milepost and back."""

import importlib
import sys
from typing import Annotated, Any

import pytest
import stories
from libraries import LANGGRAPH, MILEPOST
from moves import move_in, move_out
from stories import Log, line, says, squares, thread
from typing_extensions import TypedDict

from milepost.integrations.langgraph._moving.addresses import our_saver, their_items, their_saver
from milepost.integrations.langgraph._moving.items import StoredItem

pytest.importorskip("langgraph.checkpoint.sqlite")


class Approval:
    """A graph that waits in three ways at once: inside a subgraph, in a node, and for a join."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def build(self, lib: Any, saver: Any) -> Any:
        def noting(name: str) -> Any:
            def node(state: Any) -> Any:
                self.ran.append(name)
                return {"log": [name]}

            return node

        def ask(state: Any) -> Any:
            self.ran.append("ask")
            return {"log": [lib.interrupt("first?"), lib.interrupt("second?")]}

        child = line(lib, ("c1", noting("c1")), ("inner", ask), ("c3", noting("c3"))).compile()
        builder = lib.StateGraph(Log)
        builder.add_node("sub", child)
        builder.add_node("side", noting("side"))
        builder.add_node("ask", ask)
        builder.add_node("z", noting("z"))
        for name in ("sub", "side", "ask"):
            builder.add_edge(lib.START, name)
        builder.add_edge(["sub", "side", "ask"], "z")
        return builder.compile(checkpointer=saver)


def answers(lib: Any, snapshot: Any, value: str) -> Any:
    return lib.Command(resume={question.id: value for question in snapshot.interrupts})


def test_a_thread_interrupted_in_langgraph_is_resumed_in_milepost(addresses, capsys):
    theirs, ours = addresses
    flow = Approval()
    with their_saver(theirs) as saver:
        graph = flow.build(LANGGRAPH, saver)
        graph.invoke({"log": ["in"]}, thread())
        graph.invoke(answers(LANGGRAPH, graph.get_state(thread()), "A"), thread())
    assert move_in(theirs, ours) == 0
    assert "1 threads: 5 checkpoints" in capsys.readouterr().out
    flow.ran.clear()
    with our_saver(ours) as saver:
        graph = flow.build(MILEPOST, saver)
        snapshot = graph.get_state(thread())
        assert snapshot.next == ("sub", "ask")
        assert [question.value for question in snapshot.interrupts] == ["second?", "second?"]
        result = graph.invoke(answers(MILEPOST, snapshot, "B"), thread())
    # Neither `side` nor `c1` ran again, and the first answers were not asked for again.
    assert sorted(flow.ran) == ["ask", "ask", "c3", "z"]
    assert result["log"] == ["in", "A", "B", "side", "in", "c1", "A", "B", "c3", "z"]


def test_an_interrupted_thread_is_exported_and_resumed_in_langgraph(addresses):
    theirs, ours = addresses
    flow = Approval()
    with our_saver(ours) as saver:
        graph = flow.build(MILEPOST, saver)
        graph.invoke({"log": ["in"]}, thread())
        graph.invoke(answers(MILEPOST, graph.get_state(thread()), "A"), thread())
    assert move_out(ours, theirs) == 0
    flow.ran.clear()
    with their_saver(theirs) as saver:
        graph = flow.build(LANGGRAPH, saver)
        snapshot = graph.get_state(thread())
        assert sorted(snapshot.next) == ["ask", "sub"]
        assert [question.value for question in snapshot.interrupts] == ["second?", "second?"]
        result = graph.invoke(answers(LANGGRAPH, snapshot, "B"), thread())
    assert sorted(flow.ran) == ["ask", "ask", "c3", "z"]
    assert result["log"] == ["in", "A", "B", "side", "in", "c1", "A", "B", "c3", "z"]


def test_moving_there_and_back_again_loses_nothing(files, tmp_path):
    theirs, ours = files
    with their_saver(theirs) as saver:
        graph = line(LANGGRAPH, says("a"), says("b")).compile(checkpointer=saver)
        for n in range(3):
            graph.invoke({"log": [n]}, thread())
        before = [
            (s.config, s.values, s.next, s.metadata) for s in graph.get_state_history(thread())
        ]
    back = f"sqlite:///{tmp_path}/back.db"
    assert move_in(theirs, ours) == 0
    assert move_out(ours, back) == 0
    with their_saver(back) as saver:
        graph = line(LANGGRAPH, says("a"), says("b")).compile(checkpointer=saver)
        after = [
            (s.config, s.values, s.next, s.metadata) for s in graph.get_state_history(thread())
        ]
    assert after == before


def test_a_map_that_waits_for_one_of_its_workers(addresses):
    theirs, ours = addresses
    ran: list[int] = []

    with their_saver(theirs) as saver:
        squares(LANGGRAPH, saver, ran).invoke({"log": []}, thread())
    move_in(theirs, ours)
    ran.clear()
    with our_saver(ours) as saver:
        result = squares(MILEPOST, saver, ran).invoke(MILEPOST.Command(resume="yes"), thread())
    assert ran == [2]
    assert result == {"log": [0, 1, 4, 9]}


def test_delta_channels_move_with_their_values(files):
    def joined(value: list, writes: Any) -> list:
        return [*value, *(one for write in writes for one in write)]

    def build(lib: Any, saver: Any) -> Any:
        class Delta(TypedDict, total=False):
            log: Annotated[list, lib.DeltaChannel(joined, snapshot_frequency=4)]

        return line(lib, says("a"), says("b"), schema=Delta).compile(checkpointer=saver)

    theirs, ours = files
    with their_saver(theirs) as saver:
        graph = build(LANGGRAPH, saver)
        for n in range(3):
            graph.invoke({"log": [n]}, thread())
        graph.update_state(thread(), {"log": ["updated"]}, as_node="b")
        before = [snapshot.values for snapshot in graph.get_state_history(thread())]
    move_in(theirs, ours)
    with our_saver(ours) as saver:
        graph = build(MILEPOST, saver)
        assert [snapshot.values for snapshot in graph.get_state_history(thread())] == before
        assert graph.invoke({"log": ["more"]}, thread())["log"][-4:] == [
            "updated",
            "more",
            "a",
            "b",
        ]


def test_a_failed_step_is_tried_again(files):
    theirs, ours = files

    def build(lib: Any, saver: Any, fails: bool) -> Any:
        def work(state: Any) -> Any:
            if fails:
                raise RuntimeError("no disk")
            return {"log": ["worked"]}

        return line(lib, says("a"), work).compile(checkpointer=saver)

    with their_saver(theirs) as saver, pytest.raises(RuntimeError):
        build(LANGGRAPH, saver, True).invoke({"log": []}, thread())
    move_in(theirs, ours)
    with our_saver(ours) as saver:
        graph = build(MILEPOST, saver, False)
        assert graph.get_state(thread()).tasks[0].error == "RuntimeError('no disk')"
        assert graph.invoke(None, thread()) == {"log": ["a", "worked"]}


# -- what may be read


def test_a_type_that_is_not_allowed_is_named_and_its_thread_left_out(
    files, capsys, tmp_path, monkeypatch
):
    theirs, ours = files
    # A module of its own: what --types allows is allowed in this process from then on.
    (tmp_path / "moved_types.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Hidden:\n    n: int\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    moved_types = importlib.import_module("moved_types")
    with their_saver(theirs) as saver:
        for name, value in (("plain", 1), ("typed", moved_types.Hidden(1))):
            keep = ("keep", lambda state, value=value: {"log": [value]})
            line(LANGGRAPH, keep).compile(checkpointer=saver).invoke({"log": []}, thread(name))
    assert move_in(theirs, ours) == 1
    said = capsys.readouterr()
    assert "1 threads:" in said.out
    assert (
        "not copied: thread 'typed': the stored type moved_types.Hidden is not registered"
        in said.err
    )
    assert "--types moved_types:Hidden" in said.err
    with our_saver(ours) as saver:
        assert [info.thread_id for info in saver.list_threads()] == ["plain"]
    assert move_in(theirs, ours, "--types", "moved_types:Hidden") == 0
    with our_saver(ours) as saver:
        values = saver.get_tuple(thread("typed")).checkpoint["channel_values"]
    assert values["log"] == [moved_types.Hidden(1)]


def all_kinds() -> list[Any]:
    import datetime
    import decimal
    import pathlib
    import uuid

    from langchain_core.messages import AIMessage

    return [
        datetime.datetime(2025, 1, 2, 3, 4, tzinfo=datetime.UTC),
        datetime.date(2025, 1, 2),
        datetime.timedelta(1, 2, 3),
        decimal.Decimal("1.50"),
        uuid.UUID(int=7),
        pathlib.Path("/a/b"),
        {1, 2},
        (1, (2, 3)),
        b"bytes",
        AIMessage("hello", id="1", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c"}]),
        stories.Order("pen", 3),
        stories.Colour.RED,
        stories.Customer(name="Ann"),
        {"deep": [{"deeper": None}], 3: "three"},
    ]


def test_values_of_all_kinds(files):
    theirs, ours = files
    with their_saver(theirs) as saver:
        keep = ("keep", lambda state: {"log": all_kinds()})
        graph = line(LANGGRAPH, keep).compile(checkpointer=saver)
        graph.invoke({"log": []}, thread())
        expected = graph.get_state(thread()).values["log"]
    assert move_in(theirs, ours, "--types", "stories") == 0
    with our_saver(ours) as saver:
        found = saver.get_tuple(thread()).checkpoint["channel_values"]["log"]
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


def test_values_of_all_kinds_are_exported_and_tuples_become_lists(files):
    theirs, ours = files
    with our_saver(ours) as saver:
        keep = ("keep", lambda state: {"log": all_kinds()})
        line(MILEPOST, keep).compile(checkpointer=saver).invoke({"log": []}, thread())
    assert move_out(ours, theirs, "--types", "stories") == 0
    with their_saver(theirs) as saver:
        found = saver.get_tuple(thread()).checkpoint["channel_values"]["log"]
    assert (1, (2, 3)) in all_kinds()
    expected = [[1, [2, 3]] if value == (1, (2, 3)) else value for value in all_kinds()]
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


def test_a_model_with_aliases_is_read_by_the_names_of_its_fields(files):
    """LangGraph itself loses what has an alias: it calls the class with the names."""
    theirs, ours = files
    with their_saver(theirs) as saver:
        keep = ("keep", lambda state: {"log": [stories.Shelf(theLabel="a", theCount=2)]})
        line(LANGGRAPH, keep).compile(checkpointer=saver).invoke({"log": []}, thread())
    assert move_in(theirs, ours, "--types", "stories") == 0
    with our_saver(ours) as saver:
        found = saver.get_tuple(thread()).checkpoint["channel_values"]["log"]
    assert found == [stories.Shelf(theLabel="a", theCount=2)]


# -- addresses


def test_an_address_of_another_kind_is_refused(tmp_path, capsys):
    assert move_in("mysql://host/db", f"sqlite:///{tmp_path}/ours.db") == 4
    assert "write sqlite:///file.db or postgresql://" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_not_made(tmp_path, capsys):
    for address in (f"sqlite:///{tmp_path}/none.db", str(tmp_path / "none.db")):
        assert move_in(address, f"sqlite:///{tmp_path}/ours.db") == 4
        assert "There is no file" in capsys.readouterr().err
    assert not tmp_path.joinpath("none.db").exists()


def test_a_database_is_read_without_langgraphs_package_for_it(files, monkeypatch, capsys):
    theirs, ours = files
    with their_saver(theirs) as saver:
        line(LANGGRAPH, says("a")).compile(checkpointer=saver).invoke({"log": []}, thread())
    with their_items(theirs, writing=True) as items:
        items.put(StoredItem(("notes",), "a", {"n": 1}, 1_000_000, 2_000_000, None, None))
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.sqlite", None)
    monkeypatch.setitem(sys.modules, "langgraph.store.sqlite", None)
    assert move_in(theirs, ours) == 0
    assert "1 store items copied" in capsys.readouterr().out
    with our_saver(ours) as saver:
        assert saver.get_tuple(thread()).checkpoint["channel_values"]["log"] == ["a"]


def test_a_type_that_cannot_be_imported_is_named(files, capsys):
    assert move_in(*files, "--types", "no_such_module:Thing") == 1
    assert "--types no_such_module:Thing" in capsys.readouterr().err


# -- functions


def calling(lib: Any, saver: Any, ran: list[str]) -> Any:
    """A function that calls others, which call others, one of which asks."""

    @lib.task
    def double(n: int) -> int:
        ran.append(f"double {n}")
        return 2 * n

    @lib.task(name="another")
    def nested(n: int) -> int:
        ran.append(f"nested {n}")
        return double(n).result() + 1

    @lib.task
    def ask(question: str) -> int:
        ran.append(f"ask {question}")
        return lib.interrupt(f"{question}?") + 10 * lib.interrupt(f"{question} again?")

    @lib.entrypoint(checkpointer=saver)
    def flow(n: int) -> int:
        doubled = [double(n), double(n + 1)]
        more = nested(n + 2).result()
        return sum(one.result() for one in doubled) + more + ask("plus").result()

    return flow


EVERY_CALL = ["ask plus", "double 4", "double 5", "double 6", "nested 6"]


def test_finished_calls_of_an_interrupted_function_do_not_run_again(addresses, capsys):
    theirs, ours = addresses
    ran: list[str] = []
    with their_saver(theirs) as saver:
        flow = calling(LANGGRAPH, saver, ran)
        flow.invoke(4, thread())
        assert sorted(ran) == EVERY_CALL
        flow.invoke(LANGGRAPH.Command(resume=1), thread())
    assert move_in(theirs, ours, "--program", __file__) == 0
    assert "will run again" not in capsys.readouterr().out
    ran.clear()
    with our_saver(ours) as saver:
        flow = calling(MILEPOST, saver, ran)
        asked = flow.get_state(thread()).interrupts
        assert [question.value for question in asked] == ["plus again?"]
        assert flow.invoke(MILEPOST.Command(resume=2), thread()) == 8 + 10 + 13 + 21
    assert ran == ["ask plus"]


def test_finished_calls_of_an_interrupted_function_are_exported(addresses, capsys):
    theirs, ours = addresses
    ran: list[str] = []
    with our_saver(ours) as saver:
        flow = calling(MILEPOST, saver, ran)
        flow.invoke(4, thread())
        flow.invoke(MILEPOST.Command(resume=1), thread())
    assert move_out(ours, theirs, "--program", __file__) == 0
    assert "will run again" not in capsys.readouterr().out
    ran.clear()
    with their_saver(theirs) as saver:
        flow = calling(LANGGRAPH, saver, ran)
        assert flow.invoke(LANGGRAPH.Command(resume=2), thread()) == 8 + 10 + 13 + 21
    assert ran == ["ask plus"]


def test_calls_that_are_not_recognised_run_again_and_are_counted(files, capsys):
    theirs, ours = files
    ran: list[str] = []
    with their_saver(theirs) as saver:
        calling(LANGGRAPH, saver, ran).invoke(4, thread())
    assert move_in(theirs, ours) == 0
    said = capsys.readouterr().out
    assert "5 finished tasks of interrupted steps are not recognisable" in said
    assert "name the program with --program" in said
    ran.clear()
    with our_saver(ours) as saver:
        flow = calling(MILEPOST, saver, ran)
        flow.invoke(None, thread())
        flow.invoke(MILEPOST.Command(resume=1), thread())
        assert flow.invoke(MILEPOST.Command(resume=2), thread()) == 8 + 10 + 13 + 21
    assert sorted(set(ran)) == EVERY_CALL


def test_a_program_that_cannot_be_read_is_named(files, tmp_path, capsys):
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:")
    assert move_in(*files, "--program", str(broken)) == 1
    assert f"The program '{broken}' cannot be read" in capsys.readouterr().err


SCRIPT = """
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any
from pydantic import BaseModel
from typing_extensions import TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

class Size(Enum):
    LARGE = "large"

@dataclass
class Leg:
    city: str

class Trip(BaseModel):
    legs: list[Leg]

class State(TypedDict, total=False):
    trip: Trip
    size: Size
    leg: Leg
    answer: Any

def go(state):
    return {"trip": Trip(legs=[Leg("Rome")]), "size": Size.LARGE, "leg": Leg("Oslo")}

if __name__ == "__main__":
    builder = StateGraph(State)
    builder.add_node("go", go)
    builder.add_node("ask", lambda state: {"answer": interrupt("well?")})
    builder.add_edge(START, "go")
    builder.add_edge("go", "ask")
    with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
        graph = builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "t"}}
        given = Command(resume=1) if sys.argv[2:] else {}
        result = graph.invoke(given, config)
        print(*(result.get(key) for key in ("trip", "size", "leg", "answer")))
        print(type(result["trip"]) is Trip, result["size"] is Size.LARGE)
"""


def test_types_of_a_script_are_moved_and_read_by_the_script(tmp_path, monkeypatch, capsys):
    import subprocess
    import sys

    tmp_path.joinpath("trip.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)

    def script(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    script("trip.py", "theirs.db")
    theirs, ours = "sqlite:///theirs.db", "sqlite:///ours.db"
    assert move_in(theirs, ours) == 1
    assert "--types __main__=MODULE" in capsys.readouterr().err
    # In a process of its own, since `trip` is imported for it.
    milepost = ("-m", "milepost.cli")
    script(
        *milepost, "import", "--from-langgraph", theirs, "--to", ours, "--types", "__main__=trip"
    )
    said = script(*milepost, "run", "--as-langgraph", "trip.py", "ours.db", "resume")
    expected = "legs=[Leg(city='Rome')] Size.LARGE Leg(city='Oslo') 1\nTrue True\n"
    assert said == expected
    back = "sqlite:///back.db"
    script(*milepost, "export", "--from", ours, "--to-langgraph", back, "--types", "__main__=trip")
    assert script("trip.py", "back.db", "again") == expected


def test_an_export_does_not_touch_a_database_of_milepost(tmp_path, capsys):
    address = f"sqlite:///{tmp_path / 'ours.db'}"
    with our_saver(address) as saver:
        saver.create_thread("t")
    before = (tmp_path / "ours.db").read_bytes()
    assert move_out(address, address) == 4
    assert "Export to another database" in capsys.readouterr().err
    assert (tmp_path / "ours.db").read_bytes() == before
