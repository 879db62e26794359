"""Steps."""

from __future__ import annotations

import asyncio
import importlib
import operator
import sqlite3
import time
from contextlib import closing
from enum import Enum
from typing import Annotated, Any, Generic, TypeVar

import pytest
from differing import Row, Rows, State, T, fails, fan, line, outcome, saved, says
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from pydantic import BaseModel, Field, PrivateAttr
from typing_extensions import TypedDict

ROWS = Rows()


A = TypeVar("A")


class Part(TypedDict, Generic[A]):
    a: A


class Noted(TypedDict):
    log: Annotated[list[Any], operator.add, "a note"]


@ROWS.differ('`Annotated[list, add, "a note"]`', langgraph=[2], milepost=[1, 2])
def noted(lib: Any) -> Any:
    builder = lib.StateGraph(Noted).add_node("n", says(2)).add_edge(lib.START, "n")
    return builder.compile().invoke({"log": [1]})["log"]


class Aliased(BaseModel):
    user_name: str = Field("nobody", alias="userName")
    out: str = ""


@ROWS.differ(
    "a field of a pydantic state has an alias",
    langgraph=["nobody", "nobody"],
    milepost=["ann", "ann"],
)
def field_with_an_alias(lib: Any) -> Any:
    builder = lib.StateGraph(Aliased).add_node("n", lambda state: {"out": state.user_name})
    graph = builder.add_edge(lib.START, "n").compile()
    return [graph.invoke(given)["out"] for given in (Aliased(userName="ann"), {"userName": "ann"})]


class Private(BaseModel):
    a: int = 0
    _count: int = PrivateAttr(7)


@ROWS.differ("a private attribute of a pydantic state", langgraph={"_count": 8}, milepost={})
def private_attribute(lib: Any) -> Any:
    def node(state: Private) -> Any:
        state._count += 1
        return state

    builder = lib.StateGraph(Private).add_node("n", node).add_node("m", lambda _: None)
    result = builder.add_edge(lib.START, "n").add_edge("n", "m").compile().invoke({"a": 1})
    return {key: value for key, value in result.items() if key != "a"}


@ROWS.differ("a parameter `config`, `writer` or `store`", langgraph=None, milepost=True)
def parameters_of_any_type(lib: Any) -> Any:
    def node(state: State, writer: Any = None) -> Any:
        return {"log": [writer and callable(writer)]}

    return line(lib, node=node).compile().invoke({})["log"][0]


@ROWS.differ(
    "`stream_mode` is a tuple",
    langgraph=[{"n": {"log": [1]}}, {"log": [1]}],
    milepost=[("updates", {"n": {"log": [1]}}), ("values", {"log": [1]})],
)
def modes_in_a_tuple(lib: Any) -> Any:
    graph = line(lib, n=says(1)).compile()
    return list(graph.stream({"log": []}, stream_mode=("values", "updates")))[1:]


@ROWS.differ("`add_node(…, input_schema=dict)`", langgraph=[], milepost=["a", "log"])
def schema_without_keys(lib: Any) -> Any:
    builder = lib.StateGraph(State)
    builder.add_node("n", lambda state: {"log": sorted(state)}, input_schema=dict)
    return builder.add_edge(lib.START, "n").compile().invoke({"a": 1, "log": []})["log"]


@ROWS.differ("a parameter of a node is a generic TypedDict", langgraph=["a", "log"], milepost=["a"])
def generic_part(lib: Any) -> Any:
    def node(state):
        return {"log": sorted(state)}

    node.__annotations__["state"] = Part[int]
    return line(lib, n=node).compile().invoke({"a": 1, "log": []})["log"]


@ROWS.differ("a node changes a list or dict", langgraph=["x"], milepost=[])
def changed_in_place(lib: Any) -> Any:
    saver = importlib.import_module(f"{lib.name}.checkpoint.sqlite").SqliteSaver

    def node(state: Any) -> Any:
        state["log"].append("x")
        return {"a": 1}

    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        graph = line(lib, n=node).compile(checkpointer=saver(connection))
        graph.invoke({"log": []}, T)
        return graph.get_state(T).values["log"]


@ROWS.differ(
    "a node writes the answer of a model with the tag `nostream`", langgraph=["yes"], milepost=[]
)
def answer_that_is_left_out(lib: Any) -> Any:
    model = GenericFakeChatModel(messages=iter([AIMessage("yes")])).with_config(tags=["nostream"])
    graph = line(lib, n=lambda _: {"log": [model.invoke("sure?")]}).compile()
    return [message.content for message, _ in graph.stream({}, stream_mode="messages")]


@ROWS.differ("a node is named by a member of", langgraph=[], milepost=["b"])
def named_by_an_enum(lib: Any) -> Any:
    names = Enum("names", {"B": "b"}, type=str)
    builder = line(lib, a=lambda _: lib.Command(goto=names.B)).add_node("b", says("b"))
    return builder.compile().invoke({"log": []})["log"]


@ROWS.differ(
    "a `Send` beside a `Command` in the list that a node returns",
    langgraph=["c"],
    milepost=["c", "m"],
)
def send_beside_command(lib: Any) -> Any:
    def node(_: Any) -> Any:
        return [lib.Command(update={"log": ["c"]}), lib.Send("m", {})]

    builder = lib.StateGraph(State).add_node("n", node).add_node("m", says("m"))
    return builder.add_edge(lib.START, "n").compile().invoke({})["log"]


@ROWS.differ("a node fails beside others, in async code", langgraph=[], milepost=["slow"])
def fails_beside(lib: Any) -> Any:
    ended: list[str] = []
    failed = asyncio.Event()

    async def slow(_: Any) -> Any:
        await failed.wait()
        await asyncio.sleep(0.02)
        ended.append("slow")
        return {"log": ["slow"]}

    async def bad(_: Any) -> Any:
        failed.set()
        raise ValueError("failed")

    graph = saved(lib, fan(lib, slow=slow, bad=bad))

    async def main() -> None:
        with pytest.raises(ValueError, match="failed"):
            await graph.ainvoke({}, T)

    asyncio.run(main())
    return ended


@ROWS.differ("a node fails while tasks that it called are running", langgraph=[], milepost=["slow"])
def fails_with_tasks(lib: Any) -> Any:
    ended: list[str] = []

    @lib.task
    async def slow() -> str:
        await asyncio.sleep(0.02)
        ended.append("slow")
        return "slow"

    @lib.entrypoint(checkpointer=lib.InMemorySaver())
    async def work(_: Any) -> Any:
        begun = slow()
        await asyncio.sleep(0)
        raise ValueError(f"failed beside {begun is not None}")

    async def main() -> None:
        with pytest.raises(ValueError, match="failed"):
            await work.ainvoke(1, T)

    asyncio.run(main())
    return ended


@ROWS.differ("deferred nodes", langgraph=["last", "sent"], milepost=["sent", "last"])
def deferred(lib: Any) -> Any:
    builder = lib.StateGraph(State).add_node("first", lambda _: {})
    builder.add_node("sent", says("sent")).add_node("last", says("last"), defer=True)
    builder.add_edge(lib.START, "first").add_edge("first", "last")
    builder.add_conditional_edges("first", lambda _: [lib.Send("sent", {})], ["sent"])
    return builder.compile().invoke({})["log"]


@ROWS.differ(
    "`values` and `checkpoints` of a step, streamed together",
    langgraph=["values", "checkpoints"],
    milepost=["checkpoints", "values"],
)
def streamed_together(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=says("x")))
    return [mode for mode, _ in graph.stream({}, T, stream_mode=["values", "checkpoints"])][-2:]


@ROWS.differ("the function of a conditional edge fails", langgraph=["n"], milepost=["n", "n"])
def edge_fails(lib: Any) -> Any:
    ran: list[str] = []
    once = iter([True])

    def route(_: Any) -> str:
        if next(once, False):
            raise ValueError("failed")
        return "m"

    builder = line(lib, n=lambda _: ran.append("n") or {"log": ["n"]}).add_node("m", says("m"))
    graph = saved(lib, builder.add_conditional_edges("n", route, ["m"]))
    outcome(lambda: graph.invoke({"a": 1}, T))
    graph.invoke(None, T)
    return ran


@ROWS.differ("`get_graph()`", langgraph=True, milepost=False)
def drawn(lib: Any) -> Any:
    builder = line(lib, a=says("a"), b=says("b")).add_edge("b", "a")
    return any(edge.target == "__end__" for edge in builder.compile().get_graph().edges)


@ROWS.differ(
    "what an error handler returns, streamed", langgraph=["__error_handler__n"], milepost=["n"]
)
def handled(lib: Any) -> Any:
    builder = lib.StateGraph(State).add_node(
        "n", fails, error_handler=lambda _: {"log": ["handled"]}
    )
    graph = builder.add_edge(lib.START, "n").compile()
    return [name for event in graph.stream({}, stream_mode="updates") for name in event]


@ROWS.differ(
    "a step takes longer than `step_timeout`, with sync nodes",
    langgraph=(["slow"], False),
    milepost=([], True),
)
def too_long(lib: Any) -> Any:
    ended: list[str] = []

    def slow(_: Any) -> Any:
        time.sleep(0.4)
        ended.append("slow")
        return {}

    graph = fan(lib, slow=slow, other=says("x")).compile()
    graph.step_timeout = 0.02
    kinds = outcome(lambda: graph.invoke({}))
    assert "TimeoutError" in kinds
    return list(ended), "StepTimeoutError" in kinds


@ROWS.differ(
    "`custom` of a `@task`, streamed with `subgraphs=True`", langgraph=False, milepost=True
)
def custom_of_a_task(lib: Any) -> Any:
    writer = importlib.import_module(f"{lib.name}.config").get_stream_writer

    @lib.task
    def told() -> int:
        writer()("hello")
        return 1

    @lib.entrypoint()
    def work(_: Any) -> Any:
        return told().result()

    events = list(work.stream(1, stream_mode=["custom"], subgraphs=True))
    return events[0][0] == ()


@ROWS.differ(
    "`Command(update=…, goto=…)` as the first input",
    langgraph=["in", "in", "m", "n"],
    milepost=["in", "m"],
)
def command_first(lib: Any) -> Any:
    builder = line(lib, n=says("n")).add_node("m", says("m"))
    graph = saved(lib, builder)
    return sorted(graph.invoke(lib.Command(update={"log": ["in"]}, goto="m"), T)["log"])


@pytest.mark.parametrize("row", ROWS, ids=[row.program.__name__ for row in ROWS])
@pytest.mark.filterwarnings("ignore")
def test_each_library_ends_as_the_row_says(row: Row, lib: Any) -> None:
    assert row.program(lib) == getattr(row, lib.name)
