"""How many threads the tasks of a step get in sync code."""

import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest

from milepost.graph import START, StateGraph
from milepost.types import Send


class Seen(TypedDict):
    threads: Annotated[list[int], operator.add]


def fan_out(width: int, node: Any) -> Any:
    builder = StateGraph(Seen).add_node("node", node)
    builder.add_conditional_edges(
        START, lambda _: [Send("node", n) for n in range(width)], ["node"]
    )
    return builder.compile()


def test_tasks_that_wait_for_each_other_are_all_at_work_at_once():
    together = threading.Barrier(16, timeout=20)

    def node(_: Any) -> dict[str, list[int]]:
        together.wait()
        return {"threads": [threading.get_ident()]}

    seen = fan_out(16, node).invoke({"threads": []})["threads"]
    assert len(set(seen)) == 16


def test_tasks_that_wait_for_each_other_are_at_work_while_a_consumer_looks_at_an_event():
    together = threading.Barrier(8, timeout=20)
    passed = threading.Event()

    def node(number: Any) -> dict[str, list[int]]:
        if number and together.wait() == 0:
            passed.set()
        return {"threads": []}

    events = fan_out(9, node).stream({"threads": []}, stream_mode="updates")
    next(events)  # of the one that waits for nobody
    assert passed.wait(20), "the others have not met, though nobody asked for the next event"
    assert len(list(events)) == 8


@pytest.mark.parametrize("limit", [1, 3])
def test_never_more_than_the_config_allows(limit):
    at_work, most, lock = 0, 0, threading.Lock()

    def node(_: Any) -> dict[str, list[int]]:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        threading.Event().wait(0.002)
        with lock:
            at_work -= 1
        return {"threads": []}

    fan_out(12, node).invoke({"threads": []}, {"max_concurrency": limit})
    assert most <= limit


def test_quick_tasks_do_not_get_a_thread_each():
    seen = fan_out(64, lambda _: {"threads": [threading.get_ident()]}).invoke({"threads": []})
    assert len(seen["threads"]) == 64
    assert len(set(seen["threads"])) < 64
