"""A tool hands over to another agent: what it brings reaches the outer graph, with the answers to
the calls beside it."""

from typing import Annotated, Any

import pytest
from fake_models import ScriptedModel, calling
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool

from milepost.graph import START, MessagesState, StateGraph
from milepost.prebuilt import InjectedState, ToolNode, create_react_agent
from milepost.types import Command, Send

VERSIONS = pytest.mark.parametrize("version", ["v1", "v2"])
Id = Annotated[str, InjectedToolCallId]
INPUT: Any = {"messages": [("user", "hi")]}


class State(MessagesState):
    plan: str


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


ADD = ("add", {"a": 1, "b": 2}, "1")


def team(hand_over: Any, calls: Any, version: Any = "v1") -> tuple[Any, list[Any]]:
    """An agent with a tool that hands over, and a worker that notes what it is given."""
    given: list[Any] = []
    agent = create_react_agent(
        ScriptedModel(script=[calls, "?"]), [hand_over, add], version=version
    )
    builder = StateGraph(State).add_node("agent", agent).add_edge(START, "agent")
    builder.add_node("worker", lambda state: given.append(state["messages"]))
    return builder.compile(), given


def shown(messages: Any) -> list[str]:
    return [m.content or f"calls {len(m.tool_calls)}" for m in messages]


@VERSIONS
def test_the_update_beside_a_send_reaches_the_outer_graph(run, version):
    @tool
    def hand_over(id: Id) -> Command:
        """Hand over."""
        sent = Send("worker", {"messages": [HumanMessage("do it")]})
        return Command(graph=Command.PARENT, update={"plan": f"plan of {id}"}, goto=[sent])

    graph, given = team(hand_over, [("hand_over", {}, "7")], version)
    assert run.invoke(graph, INPUT)["plan"] == "plan of 7"
    assert list(map(shown, given)) == [["do it"]]


def test_several_are_one_command_with_the_messages_of_all_and_the_last_of_other_keys(run):
    @tool
    def hand_over(plan: str, id: Id) -> Command:
        """Hand over."""
        update = {"plan": plan, "messages": [ToolMessage(f"over {plan}", tool_call_id=id)]}
        return Command(graph=Command.PARENT, update=update, goto=[Send("worker", {"messages": []})])

    calls = [("hand_over", {"plan": plan}, plan) for plan in "ab"]
    graph, given = team(hand_over, calls)
    state = run.invoke(graph, INPUT)
    assert (state["plan"], shown(state["messages"])) == ("b", ["hi", "over a", "over b"])
    assert len(given) == 2


@pytest.mark.parametrize("update", [None, {"plan": "x"}])
def test_one_without_an_update_takes_nothing_from_the_others(update):
    @tool
    def first() -> Command:
        """First."""
        return Command(graph=Command.PARENT, update={"plan": "first"}, goto=[Send("a", 1)])

    @tool
    def second() -> Command:
        """Second."""
        return Command(graph=Command.PARENT, update=update, goto=[Send("b", 2)])

    node = ToolNode([first, second])
    commands = node.invoke({"messages": [calling(("first", {}, "1"), ("second", {}, "2"))]})
    updates = [{"plan": "first"}, update] if update else [{"plan": "first"}]
    assert [command.update for command in commands if command.update] == updates
    assert [target for c in commands for target in c.goto] == [Send("a", 1), Send("b", 2)]


def test_updates_in_a_list_are_kept_too():
    @tool
    def hand_over(id: Id) -> Command:
        """Hand over."""
        update = [ToolMessage("over", tool_call_id=id)]
        return Command(graph=Command.PARENT, update=update, goto=[Send("a", id)])

    node = ToolNode([hand_over])
    commands = node.invoke([calling(("hand_over", {}, "1"), ("hand_over", {}, "2"))])
    assert [message.tool_call_id for c in commands for message in c.update] == ["1", "2"]


@tool
def to_worker(messages: Annotated[Any, InjectedState("messages")], id: Id) -> Command:
    """Hand over the whole conversation."""
    told = [*messages, ToolMessage("over", tool_call_id=id), HumanMessage("now you")]
    return Command(graph=Command.PARENT, update={"messages": told}, goto="worker")


@tool
def without_calls(messages: Annotated[Any, InjectedState("messages")], id: Id) -> Command:
    """Hand over a part of it."""
    told = [m for m in messages if not isinstance(m, AIMessage)]
    return Command(graph=Command.PARENT, update={"messages": told}, goto="worker")


def test_the_result_of_a_call_beside_it_is_handed_over_with_its_call(run):
    graph, (*_,) = team(to_worker, [ADD, ("to_worker", {}, "2")])
    state = run.invoke(graph, INPUT)
    assert shown(state["messages"]) == ["hi", "calls 2", "3", "over", "now you"]


def test_a_conversation_without_the_call_is_left_alone(run):
    graph, given = team(without_calls, [ADD, ("without_calls", {}, "2")])
    run.invoke(graph, INPUT)
    assert list(map(shown, given)) == [["hi"]]


@pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")
@pytest.mark.parametrize(("version", "heard"), [("v1", "3"), ("v2", "did not finish")])
def test_the_next_agent_can_take_over(run, version, heard):
    """With v2 each call is a task of the graph, which ends before the results meet."""
    next_model = ScriptedModel(script=["?", "mine"])
    first = create_react_agent(
        ScriptedModel(script=[[ADD, ("to_worker", {}, "2")]]), [to_worker, add], version=version
    )
    builder = StateGraph(State).add_node("agent", first).add_edge(START, "agent")
    graph = builder.add_node("worker", create_react_agent(next_model, [])).compile()
    assert shown(run.invoke(graph, INPUT)["messages"])[-1] == "mine"
    hi, _calls, of_add, *rest = next_model.heard[0]
    assert (hi, heard in of_add, rest) == ("hi", True, ["over", "now you"])
