"""Graphs and small helpers that several test modules share."""

import contextvars
import operator
import threading
import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from typing_extensions import TypedDict

from milepost.graph import END, START, StateGraph

PATIENCE = 30.0
"""Seconds that a hand-shake between threads may take before the test fails instead of hanging."""


class Doc(TypedDict):
    """The state of the documents' two-node example."""

    foo: str
    bar: Annotated[list[str], operator.add]


class Log(TypedDict):
    """A state that shows which nodes ran, in the order in which their updates were applied."""

    log: Annotated[list[Any], operator.add]


def node_a(state: Doc) -> dict[str, Any]:
    return {"foo": "a", "bar": ["a"]}


def node_b(state: Doc) -> dict[str, Any]:
    return {"foo": "b", "bar": ["b"]}


def two_nodes() -> StateGraph:
    """The documents' example: START -> node_a -> node_b -> END."""
    return (
        StateGraph(Doc)
        .add_node(node_a)
        .add_node(node_b)
        .add_edge(START, "node_a")
        .add_edge("node_a", "node_b")
        .add_edge("node_b", END)
    )


def appends(value: Any, ran: list[Any] | None = None) -> Callable[[Any], dict[str, Any]]:
    """A node that appends `value` to the log; `ran` collects the calls themselves."""

    def node(state: Any) -> dict[str, Any]:
        if ran is not None:
            ran.append(value)
        return {"log": [value]}

    return node


def line(*names: str, ran: list[Any] | None = None) -> StateGraph:
    """START -> each name in turn -> END; every node appends its name to the log."""
    builder = StateGraph(Log)
    for name in names:
        builder.add_node(name, appends(name, ran))
    for start, end in zip((START, *names), (*names, END), strict=True):
        builder.add_edge(start, end)
    return builder


def single(node: Any, schema: Any = Log, **schemas: Any) -> StateGraph:
    """A graph of one node, named `node`."""
    builder = StateGraph(schema, **schemas)
    return builder.add_node("node", node).add_edge(START, "node").add_edge("node", END)


def steps(history: Iterable[Any]) -> list[tuple[int, str, tuple[str, ...]]]:
    """What a history is about: step, source and next of each checkpoint, newest first."""
    return [(s.metadata["step"], s.metadata["source"], s.next) for s in history]


def id_of(config: Any) -> str:
    return config["configurable"]["checkpoint_id"]


def thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for what another thread or process is about to do."""
    patience = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < patience, what
        time.sleep(0.005)


def elsewhere(function: Callable[[], Any]) -> Any:
    """Call `function` in another thread that knows nothing of the run in this one."""
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.append((True, contextvars.Context().run(function)))
        except BaseException as error:  # handed to the caller below
            outcome.append((False, error))

    worker = threading.Thread(target=call, daemon=True)
    worker.start()
    worker.join(PATIENCE)
    assert outcome, "the call hangs"
    succeeded, value = outcome[0]
    if not succeeded:
        raise value
    return value


class Count(TypedDict):
    n: int


def counter(saver: Any, last: int, meanwhile: Any = None) -> Any:
    """Counts to `last`, and does something on the way."""

    def node(state: Count) -> dict[str, Any]:
        if meanwhile is not None:
            meanwhile(state["n"])
        return {"n": state["n"] + 1}

    builder = StateGraph(Count).add_node("node", node).add_edge(START, "node")
    builder.add_conditional_edges("node", lambda s: END if s["n"] >= last else "node")
    return builder.compile(checkpointer=saver)
