"""A Command as the input of a run: the forms of its update, and what is said of a wrong one."""

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.errors import InvalidUpdateError
from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt


class State(TypedDict, total=False):
    x: int
    y: str
    log: Annotated[list[str], operator.add]


def build(saver: Any = None) -> Any:
    def node(state: State) -> dict[str, Any]:
        return {"y": interrupt("?") if state.get("x") == 1 else "n"}

    return StateGraph(State).add_node(node).add_edge(START, "node").compile(checkpointer=saver)


PAIRS = ([("x", 2), ("log", ["a"]), ("log", ["b"])], (("x", 2), ("log", ["a", "b"])))


@pytest.mark.parametrize("pairs", PAIRS, ids=["list", "tuple"])
def test_an_update_may_be_pairs_of_keys_and_values(run, saver, config, pairs):
    graph = build(saver)
    run.invoke(graph, {"x": 1}, config)
    result = run.invoke(graph, Command(resume="yes", update=pairs), config)
    assert result == {"x": 2, "y": "n", "log": ["a", "b"]}


@pytest.mark.parametrize("goto", [(), "node"], ids=["input", "goto"])
@pytest.mark.parametrize("pairs", PAIRS, ids=["list", "tuple"])
def test_pairs_may_begin_a_thread(run, saver, config, pairs, goto):
    result = run.invoke(build(saver), Command(update=pairs, goto=goto), config)
    assert result == {"x": 2, "y": "n", "log": ["a", "b"]}
    assert run.invoke(build(), Command(update=pairs, goto=goto)) == result


def test_an_update_of_no_pairs_changes_nothing(run, saver, config):
    graph = build(saver)
    run.invoke(graph, {"x": 1}, config)
    assert run.invoke(graph, Command(resume="yes", update=[]), config)["y"] == "yes"


@pytest.mark.parametrize("update", [{"z": 2}, [("z", 2)]], ids=["dict", "pairs"])
@pytest.mark.parametrize("begun", [False, True], ids=["new", "begun"])
@pytest.mark.usefixtures("strictly")
def test_an_unknown_key_is_the_commands_not_a_nodes(run, saver, config, update, begun):
    graph = build(saver)
    if begun:
        run.invoke(graph, {"x": 1}, config)
    with pytest.raises(InvalidUpdateError, match=r"^The command .*'z'.* has: log, x, y\.$") as told:
        run.invoke(graph, Command(update=update), config)
    assert "ode '" not in str(told.value)


@pytest.mark.parametrize("update", ["text", 5, [["x", 2]], [("x", 2, 3)]], ids=repr)
@pytest.mark.usefixtures("strictly")
def test_an_update_of_another_form_is_the_commands_not_a_nodes(run, saver, config, update):
    graph = build(saver)
    run.invoke(graph, {"x": 1}, config)
    with pytest.raises(InvalidUpdateError, match=r"^The command .* pairs") as told:
        run.invoke(graph, Command(update=update), config)
    assert repr(update) in str(told.value)
    assert "ode '" not in str(told.value)


def test_a_list_without_a_command_is_no_input(run):
    with pytest.raises(InvalidUpdateError, match="The input of graph"):
        run.invoke(build(), [("user", "hello")])
