"""Super-steps: what runs when, what it is given, and in which order its updates are applied."""

import asyncio
import operator
import threading
import time
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import PATIENCE, Log, appends, line, single
from milepost.cache.memory import InMemoryCache
from milepost.errors import GraphRecursionError, InvalidUpdateError, NodeTimeoutError
from milepost.graph import END, START, StateGraph
from milepost.types import CachePolicy, Command, RetryPolicy, Send, TimeoutPolicy


def parallel(*names: str) -> StateGraph:
    builder = StateGraph(Log)
    for name in names:
        builder.add_node(name, appends(name)).add_edge(START, name)
    return builder


# -- one step


def test_nodes_of_one_step_see_the_state_from_before_the_step(run):
    builder = StateGraph(Log)
    for name in ("a", "b"):
        builder.add_node(name, lambda state: {"log": [list(state["log"])]}).add_edge(START, name)
    assert run.invoke(builder.compile(), {"log": ["in"]})["log"] == ["in", ["in"], ["in"]]


def test_nodes_of_one_step_run_at_the_same_time(run):
    meeting = threading.Barrier(3)

    def meet(state: Log) -> dict[str, Any]:
        meeting.wait(PATIENCE)
        return {"log": ["met"]}

    builder = StateGraph(Log)
    for name in ("a", "b", "c"):
        builder.add_node(name, meet).add_edge(START, name)
    assert run.invoke(builder.compile(), {})["log"] == ["met"] * 3


def test_updates_are_applied_in_the_order_of_the_node_names(run):
    assert run.invoke(parallel("c", "a", "b").compile(), {})["log"] == ["a", "b", "c"]


def test_the_order_of_updates_does_not_depend_on_which_node_finishes_first(run):
    done = threading.Event()

    def late(state: Log) -> dict[str, Any]:
        assert done.wait(PATIENCE)
        return {"log": ["a"]}

    def early(state: Log) -> dict[str, Any]:
        done.set()
        return {"log": ["b"]}

    builder = StateGraph(Log).add_node("a", late).add_node("b", early)
    graph = builder.add_edge(START, "a").add_edge(START, "b").compile()
    assert run.invoke(graph, {})["log"] == ["a", "b"]


def test_a_node_runs_once_when_several_edges_lead_to_it_in_one_step(run):
    builder = parallel("a", "b").add_node("c", appends("c"))
    builder.add_edge("a", "c").add_edge("b", "c")
    assert run.invoke(builder.compile(), {})["log"] == ["a", "b", "c"]


def test_a_node_is_not_started_by_a_write_to_a_key_that_it_reads(run):
    builder = parallel("a").add_node("idle", appends("idle"))
    assert run.invoke(builder.compile(), {})["log"] == ["a"]


def test_a_deferred_node_waits_until_nothing_else_is_left(run):
    builder = parallel("a", "b")
    for name in ("b2", "b3", "after"):
        builder.add_node(name, appends(name))
    builder.add_node("last", appends("last"), defer=True)
    builder.add_edge("b", "b2").add_edge("b2", "b3")
    builder.add_edge("a", "last").add_edge("b3", "last").add_edge("last", "after")
    assert run.invoke(builder.compile(), {})["log"] == ["a", "b", "b2", "b3", "last", "after"]


def test_a_deferred_join_waits_until_nothing_else_is_left(run):
    builder = parallel("a", "b", "slow")
    builder.add_node("slower", appends("slower")).add_edge("slow", "slower")
    builder.add_node("join", appends("join"), defer=True).add_edge(["a", "b"], "join")
    assert run.invoke(builder.compile(), {})["log"] == ["a", "b", "slow", "slower", "join"]


# -- Send


def test_send_runs_a_node_once_for_each_input(run):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item * 10]})
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in (3, 1, 2)])
    assert run.invoke(builder.compile(), {"log": ["in"]})["log"] == ["in", 30, 10, 20]


def test_updates_of_sends_come_after_those_of_edges(run):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item]})
    builder.add_node("zebra", appends("zebra")).add_edge(START, "zebra")
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in (2, 1)])
    assert run.invoke(builder.compile(), {})["log"] == ["zebra", 2, 1]


def test_a_join_after_a_fan_out_runs_once(run):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item]})
    builder.add_node("sum", lambda state: {"log": [sum(state["log"])]})
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(5)])
    builder.add_edge("worker", "sum")
    assert run.invoke(builder.compile(), {})["log"] == [0, 1, 2, 3, 4, 10]


def test_send_and_names_may_be_mixed(run):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item]})
    builder.add_node("named", appends("named"))
    builder.add_conditional_edges(START, lambda state: ["named", Send("worker", 1)])
    assert run.invoke(builder.compile(), {})["log"] == ["named", 1]


def test_the_tasks_of_sends_are_part_of_the_snapshot(run, saver, config):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item]})
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in (1, 2)])
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    fanned = next(s for s in run.history(graph, config) if s.metadata["step"] == 0)
    assert fanned.next == ("worker", "worker")
    assert [task.result for task in fanned.tasks] == [{"log": [1]}, {"log": [2]}]
    assert len({task.id for task in fanned.tasks}) == 2


def test_a_send_to_end_is_refused(run):
    builder = StateGraph(Log).add_node("a", appends("a")).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: Send(END, 1))
    with pytest.raises(InvalidUpdateError):
        run.invoke(builder.compile(), {})


# -- Command


def going(goto: Any) -> StateGraph:
    """A node that goes where it is told, beside nodes x and y that no edge leads to."""
    builder = StateGraph(Log)
    builder.add_node("go", lambda state: Command(update={"log": ["go"]}, goto=goto))
    builder.add_node("x", appends("x"))
    builder.add_node("y", lambda state: {"log": ["y", *state["log"][:1]]})
    return builder.add_edge(START, "go")


def test_a_command_updates_the_state_and_goes_to_a_node(run):
    assert run.invoke(going("x").compile(), {})["log"] == ["go", "x"]


def test_a_command_may_go_to_several_nodes_and_send(run):
    graph = going(["x", Send("y", {"log": ["sent"]})]).compile()
    assert run.invoke(graph, {})["log"] == ["go", "x", "y", "sent"]


@pytest.mark.parametrize("goto", [END, (), []], ids=repr)
def test_a_command_may_go_nowhere(run, goto):
    assert run.invoke(going(goto).compile(), {})["log"] == ["go"]


def test_a_command_adds_to_the_edges_of_its_node(run):
    assert run.invoke(going("x").add_edge("go", "y").compile(), {})["log"] == ["go", "x", "y", "go"]


def test_a_node_may_return_several_commands(run):
    builder = StateGraph(Log).add_node("x", appends("x")).add_node("y", appends("y"))
    builder.add_node(
        "go",
        lambda state: [
            Command(update={"log": [1]}, goto="x"),
            Command(update={"log": [2]}, goto="y"),
        ],
    )
    assert run.invoke(builder.add_edge(START, "go").compile(), {})["log"] == [1, 2, "x", "y"]


def test_a_command_to_the_parent_leaves_the_subgraph(run):
    inner = StateGraph(Log)
    inner.add_node(
        "leave",
        lambda state: Command(graph=Command.PARENT, update={"log": ["left"]}, goto="target"),
    )
    inner.add_edge(START, "leave")
    outer = StateGraph(Log).add_node("inner", inner.compile()).add_node("target", appends("target"))
    assert run.invoke(outer.add_edge(START, "inner").compile(), {})["log"] == ["left", "target"]


# -- recursion_limit


def test_a_loop_without_an_end_reaches_the_recursion_limit(run):
    builder = StateGraph(Log).add_node("a", appends("a")).add_edge(START, "a").add_edge("a", "a")
    with pytest.raises(GraphRecursionError, match="3") as caught:
        run.invoke(builder.compile(), {}, {"recursion_limit": 3})
    assert isinstance(caught.value, RecursionError)
    assert "recursion_limit" in str(caught.value)


def test_the_steps_before_the_recursion_limit_are_kept_and_the_run_can_go_on(
    run, saver, config, durability
):
    builder = StateGraph(Log).add_node("a", appends("a")).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 5 else END)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(GraphRecursionError):
        run.invoke(graph, {}, {**config, "recursion_limit": 3}, durability=durability)
    state = run.get_state(graph, config)
    assert (state.values["log"], state.next) == (["a"] * 3, ("a",))
    assert run.invoke(graph, None, config, durability=durability)["log"] == ["a"] * 5


def test_a_run_needs_one_step_more_than_its_nodes_to_see_that_it_has_ended(run):
    assert run.invoke(line("a", "b").compile(), {}, {"recursion_limit": 3})["log"] == ["a", "b"]
    with pytest.raises(GraphRecursionError):
        run.invoke(line("a", "b").compile(), {}, {"recursion_limit": 2})


@pytest.mark.parametrize("limit", [0, -1])
def test_a_recursion_limit_below_one_is_refused(run, limit):
    with pytest.raises(ValueError, match="recursion_limit"):
        run.invoke(line("a").compile(), {}, {"recursion_limit": limit})


def test_the_default_recursion_limit_lets_long_loops_run(run):
    builder = StateGraph(Log).add_node("a", appends("a")).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 200 else END)
    assert len(run.invoke(builder.compile(), {})["log"]) == 200


# -- max_concurrency


class Crowd:
    """Counts how many calls are under way at the same time."""

    def __init__(self, meeting: int) -> None:
        self.meeting = threading.Barrier(meeting)
        self.lock = threading.Lock()
        self.now = self.most = 0

    def __call__(self, item: Any) -> dict[str, Any]:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.meeting.wait(PATIENCE)
        with self.lock:
            self.now -= 1
        return {"log": [item]}


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_max_concurrency_limits_how_many_tasks_run_at_once(run, limit):
    crowd = Crowd(limit)
    builder = StateGraph(Log).add_node("worker", crowd)
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(6)])
    result = run.invoke(builder.compile(), {}, {"max_concurrency": limit})
    assert result["log"] == list(range(6))
    assert crowd.most == limit


def test_max_concurrency_limits_async_nodes_too(run):
    under_way: list[int] = [0, 0]

    async def worker(item: int) -> dict[str, Any]:
        under_way[0] += 1
        under_way[1] = max(under_way)
        await asyncio.sleep(0)
        under_way[0] -= 1
        return {"log": [item]}

    builder = StateGraph(Log).add_node("worker", worker)
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(6)])
    result = run.invoke(builder.compile(), {}, {"max_concurrency": 2})
    assert result["log"] == list(range(6))
    assert under_way[1] <= 2


# -- retries


class Flaky:
    """A node that fails a number of times before it works."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures = failures
        self.error = error
        self.attempts = 0

    def __call__(self, state: Any) -> dict[str, Any]:
        self.attempts += 1
        if self.attempts <= self.failures:
            raise self.error
        return {"log": [self.attempts]}


def retrying(node: Any, policy: Any) -> Any:
    builder = StateGraph(Log).add_node("flaky", node, retry_policy=policy)
    return builder.add_edge(START, "flaky").compile()


@pytest.fixture
def pauses(monkeypatch):
    """No retry sleeps; the pauses that it asked for are collected."""
    asked: list[float] = []
    really = asyncio.sleep

    async def pause(delay: float, result: Any = None) -> Any:
        if delay:
            asked.append(delay)
        return await really(0, result)

    monkeypatch.setattr(time, "sleep", asked.append)
    monkeypatch.setattr(asyncio, "sleep", pause)
    return asked


def test_a_node_is_retried_after_growing_pauses_until_it_works(run, pauses):
    flaky = Flaky(3, ConnectionError("reset"))
    policy = RetryPolicy(initial_interval=1.0, backoff_factor=3.0, max_attempts=5, jitter=False)
    assert run.invoke(retrying(flaky, policy), {})["log"] == [4]
    assert pauses == [1.0, 3.0, 9.0]


def test_no_pause_is_longer_than_the_maximum(run, pauses):
    policy = RetryPolicy(initial_interval=1.0, max_interval=2.5, max_attempts=5, jitter=False)
    run.invoke(retrying(Flaky(4, ConnectionError()), policy), {})
    assert pauses == [1.0, 2.0, 2.5, 2.5]


def test_jitter_lengthens_a_pause_by_up_to_a_second(run, pauses):
    policy = RetryPolicy(initial_interval=1.0, max_attempts=2)
    run.invoke(retrying(Flaky(1, ConnectionError()), policy), {})
    assert len(pauses) == 1
    assert 1.0 <= pauses[0] <= 2.0


def test_the_last_error_surfaces_when_the_attempts_are_used_up(run, pauses):
    flaky = Flaky(99, ConnectionError("still down"))
    with pytest.raises(ConnectionError, match="still down"):
        run.invoke(retrying(flaky, RetryPolicy(max_attempts=4)), {})
    assert flaky.attempts == 4


def test_programming_errors_are_not_retried_by_default(run, pauses):
    flaky = Flaky(99, ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        run.invoke(retrying(flaky, RetryPolicy()), {})
    assert (flaky.attempts, pauses) == (1, [])


@pytest.mark.parametrize(
    "retry_on",
    [ValueError, (KeyError, ValueError), lambda error: "this" in str(error)],
    ids=["type", "types", "function"],
)
def test_retry_on_says_which_errors_are_retried(run, pauses, retry_on):
    flaky = Flaky(1, ValueError("this"))
    assert run.invoke(retrying(flaky, RetryPolicy(retry_on=retry_on)), {})["log"] == [2]
    flaky = Flaky(1, LookupError("that"))
    with pytest.raises(LookupError):
        run.invoke(retrying(flaky, RetryPolicy(retry_on=retry_on)), {})


def test_of_several_policies_the_first_that_matches_decides(run, pauses):
    policies = [
        RetryPolicy(retry_on=KeyError, max_attempts=9),
        RetryPolicy(retry_on=ValueError, max_attempts=2),
        RetryPolicy(retry_on=Exception, max_attempts=9),
    ]
    flaky = Flaky(99, ValueError())
    with pytest.raises(ValueError):
        run.invoke(retrying(flaky, policies), {})
    assert flaky.attempts == 2


def test_an_async_node_is_retried(run, pauses):
    flaky = Flaky(1, ConnectionError())

    async def node(state: Log) -> dict[str, Any]:
        return flaky(state)

    assert run.invoke(retrying(node, RetryPolicy()), {})["log"] == [2]
    assert len(pauses) == 1


# -- timeouts


def timed(node: Any, timeout: Any) -> Any:
    return StateGraph(Log).add_node("slow", node, timeout=timeout).add_edge(START, "slow").compile()


async def forever(state: Any) -> None:
    await asyncio.wait_for(asyncio.Event().wait(), PATIENCE)
    raise AssertionError("nobody cancelled it")


@pytest.mark.parametrize(
    "timeout", [0.01, TimeoutPolicy(run_timeout=0.01)], ids=["number", "policy"]
)
def test_an_async_node_is_cancelled_when_its_time_is_up(run, timeout):
    with pytest.raises(NodeTimeoutError, match="slow"):
        run.invoke(timed(forever, timeout), {})


def test_an_async_node_that_ends_in_time_is_left_alone(run):
    async def node(state: Log) -> dict[str, Any]:
        return {"log": ["done"]}

    assert run.invoke(timed(node, 3600), {})["log"] == ["done"]


def test_each_attempt_has_its_own_time(run):
    attempts: list[int] = []

    async def second_time_lucky(state: Log) -> dict[str, Any]:
        attempts.append(1)
        if len(attempts) == 1:
            await forever(state)
        return {"log": ["done"]}

    policy = RetryPolicy(retry_on=NodeTimeoutError, initial_interval=0, jitter=False)
    builder = StateGraph(Log)
    builder.add_node("slow", second_time_lucky, timeout=0.05, retry_policy=policy)
    assert run.invoke(builder.add_edge(START, "slow").compile(), {})["log"] == ["done"]


# -- caching


class Square(TypedDict):
    number: int
    square: int


class Squarer:
    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, state: Square) -> dict[str, int]:
        self.calls.append(state["number"])
        return {"square": state["number"] ** 2}


def cached(node: Any, policy: CachePolicy, **compiled: Any) -> Any:
    builder = StateGraph(Square).add_node("square", node, cache_policy=policy)
    return builder.add_edge(START, "square").compile(**compiled)


def test_equal_input_is_answered_from_the_cache(run):
    squarer = Squarer()
    graph = cached(squarer, CachePolicy(), cache=InMemoryCache())
    results = [run.invoke(graph, {"number": n})["square"] for n in (2, 3, 2, 3, 2)]
    assert results == [4, 9, 4, 9, 4]
    assert squarer.calls == [2, 3]


def test_a_cached_result_expires_after_its_time_to_live(run):
    for ttl, calls in ((0, [2, 2]), (3600, [2])):
        squarer = Squarer()
        graph = cached(squarer, CachePolicy(ttl=ttl), cache=InMemoryCache())
        assert [run.invoke(graph, {"number": 2})["square"] for _ in range(2)] == [4, 4]
        assert squarer.calls == calls


def test_a_key_function_decides_what_counts_as_equal(run):
    squarer = Squarer()
    policy = CachePolicy(key_func=lambda state: str(state["number"] % 2))
    graph = cached(squarer, policy, cache=InMemoryCache())
    assert [run.invoke(graph, {"number": n})["square"] for n in (1, 3, 4)] == [1, 1, 16]


def test_without_a_cache_the_policy_does_nothing(run):
    squarer = Squarer()
    graph = cached(squarer, CachePolicy())
    for _ in range(2):
        run.invoke(graph, {"number": 2})
    assert squarer.calls == [2, 2]


def test_a_failed_node_is_not_cached(run):
    flaky = Flaky(1, ValueError("once"))
    builder = StateGraph(Log).add_node("flaky", flaky, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "flaky").compile(cache=InMemoryCache())
    with pytest.raises(ValueError):
        run.invoke(graph, {})
    assert run.invoke(graph, {})["log"] == [2]


def test_clearing_the_cache_forgets_its_results():
    squarer = Squarer()
    graph = cached(squarer, CachePolicy(), cache=InMemoryCache())
    for _ in range(2):
        graph.invoke({"number": 2})
        graph.clear_cache()
    assert squarer.calls == [2, 2]


def test_a_cached_node_still_leads_on_to_the_next(run):
    class Both(Square):
        log: Annotated[list[str], operator.add]

    squarer = Squarer()
    builder = StateGraph(Both).add_node("square", squarer, cache_policy=CachePolicy())
    builder.add_node("after", appends("after")).add_edge(START, "square")
    graph = builder.add_edge("square", "after").compile(cache=InMemoryCache())
    for _ in range(2):
        assert run.invoke(graph, {"number": 2})["log"] == ["after"]


# -- errors


def test_the_error_of_a_node_surfaces_unchanged_with_a_note_that_names_the_node(run):
    error = RuntimeError("boom")

    def node(state: Log) -> None:
        raise error

    with pytest.raises(RuntimeError, match="boom") as caught:
        run.invoke(
            StateGraph(Log).add_node("culprit", node).add_edge(START, "culprit").compile(), {}
        )
    assert caught.value is error
    assert any("culprit" in note for note in error.__notes__)


def test_an_error_handler_takes_over_from_a_node_that_failed(run):
    def node(state: Log) -> None:
        raise RuntimeError("boom")

    builder = StateGraph(Log)
    builder.add_node("node", node, error_handler=lambda state: {"log": ["handled"]})
    assert run.invoke(builder.add_edge(START, "node").compile(), {})["log"] == ["handled"]


def test_a_keyboard_interrupt_is_not_swallowed():
    def node(state: Log) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        single(node).compile().invoke({})
