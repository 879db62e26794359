"""`stream_events(version="v3")`: a run as streams. What `lib` is asked for holds on LangGraph."""

from __future__ import annotations

import asyncio
import importlib
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest

from milepost.checkpoint.memory import InMemorySaver
from milepost.config import get_stream_writer
from milepost.errors import GraphDrained, StorageFullError
from milepost.graph import START, StateGraph
from milepost.runtime import RunControl

# LangGraph warns that this is experimental.
pytestmark = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")

THREAD: Any = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def of(lib: Any, module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"{lib.name}.{module}"), name)


def two_steps(lib: Any, **options: Any) -> Any:
    builder = lib.StateGraph(State)
    builder.add_node("a", lambda state: {"said": ["a"]})
    builder.add_node("b", lambda state: {"said": ["b"]})
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "b")
    return builder.compile(**options)


def nested(lib: Any, deepest: Any) -> Any:
    """outer → middle → inner, where `deepest` is a node."""
    graph: Any = deepest
    for name in ("inner", "middle", "outer"):
        builder = lib.StateGraph(State)
        builder.add_node(f"in_{name}", graph)
        builder.add_edge(lib.START, f"in_{name}")
        graph = builder.compile()
    return graph


def collect(graph: Any, stream: str, input: Any, kind: str, **options: Any) -> list[Any]:
    """The items of one stream of a run, in sync or async code."""
    if kind == "sync":
        return list(getattr(graph.stream_events(input, version="v3", **options), stream))

    async def items() -> list[Any]:
        run = await graph.astream_events(input, version="v3", **options)
        return [item async for item in getattr(run, stream)]

    return asyncio.run(items())


KINDS = pytest.mark.parametrize("kind", ["sync", "async"])
STATES = [{"said": []}, {"said": ["a"]}, {"said": ["a", "b"]}]


class TestStreams:
    @KINDS
    def test_values_are_the_states(self, lib: Any, kind: str) -> None:
        assert collect(two_steps(lib), "values", {"said": []}, kind) == STATES

    def test_the_output_comes_without_iterating(self, lib: Any) -> None:
        run = two_steps(lib).stream_events({"said": []}, version="v3")
        assert (run.output, run.interrupted, run.interrupts) == (STATES[-1], False, [])

        async def work() -> Any:
            run = await two_steps(lib).astream_events({"said": []}, version="v3")
            return await run.output(), await run.interrupted(), await run.interrupts()

        assert asyncio.run(work()) == (STATES[-1], False, [])

    def test_the_run_itself_gives_all_events_in_order(self, lib: Any) -> None:
        events = list(two_steps(lib).stream_events({"said": []}, version="v3"))
        assert [event["method"] for event in events] == ["values"] * 3
        assert [event["seq"] for event in events] == [1, 2, 3]
        assert events[0]["params"]["namespace"] == []

    def test_the_run_goes_only_as_far_as_its_caller_iterates(self, lib: Any) -> None:
        calls: list[str] = []
        builder = lib.StateGraph(State)
        builder.add_node("a", lambda state: calls.append("a"))
        builder.add_edge(lib.START, "a")
        with builder.compile().stream_events({"said": []}, version="v3") as run:
            assert calls == []
            assert next(iter(run.values)) == {"said": []}
        assert list(run) == []

    def test_several_streams_are_interleaved_in_the_order_of_arrival(self, lib: Any) -> None:
        updates = of(lib, "stream", "UpdatesTransformer")
        run = two_steps(lib).stream_events({"said": []}, version="v3", transformers=[updates])
        assert [name for name, _item in run.interleave("values", "updates")] == [
            *("values", "updates", "values", "updates", "values")
        ]

    def test_tasks_of_a_loop_consume_streams_at_once(self, lib: Any) -> None:
        updates = of(lib, "stream", "UpdatesTransformer")

        async def all_of(stream: Any) -> list[Any]:
            return [item async for item in stream]

        async def work() -> Any:
            run = await two_steps(lib).astream_events(
                {"said": []}, version="v3", transformers=[updates]
            )
            return await asyncio.gather(all_of(run.values), all_of(run.updates))

        values, made = asyncio.run(work())
        assert values == STATES
        assert made == [{"a": {"said": ["a"]}}, {"b": {"said": ["b"]}}]

    @KINDS
    @pytest.mark.parametrize("mode", ["updates", "custom", "checkpoints", "tasks", "debug"])
    def test_a_mode_is_a_stream_where_its_transformer_is_asked_for(
        self, kind: str, mode: str
    ) -> None:
        from milepost import stream

        def node(state: State) -> dict[str, Any]:
            get_stream_writer()("note")
            return {"said": ["a"]}

        builder = StateGraph(State)
        builder.add_node("a", node)
        builder.add_edge(START, "a")
        transformer = getattr(stream, f"{mode.capitalize()}Transformer")
        compiled = builder.compile(checkpointer=InMemorySaver(), transformers=[transformer])
        plain = builder.compile(checkpointer=InMemorySaver())
        kinds = [type(item) for item in plain.stream({"said": []}, THREAD, stream_mode=mode)]
        found = collect(compiled, mode, {"said": []}, kind, config=THREAD)
        assert [type(item) for item in found] == kinds != []

    def test_a_stream_that_is_not_there_is_named_with_those_that_are(self, lib: Any) -> None:
        run = two_steps(lib).stream_events({"said": []}, version="v3")
        with pytest.raises(AttributeError, match=r"updates.*values"):
            run.updates

    @pytest.mark.parametrize("option", ["stream_mode", "subgraphs"])
    def test_what_transformers_decide_cannot_be_passed(self, lib: Any, option: str) -> None:
        with pytest.raises(TypeError, match=option):
            two_steps(lib).stream_events({"said": []}, version="v3", **{option: "values"})

    def test_versions_of_langchain_say_so_where_it_has_no_part_in_the_graph(self, lib: Any) -> None:
        with pytest.raises(NotImplementedError):
            two_steps(lib).stream_events({"said": []}, version="v2")


class TestTheEnd:
    @KINDS
    def test_questions_are_shown(self, lib: Any, kind: str) -> None:
        builder = lib.StateGraph(State)
        builder.add_node("ask", lambda state: {"said": [lib.interrupt("well?")]})
        builder.add_edge(lib.START, "ask")
        graph = builder.compile(checkpointer=lib.InMemorySaver())
        run = graph.stream_events({"said": []}, THREAD, version="v3")
        assert run.interrupted
        assert [question.value for question in run.interrupts] == ["well?"]
        run = graph.stream_events(lib.Command(resume="yes"), THREAD, version="v3")
        assert run.output == {"said": ["yes"]}

    @KINDS
    def test_an_error_reaches_every_consumer(self, lib: Any, kind: str) -> None:
        builder = lib.StateGraph(State)
        builder.add_node("bad", _fail)
        builder.add_edge(lib.START, "bad")
        graph = builder.compile()
        with pytest.raises(ValueError, match="boom"):
            collect(graph, "values", {"said": []}, kind)
        with pytest.raises(ValueError, match="boom"):
            _ = graph.stream_events({"said": []}, version="v3").output

    @pytest.mark.parametrize("kind", ["sync", "async"])
    def test_who_leaves_a_run_hears_that_it_was_not_stored(
        self, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(self: InMemorySaver, steps: Any) -> Any:
            raise StorageFullError("no room")

        async def afail(self: InMemorySaver, steps: Any) -> Any:
            fail(self, steps)

        monkeypatch.setattr(InMemorySaver, "commit", fail)
        monkeypatch.setattr(InMemorySaver, "acommit", afail)
        builder = StateGraph(State).add_node("a", lambda state: {"said": ["a"]})
        graph = builder.add_edge(START, "a").compile(checkpointer=InMemorySaver())
        options: Any = {"version": "v3", "durability": "exit"}

        async def aleave() -> None:
            async with await graph.astream_events({"said": []}, THREAD, **options) as run:
                await anext(aiter(run.values))

        def leave() -> None:
            with graph.stream_events({"said": []}, THREAD, **options) as run:
                next(iter(run.values))

        with pytest.raises(StorageFullError):
            leave() if kind == "sync" else asyncio.run(aleave())

    def test_an_abort_cancels_async_nodes_and_keeps_the_thread(self) -> None:
        ended: list[str] = []

        async def work() -> Any:
            started = asyncio.Event()

            async def wait(state: State) -> None:
                started.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append("cancelled")

            builder = StateGraph(State)
            builder.add_node("a", lambda state: {"said": ["a"]})
            builder.add_node("wait", wait)
            builder.add_edge(START, "a")
            builder.add_edge("a", "wait")
            graph = builder.compile(checkpointer=InMemorySaver())
            run = await graph.astream_events({"said": []}, THREAD, version="v3")
            output = asyncio.ensure_future(run.output())
            await started.wait()
            await run.abort()
            assert await output == {"said": ["a"]}
            return await graph.aget_state(THREAD)

        state = asyncio.run(work())
        assert ended == ["cancelled"]
        assert (state.values, state.next) == ({"said": ["a"]}, ("wait",))

    def test_a_drained_run_ends_its_inner_graphs_as_drained(self) -> None:
        control = RunControl()

        def drain(state: State) -> dict[str, Any]:
            control.request_drain()
            return {"said": ["deep"]}

        inner = StateGraph(State)
        inner.add_node("drain", drain)
        inner.add_node("never", lambda state: {"said": ["never"]})
        inner.add_edge(START, "drain")
        inner.add_edge("drain", "never")
        outer = StateGraph(State)
        outer.add_node("inner", inner.compile())
        outer.add_edge(START, "inner")
        run = outer.compile().stream_events({"said": []}, version="v3", control=control)
        handles = iter(run.subgraphs)
        handle = next(handles)
        assert handle.status == "started"
        with pytest.raises(GraphDrained, match="shutdown"):
            next(handles)
        assert handle.status == "drained"


class TestInnerGraphs:
    def test_each_has_streams_of_its_own(self, lib: Any) -> None:
        graph = nested(lib, lambda state: {"said": ["deep"]})
        run = graph.stream_events({"said": []}, version="v3")
        found = []
        for middle in run.subgraphs:
            for inner in middle.subgraphs:
                found.append((middle.graph_name, inner.graph_name, list(inner.values)))
        # A graph is known by its first task: what came before is not in its streams.
        assert found == [("in_outer", "in_middle", [{"said": ["deep"]}])]
        assert (middle.status, inner.status, inner.error) == ("completed", "completed", None)
        assert inner.path[: len(middle.path)] == middle.path
        assert run.output == {"said": ["deep"]}

    def test_each_has_streams_of_its_own_on_a_loop(self, lib: Any) -> None:
        async def work() -> list[Any]:
            graph = nested(lib, lambda state: {"said": ["deep"]})
            run = await graph.astream_events({"said": []}, version="v3")
            found = []
            async for middle in run.subgraphs:
                async for inner in middle.subgraphs:
                    found.append((inner.graph_name, await inner.output()))
            return found

        assert asyncio.run(work()) == [("in_middle", {"said": ["deep"]})]

    @KINDS
    def test_the_lifecycle_tells_of_all_depths(self, lib: Any, kind: str) -> None:
        graph = nested(lib, lambda state: {"said": ["deep"]})
        told = collect(graph, "lifecycle", {"said": []}, kind)
        assert [(event["event"], len(event["namespace"])) for event in told] == [
            *(("started", 1), ("started", 2), ("completed", 2), ("completed", 1))
        ]
        assert [event.get("graph_name") for event in told[:2]] == ["in_outer", "in_middle"]

    def test_a_failure_inside_is_told(self, lib: Any) -> None:
        graph = nested(lib, _fail)
        told: list[Any] = []

        async def work() -> None:
            run = await graph.astream_events({"said": []}, version="v3")
            with pytest.raises(ValueError, match="boom"):
                await _all(run.lifecycle, told)

        asyncio.run(work())
        assert {event["event"] for event in told} == {"started", "failed"}

    def test_a_graph_that_a_node_streams_itself_sees_its_own_values(self) -> None:
        inner = two_steps_here()
        seen: list[Any] = []

        def node(state: State) -> None:
            seen.extend(inner.stream_events({"said": []}, version="v3").values)

        builder = StateGraph(State)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        assert builder.compile().stream_events({"said": []}, version="v3").output == {"said": []}
        assert seen == STATES


def test_events_arrive_while_a_node_still_runs() -> None:
    from milepost.stream import CustomTransformer

    free = threading.Event()

    def node(state: State) -> None:
        get_stream_writer()("early")
        assert free.wait(20)

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    run = builder.compile(transformers=[CustomTransformer]).stream_events(
        {"said": []}, version="v3"
    )
    notes = iter(run.custom)
    assert next(notes) == "early"
    free.set()
    assert list(notes) == []


async def _all(stream: Any, into: list[Any]) -> None:
    async for item in stream:
        into.append(item)


def two_steps_here() -> Any:
    from both import names_of

    return two_steps(names_of("milepost"))


def _fail(state: State) -> None:
    raise ValueError("boom")
