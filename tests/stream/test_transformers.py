"""Transformers: what they see, what they make, and when they end."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, ClassVar, TypedDict

import pytest

from milepost.graph import START, StateGraph
from milepost.stream import (
    GraphRunStream,
    ProtocolEvent,
    StreamChannel,
    StreamTransformer,
    UpdatesTransformer,
)
from milepost.stream._mux import StreamMux
from milepost.stream.transformers import ValuesTransformer


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def graph_with(*transformers: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"said": ["a"]})
    builder.add_edge(START, "a")
    return builder.compile(transformers=transformers)


class Counting(StreamTransformer):
    """Counts the states."""

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self.counts: StreamChannel[int] = StreamChannel("count")
        self.count = 0

    def init(self) -> dict[str, Any]:
        return {"counts": self.counts}

    def process(self, event: ProtocolEvent) -> bool:
        if event["method"] == "values":
            self.count += 1
            self.counts.push(self.count)
        return True


class TestStreamsOfTheirOwn:
    def test_are_extensions_of_the_run(self) -> None:
        run = graph_with(Counting).stream_events({"said": []}, version="v3")
        assert list(run.extensions["counts"]) == [1, 2]
        with pytest.raises(AttributeError):
            run.counts

    def test_are_attributes_where_the_transformer_is_native(self) -> None:
        class Native(Counting):
            _native = True

        run = graph_with(Native).stream_events({"said": []}, version="v3")
        assert list(run.counts) == [1, 2]

    def test_with_a_name_are_events_too(self) -> None:
        run = graph_with(Counting).stream_events({"said": []}, version="v3")
        told = [(event["seq"], event["method"], event["params"]["data"]) for event in run]
        assert told == [
            (1, "custom:count", 1),
            (2, "values", {"said": []}),
            (3, "custom:count", 2),
            (4, "values", {"said": ["a"]}),
        ]

    def test_may_be_added_to_a_call(self) -> None:
        graph = graph_with(Counting)
        run = graph.stream_events({"said": []}, version="v3", transformers=[UpdatesTransformer])
        assert list(run.updates) == [{"a": {"said": ["a"]}}]
        assert "counts" in run.extensions

    def test_of_one_name_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"conflict.*'counts'.*Counting"):
            graph_with(Counting, Counting).stream_events({"said": []}, version="v3")

    def test_have_to_be_made_for_every_inner_graph(self) -> None:
        with pytest.raises(TypeError, match="pre-built instance"):
            graph_with(Counting())

    def test_an_inner_graph_has_its_own(self) -> None:
        outer = StateGraph(State)
        outer.add_node("inner", graph_with())
        outer.add_edge(START, "inner")
        run = outer.compile(transformers=[Counting]).stream_events({"said": []}, version="v3")
        counts = [list(inner.extensions["counts"]) for inner in run.subgraphs]
        assert counts == [[1]]
        assert run.extensions["counts"] is not None


class TestWhatTheySee:
    def test_false_keeps_an_event_out_of_the_run(self) -> None:
        class Silent(Counting):
            def process(self, event: ProtocolEvent) -> bool:
                super().process(event)
                return False

        run = graph_with(Silent).stream_events({"said": []}, version="v3")
        assert {event["method"] for event in run} == {"custom:count"}

    def test_before_builtins_changes_what_those_show(self) -> None:
        class Loud(Counting):
            before_builtins: ClassVar[bool] = True

            def process(self, event: ProtocolEvent) -> bool:
                if event["method"] == "values":
                    said = event["params"]["data"]["said"]
                    event["params"]["data"] = {"said": [word.upper() for word in said]}
                return True

        run = graph_with(Loud).stream_events({"said": ["x"]}, version="v3")
        assert list(run.values) == [{"said": ["X"]}, {"said": ["X", "A"]}]


class Waiting(Counting):
    """Waits for each event, and schedules work beside them."""

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self.ended: list[str] = []

    async def aprocess(self, event: ProtocolEvent) -> bool:
        await asyncio.sleep(0)
        if event["method"] == "values":
            self.schedule(self._work())
        return super().process(event)

    async def _work(self) -> None:
        await asyncio.sleep(0.01)
        self.ended.append("work")

    async def afinalize(self) -> None:
        self.ended.append("end")


class TestAsync:
    def test_the_end_waits_for_what_was_scheduled(self) -> None:
        made: list[Waiting] = []

        def make(scope: tuple[str, ...]) -> Waiting:
            made.append(Waiting(scope))
            return made[-1]

        async def work() -> Any:
            run = await graph_with(make).astream_events({"said": []}, version="v3")
            return [item async for item in run.extensions["counts"]]

        assert asyncio.run(work()) == [1, 2]
        assert made[0].ended == ["work", "work", "end"]

    def test_a_stray_stop_of_an_iteration_is_an_error_and_not_the_end_of_the_run(self) -> None:
        class Stray(Waiting):
            async def aprocess(self, event: ProtocolEvent) -> bool:
                raise StopAsyncIteration

        async def work() -> Any:
            run = await graph_with(Stray).astream_events({"said": []}, version="v3")
            return await run.output()

        with pytest.raises((StopAsyncIteration, RuntimeError)):
            asyncio.run(work())

    def test_sync_code_cannot_wait(self) -> None:
        with pytest.raises(RuntimeError, match="requires an async run"):
            graph_with(Waiting).stream_events({"said": []}, version="v3")

    def test_a_failure_of_what_was_scheduled_is_logged(self, caplog: Any) -> None:
        class Failing(Waiting):
            async def _work(self) -> None:
                raise ValueError("secret")

        async def work() -> Any:
            run = await graph_with(Failing).astream_events({"said": []}, version="v3")
            return await run.output()

        assert asyncio.run(work()) == {"said": ["a"]}
        assert "Work that Failing has scheduled has failed: ValueError." in caplog.text
        assert "secret" not in caplog.text

    def test_a_failure_of_what_was_scheduled_fails_the_end_if_asked_to(self) -> None:
        class Failing(Waiting):
            async def aprocess(self, event: ProtocolEvent) -> bool:
                if event["method"] == "values" and not self.ended:
                    self.ended.append("once")
                    self.schedule(self._work(), on_error="raise")
                return True

            async def _work(self) -> None:
                await asyncio.sleep(0)
                raise ValueError("boom")

        async def work() -> Any:
            run = await graph_with(Failing).astream_events({"said": []}, version="v3")
            return await run.output()

        with pytest.raises(ValueError, match="boom"):
            asyncio.run(work())


class TestChannels:
    def mux(self, *, is_async: bool = False) -> StreamMux:
        return StreamMux(factories=[ValuesTransformer], is_async=is_async)

    def test_one_consumer_is_served(self) -> None:
        values = self.mux().extensions["values"]
        iter(values)
        with pytest.raises(RuntimeError, match="already has a subscriber"):
            iter(values)

    def test_tee_serves_several(self) -> None:
        run = graph_with().stream_events({"said": []}, version="v3")
        first, second = run.values.tee(2)
        assert list(first) == list(second) == [{"said": []}, {"said": ["a"]}]

    def test_tee_gives_all_of_them_what_the_run_failed_with(self) -> None:
        def fail(state: State) -> None:
            raise ValueError("boom")

        graph = StateGraph(State).add_node(fail).add_edge(START, "fail").compile()
        branches = graph.stream_events({"said": []}, version="v3").values.tee(2)
        for branch in branches:
            assert next(branch) == {"said": []}
        for branch in branches:
            with pytest.raises(ValueError, match="boom"):
                next(branch)

    def test_atee_serves_several(self) -> None:
        async def all_of(items: Any) -> list[Any]:
            return [item async for item in items]

        async def work() -> Any:
            run = await graph_with().astream_events({"said": []}, version="v3")
            return await asyncio.gather(*map(all_of, run.values.atee(2)))

        first, second = asyncio.run(work())
        assert first == second == [{"said": []}, {"said": ["a"]}]

    def test_sync_and_async_are_not_mixed(self) -> None:
        with pytest.raises(TypeError, match="async for"):
            iter(self.mux(is_async=True).extensions["values"])
        with pytest.raises(TypeError, match="use `for`"):
            aiter(self.mux().extensions["values"])
        with pytest.raises(TypeError, match="not been bound"):
            iter(StreamChannel())

    def test_nothing_is_kept_for_those_who_do_not_listen(self) -> None:
        run = graph_with(Counting).stream_events({"said": []}, version="v3")
        assert run.output == {"said": ["a"]}
        assert [len(channel._items) for channel in run._mux._channels] == [0] * 5

    def test_a_run_that_is_over_is_over_for_everyone(self) -> None:
        mux = self.mux()
        run = GraphRunStream(iter([]), mux)
        assert run.output is None
        assert list(run.values) == []
