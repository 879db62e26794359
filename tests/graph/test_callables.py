"""What programs pass as nodes, tasks and thread ids means the same in both libraries."""

from __future__ import annotations

import asyncio
import functools
import operator
import uuid
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any
from unittest.mock import AsyncMock, Mock

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from typing_extensions import TypedDict

from both import names_of
from milepost.func import entrypoint, task
from milepost.graph import START, MessagesState, StateGraph
from milepost.prebuilt import ToolNode

BOTH = [names_of(root) for root in ("langgraph", "milepost")]


class State(TypedDict, total=False):
    a: int
    out: Annotated[list[str], operator.add]


class Asked(TypedDict, total=False):
    n: int
    out: Annotated[list[str], operator.add]


class Named:
    """A node that has a name of its own, which is not the name of the node."""

    name = "other"

    def invoke(self, state: Any) -> Any:
        raise AssertionError("It can be called.")

    def __call__(self, state: Any) -> Any:
        return {"a": state["a"] + 1}


@pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.name)
def test_a_mock_as_a_node_is_called(lib: Any) -> None:
    node = Mock(side_effect=lambda state: {"a": state["a"] + 1})
    graph = lib.StateGraph(State).add_node("n", node).add_edge(lib.START, "n").compile()
    assert graph.invoke({"a": 1}) == {"a": 2, "out": []}
    node.assert_called_once()


@pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.name)
def test_an_async_mock_as_a_node_is_awaited(lib: Any) -> None:
    node = AsyncMock(side_effect=lambda state: {"a": state["a"] + 1})
    graph = lib.StateGraph(State).add_node("n", node).add_edge(lib.START, "n").compile()
    assert asyncio.run(graph.ainvoke({"a": 1})) == {"a": 2, "out": []}


@pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.name)
def test_a_callable_object_is_called_and_its_node_has_the_name_of_its_class(lib: Any) -> None:
    builder = lib.StateGraph(State).add_node(Named())
    assert list(builder.nodes) == ["Named"]
    assert builder.add_edge(lib.START, "Named").compile().invoke({"a": 1})["a"] == 2


@pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.name)
def test_a_task_of_a_partial_has_the_name_of_its_function(lib: Any) -> None:
    def add(more: int, value: int) -> int:
        return more + value

    work = lib.task(functools.partial(add, 10))

    @lib.entrypoint()
    def program(value: int) -> int:
        return int(work(value).result())

    assert list(program.stream(1)) == [{"add": 11}, {"program": 11}]


@pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.name)
@pytest.mark.parametrize("thread_id", ["t", 7, uuid.UUID(int=5)], ids=["text", "number", "uuid"])
def test_graphs_with_one_saver_share_a_thread_whatever_its_id_is(lib: Any, thread_id: Any) -> None:
    saver = lib.InMemorySaver()

    def ask(state: Any) -> Any:
        return {"out": [lib.interrupt(state["n"])]}

    def spread(state: Any) -> Any:
        return [lib.Send("child", {"n": n}) for n in range(3)]

    child = lib.StateGraph(Asked).add_node(ask).add_edge(lib.START, "ask")
    graph = (
        lib.StateGraph(State)
        .add_node("child", child.compile(checkpointer=saver))
        .add_conditional_edges(lib.START, spread, ["child"])
        .compile(checkpointer=saver)
    )
    config = {"configurable": {"thread_id": thread_id}}
    graph.invoke({}, config)
    asked = graph.get_state(config).interrupts
    assert sorted(question.value for question in asked) == [0, 1, 2]
    answers = {question.id: f"answer {question.value}" for question in asked}
    result = graph.invoke(lib.Command(resume=answers), config)
    assert result["out"] == ["answer 0", "answer 1", "answer 2"]


def test_tool_calls_of_a_node_report_to_its_chain() -> None:
    class Handler(BaseCallbackHandler):
        def __init__(self) -> None:
            self.chains: dict[Any, str] = {}
            self.tool_parents: list[str] = []

        def on_chain_start(self, *_args: Any, **told: Any) -> None:
            self.chains[told["run_id"]] = told["name"]

        def on_tool_start(self, *_args: Any, **told: Any) -> None:
            self.tool_parents.append(self.chains[told["parent_run_id"]])

    @tool
    def double(n: int) -> int:
        """Twice n."""
        return 2 * n

    calls = [{"name": "double", "args": {"n": n}, "id": str(n)} for n in (1, 2)]
    handler = Handler()
    builder = StateGraph(MessagesState).add_node("tools", ToolNode([double]))
    graph = builder.add_edge(START, "tools").compile()
    result = graph.invoke({"messages": [AIMessage("", tool_calls=calls)]}, {"callbacks": [handler]})
    assert [message.content for message in result["messages"][1:]] == ["2", "4"]
    assert handler.tool_parents == ["tools", "tools"]
    assert list(handler.chains.values()) == ["LangGraph", "tools"]


@pytest.mark.parametrize("given", [{}, {"thread_id": "t", "run_id": "r", "graph_id": "g"}])
def test_metadata_of_messages_name_the_run_in_both_libraries(given: dict[str, str]) -> None:
    def say(state: Any) -> Any:
        return {"messages": [AIMessage("hi", id="1")]}

    told = []
    for root in ("langgraph", "milepost"):
        builder = import_module(f"{root}.graph").StateGraph(MessagesState).add_node(say)
        graph = builder.add_edge(START, "say").compile()
        ((_, metadata),) = graph.stream({}, {"configurable": given}, stream_mode="messages")
        told.append({key: metadata.get(key) for key in ("thread_id", "run_id", "graph_id")})
    assert told[0] == told[1] == {**dict.fromkeys(told[0]), **given}


@pytest.mark.filterwarnings("ignore:.*'why':milepost.warnings.MilepostWarning")
@pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.name)
def test_a_router_without_a_schema_sees_what_its_node_returned_besides_the_state(lib: Any) -> None:
    seen: dict[str, Any] = {}

    def decide(state: Any) -> Any:
        return {"a": state["a"] + 1, "why": "because"}

    def plain(state: Any) -> str:
        seen["plain"] = dict(state)
        return "__end__"

    def typed(state: State) -> str:
        seen["typed"] = dict(state)
        return "__end__"

    builder = lib.StateGraph(State).add_node(decide).add_edge(lib.START, "decide")
    builder.add_conditional_edges("decide", plain).add_conditional_edges("decide", typed)
    assert builder.compile().invoke({"a": 1}) == {"a": 2, "out": []}
    assert seen["plain"] == {"a": 2, "out": [], "why": "because"}
    assert seen["typed"] == {"a": 2, "out": []}


# -- what functions ask for by the names of their parameters


@dataclass(frozen=True)
class Settings:
    words: int = 3


SETTINGS = Settings()


def asks_for_all(x, config, runtime, *, store, writer, previous):
    writer("written")
    found = store.get(("a",), "b").value, runtime.context, config["configurable"]["thread_id"]
    return x, *found, previous


async def asks_in_async_code(*, config, runtime):
    return config["configurable"]["thread_id"], runtime.context


def asks_first(config, x=3):
    return x, config["configurable"]["thread_id"]


def has_its_own(
    x: Any, config: Settings = SETTINGS, store: str = "shop", writer: Any = None
) -> Any:
    return x, config, store


@pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.name)
def test_a_task_is_given_what_its_parameters_ask_for(lib: Any) -> None:
    task = lib.task(asks_for_all)
    store = lib.InMemoryStore()
    store.put(("a",), "b", {"c": 1})
    program = lib.entrypoint(checkpointer=lib.InMemorySaver(), store=store)(
        lambda x: task(x).result()
    )
    config = {"configurable": {"thread_id": "t"}}
    modes = ["custom", "values"]
    told = list(program.stream(1, config, stream_mode=modes, context="C"))
    assert told == [("custom", "written"), ("values", (1, {"c": 1}, "C", "t", None))]


@pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.name)
def test_a_task_without_arguments_is_given_what_it_asks_for(lib: Any) -> None:
    async_task, task = lib.task(asks_in_async_code), lib.task(asks_first)

    async def work(_: Any) -> Any:
        return await async_task(), await task(), await task(x=5)

    program = lib.entrypoint(checkpointer=lib.InMemorySaver())(work)
    config = {"configurable": {"thread_id": "t"}}
    done = asyncio.run(program.ainvoke(1, config, context="C"))
    assert [*map(tuple, done)] == [("t", "C"), (3, "t"), (5, "t")]


def test_what_the_caller_of_a_task_passes_counts() -> None:
    own = task(asks_first)
    program = entrypoint()(lambda x: [own({"configurable": {"thread_id": x}}).result()])
    assert program.invoke("mine") == [(3, "mine")]


@pytest.mark.filterwarnings("ignore:The 'config' parameter should be typed")
@pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.name)
def test_a_parameter_of_another_type_keeps_its_default(lib: Any) -> None:
    seen: list[Any] = []

    def node(state: State, config: Settings = SETTINGS, store: str = "shop") -> None:
        seen.append((config, store))

    def route(state: State, config: Settings | None = None, store: str = "shop") -> str:
        seen.append((config, store))
        return "__end__"

    builder = lib.StateGraph(State).add_node(node).add_edge(lib.START, "node")
    graph = builder.add_conditional_edges("node", route).compile(store=lib.InMemoryStore())
    graph.invoke({"a": 1})
    assert seen == [(SETTINGS, "shop"), (None, "shop")]
    task = lib.task(has_its_own)
    program = lib.entrypoint(store=lib.InMemoryStore())(lambda x: task(x).result())
    assert program.invoke(1) == (1, SETTINGS, "shop")
    assert lib.entrypoint(store=lib.InMemoryStore())(has_its_own).invoke(1) == (
        1,
        Settings(),
        "shop",
    )
