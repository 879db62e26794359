"""Details of events, in the words of one program that runs on both libraries.

Every test here holds for LangGraph too, with and without a checkpointer where it can.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict


@pytest.fixture(params=["kept", "not kept"])
def maybe_saver(request: pytest.FixtureRequest, lib: Any) -> Any:
    """A checkpointer, and none."""
    return lib.InMemorySaver() if request.param == "kept" else None


class Facts(TypedDict, total=False):
    x: int
    y: int
    log: Annotated[list[Any], operator.add]


class OnlyY(TypedDict):
    y: int


class OnlyLog(TypedDict):
    log: Annotated[list[Any], operator.add]


def path(lib: Any, *functions: Any, **schemas: Any) -> Any:
    """A graph of nodes a, b, ... that follow one another; not compiled."""
    builder = lib.StateGraph(Facts, **schemas)
    before = lib.START
    for name, function in zip("abcd", functions, strict=False):
        builder.add_node(name, function)
        builder.add_edge(before, name)
        before = name
    return builder


def writes(**update: Any) -> Any:
    """A node that always writes the same."""
    return lambda state: update


def ends(events: list[Any]) -> list[Any]:
    """Of the events of `tasks` or `debug`, those of tasks that have ended."""
    payloads = [event.get("payload", event) for event in events]
    return [payload for payload in payloads if "result" in payload]


def other(config: dict[str, Any]) -> dict[str, Any]:
    """Another thread."""
    return {"configurable": {"thread_id": config["configurable"]["thread_id"] + "'"}}


@pytest.mark.parametrize("mode", ["tasks", "debug"])
class TestTheEndOfATask:
    def test_that_waits_shows_its_question(self, run, lib, config, mode):
        graph = path(lib, lambda state: {"x": lib.interrupt("q")})
        graph = graph.compile(checkpointer=lib.InMemorySaver())
        (end,) = ends(run.stream(graph, {"x": 0}, config, stream_mode=mode))
        assert [question["value"] for question in end["interrupts"]] == ["q"]

    def test_that_was_answered_shows_no_question(self, run, lib, config, mode):
        graph = path(lib, lambda state: {"x": lib.interrupt("q")})
        graph = graph.compile(checkpointer=lib.InMemorySaver())
        run.invoke(graph, {"x": 0}, config)
        (end,) = ends(run.stream(graph, lib.Command(resume=1), config, stream_mode=mode))
        assert (end["result"], end["interrupts"]) == ({"x": 1}, [])

    def test_that_asks_again_shows_only_what_is_open(self, run, lib, config, mode):
        graph = path(lib, lambda state: {"x": lib.interrupt("q") + lib.interrupt("r")})
        graph = graph.compile(checkpointer=lib.InMemorySaver())
        run.invoke(graph, {"x": 0}, config)
        told = [
            ends(run.stream(graph, lib.Command(resume=answer), config, stream_mode=mode))
            for answer in (1, 2)
        ]
        values = [[question["value"] for question in end["interrupts"]] for (end,) in told]
        assert values == [["r"], []]

    def test_with_tasks_that_it_called_shows_no_answered_question(self, run, lib, config, mode):
        @lib.task
        def ask(question: str) -> Any:
            return lib.interrupt(question)

        @lib.entrypoint(checkpointer=lib.InMemorySaver())
        def flow(given: Any) -> Any:
            return ask("q").result()

        run.invoke(flow, 0, config)
        told = ends(run.stream(flow, lib.Command(resume=1), config, stream_mode=mode))
        assert [(end["name"], end["interrupts"]) for end in told] == [("ask", []), ("flow", [])]

    def test_that_commands_the_graph_around_it_is_told_by_that_graph(self, run, lib, config, mode):
        def leaves(state: Any) -> Any:
            return lib.Command(graph=lib.Command.PARENT, update={"x": 5})

        graph = path(lib, path(lib, leaves).compile()).compile(checkpointer=lib.InMemorySaver())
        events = run.stream(graph, {"x": 0}, config, stream_mode=mode, subgraphs=True)
        (end,) = ends([event for _ns, event in events])
        assert (end["name"], end["error"], end["result"]) == ("a", None, {"x": 5})
        assert [ns for ns, event in events if ends([event])] == [()]


def test_the_tasks_of_two_runs_have_different_ids(run, lib, config, maybe_saver):
    child = path(lib, writes(x=1)).compile()
    graph = path(lib, writes(x=1), child).compile(checkpointer=maybe_saver)
    told = [
        {event["id"] for _, event in events}
        for events in (
            run.stream(graph, {"x": 0}, config, stream_mode="tasks", subgraphs=True)
            for _ in range(2)
        )
    ]
    assert [len(ids) for ids in told] == [3, 3]
    assert not told[0] & told[1]


def test_what_is_not_saved_is_no_checkpoint(run, lib, config):
    kept = {"checkpointer": lib.InMemorySaver()}
    for inside, outside, namespaces in (
        ({}, kept, 2),
        ({"checkpointer": False}, kept, 1),
        ({}, {}, 0),
    ):
        child = path(lib, writes(x=1)).compile(**inside)
        graph = path(lib, child).compile(**outside)
        # LangGraph cannot run this with durability "sync": it wants to save what it must not.
        told = {
            mode: run.stream(
                graph,
                {"x": 0},
                config,
                stream_mode=mode,
                subgraphs=True,
                durability="async" if outside else None,
            )
            for mode in ("checkpoints", "debug")
        }
        assert len({len(ns) for ns, _ in told["checkpoints"]}) == namespaces
        shown = {len(ns) for ns, event in told["debug"] if event["type"] == "checkpoint"}
        assert len(shown) == namespaces


@pytest.mark.parametrize("subgraphs", [False, True])
def test_a_breakpoint_inside_a_graph_is_told_by_the_outermost_one(run, lib, config, subgraphs):
    child = path(lib, writes(x=1), writes(y=1)).compile(interrupt_before=["b"])
    graph = path(lib, child, writes(x=2)).compile(checkpointer=lib.InMemorySaver())
    stopped = {"__interrupt__": ()}
    told = run.stream(graph, {"x": 0}, config, stream_mode="updates", subgraphs=subgraphs)
    assert told[-1] == (((), stopped) if subgraphs else stopped)
    assert len(told) == 1 + subgraphs
    assert run.get_state(graph, config).next == ("a",)
    told = run.stream(graph, None, config, stream_mode="updates")
    assert [list(update) for update in told] == [["a"], ["b"]]


@pytest.mark.parametrize("side", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("mode", ["tasks", "debug"])
def test_a_task_that_stopped_at_a_breakpoint_inside_has_no_result(run, lib, config, mode, side):
    child = path(lib, writes(x=1), writes(y=1)).compile(**{side: ["a"]})
    graph = path(lib, child, writes(x=2)).compile(checkpointer=lib.InMemorySaver())
    assert ends(run.stream(graph, {"x": 0}, config, stream_mode=mode)) == []
    resumed = ends(run.stream(graph, None, config, stream_mode=mode))
    assert [end["name"] for end in resumed] == ["a", "b"]


@pytest.mark.parametrize("side", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize(("given", "log"), [(None, 1), ([], 1), ((), 1), (["a"], 0), ("*", 0)])
def test_a_call_that_names_no_breakpoints_has_the_compiled_ones(run, lib, config, side, given, log):
    steps = [writes(log=[at]) for at in range(3)]
    graph = path(lib, *steps).compile(checkpointer=lib.InMemorySaver(), **{side: ["b"]})
    run.invoke(graph, {"log": []}, config, **{side: given})
    ran = run.get_state(graph, config).values["log"]
    assert ran == list(range(log + (side == "interrupt_after")))


class TestTheResultOfATask:
    @pytest.mark.parametrize("mode", ["tasks", "debug"])
    @pytest.mark.parametrize(
        ("updates", "result"),
        [
            ([{"log": ["1"]}, {"log": ["2"]}], {"log": {"$writes": [["1"], ["2"]]}}),
            (
                [{"log": ["1"], "x": 3}, {"log": []}, {"log": ["3"]}],
                {"log": {"$writes": [["1"], [], ["3"]]}, "x": 3},
            ),
            ([{"log": ["1"]}, {"x": 2}], {"log": ["1"], "x": 2}),
            ([], {}),
        ],
    )
    def test_shows_every_write(self, run, lib, config, maybe_saver, mode, updates, result):
        graph = path(lib, lambda state: [lib.Command(update=update) for update in updates] or None)
        graph = graph.compile(checkpointer=maybe_saver)
        (end,) = ends(run.stream(graph, {"x": 0}, config, stream_mode=mode))
        assert end["result"] == result

    def test_is_one_update_for_each_write_in_updates(self, run, lib, config, maybe_saver):
        graph = path(lib, lambda state: [lib.Command(update={"log": [n]}) for n in (1, 2)])
        graph = graph.compile(checkpointer=maybe_saver)
        events = run.stream(graph, {"x": 0}, config, stream_mode="updates")
        assert events == [{"a": [{"log": [1]}, {"log": [2]}]}]


class TestValuesOfSomeKeys:
    @pytest.mark.parametrize(
        ("keys", "events"),
        [
            (["y"], [{"y": 2}]),
            ("y", [2]),
            (["x"], [{"x": 0}, {"x": 1}, {"x": 3}]),
            ("x", [0, 1, 3]),
            (["x", "y"], [{"x": 0}, {"x": 1}, {"x": 1, "y": 2}, {"x": 3, "y": 2}]),
            (["log"], []),
        ],
    )
    def test_come_when_one_of_them_has_changed(self, run, lib, config, maybe_saver, keys, events):
        graph = path(lib, writes(x=1), writes(y=2), writes(x=3))
        graph = graph.compile(checkpointer=maybe_saver)
        told = run.stream(graph, {"x": 0}, config, stream_mode="values", output_keys=keys)
        assert told == events

    @pytest.mark.parametrize(
        ("keys", "events", "later"),
        [
            (["y"], ["q"], [{}, {"y": 2}]),
            ("y", ["q"], [None, 2]),
            (["x"], [{"x": 0}, {"x": 1}, "q"], [{"x": 1}]),
            (["log"], ["q"], [{"log": []}]),
        ],
    )
    def test_come_first_when_a_run_goes_on(self, run, lib, config, keys, events, later):
        def asks(state: Any) -> Any:
            lib.interrupt("q")
            return {"y": 2}

        graph = path(lib, writes(x=1), asks).compile(checkpointer=lib.InMemorySaver())
        told = run.stream(graph, {"x": 0}, config, stream_mode="values", output_keys=keys)
        *before, last = told
        assert [*before, last["__interrupt__"][0].value] == events
        told = run.stream(
            graph, lib.Command(resume=1), config, stream_mode="values", output_keys=keys
        )
        assert told == later

    def test_are_told_of_an_empty_state_that_goes_on(self, run, lib, config):
        class Empty(TypedDict, total=False):
            x: int

        builder = lib.StateGraph(Empty)
        builder.add_node("a", lambda state: None)
        builder.add_edge(lib.START, "a")
        graph = builder.compile(checkpointer=lib.InMemorySaver(), interrupt_before=["a"])
        assert run.stream(graph, {}, config, stream_mode="values") == []
        assert run.stream(graph, None, config, stream_mode="values") == [{}]
        assert run.invoke(graph, None, config) == {}

    def test_of_a_function_that_goes_on_are_what_it_returned_last(self, run, lib, config):
        @lib.entrypoint(checkpointer=lib.InMemorySaver())
        def flow(given: Any) -> Any:
            return lib.interrupt("q")

        run.invoke(flow, 0, config)
        assert run.stream(flow, lib.Command(resume=1), config, stream_mode="values") == [None, 1]
        assert run.invoke(flow, None, config) == 1

    def test_that_were_never_written_are_no_output(self, run, lib, config, maybe_saver):
        graph = path(lib, writes(x=1)).compile(checkpointer=maybe_saver)
        assert run.invoke(graph, {"x": 0}, config, output_keys=["log"]) is None


class TestTheOutputSchema:
    @pytest.fixture
    def graph(self, lib: Any, maybe_saver: Any) -> Any:
        builder = path(lib, writes(x=7, y=2), output_schema=OnlyY)
        return builder.compile(checkpointer=maybe_saver)

    def test_limits_what_invoke_tells(self, run, graph, config):
        told = run.invoke(graph, {"x": 0}, config, stream_mode=["values", "updates"])
        assert told == [("updates", {"a": {"y": 2}}), ("values", {"y": 2})]
        assert run.invoke(graph, {"x": 0}, config, stream_mode="updates") == [{"a": {"y": 2}}]

    def test_does_not_limit_the_results_of_tasks(self, run, graph, config):
        told = run.invoke(graph, {"x": 0}, config, stream_mode="tasks")
        assert ends(told)[0]["result"] == {"x": 7, "y": 2}

    def test_gives_way_to_output_keys(self, run, graph, config):
        told = run.invoke(graph, {"x": 0}, config, stream_mode="updates", output_keys=["x"])
        assert told == [{"a": {"x": 7}}]

    def test_does_not_limit_stream(self, run, graph, config):
        told = run.stream(graph, {"x": 0}, config, stream_mode="updates")
        assert told == [{"a": {"x": 7, "y": 2}}]

    def test_of_a_subgraph_limits_what_is_told_of_it(self, run, lib, config, maybe_saver):
        child = path(lib, writes(x=7, y=2), output_schema=OnlyY).compile()
        graph = path(lib, child).compile(checkpointer=maybe_saver)
        told = run.stream(
            graph, {"x": 0}, config, stream_mode=["values", "updates"], subgraphs=True
        )
        inside = [(mode, event) for ns, mode, event in told if ns]
        assert inside == [("updates", {"a": {"y": 2}}), ("values", {"y": 2})]

    @pytest.mark.parametrize("schema", [OnlyY, OnlyLog])
    def test_without_a_key_that_was_written_is_no_output(
        self, run, lib, config, maybe_saver, schema
    ):
        graph = path(lib, writes(x=7), output_schema=schema).compile(checkpointer=maybe_saver)
        assert run.invoke(graph, {"x": 0}, config) is None
        assert run.invoke(graph, {"x": 0}, config, stream_mode="updates") == [{"a": None}]


CACHED = {"__metadata__": {"cached": True}}


class TestAResultFromTheCache:
    def cached(self, lib: Any, saver: Any, function: Any) -> Any:
        """Nodes a, whose results are cached, and b."""
        builder = lib.StateGraph(Facts)
        builder.add_node("a", function, cache_policy=lib.CachePolicy())
        builder.add_node("b", writes(log=["b"]))
        builder.add_edge(lib.START, "a")
        builder.add_edge("a", "b")
        return builder.compile(checkpointer=saver, cache=lib.InMemoryCache())

    @pytest.mark.parametrize("update", [{"y": 1}, None])
    def test_is_marked_in_updates(self, run, lib, config, maybe_saver, update):
        graph = self.cached(lib, maybe_saver, lambda state: update)
        told = [
            run.stream(graph, {"x": 0}, thread, stream_mode="updates")
            for thread in (config, other(config))
        ]
        assert told == [
            [{"a": update}, {"b": {"log": ["b"]}}],
            [{"a": update, **CACHED}, {"b": {"log": ["b"]}}],
        ]

    def test_is_marked_for_each_send(self, run, lib, config, maybe_saver):
        builder = lib.StateGraph(Facts)
        builder.add_node("a", lambda state: {"log": [state["x"]]}, cache_policy=lib.CachePolicy())
        builder.add_conditional_edges(
            lib.START, lambda state: [lib.Send("a", {"x": n}) for n in (1, 2)]
        )
        graph = builder.compile(checkpointer=maybe_saver, cache=lib.InMemoryCache())
        run.invoke(graph, {"x": 0}, config)
        told = run.stream(graph, {"x": 0}, other(config), stream_mode="updates")
        assert told == [{"a": {"log": [1]}, **CACHED}, {"a": {"log": [2]}, **CACHED}]

    def test_is_marked_for_a_task_that_is_called(self, run, lib, config, maybe_saver):
        @lib.task(cache_policy=lib.CachePolicy())
        def double(number: int) -> int:
            return 2 * number

        @lib.entrypoint(checkpointer=maybe_saver, cache=lib.InMemoryCache())
        def flow(number: int) -> int:
            return double(number).result()

        run.invoke(flow, 3, config)
        told = run.stream(flow, 3, other(config), stream_mode="updates")
        assert told == [{"double": 6, **CACHED}, {"flow": 6}]

    @pytest.mark.parametrize("mode", ["tasks", "debug"])
    def test_is_not_the_end_of_a_task(self, run, lib, config, maybe_saver, mode):
        graph = self.cached(lib, maybe_saver, writes(y=1))
        names = [
            [end["name"] for end in ends(run.stream(graph, {"x": 0}, thread, stream_mode=mode))]
            for thread in (config, other(config))
        ]
        assert names == [["a", "b"], ["b"]]


class TestWhatHappenedBefore:
    def test_is_told_first_when_a_run_goes_on(self, run, lib, config):
        fails = [True]

        def node(state: Facts) -> dict[str, int]:
            if fails:
                fails.clear()
                raise RuntimeError("boom")
            return {"x": 1}

        builder = lib.StateGraph(Facts).add_node("node", node).add_edge(lib.START, "node")
        graph = builder.compile(checkpointer=lib.InMemorySaver())
        with pytest.raises(RuntimeError):
            run.invoke(graph, {"x": 0}, config)
        first = run.stream(graph, None, config, stream_mode="checkpoints")[0]
        assert [task["error"] for task in first["tasks"]] == ["RuntimeError('boom')"]

    def test_shows_every_write_of_a_task(self, run, lib, config):
        builder = lib.StateGraph(Facts).add_edge(lib.START, "node")
        builder.add_node("node", lambda _: [lib.Command(update={"log": [n]}) for n in "12"])
        graph = builder.compile(checkpointer=lib.InMemorySaver())
        run.invoke(graph, {"x": 0}, config)
        results = [task.result for old in run.history(graph, config) for task in old.tasks]
        assert results == [{"log": {"$writes": [["1"], ["2"]]}}, {"x": 0}]
