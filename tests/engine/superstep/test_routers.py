"""Routers: how the function of a conditional edge is called."""

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from graphs import Log, appends
from milepost.config import get_config
from milepost.errors import NodeCancelledError
from milepost.graph import END, START, StateGraph
from milepost.types import Command, interrupt

LEFT: ContextVar[str] = ContextVar("left", default="")


def routed(router: Any, **options: Any) -> Any:
    builder = StateGraph(Log).add_node("a", appends("a")).add_node("b", appends("b"))
    builder.add_edge(START, "a").add_conditional_edges("a", router, ["b", END])
    return builder.compile(**options)


def test_a_sync_router_that_returns_a_coroutine_is_awaited(run):
    async def decide(state: Log) -> str:
        await asyncio.sleep(0)
        return "b" if state["log"] == ["a"] else END

    graph = routed(lambda state: decide(state))
    assert run.invoke(graph, {"log": []})["log"] == ["a", "b"]


def test_a_router_runs_in_the_context_of_its_node(run):
    def decide(_state: Log) -> str:
        LEFT.set("by the router")
        return get_config()["metadata"]["langgraph_node"].replace("a", "b")

    def shown(_state: Log) -> dict[str, Any]:
        return {"log": [LEFT.get()]}

    builder = StateGraph(Log).add_node("a", appends("a")).add_node("b", shown)
    builder.add_edge(START, "a").add_conditional_edges("a", decide, ["b", END])
    assert run.invoke(builder.compile(), {"log": []})["log"] == ["a", ""]


def test_a_sync_router_may_run_an_event_loop_of_its_own(run):
    async def answer() -> str:
        await asyncio.sleep(0)
        return "b"

    graph = routed(lambda _state: asyncio.run(answer()))
    assert run.invoke(graph, {"log": []})["log"] == ["a", "b"]


def test_a_sync_router_that_waits_does_not_hold_up_the_event_loop():
    async def main() -> list[str]:
        moved = threading.Event()
        # The router ends only if the loop goes on meanwhile.
        graph = routed(lambda _state: "b" if moved.wait(60) else END)
        running = asyncio.create_task(graph.ainvoke({"log": []}))
        await asyncio.sleep(0.01)
        moved.set()
        return (await running)["log"]

    assert asyncio.run(main()) == ["a", "b"]


def test_a_router_that_raises_a_cancellation_of_its_own_fails_its_node(run):
    def decide(_state: Log) -> str:
        raise asyncio.CancelledError

    with pytest.raises(NodeCancelledError, match="'a'"):
        run.invoke(routed(decide), {"log": []})


def test_a_router_can_ask_and_is_called_again_with_the_answer(run, saver, config):
    graph = routed(lambda _state: interrupt("where to?"), checkpointer=saver)
    asked = run.invoke(graph, {"log": []}, config)
    assert [question.value for question in asked["__interrupt__"]] == ["where to?"]
    assert run.invoke(graph, Command(resume="b"), config)["log"] == ["a", "b"]
