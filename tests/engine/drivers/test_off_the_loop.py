"""Which of a program's sync functions are called on the event loop under `ainvoke`, and which in a
thread, so that the loop goes on: the same on both libraries."""

import asyncio
import threading
from typing import Annotated, Any, TypedDict


def test_sync_functions_are_called_where_langgraph_calls_them(lib):
    places: dict[str, str] = {}
    of_loop = threading.current_thread()

    def note(what: str) -> None:
        places[what] = "loop" if threading.current_thread() is of_loop else "thread"

    def added(before: int, after: int) -> int:
        note("reducer")
        return before + after

    class Count(TypedDict):
        n: Annotated[int, added]

    def first(_state: Count) -> str:
        note("first branch")
        return "failing"

    def failing(_state: Count) -> dict[str, Any]:
        tried = "node" in places
        note("node")
        if not tried:
            raise ValueError("once")
        return {"n": 1}

    def is_tried_again(_error: Exception) -> bool:
        note("retry_on")
        return True

    def sending(state: Count) -> list[Any]:
        note("branch")
        return [lib.Send("sent_to", state)]

    def sent_to(_state: Count) -> dict[str, Any]:
        note("node of a Send")
        return {"n": 1}

    policy = lib.RetryPolicy(retry_on=is_tried_again, initial_interval=0.001, jitter=False)
    builder = lib.StateGraph(Count)
    builder.add_node("failing", failing, retry_policy=policy).add_node("sent_to", sent_to)
    builder.add_conditional_edges(lib.START, first, ["failing"])
    builder.add_conditional_edges("failing", sending, ["sent_to"])
    assert asyncio.run(builder.compile().ainvoke({"n": 0})) == {"n": 2}
    assert places == {
        "reducer": "loop",
        "retry_on": "loop",
        "first branch": "thread",
        "node": "thread",
        "branch": "thread",
        "node of a Send": "thread",
    }
