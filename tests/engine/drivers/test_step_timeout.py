"""`step_timeout`: how long a super-step may take."""

from __future__ import annotations

import asyncio
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest

from milepost.cache.memory import InMemoryCache
from milepost.channels import EphemeralValue, LastValue
from milepost.errors import StepTimeoutError
from milepost.graph import START, StateGraph
from milepost.pregel import NodeBuilder, Pregel
from milepost.types import CachePolicy

THREAD: Any = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    done: Annotated[list[str], operator.add]


class Stuck:
    """A node that does not end until it is let go."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.free = threading.Event()
        self.left = threading.Event()

    def sync(self, state: State) -> dict[str, Any]:
        self.calls.append("stuck")
        assert self.free.wait(20)
        self.left.set()
        return {"done": ["stuck"]}

    async def aio(self, state: State) -> dict[str, Any]:
        self.calls.append("stuck")
        assert await asyncio.to_thread(self.free.wait, 20)
        return {"done": ["stuck"]}

    def quick(self, state: State) -> dict[str, Any]:
        self.calls.append("quick")
        return {"done": ["quick"]}


@pytest.fixture
def stuck() -> Any:
    node = Stuck()
    yield node
    node.free.set()


def graph_of(stuck: Stuck, kind: str, saver: Any, *, with_quick: bool = True) -> Any:
    builder = StateGraph(State)
    builder.add_node("stuck", stuck.sync if kind == "sync" else stuck.aio)
    builder.add_edge(START, "stuck")
    if with_quick:
        builder.add_node("quick", stuck.quick)
        builder.add_edge(START, "quick")
    graph = builder.compile(checkpointer=saver)
    graph.step_timeout = 0.3
    return graph


@pytest.mark.parametrize("kind", ["sync", "async"])
class TestATimeoutOfSteps:
    def test_ends_the_run_with_an_error_that_names_the_nodes(
        self, run: Any, stuck: Stuck, saver: Any, kind: str
    ) -> None:
        graph = graph_of(stuck, kind, saver)
        with pytest.raises(TimeoutError) as caught:
            run.invoke(graph, {"done": []}, THREAD)
        assert isinstance(caught.value, StepTimeoutError)
        assert "Still running: stuck." in str(caught.value)

    def test_keeps_the_results_of_other_tasks_in_the_cache(
        self, run: Any, stuck: Stuck, kind: str
    ) -> None:
        builder = StateGraph(State).add_node("stuck", stuck.sync if kind == "sync" else stuck.aio)
        builder.add_node("quick", stuck.quick, cache_policy=CachePolicy())
        builder.add_edge(START, "stuck").add_edge(START, "quick")
        graph = builder.compile(cache=InMemoryCache())
        graph.step_timeout = 0.3
        for _ in range(2):
            with pytest.raises(StepTimeoutError):
                run.invoke(graph, {"done": []})
        assert stuck.calls.count("quick") == 1

    def test_keeps_what_other_tasks_of_the_step_had_written(
        self, run: Any, stuck: Stuck, saver: Any, kind: str
    ) -> None:
        graph = graph_of(stuck, kind, saver)
        with pytest.raises(StepTimeoutError):
            run.invoke(graph, {"done": []}, THREAD)
        assert run.get_state(graph, THREAD).next == ("stuck",)
        stuck.free.set()
        assert run.invoke(graph, None, THREAD) == {"done": ["quick", "stuck"]}
        assert sorted(stuck.calls) == ["quick", "stuck", "stuck"]

    def test_holds_for_a_single_node_and_for_streams(
        self, run: Any, stuck: Stuck, saver: Any, kind: str
    ) -> None:
        graph = graph_of(stuck, kind, saver, with_quick=False)
        with pytest.raises(StepTimeoutError):
            run.stream(graph, {"done": []}, THREAD, stream_mode=["updates", "custom"])

    def test_is_not_reached_by_quick_steps(
        self, run: Any, stuck: Stuck, saver: Any, kind: str
    ) -> None:
        stuck.free.set()
        graph = graph_of(stuck, kind, saver)
        graph.step_timeout = 30
        assert run.invoke(graph, {"done": []}, THREAD) == {"done": ["quick", "stuck"]}


def test_a_task_that_runs_on_after_the_timeout_changes_nothing(stuck: Stuck, saver: Any) -> None:
    graph = graph_of(stuck, "sync", saver, with_quick=False)
    with pytest.raises(StepTimeoutError):
        graph.invoke({"done": []}, THREAD)
    before = graph.get_state(THREAD)
    stuck.free.set()
    assert stuck.left.wait(20)
    after = graph.get_state(THREAD)
    assert (after.values, after.next, after.config) == (before.values, before.next, before.config)


def test_a_step_timeout_can_be_given_to_the_constructor(run: Any, stuck: Stuck) -> None:
    app = Pregel(
        nodes={"node": NodeBuilder().subscribe_only("a").do(stuck.sync).write_to("b")},
        channels={"a": EphemeralValue(object), "b": LastValue(object)},
        input_channels="a",
        output_channels="b",
        step_timeout=0.1,
    )
    with pytest.raises(StepTimeoutError, match=r"0\.1 s"):
        run.invoke(app, 1)
