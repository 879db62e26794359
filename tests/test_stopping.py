"""Ways a run ends before its end, and what is left: drained, cancelled, failed, crashed."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import milepost
from hitl_graphs import Inner, State, before_node, calling, chain, fan, questions, step
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.checkpoint.memory import InMemorySaver
from milepost.errors import GraphDrained, NodeError, NodeTimeoutError
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.runtime import RunControl, Runtime, get_runtime
from milepost.types import Command, RetryPolicy, Send, TimeoutPolicy, interrupt


@pytest.fixture
def trace() -> list[str]:
    return []


class TestDraining:
    @pytest.fixture
    def control(self):
        return RunControl()

    def draining(self, trace, control, name="drain", reason="shutdown"):
        def node(state: State):
            trace.append(name)
            control.request_drain(reason)
            return {"log": [name]}

        return node

    def test_finishes_the_step_saves_and_raises(
        self, run, trace, control, saver, config, durability
    ):
        graph = fan(
            ("drain", self.draining(trace, control)),
            ("other", step(trace, "other")),
            last=("last", step(trace, "last")),
            checkpointer=saver,
        )
        with pytest.raises(GraphDrained):
            run.invoke(graph, {"log": []}, config, control=control, durability=durability)
        assert sorted(trace) == ["drain", "other"]
        snapshot = run.get_state(graph, config)
        assert snapshot.values == {"log": ["drain", "other"]}
        assert snapshot.next == ("last",)

    def test_is_resumed_without_repeating_anything(
        self, run, trace, control, saver, config, durability
    ):
        graph = chain(
            ("drain", self.draining(trace, control)),
            ("b", step(trace, "b")),
            ("c", step(trace, "c")),
            checkpointer=saver,
        )
        with pytest.raises(GraphDrained):
            run.invoke(graph, {"log": []}, config, control=control, durability=durability)
        result = run.invoke(graph, None, config, durability=durability)
        assert result == {"log": ["drain", "b", "c"]}
        assert trace == ["drain", "b", "c"]

    def test_tells_the_reason(self, run, trace, control, saver, config):
        graph = chain(
            ("drain", self.draining(trace, control, reason="deploy")),
            ("b", step(trace, "b")),
            checkpointer=saver,
        )
        with pytest.raises(GraphDrained, match="deploy"):
            run.invoke(graph, {"log": []}, config, control=control)
        assert control.drain_requested
        assert control.drain_reason == "deploy"

    def test_a_run_that_was_ending_anyway_ends(
        self, run, trace, control, saver, config, durability
    ):
        graph = chain(("drain", self.draining(trace, control)), checkpointer=saver)
        result = run.invoke(graph, {"log": []}, config, control=control, durability=durability)
        assert result == {"log": ["drain"]}

    def test_before_the_start_saves_the_input(self, run, trace, control, saver, config, durability):
        control.request_drain()
        graph = chain(("a", step(trace, "a")), checkpointer=saver)
        with pytest.raises(GraphDrained):
            run.invoke(graph, {"log": ["in"]}, config, control=control, durability=durability)
        assert trace == []
        assert run.invoke(graph, None, config, durability=durability) == {"log": ["in", "a"]}

    def test_is_asked_for_by_a_node_through_the_runtime(
        self, run, trace, saver, config, durability
    ):
        def node(state: State, runtime: Runtime):
            assert not runtime.drain_requested
            runtime.control.request_drain("from inside")
            assert runtime.drain_requested
            assert runtime.drain_reason == "from inside"
            return {"log": ["node"]}

        graph = chain(("node", node), ("b", step(trace, "b")), checkpointer=saver)
        with pytest.raises(GraphDrained, match="from inside"):
            run.invoke(graph, {"log": []}, config, durability=durability)
        assert run.get_state(graph, config).next == ("b",)

    def test_is_asked_for_from_another_thread(self, saver, config, control):
        running, asked = threading.Event(), threading.Event()

        def node(state: State):
            running.set()
            assert asked.wait(10)
            return {"log": ["node"]}

        def stopper():
            assert running.wait(10)
            control.request_drain()
            asked.set()

        graph = chain(("node", node), ("b", step([], "b")), checkpointer=saver)
        thread = threading.Thread(target=stopper)
        thread.start()
        with pytest.raises(GraphDrained):
            graph.invoke({"log": []}, config, control=control)
        thread.join()
        assert graph.get_state(config).values == {"log": ["node"]}

    def test_a_stream_delivers_what_was_done_and_then_raises(
        self, run, trace, control, saver, config
    ):
        graph = chain(
            ("drain", self.draining(trace, control)), ("b", step(trace, "b")), checkpointer=saver
        )
        events = []

        def consume():
            for event in graph.stream({"log": []}, config, control=control, stream_mode="updates"):
                events.append(event)

        with pytest.raises(GraphDrained):
            consume()
        assert events == [{"drain": {"log": ["drain"]}}]

    def test_in_a_subgraph_stops_the_child_too(
        self, run, trace, control, saver, config, durability
    ):
        child = chain(
            ("drain", self.draining(trace, control)),
            ("c2", step(trace, "c2")),
        )
        graph = chain(("child", child), ("z", step(trace, "z")), checkpointer=saver)
        with pytest.raises(GraphDrained):
            run.invoke(graph, {"log": []}, config, control=control, durability=durability)
        assert trace == ["drain"]
        result = run.invoke(graph, None, config, durability=durability)
        assert result == {"log": ["drain", "c2", "z"]}
        assert trace == ["drain", "c2", "z"]

    def test_an_interrupt_comes_first(self, run, trace, control, saver, config, durability):
        graph = fan(
            ("drain", self.draining(trace, control)),
            ("ask", step(trace, "ask", "sure?")),
            checkpointer=saver,
        )
        opened = run.invoke(graph, {"log": []}, config, control=control, durability=durability)
        assert questions(opened) == ["sure?"]
        result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert sorted(result["log"]) == ["ask", "drain", "yes"]


class TestCancelling:
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_ainvoke_leaves_a_thread_that_resumes(self, trace, saver, config, durability):
        async def main():
            started, first = asyncio.Event(), [True]

            async def slow(state: State):
                trace.append("slow")
                if first:
                    first.pop()
                    started.set()
                    await asyncio.Event().wait()
                return {"log": ["slow"]}

            graph = chain(
                ("a", step(trace, "a")),
                ("slow", slow),
                ("z", step(trace, "z")),
                checkpointer=saver,
            )
            running = asyncio.create_task(graph.ainvoke({"log": []}, config, durability=durability))
            await started.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            snapshot = await graph.aget_state(config)
            assert snapshot.values == {"log": ["a"]}
            assert snapshot.next == ("slow",)
            return await graph.ainvoke(None, config, durability=durability)

        assert asyncio.run(main()) == {"log": ["a", "slow", "z"]}
        assert trace == ["a", "slow", "slow", "z"]

    def test_ainvoke_keeps_the_writes_of_finished_neighbours(self, trace, saver, config):
        async def main():
            started, first = asyncio.Event(), [True]

            async def slow(state: State):
                trace.append("slow")
                if first:
                    first.pop()
                    await asyncio.Event().wait()
                return {"log": ["slow"]}

            async def quick(state: State):
                trace.append("quick")
                return {"log": ["quick"]}

            async def consume(graph):
                async for _ in graph.astream({"log": []}, config, stream_mode="updates"):
                    started.set()

            graph = fan(("slow", slow), ("quick", quick), checkpointer=saver)
            running = asyncio.create_task(consume(graph))
            await started.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return await graph.ainvoke(None, config)

        assert asyncio.run(main()) == {"log": ["quick", "slow"]}
        assert sorted(trace) == ["quick", "slow", "slow"]

    def test_inside_a_subgraph_goes_on_inside_the_subgraph(self, trace, saver, config):
        async def main():
            started, first = asyncio.Event(), [True]

            async def slow(state: State):
                trace.append("slow")
                if first:
                    first.pop()
                    started.set()
                    await asyncio.Event().wait()
                return {"log": ["slow"]}

            child = chain(("c1", step(trace, "c1")), ("slow", slow))
            graph = chain(("child", child), checkpointer=saver)
            running = asyncio.create_task(graph.ainvoke({"log": []}, config))
            await started.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return await graph.ainvoke(None, config)

        assert asyncio.run(main()) == {"log": ["c1", "slow"]}
        assert trace == ["c1", "slow", "slow"]

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_sigint_during_invoke_leaves_a_thread_that_resumes(self, durability, tmp_path):
        program = f"""
            import operator, signal
            from typing import Annotated, TypedDict
            from milepost.checkpoint.memory import InMemorySaver
            from milepost.graph import START, StateGraph

            class State(TypedDict):
                log: Annotated[list, operator.add]

            trace, first = [], [True]

            def node(name):
                def run(state: State):
                    trace.append(name)
                    if name == "b" and first:
                        first.pop()
                        signal.raise_signal(signal.SIGINT)
                    return {{"log": [name]}}
                return run

            builder = StateGraph(State)
            builder.add_sequence([(name, node(name)) for name in "abc"])
            builder.add_edge(START, "a")
            graph = builder.compile(checkpointer=InMemorySaver())
            config = {{"configurable": {{"thread_id": "t"}}}}
            try:
                graph.invoke({{"log": []}}, config, durability={durability!r})
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError("not interrupted")
            assert graph.get_state(config).next in [("b",), ("c",)]
            result = graph.invoke(None, config, durability={durability!r})
            assert result == {{"log": ["a", "b", "c"]}}, result
            assert trace.count("a") == 1, trace
        """
        source = str(Path(milepost.__file__).parents[1])
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env={**os.environ, "PYTHONPATH": source},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr


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

    def test_may_ask(self, run, trace, saver, config, durability):
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


class Crash(BaseException):
    """Stands for the end of the process: no handler of the runtime counts on it."""


class Lossy(BaseCheckpointSaver):
    """A saver with the five required methods, that loses everything once it was told to.

    So a process looks from outside that died before its last writes had reached the disk.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kept = InMemorySaver()
        self.loses_after: int | None = None

    def lost(self, step: int) -> bool:
        return self.loses_after is not None and step > self.loses_after

    def get_tuple(self, config: Any) -> Any:
        return self.kept.get_tuple(config)

    def list(self, config: Any, **options: Any) -> Any:
        return self.kept.list(config, **options)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if self.lost(metadata["step"]):
            place = {**config["configurable"], "checkpoint_id": checkpoint["id"]}
            return {"configurable": place}
        return self.kept.put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        if self.kept.get_tuple(config) is not None:
            self.kept.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        self.kept.delete_thread(thread_id)

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> Any:
        for found in self.list(config, **options):
            yield found

    async def aput(self, *arguments: Any) -> Any:
        return self.put(*arguments)

    async def aput_writes(self, *arguments: Any) -> None:
        self.put_writes(*arguments)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.kept.get_next_version(current, channel)


def key() -> str:
    """The idempotency key of the task that asks."""
    return get_runtime().execution_info.idempotency_key


class TestTheIdempotencyKey:
    @pytest.fixture
    def keys(self) -> list[str]:
        return []

    def failing(self, keys, times, error=ValueError):
        """A node that has an effect under its key, and then fails so many times."""

        def node(state: State):
            keys.append(key())
            if len(keys) <= times:
                raise error("after the effect")
            return {"log": ["node"]}

        return node

    def test_is_a_string(self, run, keys, saver, config):
        run.invoke(chain(("node", self.failing(keys, 0)), checkpointer=saver), {"log": []}, config)
        assert isinstance(keys[0], str)
        assert keys[0]

    def test_is_in_the_injected_runtime(self, run, keys, saver, config):
        def node(state: State, runtime: Runtime):
            keys.extend([runtime.execution_info.idempotency_key, key()])

        run.invoke(chain(("node", node), checkpointer=saver), {"log": []}, config)
        assert keys[0] == keys[1]

    def test_is_the_same_on_a_retry(self, run, keys, saver, config, durability):
        builder = StateGraph(State)
        retry = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
        builder.add_node("node", self.failing(keys, 2), retry_policy=retry)
        builder.add_edge(START, "node")
        graph = builder.compile(checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        assert len(keys) == 3
        assert len(set(keys)) == 1

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_is_the_same_on_a_resume_after_an_error(self, run, keys, saver, config, durability):
        graph = chain(("a", step([], "a")), ("node", self.failing(keys, 1)), checkpointer=saver)
        with pytest.raises(ValueError, match="after the effect"):
            run.invoke(graph, {"log": []}, config, durability=durability)
        run.invoke(graph, None, config, durability=durability)
        assert len(keys) == 2
        assert len(set(keys)) == 1

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_is_the_same_on_a_resume_after_an_interrupt(self, run, keys, saver, config, durability):
        def node(state: State):
            keys.append(key())
            return {"log": [interrupt("one?"), interrupt("two?")]}

        graph = chain(("node", node), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        run.invoke(graph, Command(resume=1), config, durability=durability)
        run.invoke(graph, Command(resume=2), config, durability=durability)
        assert len(keys) == 3
        assert len(set(keys)) == 1

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_is_the_same_on_a_resume_after_a_crash(self, keys, saver, config, durability):
        graph = chain(
            ("a", step([], "a")), ("node", self.failing(keys, 1, Crash)), checkpointer=saver
        )
        with pytest.raises(Crash):
            graph.invoke({"log": []}, config, durability=durability)
        graph.invoke(None, config, durability=durability)
        assert len(keys) == 2
        assert len(set(keys)) == 1

    @pytest.mark.parametrize("reached", [-1, 0, 1])
    def test_is_the_same_when_the_crash_lost_checkpoints_that_were_on_their_way(
        self, keys, config, reached
    ):
        lossy = Lossy()
        lossy.loses_after = reached
        graph = chain(
            ("a", step([], "a")), ("node", self.failing(keys, 1, Crash)), checkpointer=lossy
        )
        with pytest.raises(Crash):
            graph.invoke({"log": []}, config, durability="async")
        lossy.loses_after = None
        assert graph.get_state(config).metadata["step"] == reached
        assert graph.invoke(None, config, durability="async") == {"log": ["a", "node"]}
        assert len(keys) == 2
        assert len(set(keys)) == 1

    def test_under_exit_is_the_same_for_the_same_run_id(self, keys, config):
        lossy = Lossy()
        lossy.loses_after = -2
        graph = chain(("node", self.failing(keys, 1, Crash)), checkpointer=lossy)
        config = {**config, "run_id": "01890a5d-ac96-774b-bcce-b302099a8057"}
        with pytest.raises(Crash):
            graph.invoke({"log": []}, config, durability="exit")
        lossy.loses_after = None
        graph.invoke({"log": []}, config, durability="exit")
        assert len(keys) == 2
        assert len(set(keys)) == 1

    def test_is_another_one_on_a_replay(self, run, keys, saver, config):
        graph = chain(("node", self.failing(keys, 0)), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        at = before_node(run.history(graph, config), "node")
        run.invoke(graph, None, at.config)
        run.invoke(graph, None, at.config)
        assert len(keys) == 3
        assert len(set(keys)) == 3

    def test_is_another_one_on_a_fork(self, run, keys, saver, config):
        graph = chain(("node", self.failing(keys, 0)), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        at = before_node(run.history(graph, config), "node")
        forks = [run.update_state(graph, at.config, {"log": [n]}) for n in range(2)]
        for fork in forks:
            run.invoke(graph, None, fork)
        assert len(keys) == 3
        assert len(set(keys)) == 3

    def test_of_a_replay_is_the_same_when_the_replay_is_resumed(self, run, keys, saver, config):
        def node(state: State):
            keys.append(key())
            return {"log": [interrupt("sure?")]}

        graph = chain(("node", node), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume=1), config)
        at = before_node(run.history(graph, config), "node")
        run.invoke(graph, None, at.config)
        run.invoke(graph, Command(resume=2), config)
        first, second, third, fourth = keys
        assert first == second != third == fourth

    def test_differs_between_tasks_steps_runs_and_threads(self, run, keys, saver):
        def node(state: State):
            keys.append(key())
            return {"log": ["x"]}

        builder = StateGraph(State)
        for name in "xy":
            builder.add_node(name, node)
            builder.add_edge(START, name)
        builder.add_node("sent", lambda state: keys.append(key()))
        builder.add_conditional_edges(
            "x", lambda state: [Send("sent", {}) for _ in range(2)], ["sent"]
        )
        graph = builder.compile(checkpointer=saver)
        for thread in ("one", "one", "two"):
            run.invoke(graph, {"log": []}, {"configurable": {"thread_id": thread}})
        assert len(keys) == 12
        assert len(set(keys)) == 12

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_differs_between_calls_of_a_task_and_stays_over_a_resume(
        self, run, keys, saver, config, durability
    ):
        failing = [True]

        @task
        def effect(n):
            keys.append(key())
            if n == 1 and failing:
                failing.pop()
                raise ValueError("once")
            return n

        @entrypoint(checkpointer=saver)
        def flow(n):
            return [effect(i).result() for i in range(n)]

        with pytest.raises(ValueError, match="once"):
            run.invoke(flow, 2, config, durability=durability)
        assert run.invoke(flow, None, config, durability=durability) == [0, 1]
        zero, one, again = keys
        assert zero != one == again

    @pytest.mark.parametrize("called", [False, True], ids=["node", "function"])
    def test_of_a_subgraphs_node_stays_over_a_resume_and_changes_on_a_replay(
        self, run, keys, saver, config, called
    ):
        def node(state: Inner):
            keys.append(key())
            return {"inner": [interrupt("sure?")]}

        child = chain(("node", node), schema=Inner)
        if called:
            outer = calling(run, [], "child", child, {"inner": []})
        else:
            outer = child
        graph = chain(("child", outer), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume=1), config)
        at = before_node(run.history(graph, config), "child")
        run.invoke(graph, None, at.config)
        first, second, third = keys
        assert first == second != third

    def test_is_there_without_a_checkpointer(self, run, keys):
        run.invoke(chain(("node", self.failing(keys, 0))), {"log": []})
        assert keys[0]
