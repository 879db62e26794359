"""What may happen to a node before its result counts: retries, timeouts, the node cache."""

import asyncio
import copy
import operator
import time
from contextlib import nullcontext
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from typing_extensions import TypedDict

from graphs import PATIENCE, Log, appends
from milepost.cache.memory import InMemoryCache
from milepost.checkpoint.memory import InMemorySaver
from milepost.errors import NodeTimeoutError, SerializationError
from milepost.func import task
from milepost.graph import START, MessagesState, StateGraph
from milepost.types import CachePolicy, Command, RetryPolicy, Send, TimeoutPolicy, interrupt


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


def test_jitter_makes_no_pause_longer_than_the_maximum(run, pauses):
    policy = RetryPolicy(initial_interval=0.05, max_interval=0.05, max_attempts=9)
    run.invoke(retrying(Flaky(8, ConnectionError()), policy), {})
    assert max(pauses) <= 0.05


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


def test_a_timeout_is_worth_another_attempt_by_default(lib):
    attempts: list[int] = []

    async def slow(state: Log) -> dict[str, Any]:
        attempts.append(1)
        if len(attempts) == 1:
            await forever(state)
        return {"log": ["done"]}

    policy = lib.RetryPolicy(initial_interval=0, jitter=False)
    builder = lib.StateGraph(Log)
    builder.add_node("slow", slow, timeout=0.05, retry_policy=policy)
    graph = builder.add_edge(lib.START, "slow").compile()
    assert asyncio.run(graph.ainvoke({}))["log"] == ["done"]


def test_the_error_says_which_timeout_it_was(lib):
    graph = lib.StateGraph(Log).add_node("slow", forever, timeout=0.01)
    with pytest.raises(lib.NodeTimeoutError) as caught:
        asyncio.run(graph.add_edge(lib.START, "slow").compile().ainvoke({}))
    error = caught.value
    assert (error.node, error.kind, error.timeout) == ("slow", "run", 0.01)
    assert (error.run_timeout, error.idle_timeout) == (0.01, None)
    assert error.elapsed >= 0.01


def test_that_is_still_so_when_the_error_was_stored(run, saver, config):
    builder = StateGraph(Log).add_node("slow", forever, timeout=0.01).add_edge(START, "slow")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(NodeTimeoutError) as caught:
        run.invoke(graph, {}, config)
    (task,) = run.get_state(graph, config).tasks
    for error in (task.error.exception, copy.deepcopy(caught.value)):
        assert vars(error) == vars(caught.value)
        assert str(error) == str(caught.value)


# -- caching


class Square(TypedDict):
    number: int
    square: int


class SquareLog(Square):
    log: Annotated[list[Any], operator.add]


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


@pytest.mark.parametrize("asks", ["node", "graph inside", "called graph", "task", "task inside"])
def test_a_result_made_with_an_answer_is_not_cached(run, saver, asks):
    """Nor if an attempt has failed between the answer and the end."""
    flaky = Flaky(1, ValueError("once"))

    def ask(_: Any) -> Any:
        return {"log": [interrupt("sure?")]}

    def ask_and_fail(_: Any) -> Any:
        answer = interrupt("sure?")
        flaky(None)
        return {"log": [answer]}

    inner = StateGraph(Log).add_node("ask", ask).add_node("flaky", flaky)
    inner = inner.add_edge(START, "ask").add_edge("ask", "flaky").compile()
    policy = CachePolicy()
    cached_task = task(ask_and_fail, cache_policy=policy)
    node, policy_of_node = {
        "node": (ask_and_fail, policy),
        "graph inside": (inner, policy),
        "called graph": (lambda _: inner.invoke({}), policy),
        "task": (lambda _: cached_task(None).result(), None),
        "task inside": (lambda _: task(ask_and_fail)(None).result(), policy),
    }[asks]
    builder = StateGraph(Log).add_node("node", node, cache_policy=policy_of_node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver, cache=InMemoryCache())
    for name in ("Alice", "Bob"):
        config = {"configurable": {"thread_id": name}}
        assert run.invoke(graph, {}, config)["__interrupt__"]
        flaky.attempts = 0
        with pytest.raises(ValueError, match="once"):
            run.invoke(graph, Command(resume=name), config)
        assert run.invoke(graph, None, config)["log"][0] == name


def test_a_result_that_a_reducer_refuses_is_not_cached(run):
    refused = [9]

    def reducer(_before: int, now: int) -> int:
        if now in refused:
            raise ValueError("refused")
        return now

    class Checked(TypedDict):
        number: int
        square: Annotated[int, reducer]

    squarer = Squarer()
    builder = StateGraph(Checked).add_node("square", squarer, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "square").compile(cache=InMemoryCache())
    with pytest.raises(ValueError, match="refused"):
        run.invoke(graph, {"number": 3})
    refused.clear()
    assert run.invoke(graph, {"number": 3})["square"] == 9
    assert squarer.calls == [3, 3]


def test_what_a_reducer_does_to_a_result_is_not_cached(run):
    def reducer(before: list[str], now: list[str]) -> list[str]:
        now.append("seen")
        return [*before, *now]

    class Marked(TypedDict):
        words: Annotated[list[str], reducer]

    builder = StateGraph(Marked)
    builder.add_node("node", lambda _: {"words": ["word"]}, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "node").compile(cache=InMemoryCache())
    for _ in range(3):
        assert run.invoke(graph, {"words": []})["words"] == ["seen", "word", "seen"]


@pytest.mark.parametrize("how", ["edge", "join", "send"])
def test_a_cached_result_leads_to_nodes_that_the_graph_has(run, how):
    calls: list[str] = []
    cache = InMemoryCache()

    def first(_state: Any) -> dict[str, Any]:
        calls.append("first")
        return {"log": ["first"]}

    def build(second: str, **renamed: Any) -> Any:
        builder = StateGraph(Log).add_node(first, cache_policy=CachePolicy())
        builder.add_node(second, lambda _: {"log": [second]}).add_edge(START, "first")
        if how == "send":
            builder.add_conditional_edges("first", lambda _: Send(second, {}), [second])
        else:
            builder.add_edge("first" if how == "edge" else ["first"], second)
        return builder.compile(cache=cache, **renamed)

    run.invoke(build("a"), {})
    assert run.invoke(build("b", renamed_nodes={"a": "b"}), {})["log"] == ["first", "b"]
    assert calls == ["first"]
    assert run.invoke(build("b"), {})["log"] == ["first", "b"]
    assert calls == ["first", "first"]


def test_a_cached_result_has_a_renamed_key(run):
    cache = InMemoryCache()

    def build(key: str, **renamed: Any) -> Any:
        schema = TypedDict("schema", {"number": int, key: int})  # type: ignore[misc]
        builder = StateGraph(schema).add_node(
            "square", lambda _: {key: len(key)}, cache_policy=CachePolicy()
        )
        return builder.add_edge(START, "square").compile(cache=cache, **renamed)

    run.invoke(build("square"), {"number": 2})
    found = run.invoke(build("area", renamed_keys={"square": "area"}), {"number": 2})
    assert found == {"number": 2, "area": 6}


def test_a_message_and_the_send_that_carries_it_have_one_id_from_the_cache_too(run):
    builder = StateGraph(MessagesState)
    builder.add_node(
        "draft", lambda _: {"messages": [AIMessage("draft")]}, cache_policy=CachePolicy()
    )
    builder.add_node("edit", lambda m: {"messages": [AIMessage("final", id=m.id)]})
    builder.add_conditional_edges("draft", lambda s: Send("edit", s["messages"][-1]), ["edit"])
    graph = builder.add_edge(START, "draft").compile(cache=InMemoryCache())
    for _ in range(3):
        found = run.invoke(graph, {"messages": []})["messages"]
        assert [message.text for message in found] == ["final"]


def test_a_result_that_cannot_be_cached_is_an_error_but_no_failure_of_the_node(run):
    calls: list[Any] = []

    def node(state: Any) -> dict[str, Any]:
        calls.append(state)
        return {"log": [open]}

    policy = RetryPolicy(retry_on=Exception, max_attempts=3, initial_interval=0.0, jitter=False)
    builder = StateGraph(Log)
    builder.add_node("node", node, retry_policy=policy, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "node").compile(cache=InMemoryCache())
    with pytest.raises(SerializationError):
        run.invoke(graph, {"log": []})
    assert len(calls) == 1


def test_a_result_without_writes_is_cached(run):
    calls: list[Any] = []
    builder = StateGraph(Log).add_node("node", calls.append, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "node").compile(cache=InMemoryCache())
    for _ in range(2):
        run.invoke(graph, {"log": ["same"]})
    assert len(calls) == 1


def test_a_node_that_changes_its_input_is_found_in_the_cache(run):
    calls: list[int] = []

    def node(state: dict[str, Any]) -> dict[str, Any]:
        calls.append(len(state))
        state["more"] = "of it"
        return {"log": ["word"]}

    builder = StateGraph(Log).add_node("node", node, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "node").compile(cache=InMemoryCache())
    for _ in range(2):
        run.invoke(graph, {"log": []})
    assert len(calls) == 1


@pytest.mark.parametrize("shape", ["alone", "beside another node"])
def test_messages_from_the_cache_do_not_replace_each_other(run, config, shape):
    """The reducer gives a message its id; a message from the cache gets another one each time."""
    builder = StateGraph(MessagesState)
    policy = CachePolicy(key_func=lambda _: "key")
    builder.add_node("node", lambda _: {"messages": [AIMessage("hi")]}, cache_policy=policy)
    builder.add_edge(START, "node")
    if shape == "beside another node":
        builder.add_node("other", lambda _: None).add_edge(START, "other")
    graph = builder.compile(checkpointer=InMemorySaver(), cache=InMemoryCache())
    for _ in range(3):
        result = run.invoke(graph, {"messages": []}, config)
    assert [message.text for message in result["messages"]] == ["hi"] * 3


def test_each_of_several_equal_tasks_is_answered_from_the_cache(run):
    calls: list[str] = []

    def node(word: str) -> dict[str, Any]:
        calls.append(word)
        return {"log": [word]}

    builder = StateGraph(Log).add_node("node", node, cache_policy=CachePolicy())
    builder.add_conditional_edges(START, lambda _: [Send("node", "same")] * 3, ["node"])
    graph = builder.compile(cache=InMemoryCache())
    for _ in range(2):
        assert run.invoke(graph, {})["log"] == ["same"] * 3
    assert calls == ["same"] * 3


@pytest.mark.parametrize("ends", ["fails", "asks"])
def test_a_result_is_cached_though_the_node_beside_it_has_none(run, ends):
    def beside(state: Any) -> dict[str, Any]:
        if ends == "fails":
            raise ValueError("always")
        return {"log": [interrupt("sure?")]}

    squarer = Squarer()
    builder = StateGraph(SquareLog).add_node("square", squarer, cache_policy=CachePolicy())
    builder.add_node("beside", beside).add_edge(START, "square").add_edge(START, "beside")
    graph = builder.compile(checkpointer=InMemorySaver(), cache=InMemoryCache())
    for id in ("first", "second"):
        thread = {"configurable": {"thread_id": id}}
        with pytest.raises(ValueError) if ends == "fails" else nullcontext():
            run.invoke(graph, {"number": 2}, thread)
        assert run.get_state(graph, thread).values["square"] == 4
    assert squarer.calls == [2]


def test_a_result_from_the_cache_is_kept_in_the_thread_like_any_other(run, saver, durability):
    squarer, flaky = Squarer(), Flaky(0, ValueError("once"))
    builder = StateGraph(SquareLog).add_node("square", squarer, cache_policy=CachePolicy())
    builder.add_node("flaky", flaky).add_edge(START, "square").add_edge(START, "flaky")
    graph = builder.compile(checkpointer=saver, cache=InMemoryCache())
    first, second = ({"configurable": {"thread_id": id}} for id in ("first", "second"))
    run.invoke(graph, {"number": 2}, first, durability=durability)

    flaky.failures = 2
    with pytest.raises(ValueError):
        run.invoke(graph, {"number": 2}, second, durability=durability)
    state = run.get_state(graph, second)
    assert (state.next, state.values["square"]) == (("flaky",), 4)

    graph.clear_cache()
    assert run.invoke(graph, None, second, durability=durability)["square"] == 4
    assert squarer.calls == [2]


def test_the_history_shows_what_came_from_the_cache(run, saver):
    graph = cached(Squarer(), CachePolicy(), cache=InMemoryCache(), checkpointer=saver)
    for id in ("first", "second"):
        config = {"configurable": {"thread_id": id}}
        run.invoke(graph, {"number": 2}, config)
        (task,) = run.history(graph, config)[1].tasks
        assert task.result == {"square": 4}


def test_clearing_the_cache_forgets_its_results():
    squarer = Squarer()
    graph = cached(squarer, CachePolicy(), cache=InMemoryCache())
    for _ in range(2):
        graph.invoke({"number": 2})
        graph.clear_cache()
    assert squarer.calls == [2, 2]


def test_a_cached_node_still_leads_on_to_the_next(run):
    squarer = Squarer()
    builder = StateGraph(SquareLog).add_node("square", squarer, cache_policy=CachePolicy())
    builder.add_node("after", appends("after")).add_edge(START, "square")
    graph = builder.add_edge("square", "after").compile(cache=InMemoryCache())
    for _ in range(2):
        assert run.invoke(graph, {"number": 2})["log"] == ["after"]
