"""What the tests of links run in another process; the first argument says which of it."""

import asyncio
import json
import os
import signal
import sys
from typing import Any

from opentelemetry.sdk.trace import SpanProcessor
from recorded import Recorded
from traced_graphs import State, story

from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph
from milepost.types import Command

DRIVERS = ("sync", "async")
DURABILITIES = ("sync", "async", "exit")
PLACES = [(driver, durability) for driver in DRIVERS for durability in DURABILITIES]


def opened(address: str) -> Any:
    kind = PostgresSaver if address.startswith("postgres") else SqliteSaver
    return kind.from_conn_string(address)


def invoke(graph: Any, driver: str, input: Any, thread_id: str, **options: Any) -> Any:
    config = {"configurable": {"thread_id": thread_id}}
    if driver == "sync":
        return graph.invoke(input, config, **options)
    return asyncio.run(graph.ainvoke(input, config, **options))


def crashing(dies: Any) -> Any:
    """A graph whose second node does `dies`."""
    builder = StateGraph(State).add_node("first", lambda state: {"log": ["first"]})
    builder.add_node("second", dies).add_edge(START, "first").add_edge("first", "second")
    return builder


def resume(address: str) -> None:
    """Answer what the threads wait for, and tell of each trace."""
    told = {}
    with opened(address) as saver:
        for driver, durability in PLACES:
            recorded = Recorded()
            recorded.instrument()
            graph = story().compile(checkpointer=saver, name="outer")
            thread_id = f"{driver}-{durability}"
            invoke(graph, driver, Command(resume="yes"), thread_id, durability=durability)
            span = recorded.one("invoke_workflow outer")
            told[thread_id] = {
                "trace": span.context.trace_id,
                "links": [
                    [link.context.trace_id, link.context.span_id, link.attributes["milepost.link"]]
                    for link in span.links
                ],
                "tree": recorded.tree(["commit"]),
            }
    print(json.dumps(told))


def crash(address: str, driver: str) -> None:
    """Be killed in the second step; the span of the run was told before."""
    recorded = Recorded()
    recorded.instrument()
    begun: list[Any] = []
    recorded.tracers.add_span_processor(_Begun(begun))

    def dies(state: Any) -> None:
        (root,) = [span for span in begun if span.name == "invoke_workflow crashing"]
        context = root.get_span_context()
        print(json.dumps([context.trace_id, context.span_id]), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    with opened(address) as saver:
        graph = crashing(dies).compile(checkpointer=saver, name="crashing")
        invoke(graph, driver, {"log": []}, "t", durability="sync")


class _Begun(SpanProcessor):
    """Keeps the spans that have begun."""

    def __init__(self, begun: list[Any]) -> None:
        self._begun = begun

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._begun.append(span)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
