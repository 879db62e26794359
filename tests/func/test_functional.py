"""Programs written as functions: `@entrypoint` and `@task`."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from typing_extensions import TypedDict

from hitl_graphs import State, before_node, chain, questions
from milepost.cache.memory import InMemoryCache
from milepost.func import entrypoint, task
from milepost.runtime import Runtime
from milepost.store.base import BaseStore
from milepost.store.memory import InMemoryStore
from milepost.types import (
    CachePolicy,
    Command,
    RetryPolicy,
    RunnableConfig,
    StreamWriter,
    interrupt,
)


@pytest.fixture
def effects() -> list[Any]:
    return []


@pytest.fixture
def double(effects):
    @task
    def double(n: int) -> int:
        effects.append(n)
        return n * 2

    return double


def only_async(run: Any) -> None:
    if run.colour == "sync":
        pytest.skip("async functions are driven by the async face here")


class TestEntrypoint:
    def test_is_called_with_its_input_and_gives_its_result(self, run):
        @entrypoint()
        def flow(n: int) -> list[int]:
            return [n, n + 1]

        assert run.invoke(flow, 1) == [1, 2]

    def test_may_be_async(self, run):
        only_async(run)

        @entrypoint()
        async def flow(n: int) -> int:
            return n + 1

        assert run.invoke(flow, 1) == 2

    @pytest.mark.parametrize("value", [None, 0, "", [], {"a": 1}, [1, [2]]])
    def test_gives_back_any_value(self, run, saver, config, durability, value):
        @entrypoint(checkpointer=saver)
        def flow(given):
            return given["value"]

        result = run.invoke(flow, {"value": value}, config, durability=durability)
        assert result == value
        assert run.get_state(flow, config).values == value

    def test_is_a_graph_with_one_node_of_its_name(self, run, saver, config):
        @entrypoint(checkpointer=saver)
        def flow(n):
            return n

        run.invoke(flow, 1, config)
        history = run.history(flow, config)
        assert [(snap.metadata["step"], snap.next) for snap in history] == [
            (0, ()),
            (-1, ("flow",)),
        ]

    def test_passes_errors_on(self, run, saver, config, durability):
        @entrypoint(checkpointer=saver)
        def flow(n):
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            run.invoke(flow, 1, config, durability=durability)
        (waiting,) = run.get_state(flow, config).tasks
        assert waiting.name == "flow"
        assert "no" in str(waiting.error)

    def test_is_given_what_a_node_is_given(self, run, saver, config):
        @dataclass
        class Context:
            user: str

        store = InMemoryStore()
        store.put(("a",), "b", {"c": 1})

        @entrypoint(checkpointer=saver, store=store, context_schema=Context)
        def flow(
            n,
            *,
            previous: Any = None,
            config: RunnableConfig,
            store: BaseStore,
            writer: StreamWriter,
            runtime: Runtime[Context],
        ):
            writer("hello")
            return {
                "previous": previous,
                "thread": config["configurable"]["thread_id"],
                "stored": store.get(("a",), "b").value,
                "user": runtime.context.user,
            }

        events = run.stream(
            flow, 1, config, context=Context("u1"), stream_mode=["custom", "updates"]
        )
        assert events == [
            ("custom", "hello"),
            (
                "updates",
                {"flow": {"previous": None, "thread": "t", "stored": {"c": 1}, "user": "u1"}},
            ),
        ]

    def test_takes_one_argument_at_least(self):
        with pytest.raises((ValueError, TypeError)):

            @entrypoint()
            def flow():
                return 1

    def test_may_be_called_inside_a_node(self, run, double, saver, config, durability):
        @entrypoint()
        def inner(n):
            return double(n).result()

        def node(state: State):
            return {"log": [inner.invoke(2)]}

        async def anode(state: State):
            return {"log": [await inner.ainvoke(2)]}

        graph = chain(("node", anode if run.colour == "async" else node), checkpointer=saver)
        assert run.invoke(graph, {"log": []}, config, durability=durability) == {"log": [4]}


class TestPrevious:
    def test_is_what_the_last_run_on_the_thread_returned(self, run, saver, config, durability):
        @entrypoint(checkpointer=saver)
        def total(n, *, previous=None):
            return (previous or 0) + n

        results = [run.invoke(total, n, config, durability=durability) for n in (1, 2, 3)]
        assert results == [1, 3, 6]

    def test_is_none_on_a_new_thread(self, run, saver):
        @entrypoint(checkpointer=saver)
        def flow(n, *, previous=None):
            return [n, previous]

        for thread in ("one", "two"):
            assert run.invoke(flow, 1, {"configurable": {"thread_id": thread}}) == [1, None]

    def test_is_none_without_a_checkpointer(self, run):
        @entrypoint()
        def flow(n, *, previous=None):
            return [n, previous]

        assert [run.invoke(flow, n) for n in (1, 2)] == [[1, None], [2, None]]

    def test_is_what_final_saved_and_not_what_it_returned(self, run, saver, config, durability):
        @entrypoint(checkpointer=saver)
        def flow(n, *, previous=None):
            return entrypoint.final(value=[n, previous], save=n * 10)

        results = [run.invoke(flow, n, config, durability=durability) for n in (1, 2, 3)]
        assert results == [[1, None], [2, 10], [3, 20]]

    def test_of_a_replay_is_that_of_its_moment(self, run, saver, config):
        @entrypoint(checkpointer=saver)
        def total(n, *, previous=None):
            return (previous or 0) + n

        for n in (1, 2, 3):
            run.invoke(total, n, config)
        starts = [snap for snap in run.history(total, config) if snap.next == ("total",)]
        assert [run.invoke(total, None, snap.config) for snap in starts] == [6, 3, 1]

    def test_stays_through_an_interrupt(self, run, saver, config, durability):
        @entrypoint(checkpointer=saver)
        def flow(n, *, previous=None):
            return [previous, interrupt("sure?")]

        for answer in ("one", "two"):
            run.invoke(flow, 1, config, durability=durability)
            result = run.invoke(flow, Command(resume=answer), config, durability=durability)
        assert result == [[None, "one"], "two"]


class TestTask:
    def test_gives_a_future(self, run, double, effects):
        @entrypoint()
        def flow(n):
            future = double(n)
            assert future.result() == n * 2
            assert future.done()
            return future.result()

        assert run.invoke(flow, 3) == 6
        assert effects == [3]

    def test_is_awaited_in_async_code(self, run, double):
        only_async(run)

        @task
        async def triple(n):
            return n * 3

        @entrypoint()
        async def flow(n):
            return [await triple(n), *await asyncio.gather(triple(n + 1), double(n))]

        assert run.invoke(flow, 1) == [3, 6, 2]

    def test_takes_any_arguments(self, run):
        @task
        def show(*args, **kwargs):
            return [list(args), kwargs]

        @entrypoint()
        def flow(n):
            return show(1, 2, a=3).result()

        assert run.invoke(flow, 0) == [[1, 2], {"a": 3}]

    def test_outside_a_run_is_refused(self, double):
        with pytest.raises(RuntimeError):
            double(1)

    def test_works_in_a_node_of_a_graph(self, run, double, saver, config, durability):
        def node(state: State):
            return {"log": [double(1).result(), double(2).result()]}

        graph = chain(("node", node), checkpointer=saver)
        assert run.invoke(graph, {"log": []}, config, durability=durability) == {"log": [2, 4]}

    def test_may_call_tasks(self, run, double):
        @task
        def quadruple(n):
            return double(double(n).result()).result()

        @entrypoint()
        def flow(n):
            return quadruple(n).result()

        assert run.invoke(flow, 1) == 4

    def test_may_be_a_method(self, run):
        class Counter:
            def __init__(self, start):
                self.start = start

            def add(self, n):
                return self.start + n

        add = task(Counter(10).add)

        @entrypoint()
        def flow(n):
            return add(n).result()

        assert run.invoke(flow, 1) == 11

    def test_errors_are_raised_where_the_result_is_asked_for(self, run, saver, config, durability):
        @task
        def bad():
            raise ValueError("no")

        @entrypoint(checkpointer=saver)
        def flow(n):
            future = bad()
            try:
                future.result()
            except ValueError as error:
                return f"caught {error}"

        assert run.invoke(flow, 1, config, durability=durability) == "caught no"

    def test_errors_that_nobody_catches_end_the_run(self, run, saver, config, durability):
        @task
        def bad():
            raise ValueError("no")

        @entrypoint(checkpointer=saver)
        def flow(n):
            return bad().result()

        with pytest.raises(ValueError, match="no"):
            run.invoke(flow, 1, config, durability=durability)

    def test_run_in_parallel(self):
        together = threading.Barrier(3)

        @task
        def meet(n):
            together.wait(10)
            return n

        @entrypoint()
        def flow(n):
            return [future.result() for future in [meet(i) for i in range(n)]]

        assert flow.invoke(3) == [0, 1, 2]

    def test_run_in_parallel_on_the_loop(self):
        async def main():
            arrived: list[int] = []
            everybody = asyncio.Event()

            @task
            async def meet(n):
                arrived.append(n)
                if len(arrived) == 3:
                    everybody.set()
                async with asyncio.timeout(10):
                    await everybody.wait()
                return n

            @entrypoint()
            async def flow(n):
                return await asyncio.gather(*[meet(i) for i in range(n)])

            return await flow.ainvoke(3)

        assert asyncio.run(main()) == [0, 1, 2]

    def test_run_in_parallel_in_sync_code_under_the_async_face(self):
        together = threading.Barrier(3)

        @task
        def meet(n):
            together.wait(10)
            return n

        @entrypoint()
        def flow(n):
            return [future.result() for future in [meet(i) for i in range(n)]]

        assert asyncio.run(flow.ainvoke(3)) == [0, 1, 2]


class TestTaskOptions:
    def test_a_name_shows_in_the_stream(self, run):
        @task(name="named")
        def anonymous(n):
            return n

        @entrypoint()
        def flow(n):
            return anonymous(n).result()

        assert run.stream(flow, 1, stream_mode="updates") == [{"named": 1}, {"flow": 1}]

    def test_a_retry_policy_tries_again(self, run):
        attempts = []

        @task(retry_policy=RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError))
        def flaky():
            attempts.append(1)
            if len(attempts) < 3:
                raise ValueError("again")
            return len(attempts)

        @entrypoint()
        def flow(n):
            return flaky().result()

        assert run.invoke(flow, 1) == 3

    def test_a_retry_policy_gives_up(self, run):
        attempts = []

        @task(
            retry_policy=RetryPolicy(
                max_attempts=2, initial_interval=0, jitter=False, retry_on=ValueError
            )
        )
        def bad():
            attempts.append(1)
            raise ValueError("no")

        @entrypoint()
        def flow(n):
            return bad().result()

        with pytest.raises(ValueError, match="no"):
            run.invoke(flow, 1)
        assert len(attempts) == 2

    def test_a_retry_policy_of_the_entrypoint(self, run):
        attempts = []

        @entrypoint(retry_policy=RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError))
        def flow(n):
            attempts.append(1)
            if len(attempts) < 3:
                raise ValueError("again")
            return len(attempts)

        assert run.invoke(flow, 1) == 3

    def test_a_retry_of_the_entrypoint_repeats_no_task_that_has_ended(self, lib):
        policy = lib.RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
        called = []

        @lib.task
        def paid():
            called.append("paid")
            return 1

        @lib.task
        def shipped():
            called.append("shipped")
            if len(called) < 4:
                raise ValueError("again")
            return 2

        @lib.entrypoint(retry_policy=policy)
        def flow(n):
            return paid().result() + shipped().result()

        assert flow.invoke(1) == 3
        assert called == ["paid", "shipped", "shipped", "shipped"]

    def test_a_cache_policy_gives_known_results_from_the_cache(self, run, effects):
        @task(cache_policy=CachePolicy())
        def costly(n):
            effects.append(n)
            return n * 2

        @entrypoint(cache=InMemoryCache())
        def flow(n):
            return [costly(n).result(), costly(n + 1).result()]

        assert [run.invoke(flow, 1), run.invoke(flow, 1), run.invoke(flow, 2)] == [
            [2, 4],
            [2, 4],
            [4, 6],
        ]
        assert effects == [1, 2, 3]

    def test_a_cleared_cache_is_empty(self, effects):
        cache = InMemoryCache()

        @task(cache_policy=CachePolicy())
        def costly(n):
            effects.append(n)
            return n

        @entrypoint(cache=cache)
        def flow(n):
            return costly(n).result()

        flow.invoke(1)
        costly.clear_cache(cache)
        flow.invoke(1)
        assert effects == [1, 1]

    def test_a_key_function_says_what_is_the_same(self, run, effects):
        @task(cache_policy=CachePolicy(key_func=lambda n: str(n % 2)))
        def costly(n):
            effects.append(n)
            return n

        @entrypoint(cache=InMemoryCache())
        def flow(n):
            return costly(n).result()

        assert [run.invoke(flow, n) for n in (1, 2, 3)] == [1, 2, 1]


class TestResuming:
    def test_does_not_run_a_finished_task_again(
        self, run, double, effects, saver, config, durability
    ):
        @entrypoint(checkpointer=saver)
        def flow(n):
            done = double(n).result()
            answer = interrupt("sure?")
            return [done, answer, double(n + 1).result()]

        assert questions(run.invoke(flow, 1, config, durability=durability)) == ["sure?"]
        result = run.invoke(flow, Command(resume="yes"), config, durability=durability)
        assert result == [2, "yes", 4]
        assert effects == [1, 2]

    def test_after_an_error_does_not_run_a_finished_task_again(
        self, run, double, effects, saver, config, durability
    ):
        failing = [True]

        @task
        def flaky():
            if failing:
                failing.pop()
                raise ValueError("once")
            return "fine"

        @entrypoint(checkpointer=saver)
        def flow(n):
            return [double(n).result(), flaky().result()]

        with pytest.raises(ValueError, match="once"):
            run.invoke(flow, 1, config, durability=durability)
        assert run.invoke(flow, None, config, durability=durability) == [2, "fine"]
        assert effects == [1]

    def test_in_a_loop_of_tasks_goes_on_where_it_was(
        self, run, double, effects, saver, config, durability
    ):
        @entrypoint(checkpointer=saver)
        def flow(n):
            results = []
            for i in range(n):
                results.append(double(i).result())
                results.append(interrupt(i))
            return results

        result = run.invoke(flow, 3, config, durability=durability)
        for i in range(3):
            assert questions(result) == [i]
            result = run.invoke(flow, Command(resume=f"a{i}"), config, durability=durability)
        assert result == [0, "a0", 2, "a1", 4, "a2"]
        assert effects == [0, 1, 2]

    def test_remembers_nested_tasks(self, run, double, effects, saver, config, durability):
        @task
        def outer(n):
            return [double(n).result(), interrupt("inside?")]

        @entrypoint(checkpointer=saver)
        def flow(n):
            return outer(n).result()

        run.invoke(flow, 1, config, durability=durability)
        result = run.invoke(flow, Command(resume="yes"), config, durability=durability)
        assert result == [2, "yes"]
        assert effects == [1]

    def test_a_new_input_runs_them_again(self, run, double, effects, saver, config, durability):
        @entrypoint(checkpointer=saver)
        def flow(n):
            return double(n).result()

        for _ in range(2):
            run.invoke(flow, 1, config, durability=durability)
        assert effects == [1, 1]

    def test_a_replay_runs_them_again(self, run, double, effects, saver, config):
        @entrypoint(checkpointer=saver)
        def flow(n):
            return double(n).result()

        run.invoke(flow, 1, config)
        at = before_node(run.history(flow, config), "flow")
        assert run.invoke(flow, None, at.config) == 2
        assert effects == [1, 1]

    def test_of_an_async_function(self, run, effects, saver, config, durability):
        only_async(run)

        @task
        async def triple(n):
            effects.append(n)
            return n * 3

        @entrypoint(checkpointer=saver)
        async def flow(n):
            return [await triple(n), interrupt("sure?"), await triple(n + 1)]

        run.invoke(flow, 1, config, durability=durability)
        result = run.invoke(flow, Command(resume="yes"), config, durability=durability)
        assert result == [3, "yes", 6]
        assert effects == [1, 2]


class TestStreaming:
    @pytest.fixture
    def flow(self, double, saver):
        @entrypoint(checkpointer=saver)
        def flow(n):
            return [double(n).result(), double(n + 1).result()]

        return flow

    def test_updates_is_the_result_of_each_task_and_of_the_function(
        self, run, flow, config, durability
    ):
        events = run.stream(flow, 1, config, stream_mode="updates", durability=durability)
        assert events == [{"double": 2}, {"double": 4}, {"flow": [2, 4]}]

    def test_updates_is_what_a_function_streams_when_nothing_is_said(self, run, flow, config):
        assert run.stream(flow, 1, config) == [{"double": 2}, {"double": 4}, {"flow": [2, 4]}]

    def test_values_is_the_result_of_the_function(self, run, flow, config, durability):
        events = run.stream(flow, 1, config, stream_mode="values", durability=durability)
        assert events == [[2, 4]]

    def test_tasks_is_the_start_and_the_end_of_each(self, run, flow, config, durability):
        events = run.stream(flow, 1, config, stream_mode="tasks", durability=durability)
        shown = [
            (event["name"], event["input"] if "input" in event else event["result"])
            for event in events
        ]
        assert shown == [
            ("flow", 1),
            ("double", ((1,), {})),
            ("double", {"__return__": 2}),
            ("double", ((2,), {})),
            ("double", {"__return__": 4}),
            ("flow", {"__end__": [2, 4]}),
        ]

    def test_of_a_resumed_function_has_only_what_is_new(
        self, run, double, saver, config, durability
    ):
        @entrypoint(checkpointer=saver)
        def flow(n):
            return [double(n).result(), interrupt("sure?"), double(n + 1).result()]

        opened = run.stream(flow, 1, config, stream_mode="updates", durability=durability)
        shown = run.get_state(flow, config).interrupts
        assert opened == [{"double": 2}, {"__interrupt__": shown}]
        events = run.stream(
            flow, Command(resume="yes"), config, stream_mode="updates", durability=durability
        )
        assert events == [{"double": 4}, {"flow": [2, "yes", 4]}]

    def test_a_task_is_seen_while_the_function_still_runs(self, saver, config):
        received = threading.Event()

        @task
        def quick():
            return "quick"

        @entrypoint(checkpointer=saver)
        def flow(n):
            quick().result()
            assert received.wait(10)
            return "done"

        events = []
        for event in flow.stream(1, config, stream_mode="updates"):
            events.append(event)
            received.set()
        assert events == [{"quick": "quick"}, {"flow": "done"}]


class TestState:
    def test_of_an_interrupted_function(self, run, double, saver, config, durability):
        @entrypoint(checkpointer=saver)
        def flow(n):
            return [double(n).result(), interrupt("sure?")]

        run.invoke(flow, 1, config, durability=durability)
        snapshot = run.get_state(flow, config)
        assert snapshot.next == ("flow",)
        assert [waiting.name for waiting in snapshot.tasks] == ["flow"]
        assert [one.value for one in snapshot.interrupts] == ["sure?"]

    def test_a_result_of_a_typed_dict_is_kept_as_it_is(self, run, saver, config, durability):
        class Result(TypedDict):
            n: int

        @entrypoint(checkpointer=saver)
        def flow(n: int) -> Result:
            return {"n": n}

        run.invoke(flow, 1, config, durability=durability)
        assert run.get_state(flow, config).values == {"n": 1}

    def test_may_be_given_from_outside_before_the_first_run(self, run, lib, config):
        @lib.entrypoint(checkpointer=lib.InMemorySaver())
        def flow(n: int, *, previous: int | None = None) -> int:
            return (previous or 0) + n

        run.update_state(flow, config, 7)
        assert run.get_state(flow, config).values == 7
        assert run.invoke(flow, 1, config) == 8
