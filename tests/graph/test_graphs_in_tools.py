"""A graph that a tool calls is read and changed through the graph whose ToolNode has the tool."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from typing_extensions import TypedDict

from milepost.errors import CheckpointNotFoundError
from milepost.graph import START, MessagesState, StateGraph
from milepost.prebuilt import ToolNode
from milepost.types import Send


class Notes(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]


def inner(node: str = "x", **options: Any) -> Any:
    builder = StateGraph(Notes).add_node(node, lambda state: {"notes": [node]})
    return builder.add_edge(START, node).compile(**options)


def from_sync(graph: Any) -> Any:
    @tool
    def ask(text: str) -> str:
        """Ask."""
        return str(graph.invoke({"notes": [text]}))

    return ask


def from_async(graph: Any) -> Any:
    @tool
    async def ask(text: str) -> str:
        """Ask."""
        return str(await graph.ainvoke({"notes": [text]}))

    return ask


def from_a_dict(graph: Any) -> Any:
    graphs = {"first": graph}

    @tool
    def ask(text: str) -> str:
        """Ask."""
        return str(graphs["first"].invoke({"notes": [text]}))

    return ask


class Ask(BaseTool):
    name: str = "ask"
    description: str = "Ask."
    graph: Any

    def _run(self, text: str) -> str:
        return str(self.graph.invoke({"notes": [text]}))


def from_a_class(graph: Any) -> Any:
    return Ask(graph=graph)


def outer(saver: Any, *tools: Any, sends: bool = False) -> Any:
    call = {"name": "ask", "args": {"text": "in"}, "id": "1"}
    builder = StateGraph(MessagesState).add_node("tools", ToolNode(list(tools)))
    builder.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=[call])]})
    builder.add_edge(START, "model")
    if sends:  # as create_react_agent does: each call is a task of the node
        builder.add_conditional_edges("model", by_sends, ["tools"])
    else:
        builder.add_edge("model", "tools")
    return builder.compile(checkpointer=saver)


def by_sends(state: Any) -> list[Send]:
    return [Send("tools", state["messages"][-1].tool_calls)]


def place(run: Any, saver: Any, config: Any) -> Any:
    """The config of what the tool's graph has stored last."""
    stored = run.saver(saver, "list", config)
    return next(one.config for one in stored if one.config["configurable"]["checkpoint_ns"])


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize("made", [from_sync, from_async, from_a_dict, from_a_class])
def test_what_a_graph_in_a_tool_did_is_read_through_the_graph_around_it(
    run, saver, config, made, sends
):
    graph = outer(saver, made(inner()), sends=sends)
    run.invoke(graph, {"messages": []}, config)
    at = place(run, saver, config)
    assert run.get_state(graph, at).values == {"notes": ["in", "x"]}
    at["configurable"].pop("checkpoint_id")
    assert [one.next for one in run.history(graph, at)] == [(), ("x",), ("__start__",)]
    run.update_state(graph, at, {"notes": ["edit"]})
    assert run.get_state(graph, at).values == {"notes": ["in", "x", "edit"]}
    assert [name for name, _ in graph.get_subgraphs()] == []


def from_messages(graph: Any) -> Any:
    @tool
    def ask(text: str) -> str:
        """Ask."""
        return str(graph.invoke({}))

    return ask


@tool
def plain(text: str) -> str:
    """Calls no graph."""
    return text


def other(graph: Any) -> Any:
    @tool
    def other(text: str) -> str:
        """Ask another graph."""
        return str(graph.invoke({"notes": [text]}))

    return other


def test_of_several_graphs_in_tools_one_of_the_same_form_is_read(run, saver, config):
    graph = outer(saver, plain, from_sync(inner()), other(inner()))
    run.invoke(graph, {"messages": []}, config)
    at = place(run, saver, config)
    assert run.get_state(graph, at).values == {"notes": ["in", "x"]}


def test_of_several_graphs_in_tools_with_different_nodes_none_is_guessed(run, saver, config):
    graph = outer(saver, from_sync(inner("x")), other(inner("y", name="second")))
    run.invoke(graph, {"messages": []}, config)
    at = place(run, saver, config)
    for read in (run.get_state, run.history):
        with pytest.raises(CheckpointNotFoundError, match=r"'tools' call several .*'second'"):
            read(graph, at)
    with pytest.raises(CheckpointNotFoundError, match="does not say which"):
        run.update_state(graph, at, {"notes": ["edit"]})


def test_a_graph_in_a_tool_that_is_never_saved_is_not_read(run, saver, config):
    graph = outer(saver, from_sync(inner("x")), other(inner("y", checkpointer=False)))
    run.invoke(graph, {"messages": []}, config)
    assert run.get_state(graph, place(run, saver, config)).values == {"notes": ["in", "x"]}


def test_the_names_of_tool_calls_in_a_namespace_may_leave_two_graphs(run, saver, config):
    """`tools:…|tools:…` is of the middle one, or of the deepest if calls come by Sends."""
    middle = outer(None, from_sync(inner()), sends=True)
    graph = outer(saver, from_messages(middle), sends=True)
    run.invoke(graph, {"messages": []}, config)
    stored = run.saver(saver, "list", config)
    places = {one.config["configurable"]["checkpoint_ns"] for one in stored}
    _, of_middle, of_deepest = sorted(places, key=len)
    at = {"thread_id": "t", "checkpoint_ns": of_middle}
    assert len(run.get_state(graph, {"configurable": at}).values["messages"]) == 2
    with pytest.raises(CheckpointNotFoundError, match="several graphs"):
        run.get_state(graph, {"configurable": {**at, "checkpoint_ns": of_deepest}})
