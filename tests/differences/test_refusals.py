"""Refusals: what would harm stored data."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from differing import Row, Rows, T, asks, fan, line, outcome, saved, says

ROWS = Rows()


@ROWS.differ(
    "two runs on one thread at once", langgraph=(None, ["x"]), milepost=("ThreadConflict", ["x"])
)
def two_at_once(lib: Any) -> Any:
    meet = threading.Barrier(2, timeout=10)
    once = iter([True, True])

    def node(_: Any) -> Any:
        if next(once, False):
            meet.wait()
        return {"log": ["x"]}

    graph = saved(lib, line(lib, n=node))
    failed: list[str] = []

    def call() -> None:
        try:
            graph.invoke({"log": []}, T)
        except Exception as error:
            failed.append(type(error).__name__)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(10)
    return (failed or [None])[0], graph.get_state(T).values["log"]


class Handle:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle)

    __hash__ = None  # type: ignore[assignment]


@ROWS.differ(
    "an object of a class that is no data type",
    langgraph="TypeError",
    milepost="SerializationError",
)
def no_data(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=lambda _: {"a": Handle()}))
    kinds = outcome(lambda: graph.invoke({}, T, durability="sync"))
    return "SerializationError" if "SerializationError" in kinds else "TypeError"


@ROWS.differ(
    "a `checkpoint_id` that does not exist", langgraph=["x"], milepost="CheckpointNotFoundError"
)
def no_checkpoint(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=says("x")))
    graph.invoke({"log": ["first"]}, T)
    there = {
        "configurable": {"thread_id": "t", "checkpoint_id": "1f000000-0000-6000-8000-000000000000"}
    }
    found = outcome(lambda: graph.invoke({}, there))
    return "CheckpointNotFoundError" if "CheckpointNotFoundError" in found else found["log"]


@ROWS.differ(
    "`thread_id` of `None` with a saver", langgraph=["x", "x"], milepost="MissingThreadError"
)
def no_thread(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=says("x")))
    for _ in range(2):
        found = outcome(lambda: graph.invoke({}, {"configurable": {"thread_id": None}}))
    return "MissingThreadError" if "MissingThreadError" in found else found["log"]


@ROWS.differ(
    "one value for several open interrupts in a subgraph where a sibling failed",
    langgraph="taken",
    milepost="UnknownInterruptError",
)
def several_open(lib: Any) -> Any:
    once = iter([True])

    def first_fails(_: Any) -> Any:
        if next(once, False):
            raise ValueError("failed")
        return {"log": ["ok"]}

    inner = fan(lib, p=asks(lib, "p?"), q=asks(lib, "q?"), r=first_fails).compile()
    graph = saved(lib, line(lib, n=inner))
    outcome(lambda: graph.invoke({}, T))
    found = outcome(lambda: graph.invoke(lib.Command(resume="one"), T))
    return "UnknownInterruptError" if "UnknownInterruptError" in found else "taken"


@ROWS.differ(
    "the node that a thread waits at was renamed or removed",
    langgraph=((), {"log": []}),
    milepost=("MissingNodeError", "MissingNodeError"),
)
def renamed(lib: Any) -> Any:
    saver = lib.InMemorySaver()
    line(lib, old=asks(lib)).compile(checkpointer=saver).invoke({}, T)
    graph = line(lib, new=asks(lib)).compile(checkpointer=saver)
    found = (
        outcome(lambda: graph.get_state(T).next),
        outcome(lambda: graph.invoke(lib.Command(resume=1), T)),
    )
    return tuple(
        "MissingNodeError" if isinstance(one, set) and "MissingNodeError" in one else one
        for one in found
    )


@ROWS.differ(
    "`copy_thread` onto a thread that exists",
    langgraph="NotImplementedError",
    milepost="CheckpointError",
)
def copied_onto(lib: Any) -> Any:
    saver = lib.InMemorySaver()
    graph = line(lib, n=says("x")).compile(checkpointer=saver)
    graph.invoke({}, T)
    graph.invoke({}, {"configurable": {"thread_id": "u"}})
    kinds = outcome(lambda: saver.copy_thread("t", "u"))
    return next(iter({"CheckpointError", "NotImplementedError"} & kinds))


@ROWS.differ(
    "`json.dumps` of a snapshot of the *history*",
    langgraph=[{"log": ["x"]}, []],
    milepost=["TypeError", [{"log": ["x"]}, []]],
)
def dumped(lib: Any) -> Any:
    graph = saved(lib, line(lib, n=says("x")))
    graph.invoke({}, T)
    snapshot = next(iter(graph.get_state_history(T)))

    def plain(value: Any) -> Any:
        return json.loads(json.dumps(value))[:2]

    found = outcome(lambda: plain(snapshot))
    return (
        found
        if isinstance(found, list)
        else ["TypeError" if "TypeError" in found else found, plain(tuple(snapshot))]
    )


@pytest.mark.parametrize("row", ROWS, ids=[row.program.__name__ for row in ROWS])
@pytest.mark.filterwarnings("ignore")
def test_each_library_ends_as_the_row_says(row: Row, lib: Any) -> None:
    assert row.program(lib) == getattr(row, lib.name)
