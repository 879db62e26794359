"""Threads, metadata and subgraphs."""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
import threading
from typing import Any

import pytest
from differing import Row, Rows, State, T, asked, asks, fan, line, outcome, saved, says

ROWS = Rows()


@ROWS.differ(
    "`Command(graph=Command.PARENT)` without a parent",
    langgraph=(True, False),
    milepost=(True, True),
)
def no_parent(lib: Any) -> Any:
    def node(_: Any) -> Any:
        return lib.Command(graph=lib.Command.PARENT, update={"a": 1})

    kinds = outcome(lambda: line(lib, n=node).compile().invoke({}))
    return "ParentCommand" in kinds, "InvalidUpdateError" in kinds


@ROWS.differ(
    "several `Command(graph=Command.PARENT)` in one step",
    langgraph=["one"],
    milepost=["one", "two"],
)
def several_to_the_parent(lib: Any) -> Any:
    up = [lib.Command(graph=lib.Command.PARENT, update={"log": [n]}) for n in ("one", "two")]
    inner = line(lib, leave=lambda _: up).compile()
    return line(lib, inner=inner).compile().invoke({"log": []})["log"]


@ROWS.differ(
    "the sources of a join are listed in another order while a thread waits for it",
    langgraph=["a", "yes"],
    milepost=["a", "yes", "last"],
)
def listed_in_another_order(lib: Any) -> Any:
    saver = lib.InMemorySaver()

    def graph(*sources: str) -> Any:
        builder = lib.StateGraph(State).add_node("a", says("a")).add_node("b", asks(lib))
        builder.add_node("last", says("last")).add_edge(lib.START, "a").add_edge(lib.START, "b")
        return builder.add_edge([*sources], "last").compile(checkpointer=saver)

    graph("a", "b").invoke({}, T)
    return graph("b", "a").invoke(lib.Command(resume="yes"), T)["log"]


@ROWS.differ("`batch` with several inputs for one thread", langgraph=1, milepost=3)
def batched(lib: Any) -> Any:
    meet = threading.Barrier(3, timeout=1 if lib.name == "langgraph" else 0.05)

    def node(_: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            meet.wait()
        return {"log": ["x"]}

    graph = saved(lib, line(lib, n=node))
    graph.batch([{"log": []}] * 3, T)
    return len(graph.get_state(T).values["log"])


@ROWS.differ("`configurable` keys of the caller", langgraph=("u", "s", 1), milepost=("u", None, 1))
def keys_of_the_caller(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=says("x")))
    graph.invoke({}, {"configurable": {"thread_id": "t", "user": "u", "api_key": "s", "n": 1}})
    metadata = graph.get_state(T).metadata
    return tuple(metadata.get(key) for key in ("user", "api_key", "n"))


@ROWS.differ('`config["metadata"]`', langgraph=(1, None), milepost=(1, {"b": 2}))
def metadata_of_the_caller(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=says("x")))
    graph.invoke({}, {**T, "metadata": {"a": 1, "more": {"b": 2}}})
    metadata = graph.get_state(T).metadata
    return metadata.get("a"), metadata.get("more")


@ROWS.differ(
    "one of our savers fails while a step is saved",
    langgraph=["OperationalError"],
    milepost=["SaverError"],
)
def saver_fails(lib: Any) -> Any:
    saver_of = importlib.import_module(f"{lib.name}.checkpoint.sqlite").SqliteSaver
    with contextlib.closing(sqlite3.connect(":memory:", check_same_thread=False)) as conn:
        saver = saver_of(conn)
        saver.setup()
        conn.execute("PRAGMA query_only = ON")
        graph = line(lib, n=says("x")).compile(checkpointer=saver)
        kinds = outcome(lambda: graph.invoke({}, T, durability="sync"))
    return sorted(kinds & {"OperationalError", "SaverError"})


@ROWS.differ('`metadata["writes"]`', langgraph=None, milepost={"n": {"log": ["x"]}})
def writes_in_metadata(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=says("x")))
    graph.invoke({}, T)
    metadata = graph.get_state(T).metadata
    assert "writes" not in metadata
    return metadata["writes"] if lib.name == "milepost" else metadata.get("writes")


@ROWS.differ(
    "`checkpointer=True` after a fork or a replay", langgraph=["1", "2", "3"], milepost=["1", "3"]
)
def memory_of_a_branch(lib: Any) -> Any:
    inner = line(lib, i=lambda state: {}).compile(checkpointer=True)

    seen: list[Any] = []

    def remember(state: Any) -> Any:
        seen[:] = inner.invoke({"log": [str(state["a"])]})["log"]
        return {}

    graph = saved(lib, line(lib, n=remember))
    graph.invoke({"a": 1}, T)
    before = graph.get_state(T).config
    graph.invoke({"a": 2}, T)
    graph.invoke({"a": 3}, before)
    return list(seen)


@ROWS.differ("`checkpointer=True`, `parent_config`", langgraph=True, milepost=False)
def parent_of_a_memory(lib: Any) -> Any:
    inner = line(lib, i=says("x"), j=asks(lib)).compile(checkpointer=True)
    graph = saved(lib, line(lib, n=inner))
    graph.invoke({"a": 1}, T)
    state = graph.get_state(T, subgraphs=True).tasks[0].state
    return "checkpoint_map" in state.parent_config["configurable"]


@ROWS.differ(
    "a retry of a node with a graph inside",
    langgraph=["one", "two", "one", "two"],
    milepost=["one", "two", "two"],
)
def retried(lib: Any) -> Any:
    ran: list[str] = []

    def two(_: Any) -> Any:
        ran.append("two")
        if len(ran) < 3:
            raise ValueError("failed")
        return {}

    inner = line(lib, one=lambda _: ran.append("one") or {}, two=two).compile()
    policy = lib.RetryPolicy(initial_interval=0, max_attempts=3, retry_on=ValueError, jitter=False)
    builder = (
        lib.StateGraph(State).add_node("n", inner, retry_policy=policy).add_edge(lib.START, "n")
    )
    saved(lib, builder).invoke({"a": 1}, T)
    return ran


@ROWS.differ(
    "a node waits or fails after a graph that it called has ended, durability `exit`",
    langgraph=["1?", "2?", "1?"],
    milepost=["1?", "2?", []],
)
def ended_call(lib: Any) -> Any:
    def ask(state: Any) -> Any:
        return {"log": [lib.interrupt(f"{state['a']}?")]}

    inner = line(lib, i=ask).compile()
    graph = saved(lib, line(lib, n=lambda _: {"log": [inner.invoke({"a": a}) for a in (1, 2)]}))
    found = [graph.invoke({}, T, durability="exit")]
    for _ in range(2):
        [one] = found[-1]["__interrupt__"]
        answer = lib.Command(resume={one.id: "yes"})
        found.append(graph.invoke(answer, T, durability="exit"))
    return [one for result in found for one in asked(result) or [[]]]


@ROWS.differ(
    "a checkpoint that is put again with the config that it was read with",
    langgraph=True,
    milepost=False,
)
def put_again(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=says("x")))
    graph.invoke({}, T)
    saver = graph.checkpointer
    read = saver.get_tuple(T)
    saver.put(read.config, read.checkpoint, read.metadata, {})
    return saver.get_tuple(T).parent_config == read.config


@ROWS.differ(
    "a graph with a saver of its own, called in a node with the `thread_id` of the run",
    langgraph=True,
    milepost=False,
)
def own_saver_for_the_same_thread(lib: Any) -> Any:
    saver = lib.InMemorySaver()
    inner = line(lib, i=says("x")).compile(checkpointer=saver)
    saved(lib, line(lib, n=lambda state: inner.invoke(state, T))).invoke({"a": 1}, T)
    return bool(list(saver.list(None)))


@ROWS.differ("a subgraph with a store, in a graph without one", langgraph=False, milepost=True)
def own_store(lib: Any) -> Any:
    had: list[bool] = []
    store_of = importlib.import_module(f"{lib.name}.config").get_store

    def look(state: Any) -> None:
        try:
            had.append(store_of() is not None)
        except Exception:
            had.append(False)

    store = importlib.import_module(f"{lib.name}.store.memory").InMemoryStore()
    line(lib, n=line(lib, i=look).compile(store=store)).compile().invoke({"a": 1})
    return had == [True]


@ROWS.differ("a cached node in a subgraph that has no cache", langgraph=2, milepost=1)
def cache_around(lib: Any) -> Any:
    ran: list[Any] = []
    inner = lib.StateGraph(State).add_edge(lib.START, "i")
    inner.add_node("i", ran.append, cache_policy=lib.CachePolicy())
    graph = line(lib, n=inner.compile()).compile(cache=lib.InMemoryCache())
    for _ in range(2):
        graph.invoke({"a": 1})
    return len(ran)


@ROWS.differ(
    "the state inside a task that has ended beside one that waits", langgraph=["?"], milepost=[]
)
def ended_beside_a_question(lib: Any) -> Any:
    graph = saved(lib, fan(lib, n=line(lib, i=asks(lib)).compile(), m=asks(lib, "beside?")))
    asked_first = graph.invoke({}, T, durability="exit")["__interrupt__"]
    answer = {one.id: "yes" for one in asked_first if one.value == "?"}
    graph.invoke(lib.Command(resume=answer), T, durability="exit")
    inside = {task.name: task for task in graph.get_state(T, subgraphs=True).tasks}["n"]
    assert inside.result == {"log": ["yes"]}
    return [one.value for one in inside.state.interrupts]


@ROWS.differ("a graph without a saver asks, called in a node with", langgraph=[], milepost=["?"])
def asks_in_another_thread(lib: Any) -> Any:
    inner = line(lib, i=asks(lib)).compile()
    other = {"configurable": {"thread_id": "other"}}
    graph = saved(lib, line(lib, n=lambda state: inner.invoke(state, other)))
    return asked(graph.invoke({}, T))


@ROWS.differ("`checkpointer=False` with durability `sync`", langgraph=False, milepost=True)
def unsaved(lib: Any) -> Any:
    inner = line(lib, i=says("x")).compile(checkpointer=False)
    found = outcome(lambda: saved(lib, line(lib, n=inner)).invoke({"a": 1}, T, durability="sync"))
    return isinstance(found, dict)


@pytest.mark.parametrize("row", ROWS, ids=[row.program.__name__ for row in ROWS])
@pytest.mark.filterwarnings("ignore")
def test_each_library_ends_as_the_row_says(row: Row, lib: Any) -> None:
    assert row.program(lib) == getattr(row, lib.name)
