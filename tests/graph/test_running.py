"""Running a compiled graph: invoke, stream and batch, in both colours."""

import asyncio
import operator
import subprocess
import sys
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import PATIENCE, Doc, Log, appends, line, single, steps, thread, two_nodes
from milepost._internal import threads as workers
from milepost.checkpoint.memory import InMemorySaver
from milepost.config import get_config
from milepost.errors import ColourError, EmptyInputError, InvalidUpdateError, MilepostError
from milepost.graph import END, START, StateGraph
from milepost.types import Command

# -- invoke


def test_invoke_returns_the_state_after_the_last_step(run):
    result = run.invoke(two_nodes().compile(), {"foo": "", "bar": ["in"]})
    assert result == {"foo": "b", "bar": ["in", "a", "b"]}


def test_without_a_checkpointer_nothing_is_remembered(run):
    graph = line("a").compile()
    assert run.invoke(graph, {})["log"] == run.invoke(graph, {})["log"] == ["a"]


def test_with_a_checkpointer_a_thread_remembers_and_other_threads_do_not(
    run, saver, config, durability
):
    graph = line("a").compile(checkpointer=saver)
    run.invoke(graph, {"log": [1]}, config, durability=durability)
    again = run.invoke(graph, {"log": [2]}, config, durability=durability)
    other = run.invoke(graph, {"log": [3]}, thread("other"), durability=durability)
    assert again["log"] == [1, "a", 2, "a"]
    assert other["log"] == [3, "a"]


def test_a_graph_can_be_invoked_with_an_empty_input(run):
    assert run.invoke(line("a").compile(), {})["log"] == ["a"]


def test_nothing_to_go_on_from_is_an_error(run, saver, config):
    with pytest.raises(EmptyInputError):
        run.invoke(line("a").compile(), None)
    graph = line("a").compile(checkpointer=saver)
    with pytest.raises(EmptyInputError):
        run.invoke(graph, None, config)
    assert run.history(graph, config) == []


def test_going_on_with_a_finished_thread_runs_nothing_and_returns_its_state(run, saver, config):
    ran: list[str] = []
    graph = line("a", "b", ran=ran).compile(checkpointer=saver)
    first = run.invoke(graph, {}, config)
    before = run.history(graph, config)
    assert run.invoke(graph, None, config) == first
    assert ran == ["a", "b"]
    assert run.history(graph, config) == before


def test_output_keys_choose_what_is_returned(run):
    graph = two_nodes().compile()
    assert run.invoke(graph, {"foo": ""}, output_keys=["bar"]) == {"bar": ["a", "b"]}
    assert run.invoke(graph, {"foo": ""}, output_keys="foo") == "b"


def test_an_unknown_output_key_is_refused(run):
    with pytest.raises(ValueError, match="nothing"):
        run.invoke(two_nodes().compile(), {"foo": ""}, output_keys="nothing")


def test_a_command_moves_a_finished_thread_on(run, saver, config, durability):
    builder = line("a").add_node("extra", appends("extra"))
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {}, config, durability=durability)
    result = run.invoke(graph, Command(goto="extra"), config, durability=durability)
    assert result["log"] == ["a", "extra"]


def test_interrupt_before_stops_and_none_goes_on(run, saver, config, durability):
    graph = line("a", "b", "c").compile(checkpointer=saver, interrupt_before=["b"])
    assert run.invoke(graph, {}, config, durability=durability)["log"] == ["a"]
    assert run.get_state(graph, config).next == ("b",)
    assert run.invoke(graph, None, config, durability=durability)["log"] == ["a", "b", "c"]


def test_interrupt_after_stops_when_the_node_has_run(run, saver, config, durability):
    graph = line("a", "b", "c").compile(checkpointer=saver, interrupt_after=["b"])
    assert run.invoke(graph, {}, config, durability=durability)["log"] == ["a", "b"]
    assert run.get_state(graph, config).next == ("c",)
    assert run.invoke(graph, None, config, durability=durability)["log"] == ["a", "b", "c"]


def test_interrupts_may_be_given_for_one_call_and_for_all_nodes(run, saver, config):
    graph = line("a", "b").compile(checkpointer=saver)
    run.invoke(graph, {}, config, interrupt_before="*")
    assert run.get_state(graph, config).next == ("a",)
    run.invoke(graph, None, config, interrupt_before="*")
    assert run.get_state(graph, config).next == ("b",)
    assert run.invoke(graph, None, config)["log"] == ["a", "b"]


def test_a_new_input_on_a_stopped_thread_starts_from_the_beginning(run, saver, config, durability):
    ran: list[str] = []
    graph = line("a", "b", ran=ran).compile(checkpointer=saver, interrupt_before=["b"])
    run.invoke(graph, {}, config, durability=durability)
    result = run.invoke(graph, {"log": ["new"]}, config, durability=durability)
    assert result["log"] == ["a", "new", "a"]
    assert ran == ["a", "a"]
    assert run.get_state(graph, config).next == ("b",)


# -- colours


def test_sync_and_async_nodes_live_in_one_graph(run):
    async def second(state: Log) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": ["async"]}

    builder = StateGraph(Log).add_sequence([("first", appends("sync")), second])
    builder.add_edge(START, "first")
    assert run.invoke(builder.compile(), {})["log"] == ["sync", "async"]


def test_async_nodes_of_one_step_run_at_the_same_time(run):
    def pair() -> Any:
        met = asyncio.Event()

        async def wait(state: Log) -> dict[str, Any]:
            await asyncio.wait_for(met.wait(), PATIENCE)
            return {"log": ["waited"]}

        async def ring(state: Log) -> dict[str, Any]:
            met.set()
            return {"log": ["rang"]}

        builder = StateGraph(Log).add_node("a", wait).add_node("b", ring)
        return builder.add_edge(START, "a").add_edge(START, "b").compile()

    assert run.invoke(pair(), {})["log"] == ["waited", "rang"]


async def answers(state: Log) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"log": ["async"]}


@pytest.mark.parametrize(
    "call",
    [lambda graph: graph.invoke({}), lambda graph: list(graph.stream({}))],
    ids=["invoke", "stream"],
)
def test_an_async_node_that_is_alone_in_its_step_is_refused_in_a_sync_call_on_a_running_loop(call):
    graph = single(answers).compile()

    async def main() -> Any:
        return call(graph)

    with pytest.raises(ColourError, match=r"'node' is async.* running event loop.* ainvoke"):
        asyncio.run(main())


def test_async_nodes_of_one_step_run_on_threads_in_a_sync_call_on_a_running_loop():
    builder = StateGraph(Log).add_node("a", answers).add_node("b", answers)
    graph = builder.add_edge(START, "a").add_edge(START, "b").compile()

    async def main() -> Any:
        return graph.invoke({})

    assert asyncio.run(main()) == {"log": ["async", "async"]}


def test_a_sync_graph_can_be_invoked_on_a_running_loop(saver, config):
    graph = line("a", "b").compile(checkpointer=saver)

    async def main() -> Any:
        return graph.invoke({}, config)

    assert asyncio.run(main())["log"] == ["a", "b"]


# -- what a node is given


def test_configurable_carries_the_thread_an_empty_namespace_and_the_callers_own(run, saver):
    def node(state: Log, config) -> dict[str, Any]:
        given = config["configurable"]
        return {"log": [given["thread_id"], given["checkpoint_ns"], given["mine"]]}

    graph = single(node).compile(checkpointer=saver)
    result = run.invoke(graph, {}, {"configurable": {"thread_id": "t", "mine": 5}})
    assert result["log"] == ["t", "", 5]


def test_in_a_subgraph_the_namespace_names_the_node_and_its_task(run, saver, config):
    def node(state: Log, config) -> dict[str, Any]:
        return {"log": [config["configurable"]["checkpoint_ns"]]}

    inner = single(node).compile()
    graph = StateGraph(Log).add_node("inner", inner).add_edge(START, "inner")
    namespace = run.invoke(graph.compile(checkpointer=saver), {}, config)["log"][0]
    name, _, task = namespace.partition(":")
    assert name == "inner"
    assert len(task) == 36


def test_tags_and_metadata_of_the_call_reach_the_node(run):
    def node(state: Log, config) -> dict[str, Any]:
        return {"log": [config["tags"], config["metadata"]["who"], config["recursion_limit"]]}

    config = {"tags": ["t"], "metadata": {"who": "me"}, "recursion_limit": 7}
    assert run.invoke(single(node).compile(), {}, config)["log"] == [["t"], "me", 7]


def test_a_node_without_a_config_parameter_gets_none(run):
    assert run.invoke(single(lambda state: {"log": [1]}).compile(), {})["log"] == [1]


# -- stream


def test_streaming_updates_shows_what_each_node_wrote(run):
    chunks = run.stream(two_nodes().compile(), {"foo": ""}, stream_mode="updates")
    assert chunks == [
        {"node_a": {"foo": "a", "bar": ["a"]}},
        {"node_b": {"foo": "b", "bar": ["b"]}},
    ]


def test_updates_are_the_default_of_stream(run):
    graph = two_nodes().compile()
    assert run.stream(graph, {"foo": ""}) == run.stream(graph, {"foo": ""}, stream_mode="updates")


def test_streaming_values_shows_the_state_after_the_input_and_each_step(run):
    chunks = run.stream(two_nodes().compile(), {"foo": ""}, stream_mode="values")
    assert chunks == [
        {"foo": "", "bar": []},
        {"foo": "a", "bar": ["a"]},
        {"foo": "b", "bar": ["a", "b"]},
    ]


def test_several_modes_come_in_one_stream_each_with_its_name(run):
    chunks = run.stream(two_nodes().compile(), {"foo": ""}, stream_mode=["updates", "values"])
    assert chunks == [
        ("values", {"foo": "", "bar": []}),
        ("updates", {"node_a": {"foo": "a", "bar": ["a"]}}),
        ("values", {"foo": "a", "bar": ["a"]}),
        ("updates", {"node_b": {"foo": "b", "bar": ["b"]}}),
        ("values", {"foo": "b", "bar": ["a", "b"]}),
    ]


def test_a_node_that_writes_nothing_shows_none_and_makes_no_new_value(run):
    builder = StateGraph(Log).add_sequence([("a", appends("a")), ("idle", lambda state: None)])
    graph = builder.add_edge(START, "a").compile()
    assert run.stream(graph, {"log": []}) == [{"a": {"log": ["a"]}}, {"idle": None}]
    values = run.stream(graph, {"log": []}, stream_mode="values")
    assert values == [{"log": []}, {"log": ["a"]}]


def test_output_keys_choose_what_is_streamed(run):
    chunks = run.stream(two_nodes().compile(), {"foo": ""}, output_keys=["foo"])
    assert chunks == [{"node_a": {"foo": "a"}}, {"node_b": {"foo": "b"}}]


def test_streamed_values_hold_all_keys_while_invoke_returns_the_output_schema(run):
    class Out(TypedDict):
        foo: str

    builder = StateGraph(Doc, output_schema=Out)
    builder.add_node("node", lambda state: {"foo": "x", "bar": ["x"]}).add_edge(START, "node")
    graph = builder.compile()
    assert run.invoke(graph, {"foo": ""}) == {"foo": "x"}
    last = run.stream(graph, {"foo": ""}, stream_mode="values")[-1]
    assert last == {"foo": "x", "bar": ["x"]}


def test_the_stream_is_lazy_and_can_be_left(saver, config):
    ran: list[str] = []
    graph = line("a", "b", "c", ran=ran).compile(checkpointer=saver)
    stream = graph.stream({}, config, durability="sync")
    assert next(stream) == {"a": {"log": ["a"]}}
    stream.close()
    assert "c" not in ran
    assert graph.invoke(None, config)["log"] == ["a", "b", "c"]
    assert ran.count("c") == 1


def test_an_error_ends_the_stream_after_what_came_before_it():
    def boom(state: Log) -> None:
        raise RuntimeError("boom")

    builder = StateGraph(Log).add_sequence([("a", appends("a")), boom])
    stream = builder.add_edge(START, "a").compile().stream({})
    assert next(stream) == {"a": {"log": ["a"]}}
    with pytest.raises(RuntimeError, match="boom"):
        next(stream)


# -- batch


def test_batch_returns_one_result_for_each_input_in_order(run):
    results = run.batch(line("a").compile(), [{"log": [n]} for n in range(5)])
    assert results == [{"log": [n, "a"]} for n in range(5)]
    assert run.batch(line("a").compile(), []) == []


def test_batch_over_one_thread_runs_the_inputs_in_order(run, saver, config):
    graph = line("a").compile(checkpointer=saver)
    results = run.batch(graph, [{"log": [n]} for n in range(4)], config)
    assert [result["log"] for result in results] == [
        [0, "a"],
        [0, "a", 1, "a"],
        [0, "a", 1, "a", 2, "a"],
        [0, "a", 1, "a", 2, "a", 3, "a"],
    ]
    sources = [source for _, source, _ in steps(run.history(graph, config))]
    assert sources.count("input") == 4


def test_batch_takes_one_config_for_each_input(run, saver):
    graph = line("a").compile(checkpointer=saver)
    configs = [thread("x"), thread("y"), thread("x")]
    results = run.batch(graph, [{"log": [n]} for n in range(3)], configs)
    assert [result["log"] for result in results] == [[0, "a"], [1, "a"], [0, "a", 2, "a"]]


def test_batch_refuses_configs_that_do_not_match_the_inputs(run):
    with pytest.raises(ValueError):
        run.batch(line("a").compile(), [{}, {}], [{}])


def test_batch_can_return_exceptions_in_their_places(run):
    results = run.batch(line("a").compile(), [{"log": [1]}, "wrong"], return_exceptions=True)
    assert results[0] == {"log": [1, "a"]}
    assert isinstance(results[1], InvalidUpdateError)


def test_batch_raises_the_first_error_otherwise(run):
    with pytest.raises(InvalidUpdateError):
        run.batch(line("a").compile(), [{"log": [1]}, "wrong"])


def test_batch_honours_max_concurrency(run):
    class Counted(TypedDict):
        log: Annotated[list[int], operator.add]

    results = run.batch(
        single(lambda state: {"log": [1]}, Counted).compile(),
        [{"log": [n]} for n in range(4)],
        {"max_concurrency": 1},
    )
    assert results == [{"log": [n, 1]} for n in range(4)]


# -- the graph's own errors have one root


def test_every_error_of_the_runtime_is_a_milepost_error(run, saver):
    looping = StateGraph(Log).add_node("a", appends("a")).add_edge(START, "a").add_edge("a", "a")
    for call in (
        lambda: run.invoke(line("a").compile(), None),
        lambda: run.invoke(line("a").compile(), "wrong"),
        lambda: run.invoke(looping.compile(), {}, {"recursion_limit": 2}),
        lambda: run.invoke(line("a").compile(checkpointer=saver), {}),
        lambda: StateGraph(Log).compile(),
        lambda: line("a").add_edge("a", "nowhere").compile(),
        lambda: line(END),
    ):
        with pytest.raises(MilepostError):
            call()


def test_async_nodes_are_run_and_updated_without_a_thread(config, monkeypatch):
    """A hop to a thread and back costs more than five steps."""

    async def count(state: Log) -> dict[str, Any]:
        return {"log": [len(state["log"])]}

    def no_threads(job: Any) -> None:
        raise AssertionError(f"a thread was asked for: {job}")

    monkeypatch.setattr(workers, "submit", no_threads)
    builder = StateGraph(Log).add_node("count", count).add_edge(START, "count")
    graph = builder.compile(checkpointer=InMemorySaver())

    async def main() -> Any:
        await graph.ainvoke({"log": ["in"]}, config)
        await graph.aupdate_state(config, {"log": ["up"]}, as_node="count")
        return (await graph.aget_state(config)).values

    assert asyncio.run(main()) == {"log": ["in", 1, "up"]}


def test_a_node_that_gives_something_else_to_await_finds_its_run():
    class Later:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return {"log": [get_config()["metadata"]["langgraph_node"]]}

    class Node:
        def ainvoke(self, state: Log) -> Later:
            return Later()

    graph = StateGraph(Log).add_node("late", Node()).add_edge(START, "late").compile()
    assert asyncio.run(graph.ainvoke({"log": []})) == {"log": ["late"]}


def test_running_a_graph_loads_no_langchain(tmp_path):
    """In a fresh interpreter, so that what other tests imported does not count."""
    import subprocess

    program = (
        "import sys, operator\n"
        "from typing import Annotated, TypedDict\n"
        "from milepost.graph import StateGraph, START\n"
        "from milepost.checkpoint.memory import InMemorySaver\n"
        "class S(TypedDict):\n"
        "    log: Annotated[list, operator.add]\n"
        "g = StateGraph(S).add_node('a', lambda s: {'log': ['a']}).add_edge(START, 'a')\n"
        "g = g.compile(checkpointer=InMemorySaver())\n"
        "assert g.invoke({}, {'configurable': {'thread_id': 't'}}) == {'log': ['a']}\n"
        "print([m for m in sys.modules if m.startswith(('langchain', 'langgraph', 'pydantic'))])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_graph_without_a_saver_and_with_plain_values_loads_no_serializer():
    program = (
        "import sys\n"
        "from typing import TypedDict\n"
        "from milepost.graph import START, StateGraph\n"
        "class State(TypedDict):\n"
        "    log: list\n"
        "builder = StateGraph(State).add_node('n', lambda _: {'log': [1, 'a', {'b': (2,)}]})\n"
        "print(builder.add_edge(START, 'n').compile().invoke({'log': []}))\n"
        "print([m for m in sys.modules if m.startswith(('milepost.checkpoint.serde', 'ormsgpack'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["{'log': [1, 'a', {'b': (2,)}]}", "[]"], done.stderr


def test_types_of_a_graph_that_was_compiled_before_the_serializer_are_stored():
    program = (
        "from dataclasses import dataclass\n"
        "from typing import TypedDict\n"
        "from milepost.graph import START, StateGraph\n"
        "@dataclass\n"
        "class Order:\n"
        "    total: int\n"
        "class State(TypedDict):\n"
        "    order: Order\n"
        "builder = StateGraph(State).add_node('n', lambda _: {'order': Order(1)})\n"
        "builder.add_edge(START, 'n').compile()\n"
        "from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer\n"
        "serde = JsonPlusSerializer()\n"
        "print(serde.loads_typed(serde.dumps_typed(Order(1))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "Order(total=1)\n", done.stderr


@pytest.mark.parametrize("returned", [{}, {"a": 1}, {1: 2}])
def test_a_node_of_a_state_that_is_one_value_replaces_it_with_any_dict(run, returned):
    builder = StateGraph(Annotated[dict, lambda _, new: new])
    graph = builder.add_node("node", lambda _: returned).add_edge(START, "node").compile()
    assert run.invoke(graph, {"before": True}) == returned
