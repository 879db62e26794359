"""Ways a run ends before its end, and what is left: drained or cancelled."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import milepost
from hitl_graphs import State, chain, fan, questions, step
from milepost._engine.context.task_context import find_context
from milepost._engine.drivers.aio import AsyncDriver
from milepost._engine.drivers.thread_pool import TaskThreadPool
from milepost._engine.streaming.events import Event, EventStream
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import GraphDrained, StorageFullError
from milepost.graph import START, StateGraph
from milepost.runtime import RunControl, Runtime
from milepost.types import Command


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

    def test_a_breakpoint_comes_first(self, run, trace, control, saver, config, durability):
        """A resume does not stop at it, so a drained run would go past it unseen."""
        child = chain(
            ("drain", self.draining(trace, control)),
            ("b", step(trace, "b")),
            interrupt_before=["b"],
        )
        graph = chain(
            ("child", child),
            ("z", step(trace, "z")),
            checkpointer=saver,
            interrupt_before=["z"],
        )
        run.invoke(graph, {"log": []}, config, control=control, durability=durability)
        inner = run.get_state(graph, config, subgraphs=True).tasks[0].state
        assert inner.next == ("b",)
        run.invoke(graph, None, config, control=RunControl(), durability=durability)
        assert run.get_state(graph, config).next == ("z",)
        assert trace == ["drain", "b"]
        assert run.invoke(graph, None, config, durability=durability) == {
            "log": ["drain", "b", "z"]
        }


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
            assert [task.error for task in snapshot.tasks] == [None]
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

            # A process that was started in the background may ignore the signal.
            signal.signal(signal.SIGINT, signal.default_int_handler)
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


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_who_leaves_a_stream_hears_that_a_step_was_not_stored(is_async, config, monkeypatch):
    def commit(steps: Any) -> Any:
        raise StorageFullError("no room")

    async def acommit(steps: Any) -> Any:
        commit(steps)

    def is_told() -> bool:
        """Whether the next step to be stored will hear of the failure."""
        context = find_context()
        assert context is not None
        assert context.run.checkpoints.thread is not None
        queue = context.run.checkpoints.thread.queue
        return queue is not None and queue.error is not None

    def a(state: State) -> dict[str, Any]:
        while not is_told():
            time.sleep(0.001)
        return {"log": ["a"]}

    async def async_a(state: State) -> dict[str, Any]:
        while not is_told():  # noqa: ASYNC110 - the queue has no event
            await asyncio.sleep(0)
        return {"log": ["a"]}

    def leave() -> None:
        stream = graph.stream({"log": []}, config, durability="async")
        assert next(stream) == {"a": {"log": ["a"]}}
        stream.close()

    async def aleave() -> None:
        stream = graph.astream({"log": []}, config, durability="async")
        assert await anext(stream) == {"a": {"log": ["a"]}}
        await stream.aclose()

    with SqliteSaver.from_conn_string(":memory:") as saver:
        monkeypatch.setattr(saver, "commit", commit)
        monkeypatch.setattr(saver, "acommit", acommit)
        graph = chain(("a", async_a if is_async else a), checkpointer=saver)
        with pytest.raises(StorageFullError):
            asyncio.run(aleave()) if is_async else leave()


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_stream_that_is_left_at_any_part_ends_quietly_and_the_thread_goes_on(
    saver, config, durability, parts
):
    trace: list[str] = []
    graph = chain(
        ("a", step(trace, "a")),
        ("b", step(trace, "b")),
        checkpointer=saver,
        interrupt_before=["b"],
    )
    options = {"stream_mode": "updates", "durability": durability}

    async def leave() -> None:
        stream = graph.astream({"log": []}, other, **options)
        left = parts
        async for _ in stream:
            left -= 1
            if not left:
                break
        await stream.aclose()

    stream = graph.stream({"log": []}, config, **options)
    for _, _part in zip(range(parts), stream, strict=False):
        pass
    stream.close()
    other = {"configurable": {"thread_id": "other"}}
    asyncio.run(leave())
    for one in (config, other):
        assert saver.get_thread(one["configurable"]["thread_id"]).status == "interrupted"
        for _ in range(2):
            result = graph.invoke(None, one, durability=durability)
        assert result == {"log": ["a", "b"]}


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_stream_into_which_its_consumer_throws_an_error_is_left_and_the_thread_goes_on(
    saver, config, durability, parts, colour
):
    """As `yield from graph.stream(...)` does in a generator that an error is thrown into."""
    trace: list[str] = []
    nodes = [(name, step(trace, name)) for name in "abcd"]
    graph = chain(*nodes, checkpointer=saver)
    options = {"stream_mode": "updates", "durability": durability}

    async def leave() -> None:
        stream = graph.astream({"log": []}, config, **options)
        for _ in range(parts):
            await anext(stream)
        with pytest.raises(KeyError, match="theirs"):
            await stream.athrow(KeyError("theirs"))

    if colour == "sync":
        stream = graph.stream({"log": []}, config, **options)
        for _ in range(parts):
            next(stream)
        with pytest.raises(KeyError, match="theirs"):
            stream.throw(KeyError("theirs"))
    else:
        asyncio.run(leave())
    assert saver.get_thread("t").status == "interrupted"
    assert graph.invoke(None, config) == {"log": [*"abcd"]}
    assert trace == [*"abcd"]


def test_a_state_that_does_not_fit_the_output_schema_is_an_error_of_the_run(run, saver, config):
    """It shows while an event is made for the consumer, who has not left."""

    class Output(BaseModel):
        log: int

    builder = StateGraph(State, output_schema=Output)
    builder.add_node("a", lambda state: {"log": ["a"]}).add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValidationError):
        run.invoke(graph, {"log": []}, config, version="v2")
    assert saver.get_thread("t").status == "error"


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_task_that_has_ended_when_its_stream_is_left_does_not_run_again(
    saver, config, durability, colour, monkeypatch
):
    trace: list[str] = []
    graph = chain(("a", step(trace, "a")), ("b", step(trace, "b")), checkpointer=saver)
    owner, name = (TaskThreadPool, "collect") if colour == "sync" else (AsyncDriver, "_collect")
    collect = getattr(owner, name)
    streams: list[Any] = []

    def with_an_event(*args: Any) -> Any:
        """A task has ended, and there is an event that was not told before."""
        ended = collect(*args)
        if [task.name for task in ended] == ["a"]:
            streams[0].undelivered.append(Event((), "custom", "late"))
        return ended

    def new_stream(*args: Any, **kwargs: Any) -> EventStream:
        streams.append(EventStream(*args, **kwargs))
        return streams[-1]

    monkeypatch.setattr(owner, name, with_an_event)
    monkeypatch.setattr("milepost.graph._options.EventStream", new_stream)
    options = {"stream_mode": "custom", "durability": durability}

    async def leave() -> None:
        stream = graph.astream({"log": []}, config, **options)
        assert await anext(stream) == "late"
        await stream.aclose()

    if colour == "sync":
        stream = graph.stream({"log": []}, config, **options)
        assert next(stream) == "late"
        stream.close()
    else:
        asyncio.run(leave())
    assert trace == ["a"]
    assert graph.invoke(None, config) == {"log": ["a", "b"]}
    assert trace == ["a", "b"]


BATCH = """
    import operator, signal, sys, threading, time
    from typing import Annotated, TypedDict
    from milepost.checkpoint.memory import InMemorySaver
    from milepost.graph import START, StateGraph
    from milepost.runtime import Runtime

    class State(TypedDict):
        log: Annotated[list, operator.add]

    signal.signal(signal.SIGINT, signal.default_int_handler)
    main, trace, at_work = threading.main_thread().ident, [], threading.Barrier(2, timeout=60)
    release = threading.Event()

    def first(state: State, runtime: Runtime):
        name = runtime.execution_info.thread_id
        trace.append((name, "first"))
        if resumed:
            return {"log": ["first"]}
        if at_work.wait() == 0:
            signal.pthread_kill(main, signal.SIGINT)
        until = time.monotonic() + 60
        while not (runtime.drain_requested or release.is_set()):
            assert time.monotonic() < until
            time.sleep(0.001)
        if twice:
            if name == "0":
                signal.pthread_kill(main, signal.SIGINT)
            release.wait(60)
        return {"log": ["first"]}

    def second(state: State, runtime: Runtime):
        trace.append((runtime.execution_info.thread_id, "second"))
        return {"log": ["second"]}

    resumed, twice = False, TWICE
    graph = StateGraph(State).add_sequence([first, second]).add_edge(START, "first")
    graph = graph.compile(checkpointer=InMemorySaver())
    configs = [{"configurable": {"thread_id": str(at)}, "max_concurrency": 2} for at in range(6)]
    try:
        graph.batch([{"log": []}] * 6, configs)
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("not interrupted")
    if twice:
        release.set()
        sys.exit(0)
    # Nothing goes on, and nothing else has begun.
    assert len(trace) == 2, trace
    begun = [name for name, _ in trace]
    time.sleep(0.05)
    assert len(trace) == 2, trace
    resumed = True
    for name in begun:
        config = configs[int(name)]
        assert graph.get_state(config).next == ("second",)
        assert graph.invoke(None, config) == {"log": ["first", "second"]}
    """


@pytest.mark.parametrize("twice", [False, True])
def test_ctrl_c_in_batch_ends_all_of_its_runs(twice, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BATCH.replace("TWICE", str(twice)))],
        env={**os.environ, "PYTHONPATH": str(Path(milepost.__file__).parents[1])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_batch_that_is_cancelled_ends_after_its_runs(saver):
    """Those that wait for their turn end at once; the others still see to what they leave."""
    begun, ended = [], []

    async def main() -> None:
        all_begun = asyncio.Event()

        async def node(state: State) -> None:
            begun.append(state)
            if len(begun) == 2:
                all_begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                for _ in range(20):
                    await asyncio.sleep(0)
                ended.append(state)

        graph = chain(("node", node), checkpointer=saver)
        configs = [{"configurable": {"thread_id": at}, "max_concurrency": 2} for at in "abcd"]
        batch = asyncio.create_task(graph.abatch([{"log": []}] * 4, configs))
        await all_begun.wait()
        others = asyncio.all_tasks()
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        assert len(begun) == len(ended) == 2
        assert asyncio.all_tasks() < others

    asyncio.run(main())


def test_a_batch_whose_run_was_cancelled_from_inside_gives_no_results(saver):
    async def node(state: State):
        if state["log"] == ["ends"]:
            asyncio.current_task().cancel()
            await asyncio.sleep(0)
        return {"log": ["node"]}

    async def main():
        graph = chain(("node", node), checkpointer=saver)
        configs = [{"configurable": {"thread_id": at}} for at in "ab"]
        with pytest.raises(asyncio.CancelledError):
            await graph.abatch([{"log": []}, {"log": ["ends"]}], configs)

    asyncio.run(main())


class TestTheControlOfABatch:
    @pytest.fixture
    def graph(self, saver):
        def first(state: State, runtime: Runtime):
            if state["log"] == ["stops"]:
                runtime.control.request_drain("enough")
            return {"log": ["first"]}

        def second(state: State):
            return {"log": ["second"]}

        return chain(("first", first), ("second", second), checkpointer=saver)

    CONFIGS = [{"configurable": {"thread_id": name}, "max_concurrency": 1} for name in "ab"]

    def test_stops_one_run_if_a_node_asks_for_it(self, run, graph):
        stopped, other = run.batch(
            graph, [{"log": ["stops"]}, {"log": []}], self.CONFIGS, return_exceptions=True
        )
        assert isinstance(stopped, GraphDrained)
        assert other == {"log": ["first", "second"]}

    def test_stops_all_if_it_is_given_by_the_caller(self, run, graph):
        control = RunControl()
        results = run.batch(
            graph,
            [{"log": ["stops"]}, {"log": []}],
            self.CONFIGS[:1] * 2,  # in order
            return_exceptions=True,
            control=control,
        )
        assert [type(result) for result in results] == [GraphDrained, GraphDrained]
        assert control.drain_reason == "enough"
