"""Nodes that fail: what is kept, what runs again, and handlers that put things right."""

import asyncio
import threading
from dataclasses import dataclass

import pytest

from hitl_graphs import State, fan, questions, step
from milepost.errors import NodeCancelledError, NodeError, NodeTimeoutError
from milepost.graph import START, StateGraph
from milepost.runtime import Runtime
from milepost.types import Command, RetryPolicy, Send, TimeoutPolicy, interrupt


class Awkward(Exception):
    """An exception whose repr fails once it was stored: what is in a slot is not kept."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code

    def __repr__(self) -> str:
        return f"Awkward({self.code})"


@dataclass(frozen=True)
class Frozen(Exception):
    """An exception that takes no notes."""

    code: int


class Other(UnicodeDecodeError):
    """An exception that its base cannot make again from its arguments."""

    def __init__(self, code: int) -> None:
        self.code = code

    def __str__(self) -> str:
        return f"code {self.code}"


AWKWARD = [
    (Awkward, "Awkward(<its __repr__ raised AttributeError>)"),
    (Frozen, "Frozen(code=4)"),
    (Other, "Other(4)"),
]


@pytest.mark.parametrize(("cls", "shown"), AWKWARD)
def test_an_awkward_exception_leaves_the_thread_readable(
    run, saver, config, durability, cls, shown
):
    failing = [True, True]

    def bad(state: State):
        if failing:
            failing.pop()
            raise cls(4)
        return {"log": ["bad"]}

    builder = StateGraph(State).add_node("bad", bad).add_edge(START, "bad")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(cls):
        run.invoke(graph, {"log": []}, config, durability=durability)
    assert [task.error for task in run.get_state(graph, config).tasks] == [shown]
    with pytest.raises(cls):
        run.stream(graph, None, config, durability=durability, stream_mode="checkpoints")
    assert [task.error for task in run.history(graph, config)[0].tasks] == [shown]
    assert run.invoke(graph, None, config, durability=durability) == {"log": ["bad"]}


@pytest.mark.parametrize("cls", [cls for cls, _ in AWKWARD])
def test_an_awkward_exception_reaches_the_error_handler(run, saver, config, cls):
    def bad(state: State):
        raise cls(4)

    def handler(state: State, error: NodeError):
        return {"log": [type(error.error).__name__]}

    builder = StateGraph(State)
    builder.add_node("bad", bad, error_handler=handler)
    graph = builder.add_edge(START, "bad").compile(checkpointer=saver)
    assert run.invoke(graph, {"log": []}, config) == {"log": [cls.__name__]}


class TestErrors:
    @pytest.fixture
    def flaky(self, trace, saver):
        """Two nodes side by side: `bad` fails the first time, after `good` was seen to end."""
        seen, failing = threading.Event(), [True]

        def good(state: State):
            trace.append("good")
            return {"log": ["good"]}

        def bad(state: State):
            trace.append("bad")
            if failing:
                failing.pop()
                assert seen.wait(10)
                raise ValueError("once")
            return {"log": ["bad"]}

        graph = fan(
            ("bad", bad), ("good", good), last=("last", step(trace, "last")), checkpointer=saver
        )
        return graph, seen

    def first_run(self, run, flaky, config, durability):
        graph, seen = flaky

        def consume():
            for _ in graph.stream(
                {"log": []}, config, stream_mode=["updates", "custom"], durability=durability
            ):
                seen.set()

        async def aconsume():
            async for _ in graph.astream(
                {"log": []}, config, stream_mode=["updates", "custom"], durability=durability
            ):
                seen.set()

        with pytest.raises(ValueError, match="once"):
            asyncio.run(aconsume()) if run.colour == "async" else consume()
        return graph

    def test_keep_the_writes_of_finished_neighbours(self, run, flaky, config, durability):
        graph = self.first_run(run, flaky, config, durability)
        snapshot = graph.get_state(config)
        assert snapshot.values == {"log": ["good"]}
        assert snapshot.next == ("bad",)

    def test_show_in_the_snapshot(self, run, flaky, config, durability):
        graph = self.first_run(run, flaky, config, durability)
        tasks = {waiting.name: waiting for waiting in graph.get_state(config).tasks}
        assert "once" in str(tasks["bad"].error)
        assert tasks["bad"].result is None
        assert tasks["good"].error is None
        assert tasks["good"].result == {"log": ["good"]}

    def test_are_mended_by_a_resume_that_runs_only_what_failed(
        self, run, flaky, trace, config, durability
    ):
        graph = self.first_run(run, flaky, config, durability)
        trace.clear()
        result = graph.invoke(None, config, durability=durability)
        assert result == {"log": ["bad", "good", "last"]}
        assert trace == ["bad", "last"]

    def test_of_a_send_task_keep_the_writes_of_the_others(self, run, saver, config, durability):
        failing, ran = [True], []

        def worker(state):
            ran.append(state["n"])
            if state["n"] == 2 and failing:
                failing.pop()
                raise ValueError("once")
            return {"log": [state["n"]]}

        builder = StateGraph(State)
        builder.add_node("worker", worker)
        builder.add_conditional_edges(
            START, lambda state: [Send("worker", {"n": n}) for n in range(3)], ["worker"]
        )
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(ValueError, match="once"):
            run.invoke(graph, {"log": []}, {**config, "max_concurrency": 1}, durability=durability)
        assert run.invoke(graph, None, config, durability=durability) == {"log": [0, 1, 2]}
        assert sorted(ran) == [0, 1, 2, 2]

    def test_of_a_timeout_keep_the_writes_of_finished_neighbours(self, trace, saver, config):
        async def main():
            failing = [True]

            async def hang(state: State):
                trace.append("hang")
                if failing:
                    failing.pop()
                    await asyncio.Event().wait()
                return {"log": ["hang"]}

            async def good(state: State):
                trace.append("good")
                return {"log": ["good"]}

            builder = StateGraph(State)
            builder.add_node("hang", hang, timeout=TimeoutPolicy(run_timeout=0.05))
            builder.add_node("good", good)
            builder.add_edge(START, "hang")
            builder.add_edge(START, "good")
            graph = builder.compile(checkpointer=saver)
            with pytest.raises(NodeTimeoutError, match="hang"):
                await graph.ainvoke({"log": []}, config)
            snapshot = await graph.aget_state(config)
            assert (snapshot.values, snapshot.next) == ({"log": ["good"]}, ("hang",))
            return await graph.ainvoke(None, config)

        assert asyncio.run(main()) == {"log": ["good", "hang"]}
        assert sorted(trace) == ["good", "hang", "hang"]


class TestErrorHandlers:
    def build(self, handler, trace, saver, **options):
        def bad(state: State):
            trace.append("bad")
            raise ValueError("broken")

        builder = StateGraph(State)
        builder.add_node("bad", bad, error_handler=handler, **options)
        builder.add_node("repair", step(trace, "repair"))
        builder.add_node("after", step(trace, "after"))
        builder.add_edge(START, "bad")
        builder.add_edge("bad", "after")
        return builder.compile(checkpointer=saver)

    def test_see_the_error_the_node_and_the_input(self, run, trace, saver, config, durability):
        seen = []

        def handler(state: State, error: NodeError):
            seen.append((error.node, repr(error.error), state))
            return {"log": ["handled"]}

        graph = self.build(handler, trace, saver)
        result = run.invoke(graph, {"log": ["in"]}, config, durability=durability)
        assert seen == [("bad", "ValueError('broken')", {"log": ["in"]})]
        assert "handled" in result["log"]

    def test_find_the_input_in_the_error_too(self, run, saver, config):
        seen = []

        def worker(state):
            raise ValueError(state["n"])

        def handler(state: State, error: NodeError):
            seen.append(error.input)
            return {"log": ["handled"]}

        builder = StateGraph(State)
        builder.add_node("worker", worker, error_handler=handler)
        builder.add_conditional_edges(START, lambda state: [Send("worker", {"n": 7})], ["worker"])
        graph = builder.compile(checkpointer=saver)
        assert run.invoke(graph, {"log": []}, config) == {"log": ["handled"]}
        assert seen == [{"n": 7}]

    def test_may_say_where_to_go(self, run, trace, saver, config, durability):
        def handler(state: State, error: NodeError):
            return Command(update={"log": [f"{error.node} failed"]}, goto="repair")

        graph = self.build(handler, trace, saver)
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert result == {"log": ["bad failed", "repair"]}
        assert trace == ["bad", "repair"]

    def test_that_do_not_say_where_to_go_end_that_path(self, run, trace, saver, config, durability):
        def handler(state: State, error: NodeError):
            return {"log": ["handled"]}

        graph = self.build(handler, trace, saver)
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert result == {"log": ["handled"]}
        assert trace == ["bad"]

    def test_run_when_the_attempts_are_used_up(self, run, trace, saver, config, durability):
        calls = []

        def handler(state: State, error: NodeError):
            calls.append(error.node)
            return {"log": ["handled"]}

        retry = RetryPolicy(max_attempts=3, initial_interval=0, jitter=False, retry_on=ValueError)
        graph = self.build(handler, trace, saver, retry_policy=retry)
        run.invoke(graph, {"log": []}, config, durability=durability)
        assert trace[:3] == ["bad", "bad", "bad"]
        assert calls == ["bad"]

    def test_that_fail_themselves_end_the_run(self, run, trace, saver, config, durability):
        def handler(state: State, error: NodeError):
            raise KeyError("handler")

        graph = self.build(handler, trace, saver)
        with pytest.raises(KeyError, match="handler"):
            run.invoke(graph, {"log": []}, config, durability=durability)
        assert run.get_state(graph, config).next == ("bad",)

    def test_that_take_too_long_are_named_by_the_error(self, run, saver, config):
        async def bad(state: State):
            raise ValueError("broken")

        async def handler(state: State, error: NodeError):
            await asyncio.Event().wait()

        builder = StateGraph(State).set_node_defaults(timeout=0.02)
        builder.add_node("bad", bad, error_handler=handler).add_edge(START, "bad")
        graph = builder.compile(checkpointer=saver)
        late = "^The error handler of node 'bad' went over its run timeout of 0.02 s"
        with pytest.raises(NodeTimeoutError, match=late) as raised:
            run.invoke(graph, {"log": []}, config)
        assert (raised.value.node, raised.value.in_error_handler) == ("bad", True)

    def test_that_are_cancelled_inside_are_named_by_the_error(self, run, saver, config):
        async def bad(state: State):
            raise ValueError("broken")

        async def handler(state: State, error: NodeError):
            raise asyncio.CancelledError

        builder = StateGraph(State).add_node("bad", bad, error_handler=handler)
        graph = builder.add_edge(START, "bad").compile(checkpointer=saver)
        cancelled = "^The error handler of node 'bad' raised asyncio.CancelledError"
        with pytest.raises(NodeCancelledError, match=cancelled):
            run.invoke(graph, {"log": []}, config)

    def test_may_ask_with_an_interrupt(self, run, trace, saver, config, durability):
        def handler(state: State, error: NodeError):
            return Command(update={"log": [interrupt(f"{error.error}?")]}, goto="repair")

        graph = self.build(handler, trace, saver)
        opened = run.invoke(graph, {"log": []}, config, durability=durability)
        assert questions(opened) == ["broken?"]
        result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert result == {"log": ["yes", "repair"]}

    def test_keep_the_neighbours_going(self, run, trace, saver, config, durability):
        def bad(state: State):
            raise ValueError("broken")

        def handler(state: State, error: NodeError):
            return {"log": ["handled"]}

        builder = StateGraph(State)
        builder.add_node("bad", bad, error_handler=handler)
        builder.add_node("good", step(trace, "good"))
        builder.add_node("last", step(trace, "last"))
        builder.add_edge(START, "bad")
        builder.add_edge(START, "good")
        builder.add_edge("good", "last")
        graph = builder.compile(checkpointer=saver)
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert result == {"log": ["handled", "good", "last"]}

    def test_do_not_see_interrupts(self, run, trace, saver, config, durability):
        calls = []

        def handler(state: State, error: NodeError):
            calls.append(error)

        builder = StateGraph(State)
        builder.add_node("ask", step(trace, "ask", "sure?"), error_handler=handler)
        builder.add_edge(START, "ask")
        graph = builder.compile(checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert calls == []

    def test_are_given_the_runtime_as_well(self, run, trace, saver, config):
        seen = []

        def handler(state: State, error: NodeError, runtime: Runtime):
            seen.append(runtime.execution_info.thread_id)
            return {"log": []}

        run.invoke(self.build(handler, trace, saver), {"log": []}, config)
        assert seen == ["t"]

    def test_may_be_async(self, run, trace, saver, config):
        if run.colour == "sync":
            pytest.skip("async handlers are driven by the async face here")

        async def handler(state: State, error: NodeError):
            return Command(update={"log": ["handled"]}, goto="repair")

        result = run.invoke(self.build(handler, trace, saver), {"log": []}, config)
        assert result == {"log": ["handled", "repair"]}

    def test_that_leaves_for_the_graph_around_it_is_not_tried_again(self, run, saver, config):
        calls = []

        def bad(state: State):
            raise ValueError("broken")

        def handler(state: State):
            calls.append("handler")
            return Command(graph=Command.PARENT, goto="after", update={"log": ["handled"]})

        inner = StateGraph(State).add_node("bad", bad, error_handler=handler, retry_policy=())
        inner.set_node_defaults(retry_policy=RetryPolicy(initial_interval=0.0, jitter=False))
        builder = StateGraph(State)
        builder.add_node("inner", inner.add_edge(START, "bad").compile(), destinations=["after"])
        builder.add_node("after", lambda state: {"log": ["after"]}).add_edge(START, "inner")
        graph = builder.compile(checkpointer=saver)
        assert run.invoke(graph, {"log": []}, config) == {"log": ["handled", "after"]}
        assert calls == ["handler"]

    def test_can_be_set_for_every_node(self, run, trace, saver, config):
        def bad(state: State):
            raise ValueError("broken")

        def handler(state: State, error: NodeError):
            return {"log": [f"{error.node} handled"]}

        builder = StateGraph(State)
        builder.set_node_defaults(error_handler=handler)
        builder.add_node("bad", bad)
        builder.add_edge(START, "bad")
        graph = builder.compile(checkpointer=saver)
        assert run.invoke(graph, {"log": []}, config) == {"log": ["bad handled"]}
