"""What nodes and callers do that nobody plans for."""

import asyncio
import contextvars
import operator
import pickle
import threading
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.cache.memory import InMemoryCache
from milepost.errors import (
    ColourError,
    GraphBuildError,
    InvalidUpdateError,
    NodeCancelledError,
    NodeError,
    SerializationError,
)
from milepost.graph import START, StateGraph
from milepost.types import CachePolicy, RetryPolicy, Send

note = contextvars.ContextVar("note", default="unset")


class Log(TypedDict):
    log: Annotated[list, operator.add]


class Plain:
    log: Annotated[list, operator.add]


def graph_of(*nodes: Any, schema: Any = Log, **options: Any) -> Any:
    return (
        StateGraph(schema).add_sequence(nodes).add_edge(START, nodes[0].__name__).compile(**options)
    )


def test_an_async_node_that_exits_under_invoke_exits_the_caller():
    async def leave(state: Log):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        graph_of(leave).invoke({"log": []})


def test_a_node_that_exits_in_a_batch_exits_the_caller():
    def leave(state: Log):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        graph_of(leave).batch([{"log": []}, {"log": []}], return_exceptions=True)


def test_a_node_that_raises_a_cancellation_of_its_own_has_failed(run, saver, config):
    async def cancelled(state: Log):
        raise asyncio.CancelledError

    graph = graph_of(cancelled, checkpointer=saver)
    with pytest.raises(NodeCancelledError, match="cancelled"):
        run.invoke(graph, {"log": []}, config)
    (task,) = run.get_state(graph, config).tasks
    assert isinstance(task.error.exception, NodeCancelledError)


def test_context_variables_that_an_async_node_sets_end_with_it():
    async def set_it(state: Log):
        note.set("inside")
        await asyncio.sleep(0)
        return {"log": [note.get()]}

    async def look(state: Log):
        return {"log": [note.get()]}

    async def main() -> Any:
        note.set("caller")
        result = await graph_of(set_it, look).ainvoke({"log": []})
        return result["log"], note.get()

    assert asyncio.run(main()) == (["inside", "caller"], "caller")


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"max_concurrency": -1}, "max_concurrency must be a number of tasks from 1 up, not -1"),
        ({"max_concurrency": "2"}, "max_concurrency must be a number of tasks from 1 up, not '2'"),
        ({"recursion_limit": 0}, "recursion_limit must be a number of steps from 1 up, not 0"),
        ({"recursion_limit": "5"}, "recursion_limit must be a number of steps from 1 up, not '5'"),
        ({"configurable": ["t"]}, r"config\['configurable'\] must be a dict, not list"),
        ("t", 'A config is a dict such as {"configurable": {"thread_id": "1"}}, not str'),
    ],
    ids=repr,
)
def test_a_config_that_cannot_be_meant_is_refused(run, config, error):
    def a(state: Log):
        return {"log": ["a"]}

    for call in (run.invoke, lambda g, i, c: run.batch(g, [i], c)):
        with pytest.raises((ValueError, TypeError), match=error):
            call(graph_of(a), {"log": []}, config)


@pytest.mark.parametrize("wrong", [{KeyError}, "ValueError", [int]], ids=["set", "str", "no error"])
def test_a_retry_policy_that_could_not_work_is_refused_when_it_is_given(wrong):
    with pytest.raises(GraphBuildError, match="retry_on"):
        StateGraph(Log).add_node("a", lambda state: None, retry_policy=RetryPolicy(retry_on=wrong))


@pytest.mark.filterwarnings("ignore:.*a checkpointer would refuse")
def test_a_cached_node_whose_input_gives_no_key_is_told_to_make_one(run):
    def cached(state: Log):
        return {"log": ["ran"]}

    builder = StateGraph(Log).add_node(cached, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "cached").compile(cache=InMemoryCache())
    with pytest.raises(SerializationError, match=r"'cached'.*key_func"):
        run.invoke(graph, {"log": [object()]})


def test_an_input_that_is_no_mapping_is_called_the_input(run):
    def a(state: Log):
        return None

    with pytest.raises(InvalidUpdateError, match="input of graph"):
        run.invoke(graph_of(a), 5)


def test_a_reducer_that_fails_is_named_with_its_key_and_the_nodes(run):
    def bad(state: Log):
        return {"log": None}

    with pytest.raises(TypeError) as caught:
        run.invoke(graph_of(bad), {"log": []})
    assert "In the reducer of key 'log'. Written by: 'bad'." in caught.value.__notes__


@pytest.mark.usefixtures("strictly")
def test_a_generator_function_is_refused_as_a_node():
    def parts(state: Log):
        yield {"log": ["one"]}

    with pytest.raises(GraphBuildError, match="generator"):
        StateGraph(Log).add_node(parts)


def test_a_class_with_annotations_alone_serves_as_a_schema_of_a_dict(run):
    def a(state: Plain):
        return {"log": [type(state).__name__]}

    assert run.invoke(graph_of(a, schema=Plain), {"log": []}) == {"log": ["dict"]}


def test_a_step_that_cannot_be_applied_leaves_the_state_before_it(run, saver, config, durability):
    def good(state: Log):
        return {"log": ["good"]}

    def bad(state: Log):
        return {"log": None}

    graph = graph_of(good, bad, checkpointer=saver)
    with pytest.raises(TypeError):
        run.invoke(graph, {"log": []}, config, durability=durability)
    state = run.get_state(graph, config)
    assert (state.values, state.next) == ({"log": ["good"]}, ("bad",))


def test_of_parallel_nodes_only_the_one_with_the_bad_write_runs_again(
    run, saver, config, durability
):
    ran = []

    def good(state: Log):
        ran.append("good")
        return {"log": ["good"]}

    def bad(state: Log):
        ran.append("bad")
        return {"log": ["mended"] if ran.count("bad") > 1 else None}

    builder = StateGraph(Log).add_node(good).add_node(bad)
    graph = builder.add_edge(START, "good").add_edge(START, "bad").compile(checkpointer=saver)
    with pytest.raises(TypeError):
        run.invoke(graph, {"log": []}, config, durability=durability)
    tasks = {t.name: t for t in run.get_state(graph, config).tasks}
    assert isinstance(tasks["bad"].error.exception, TypeError)
    result = run.invoke(graph, None, config, durability=durability)
    assert result == {"log": ["mended", "good"]}
    assert sorted(ran) == ["bad", "bad", "good"]


def test_inside_a_node_the_thread_is_read_and_written_as_the_run_has_left_it(saver, config):
    seen = []

    def before(state: Log):
        return {"log": ["before"]}

    def inside(state: Log):
        seen.append(graph.get_state(config).values)
        graph.update_state(config, {"log": ["edited"]}, as_node="before")
        return {"log": ["inside"]}

    graph = graph_of(before, inside, checkpointer=saver)
    assert graph.invoke({"log": []}, config) == {"log": ["before", "inside"]}
    assert seen == [{"log": ["before"]}]
    edited = [s for s in graph.get_state_history(config) if s.metadata["source"] == "update"]
    assert [s.values for s in edited] == [{"log": ["before", "edited"]}]


def test_a_sync_look_at_a_thread_that_the_loop_still_saves_never_hangs(saver, config):
    async def look(state: Log):
        try:
            return {"log": [graph.get_state(config).next]}
        except ColourError:
            return {"log": [("look",)]}

    graph = graph_of(look, checkpointer=saver)
    assert asyncio.run(graph.ainvoke({"log": []}, config)) == {"log": [("look",)]}


def test_delete_thread_refuses_a_config(run, saver, config):
    def a(state: Log):
        return None

    with pytest.raises(TypeError, match="id of a thread"):
        run.delete_thread(graph_of(a, checkpointer=saver), config)


def test_a_node_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(NodeError("a", ValueError("b"), {"c": 1})))
    assert (error.node, repr(error.error), error.input) == ("a", "ValueError('b')", {"c": 1})


def test_nodes_that_wait_for_their_turn_do_not_start_after_the_stream_was_closed(saver, config):
    ran = []
    gate, second_ended = threading.Event(), threading.Event()

    def node(name: str) -> Any:
        def run_it(state: Log):
            ran.append(name)
            if name == "b":
                gate.wait(10)
                second_ended.set()
            return {"log": [name]}

        return run_it

    builder = StateGraph(Log)
    for name in "abcdef":
        builder.add_node(name, node(name)).add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    stream = graph.stream({"log": []}, {**config, "max_concurrency": 1})
    next(stream)
    stream.close()
    gate.set()
    second_ended.wait(10)
    assert ran == ["a", "b"]
    graph.invoke(None, config)
    assert sorted(graph.get_state(config).values["log"]) == list("abcdef")
    assert ran.count("a") == 1


def test_what_ended_beside_a_node_that_exits_is_kept(saver, config):
    ended = threading.Event()

    def good(state: Log):
        return {"log": ["good"]}

    def leave(state: Log):
        ended.wait(10)
        raise SystemExit(3)

    builder = StateGraph(Log).add_node(good).add_node(leave)
    graph = builder.add_edge(START, "good").add_edge(START, "leave").compile(checkpointer=saver)
    stream = graph.stream({"log": []}, config, durability="sync")
    next(stream)
    ended.set()
    with pytest.raises(SystemExit):
        next(stream)
    assert graph.get_state(config).next == ("leave",)


@pytest.mark.parametrize("wrong", ["5", 0, -1, True])
def test_a_timeout_that_is_no_time_is_refused(wrong):
    async def slow(state: Log):
        return None

    with pytest.raises((TypeError, ValueError), match="timeout"):
        StateGraph(Log).add_node(slow, timeout=wrong)


def test_a_timeout_in_a_send_to_a_sync_node_is_refused(run):
    def work(state: Log):
        return None

    def send(state: Log):
        return [Send("work", {"log": []}, timeout=5)]

    graph = StateGraph(Log).add_node(work).add_conditional_edges(START, send, ["work"]).compile()
    with pytest.raises(InvalidUpdateError, match="sync function"):
        run.invoke(graph, {"log": []})
