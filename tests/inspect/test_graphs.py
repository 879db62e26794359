"""Graphs by name, and what is shown of threads of other kinds of graphs."""

import asyncio
import json
import operator
import os
import sys
from typing import Annotated, Any, TypedDict

import pytest
from inspect_shop import at

from milepost.channels import DeltaChannel
from milepost.checkpoint.memory import InMemorySaver
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.inspect import (
    Database,
    GraphNotFoundError,
    Ref,
    check_threads,
    load_graph,
    load_graphs,
    log,
    merge,
    resume,
    run,
    show,
)

PROGRAM = """
from contextlib import asynccontextmanager
from milepost.graph import START, StateGraph
builder = StateGraph(dict).add_node("only", lambda state: state).add_edge(START, "only")
compiled = builder.compile()
def make(config):
    return builder.compile(name="made")
def plain():
    return builder
number = 5
class Inner:
    graph = builder
async def later():
    return builder
@asynccontextmanager
async def opened():
    yield builder
async def fails():
    raise RuntimeError("no key")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"program_{abs(hash(tmp_path.name))}"
    (tmp_path / f"{name}.py").write_text(PROGRAM)
    yield tmp_path, name
    sys.modules.pop(name, None)


class TestNames:
    @pytest.mark.parametrize(
        "attribute", ["builder", "compiled", "make", "plain", "Inner.graph", "later"]
    )
    def test_a_module_or_a_file_and_an_attribute(self, folder, attribute):
        _, name = folder
        for place in (name, f"{name}.py", f"./{name}.py"):
            assert "only" in load_graph(f"{place}:{attribute}").nodes

    def test_a_langgraph_json(self, folder, monkeypatch):
        path, name = folder
        monkeypatch.delenv("SHOP_KEY", raising=False)
        monkeypatch.setenv("SHOP_SET", "already")
        (path / ".env").write_text("# a comment\nexport SHOP_KEY='x y'\nSHOP_SET=no\n")
        graphs = {"one": f"./{name}.py:builder", "two": {"path": f"{name}:make"}}
        config = {"graphs": graphs, "env": ".env"}
        (path / "langgraph.json").write_text(json.dumps(config))
        assert load_graph("langgraph.json:two").name == "made"
        assert (os.environ.pop("SHOP_KEY"), os.environ["SHOP_SET"]) == ("x y", "already")
        with pytest.raises(GraphNotFoundError, match="several graphs"):
            load_graph("langgraph.json")
        with pytest.raises(GraphNotFoundError, match="no graph 'three'"):
            load_graph("langgraph.json:three")

    @pytest.mark.parametrize(
        "spec", ["", "x", ":graph", "nothing:graph", "{}:none", "{}:number", "{}:fails", "a.json"]
    )
    def test_what_names_no_graph_says_so(self, folder, spec):
        _, name = folder
        with pytest.raises(GraphNotFoundError):
            load_graph(spec.format(name))

    def test_a_context_manager_is_named_as_what_it_is(self, folder):
        with pytest.raises(GraphNotFoundError, match="a function that returns the graph"):
            load_graph(f"{folder[1]}:opened")

    def test_an_async_function_is_awaited_on_a_loop_that_runs_too(self, folder):
        _, name = folder

        async def main() -> Any:
            return load_graph(f"{name}:later")

        assert "only" in asyncio.run(main()).nodes

    def test_graphs_that_cannot_be_loaded_are_told_to_a_caller_that_skips_them(self, folder):
        path, name = folder
        graphs = {"one": f"{name}:later", "two": f"{name}:fails", "three": f"{name}:number"}
        (path / "langgraph.json").write_text(json.dumps({"graphs": graphs}))
        skipped: dict[str, Any] = {}
        assert list(load_graphs("langgraph.json", skip=skipped.__setitem__)) == ["one"]
        assert list(skipped) == ["two", "three"]
        assert "RuntimeError: no key" in str(skipped["two"])
        with pytest.raises(GraphNotFoundError, match="no key"):
            load_graphs("langgraph.json")

    def test_a_file_that_is_no_config_says_so(self, folder):
        path, _ = folder
        for text in ("{", "[]", "{}", '{"graphs": {"a": 5}}'):
            (path / "bad.json").write_text(text)
            with pytest.raises(GraphNotFoundError):
                load_graph("bad.json")

    def test_a_program_that_fails_when_it_is_imported_is_told(self, folder):
        path, _ = folder
        (path / "broken_program.py").write_text("raise RuntimeError('no key')")
        with pytest.raises(GraphNotFoundError, match="RuntimeError: no key"):
            load_graph("broken_program.py:graph")


class State(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]


def test_async_nodes_run_too():
    async def slow(_: State) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"notes": ["slept"]}

    graph = StateGraph(State).add_node("slow", slow).add_edge(START, "slow").compile()
    db = Database.of(InMemorySaver())
    events = list(run(db, graph, "t", {"notes": []}))
    assert [event.data for event in events] == [{"slow": {"notes": ["slept"]}}]
    assert show(db, Ref("t")).values == {"notes": ["slept"]}
    list(resume(db, graph, Ref.parse("t@~1")))
    assert len(list(log(db, "t"))) > 3


def test_functions_as_programs_have_a_log():
    @task
    def double(number: int) -> int:
        return 2 * number

    saver = InMemorySaver()

    @entrypoint(checkpointer=saver)
    def work(number: int) -> int:
        return double(number).result() + 1

    assert work.invoke(4, at("t")) == 9
    db = Database.of(saver)
    assert show(db, Ref("t")).values == 9
    newest, first = log(db, "t")
    assert list(newest.writes) == ["work"]
    assert (first.source, list(first.next)) == ("input", ["work"])


def test_a_delta_channel_is_shown_as_what_its_reducer_is_given():
    def joined(before: list[str], writes: Any) -> list[str]:
        return [*before, *(one for write in writes for one in write)]

    class Deltas(TypedDict, total=False):
        notes: Annotated[list[str], DeltaChannel(joined)]

    saver = InMemorySaver()
    graph = StateGraph(Deltas).add_node("add", lambda _: {"notes": ["b"]}).add_edge(START, "add")
    graph.compile(checkpointer=saver).invoke({"notes": ["a"]}, at("t"))
    shown = show(Database.of(saver), Ref("t")).values["notes"]
    assert shown["$type"] == "milepost.Delta"
    assert shown["writes"] == [["a"], ["b"]]


def test_threads_are_checked_against_the_code():
    saver = InMemorySaver()
    one = StateGraph(State).add_node("old", lambda _: {}).add_edge(START, "old")
    one.compile(checkpointer=saver, interrupt_before=["old"]).invoke({"notes": []}, at("waits"))
    one.compile(checkpointer=saver).invoke({"notes": []}, at("ended"))
    two = StateGraph(State).add_node("new", lambda _: {}).add_edge(START, "new").compile()
    found = {
        checked.thread_id: checked.problem for checked in check_threads(Database.of(saver), two)
    }
    assert found["ended"] is None
    assert "renamed_nodes" in found["waits"]


def test_a_graph_of_langgraph_is_merged_with_its_own_records():
    langgraph = pytest.importorskip("langgraph.graph")
    saver = InMemorySaver()
    builder = langgraph.StateGraph(State)
    builder.add_node("write", lambda _: {})
    builder.add_edge(langgraph.START, "write")
    from milepost.inspect import attached, fork

    db = Database.of(saver)
    graph = builder.compile()
    attached(graph, db).invoke({"notes": ["base"]}, at("t"))
    base = next(log(db, "t")).checkpoint_id
    ours = fork(db, Ref("t", "", base), {"notes": ["a"]}, graph=graph)
    theirs = fork(db, Ref("t", "", base), {"notes": ["b"]}, graph=graph)
    done = merge(db, graph, ours, theirs)
    assert show(db, done.ref).values["notes"] == ["base", "a", "b"]
