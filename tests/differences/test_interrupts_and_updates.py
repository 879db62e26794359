"""Interrupts, updates and time travel."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from differing import Row, Rows, State, T, asked, asks, fails, fan, line, outcome, saved, says

ROWS = Rows()


def ids(result: Any) -> dict[Any, str]:
    return {one.value: one.id for one in result["__interrupt__"]}


@ROWS.differ(
    "some of several interrupts answered by id",
    langgraph=["p", "p", "q", "q"],
    milepost=["p", "p", "q"],
)
def some_answered(lib: Any) -> Any:
    ran: list[str] = []

    def ask(name: str) -> Any:
        return lambda _: ran.append(name) or {"log": [lib.interrupt(name)]}

    graph = saved(lib, fan(lib, p=ask("p"), q=ask("q")))
    first = graph.invoke({}, T)
    graph.invoke(lib.Command(resume={ids(first)["p"]: "yes"}), T)
    return sorted(ran)


def twice(lib: Any) -> Any:
    def node(_: Any) -> Any:
        return {"log": [lib.interrupt("one"), lib.interrupt("two")]}

    return saved(lib, line(lib, n=node))


@ROWS.differ(
    "`invoke(None)` after one of two questions in a node was answered",
    langgraph=([], ["yes", "yes"]),
    milepost=(["two"], []),
)
def none_after_one(lib: Any) -> Any:
    graph = twice(lib)
    graph.invoke({}, T)
    graph.invoke(lib.Command(resume="yes"), T)
    found = graph.invoke(None, T)
    return asked(found), found.get("log", [])


@ROWS.differ(
    "`{id: answer}` with the id of a question that was answered", langgraph=[], milepost=["two"]
)
def old_id(lib: Any) -> Any:
    graph = twice(lib)
    one = ids(graph.invoke({}, T))["one"]
    graph.invoke(lib.Command(resume={one: "first"}), T)
    return asked(graph.invoke(lib.Command(resume={one: "again"}), T))


@ROWS.differ(
    "`Command(resume=…)` at an old checkpoint whose question was answered",
    langgraph=["old"],
    milepost=["new"],
)
def old_checkpoint(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=asks(lib)))
    graph.invoke({}, T)
    past = graph.get_state(T).config
    graph.invoke(lib.Command(resume="old"), T)
    return graph.invoke(lib.Command(resume="new"), past)["log"]


@ROWS.differ(
    "an answer after `update_state`, where a graph inside asks, or several tasks wait",
    langgraph=([], ["yes"]),
    milepost=([2], []),
)
def answer_after_an_update(lib: Any) -> Any:
    asking = line(lib, n=lambda state: {"log": [lib.interrupt(state["a"])]}).compile()
    graph = saved(lib, line(lib, first=says(), inner=asking))
    graph.invoke({"a": 1}, T)
    graph.update_state(T, {"a": 2}, as_node="first")
    found = graph.invoke(lib.Command(resume="yes"), T)
    return asked(found), found.get("log", [])


@ROWS.differ("answered interrupts in the history", langgraph=["two"], milepost=["one", "two"])
def in_the_history(lib: Any) -> Any:
    graph = twice(lib)
    graph.invoke({}, T)
    for answer in ("a", "b"):
        graph.invoke(lib.Command(resume=answer), T)
    past = next(s for s in graph.get_state_history(T) if s.tasks and s.tasks[0].name == "n")
    return sorted(one.value for one in past.tasks[0].interrupts)


@ROWS.differ(
    "a node, or a graph inside it, fails after its question was answered",
    langgraph=(["?"], "first"),
    milepost=([], "second"),
)
def fails_after(lib: Any) -> Any:
    once = iter([True])

    def node(_: Any) -> Any:
        answer = lib.interrupt("?")
        if next(once, False):
            raise ValueError("failed")
        return {"log": [answer]}

    graph = saved(lib, line(lib, n=node))
    graph.invoke({}, T)
    outcome(lambda: graph.invoke(lib.Command(resume="first"), T))
    open_now = [one.value for one in graph.get_state(T).interrupts]
    return open_now, graph.invoke(lib.Command(resume="second"), T)["log"][0]


@ROWS.differ(
    "a node or `@task` with a cache policy asks, or a graph inside it does",
    langgraph=[],
    milepost=["?"],
)
def asks_with_a_cache(lib: Any) -> Any:
    builder = lib.StateGraph(State).add_node("n", asks(lib), cache_policy=lib.CachePolicy())
    builder.add_edge(lib.START, "n")
    graph = builder.compile(checkpointer=lib.InMemorySaver(), cache=lib.InMemoryCache())
    graph.invoke({}, T)
    graph.invoke(lib.Command(resume="yes"), T)
    return asked(graph.invoke({}, {"configurable": {"thread_id": "another"}}))


@ROWS.differ("several `@task` calls of a function ask at once", langgraph=1, milepost=2)
def tasks_ask(lib: Any) -> Any:
    @lib.task
    def ask(question: str) -> Any:
        return lib.interrupt(question)

    @lib.entrypoint(checkpointer=lib.InMemorySaver())
    def work(_: Any) -> Any:
        begun = [ask("p"), ask("q")]
        return [one.result() for one in begun]

    return len(asked(work.invoke(1, T)))


@ROWS.differ("an interrupt beside a failure inside a subgraph", langgraph=[], milepost=["?"])
def beside_a_failure(lib: Any) -> Any:
    inner = fan(lib, p=asks(lib), q=fails).compile()
    graph = saved(lib, line(lib, n=inner))
    outcome(lambda: graph.invoke({}, T))
    return [one.value for one in graph.get_state(T).interrupts]


@ROWS.differ("several interrupts in one step, streamed", langgraph=[1, 1], milepost=[2])
def streamed(lib: Any) -> Any:
    graph = saved(lib, fan(lib, p=asks(lib, "p"), q=asks(lib, "q")))
    return [
        len(event["__interrupt__"])
        for event in graph.stream({}, T, stream_mode="values")
        if "__interrupt__" in event
    ]


# -- updates


@ROWS.differ(
    "`update_state` as a task that waits, with finished tasks beside it",
    langgraph=["edited"],
    milepost=["edited", "p"],
)
def update_beside_finished(lib: Any) -> Any:
    graph = saved(lib, fan(lib, p=says("p"), q=asks(lib)))
    graph.invoke({}, T)
    graph.update_state(T, {"log": ["edited"]}, as_node="q")
    return sorted(graph.get_state(T).values["log"])


@ROWS.differ(
    "`update_state` as a node, in the history of its base",
    langgraph={"log": ["edited"]},
    milepost=None,
)
def base_of_an_update(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=says("n"), m=asks(lib)))
    graph.invoke({}, T)
    graph.update_state(T, {"log": ["edited"]}, as_node="m")
    base = next(s for s in graph.get_state_history(T) if s.next == ("m",) or s.tasks)
    return base.tasks[0].result


@ROWS.differ(
    "`update_state` as a node that waits because of a join or because it is deferred",
    langgraph=("last",),
    milepost=(),
)
def update_as_a_deferred(lib: Any) -> Any:
    builder = lib.StateGraph(State).add_node("p", says("p")).add_node("ask", asks(lib))
    builder.add_node("last", says("last"), defer=True)
    builder.add_edge(lib.START, "p").add_edge("p", "ask").add_edge("p", "last").add_edge(
        "ask", "last"
    )
    graph = saved(lib, builder)
    graph.invoke({}, T)
    graph.update_state(T, {"log": ["a"]}, as_node="ask")
    graph.update_state(T, {"log": ["b"]}, as_node="last")
    return graph.get_state(T).next


@ROWS.differ("`update_state` without `as_node` after an update", langgraph=("m",), milepost=())
def update_after_an_update(lib: Any) -> Any:
    graph = line(lib, n=says("n"), m=says("m")).compile(
        checkpointer=lib.InMemorySaver(), interrupt_after=["n"]
    )
    graph.invoke({}, T)
    graph.update_state(T, {"log": ["one"]}, as_node="m")
    graph.update_state(T, {"log": ["two"]})
    return graph.get_state(T).next


@ROWS.differ("the same after a node with two triggers", langgraph="ambiguous", milepost=("m",))
def two_triggers(lib: Any) -> Any:
    builder = fan(lib, p=says("p"), q=says("q")).add_node("n", says("n")).add_node("m", says("m"))
    builder.add_edge(["p", "q"], "n").add_edge("p", "n").add_edge("n", "m")
    graph = builder.compile(checkpointer=lib.InMemorySaver(), interrupt_after=["n"])
    graph.invoke({}, T)
    found = outcome(lambda: graph.update_state(T, {"log": ["x"]}))
    return "ambiguous" if isinstance(found, set) else graph.get_state(T).next


@ROWS.differ(
    "`update_state` after a `Command(update=…)` while the thread waited",
    langgraph=[["new"], []],
    milepost=[["more", "new"], ["more"]],
)
def updated_after_a_command(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=asks(lib)))
    found = []
    for node, values in ("n", {"log": ["new"]}), ("__copy__", None):
        config = {"configurable": {"thread_id": node}}
        graph.invoke({}, config)
        graph.invoke(lib.Command(update={"log": ["more"]}), config)
        graph.update_state(config, values, as_node=node)
        found.append(graph.get_state(config).values["log"])
    return found


@ROWS.differ(
    "`Command(goto=…)` while the thread waited, in the history",
    langgraph=("n",),
    milepost=("n", "m"),
)
def history_of_a_goto(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=asks(lib)).add_node("m", says("m")))
    graph.invoke({}, T)
    graph.invoke(lib.Command(resume="yes", goto="m"), T)
    return next(reversed([s.next for s in graph.get_state_history(T) if "n" in s.next]))


@ROWS.differ("several tool calls of one `ToolNode`", langgraph=(1, 2), milepost=(2, 1))
def tools_ask(lib: Any) -> Any:
    messages = pytest.importorskip("langchain_core.messages")
    tool_of = importlib.import_module("langchain_core.tools").tool
    made = importlib.import_module(f"{lib.name}.prebuilt").ToolNode
    done: list[str] = []

    @tool_of
    def ask(question: str) -> str:
        """Ask."""
        return str(lib.interrupt(question))

    @tool_of
    def work() -> str:
        """Work."""
        done.append("work")
        return "done"

    calls = [
        {"name": "work", "args": {}, "id": "1", "type": "tool_call"},
        {"name": "ask", "args": {"question": "p"}, "id": "2", "type": "tool_call"},
        {"name": "ask", "args": {"question": "q"}, "id": "3", "type": "tool_call"},
    ]
    schema = importlib.import_module(f"{lib.name}.graph").MessagesState
    builder = (
        lib.StateGraph(schema).add_node("tools", made([ask, work])).add_edge(lib.START, "tools")
    )
    graph = saved(lib, builder)
    first = graph.invoke({"messages": [messages.AIMessage("", tool_calls=calls)]}, T)
    shown = first["__interrupt__"]
    graph.invoke(lib.Command(resume={one.id: "yes" for one in shown}), T)
    return len(shown), len(done)


@ROWS.differ(
    "replay and fork from a checkpoint inside a subgraph", langgraph=["a", "a"], milepost=["a"]
)
def replay_inside(lib: Any) -> Any:
    ran: list[str] = []
    inner = line(lib, a=lambda _: ran.append("a") or {}, b=asks(lib)).compile()
    graph = saved(lib, line(lib, n=inner))
    graph.invoke({"a": 1}, T)
    graph.invoke(None, graph.get_state(T, subgraphs=True).tasks[0].state.config)
    return ran


@ROWS.differ("`Command(resume={})`", langgraph=["?"], milepost=[])
def empty_answer(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=asks(lib)))
    graph.invoke({}, T)
    return asked(graph.invoke(lib.Command(resume={}), T))


@ROWS.differ(
    "a new input of an entrypoint that waits for its second answer",
    langgraph=["2?"],
    milepost=["1?"],
)
def answer_of_another_run(lib: Any) -> Any:
    @lib.entrypoint(checkpointer=lib.InMemorySaver())
    def program(_: Any) -> Any:
        return [lib.interrupt(question) for question in ("1?", "2?")]

    program.invoke(1, T)
    program.invoke(lib.Command(resume="yes"), T)
    return asked(program.invoke(2, T))


@ROWS.differ(
    "`Command(goto=…)` on a thread that has ended, to a node that asks",
    langgraph=0,
    milepost=1,
)
def question_after_goto(lib: Any) -> Any:
    graph = saved(lib, line(lib, first=says("x")).add_node("n", asks(lib)))
    graph.invoke({"a": 1}, T)
    graph.invoke(lib.Command(goto="n"), T)
    return len(graph.get_state(T).interrupts)


@pytest.mark.parametrize("row", ROWS, ids=[row.program.__name__ for row in ROWS])
@pytest.mark.filterwarnings("ignore")
def test_each_library_ends_as_the_row_says(row: Row, lib: Any) -> None:
    assert row.program(lib) == getattr(row, lib.name)
