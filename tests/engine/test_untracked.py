"""A value of an untracked key is there for the nodes of a run, and nowhere in a database."""

import threading
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.channels import UntrackedValue
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph
from milepost.types import Command, Send, interrupt

SECRET = "TOP-SECRET"


class State(TypedDict, total=False):
    x: int
    handle: Annotated[Any, UntrackedValue]


def use(state: State) -> dict[str, int]:
    return {"x": len(state.get("handle", ""))}


def written() -> StateGraph:
    builder = StateGraph(State)
    builder.add_node("login", lambda _: {"handle": SECRET}).add_node(use)
    return builder.add_edge(START, "login").add_edge("login", "use")


def written_beside_others() -> StateGraph:
    builder = StateGraph(State)
    builder.add_node("login", lambda _: Command(update={"x": 5, "handle": SECRET}, goto="use"))
    return builder.add_node(use).add_edge(START, "login")


def sent() -> StateGraph:
    builder = StateGraph(State).add_node("login", lambda _: {"x": 5}).add_node(use)
    builder.add_conditional_edges("login", lambda _: [Send("use", {"x": 3, "handle": SECRET})])
    return builder.add_edge(START, "login")


def given() -> StateGraph:
    return StateGraph(State).add_node(use).add_edge(START, "use")


INPUTS: dict[Any, Any] = {given: {"x": 0, "handle": SECRET}}


@pytest.mark.parametrize("made", [written, written_beside_others, sent, given])
def test_an_untracked_value_is_used_and_not_stored(run, tmp_path, config, durability, made):
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph = made().compile(checkpointer=saver)
        result = run.invoke(graph, INPUTS.get(made, {"x": 0}), config, durability=durability)
        assert result["x"] == len(SECRET)
        assert run.get_state(graph, config).values == {"x": len(SECRET)}
        for snapshot in run.history(graph, config):
            assert SECRET not in repr(snapshot)
        assert not any(SECRET.encode() in file.read_bytes() for file in _files(tmp_path))
    assert not any(SECRET.encode() in file.read_bytes() for file in _files(tmp_path))


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.is_file()]


def test_an_untracked_value_may_be_something_that_cannot_be_stored(run, saver, config, durability):
    lock = threading.Lock()

    def guarded(state: State) -> dict[str, int]:
        with state["handle"]:
            return {"x": 1}

    builder = StateGraph(State).add_node("make", lambda _: {"handle": lock}).add_node(guarded)
    graph = builder.add_edge(START, "make").add_edge("make", "guarded").compile(saver)
    result = run.invoke(graph, {"x": 0}, config, durability=durability)
    assert result == {"x": 1, "handle": lock}


def test_a_task_that_made_nothing_else_makes_it_anew(run, saver, config, durability):
    made: list[str] = []

    def login(state: State) -> dict[str, str]:
        made.append("login")
        return {"handle": SECRET}

    builder = StateGraph(State).add_node(login).add_node(use)
    builder.add_node("ask", lambda _: {"x": interrupt("sure?")})
    builder.add_edge(START, "login").add_edge(START, "ask").add_edge("ask", "use")
    graph = builder.compile(saver)
    run.invoke(graph, {"x": 0}, config, durability=durability)
    result = run.invoke(graph, Command(resume=1), config, durability=durability)
    assert result["x"] == len(SECRET)
    assert made == ["login", "login"]


def test_an_update_from_outside_is_not_stored_either(run, tmp_path, config):
    builder = StateGraph(State).add_node("ask", lambda _: {"x": interrupt("sure?")})
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph = builder.add_edge(START, "ask").compile(saver)
        run.invoke(graph, {"x": 0}, config)
        run.invoke(graph, Command(update={"x": 1, "handle": SECRET}), config)
        run.update_state(graph, config, {"x": 2, "handle": SECRET}, as_node="ask")
        assert run.get_state(graph, config).values == {"x": 2}
    assert not any(SECRET.encode() in file.read_bytes() for file in _files(tmp_path))
