"""Graphs that are made from channels and nodes. What `lib` is asked for holds on LangGraph too."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from milepost.channels import EphemeralValue, LastValue
from milepost.errors import EmptyInputError, GraphBuildError
from milepost.func import entrypoint
from milepost.graph import START, StateGraph
from milepost.pregel import ChannelWriteEntry, NodeBuilder, Pregel
from milepost.pregel.protocol import PregelProtocol
from milepost.types import (
    CachePolicy,
    Command,
    RetryPolicy,
    RunnableConfig,
    Send,
    interrupt,
)

THREAD: Any = {"configurable": {"thread_id": "1"}}


def double(value: Any) -> Any:
    return value + value


def doubling(lib: Any, **options: Any) -> Any:
    """a → b → c, each twice what the one before is."""
    return lib.Pregel(
        nodes={
            "one": lib.NodeBuilder().subscribe_only("a").do(double).write_to("b"),
            "two": lib.NodeBuilder().subscribe_only("b").do(double).write_to("c"),
        },
        channels={
            "a": lib.EphemeralValue(str),
            "b": lib.LastValue(str),
            "c": lib.EphemeralValue(str),
        },
        input_channels=["a"],
        output_channels=["b", "c"],
        **options,
    )


class TestRunning:
    def test_a_value_goes_from_channel_to_channel(self, lib: Any, run: Any) -> None:
        assert run.invoke(doubling(lib), {"a": "x"}) == {"b": "xx", "c": "xxxx"}

    def test_streams_show_the_channels(self, lib: Any, run: Any) -> None:
        app = doubling(lib)
        assert run.stream(app, {"a": "x"}) == [{"b": "xx"}, {"b": "xx", "c": "xxxx"}]
        assert run.stream(app, {"a": "x"}, stream_mode="updates") == [
            {"one": {"b": "xx"}},
            {"two": {"c": "xxxx"}},
        ]

    def test_a_bare_channel_is_input_and_output(self, lib: Any, run: Any) -> None:
        app = lib.Pregel(
            nodes={"one": lib.NodeBuilder().subscribe_only("in").do(double).write_to("out")},
            channels={"in": lib.LastValue(int), "out": lib.LastValue(int)},
            input_channels="in",
            output_channels="out",
        )
        assert run.invoke(app, 2) == 4
        assert run.invoke(app, 2, output_keys=["in", "out"]) == {"in": 2, "out": 4}

    def test_the_output_is_what_was_written_last_though_its_channel_is_empty_by_then(
        self, lib: Any, run: Any
    ) -> None:
        entry = ChannelWriteEntry if lib.name == "milepost" else _their_entry()
        grow = (
            lib.NodeBuilder()
            .subscribe_only("value")
            .do(lambda text: text + text if len(text) < 10 else None)
            .write_to(entry("value", skip_none=True))
        )
        app = lib.Pregel(
            nodes={"grow": grow},
            channels={"value": lib.EphemeralValue(str)},
            input_channels=["value"],
            output_channels=["value"],
        )
        assert run.invoke(app, {"value": "a"}) == {"value": "a" * 16}

    def test_reducers_and_topics_collect_the_writes_of_a_step(self, lib: Any, run: Any) -> None:
        app = lib.Pregel(
            nodes={
                "one": lib.NodeBuilder().subscribe_only("a").do(double).write_to("total", "seen"),
                "two": lib.NodeBuilder().subscribe_only("a").write_to("total", "seen"),
            },
            channels={
                "a": lib.EphemeralValue(int),
                "total": lib.BinaryOperatorAggregate(int, operator.add),
                "seen": lib.Topic(int, accumulate=True),
            },
            input_channels="a",
            output_channels=["total", "seen"],
        )
        assert run.invoke(app, 3) == {"total": 9, "seen": [6, 3]}

    def test_write_to_takes_values_and_functions(self, lib: Any, run: Any) -> None:
        node = (
            lib.NodeBuilder()
            .subscribe_to("a", "b")
            .read_from("c")
            .do(lambda read: sum(read.values()))
            .do(double)
            .write_to("same", fixed=7, text=str)
        )
        names = ("a", "b", "c", "same", "fixed", "text")
        app = lib.Pregel(
            nodes={"node": node},
            channels={name: lib.LastValue(object) for name in names},
            input_channels=["a", "b", "c"],
            output_channels=["same", "fixed", "text"],
        )
        result = run.invoke(app, {"a": 1, "b": 2, "c": 4})
        assert result == {"same": 14, "fixed": 7, "text": "14"}

    def test_a_node_waits_for_the_channel_that_it_is_called_with(self, lib: Any, run: Any) -> None:
        late = lib.NodeBuilder().subscribe_to("go", read=False).subscribe_only("value")
        app = lib.Pregel(
            nodes={"late": late.write_to("out")},
            channels={name: lib.LastValue(object) for name in ("go", "value", "out")},
            input_channels=["go", "value"],
            output_channels="out",
        )
        assert run.invoke(app, {"go": True}) is None
        assert run.invoke(app, {"go": True, "value": 5}) == 5

    def test_functions_of_a_chain_may_be_async_and_ask_for_the_config(self, run: Any) -> None:
        async def first(value: int) -> int:
            return value + 1

        def second(value: int, config: Any) -> Any:
            return value, config["metadata"]["kind"], config["tags"]

        node = NodeBuilder().subscribe_only("a").do(first).do(second).meta("tag", kind="chain")
        app = one_node(node.write_to("b"))
        assert run.invoke(app, 1) == (2, "chain", ["tag"])

    def test_a_chain_that_asks_for_the_config_can_be_called_alone(self, lib: Any) -> None:
        def with_config(value: int, config: RunnableConfig) -> Any:
            return value, config["configurable"]["k"]

        app = lib.Pregel(
            nodes={
                "node": lib.NodeBuilder()
                .subscribe_only("in")
                .do(double)
                .do(with_config)
                .write_to("out")
            },
            channels={"in": lib.LastValue(int), "out": lib.LastValue(object)},
            input_channels="in",
            output_channels="out",
        )
        assert app.nodes["node"].invoke(2, {"configurable": {"k": 3}}) == (4, 3)

    def test_a_send_starts_a_node_with_its_own_input(self, run: Any) -> None:
        app = Pregel(
            nodes={
                "plan": NodeBuilder().subscribe_only("a").write_to(Send("work", 5)),
                "work": NodeBuilder().subscribe_to("never").do(double).write_to("b"),
            },
            channels={name: LastValue(object) for name in ("a", "never", "b")},
            input_channels="a",
            output_channels="b",
        )
        assert run.invoke(app, 1) == 10

    def test_policies_of_the_graph_hold_for_nodes_without_their_own(self, run: Any) -> None:
        from milepost.cache.memory import InMemoryCache

        calls: list[int] = []

        def flaky(value: int) -> int:
            calls.append(value)
            if len(calls) == 1:
                raise ConnectionError
            return value

        node = NodeBuilder().subscribe_only("a").do(flaky).write_to("b")
        retry = RetryPolicy(initial_interval=0.0, jitter=False)
        app = one_node(node, retry_policy=retry, cache=InMemoryCache(), cache_policy=CachePolicy())
        assert [run.invoke(app, 4), run.invoke(app, 4)] == [4, 4]
        assert calls == [4, 4]


class TestThreads:
    def test_state_is_saved_read_and_updated(self, run: Any, saver: Any) -> None:
        add = (
            NodeBuilder()
            .subscribe_to("input")
            .read_from("total")
            .do(lambda read: read["input"] + read.get("total", 0))
            .write_to("output", "total")
        )
        app = Pregel(
            nodes={"add": add},
            channels={name: LastValue(int) for name in ("input", "output", "total")},
            input_channels="input",
            output_channels="output",
            checkpointer=saver,
        )
        assert [run.invoke(app, 2, THREAD), run.invoke(app, 3, THREAD)] == [2, 5]
        assert run.get_state(app, THREAD).values == {"input": 3, "output": 5, "total": 5}
        run.update_state(app, THREAD, 40, as_node="add")
        assert run.invoke(app, 1, THREAD) == 41
        sources = [state.metadata["source"] for state in run.history(app, THREAD)]
        assert sources == ["loop", "input", "update", "loop", "input", "loop", "input"]

    def test_a_run_pauses_at_nodes_and_goes_on(self, lib: Any, run: Any) -> None:
        app = doubling(lib, checkpointer=lib.InMemorySaver(), interrupt_before_nodes=["two"])
        assert run.invoke(app, {"a": "x"}, THREAD) == {"b": "xx"}
        assert run.get_state(app, THREAD).next == ("two",)
        assert run.invoke(app, None, THREAD) == {"b": "xx", "c": "xxxx"}

    def test_a_node_can_ask(self, run: Any, saver: Any) -> None:
        node = NodeBuilder().subscribe_only("a").do(lambda value: value + interrupt("how much?"))
        app = one_node(node.write_to("b"), checkpointer=saver)
        asked = run.invoke(app, 1, THREAD)
        assert [question.value for question in asked["__interrupt__"]] == ["how much?"]
        assert run.invoke(app, Command(resume=4), THREAD) == 5

    def test_it_can_be_a_node_of_another_graph(self, run: Any, saver: Any) -> None:
        inner = one_node(NodeBuilder().subscribe_only("a").do(double).write_to("b"))
        outer = one_node(NodeBuilder().subscribe_only("a").do(inner).write_to("b"))
        assert [name for name, _graph in outer.get_subgraphs()] == ["node"]
        app = outer.copy({"checkpointer": saver})
        assert run.invoke(app, 3, THREAD) == 6


class TestWhatItIs:
    def test_compiled_graphs_and_entrypoints_are_pregels(self) -> None:
        builder = StateGraph(dict)
        builder.add_node("node", lambda state: state)
        builder.add_edge(START, "node")

        @entrypoint()
        def work(value: int) -> int:
            return value

        for graph in (builder.compile(), work, doubling_here()):
            assert isinstance(graph, Pregel)
            assert isinstance(graph, PregelProtocol)

    def test_its_channels_are_attributes(self, lib: Any) -> None:
        app = doubling(lib)
        assert app.input_channels == ["a"]
        assert app.output_channels == ["b", "c"]
        assert app.stream_channels_list == ["a", "b", "c"] or lib.name == "langgraph"
        assert app.stream_mode == "values"

    def test_edges_are_drawn_from_channels(self) -> None:
        drawn = {(edge.source, edge.target) for edge in doubling_here().get_graph().edges}
        assert drawn == {("__start__", "one"), ("one", "two"), ("two", "__end__")}


class TestMistakes:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"input_channels": "missing"},
            {"input_channels": "out"},
            {"output_channels": "missing"},
            {"stream_channels": ["missing"]},
            {"interrupt_before_nodes": ["missing"]},
            {"interrupt_after_nodes": ["missing"]},
        ],
    )
    def test_names_that_are_not_there_are_refused(self, lib: Any, wrong: Any) -> None:
        given = {
            "nodes": {"node": lib.NodeBuilder().subscribe_only("in").write_to("out")},
            "channels": {"in": lib.LastValue(int), "out": lib.LastValue(int)},
            "input_channels": "in",
            "output_channels": "out",
        }
        with pytest.raises(ValueError):
            lib.Pregel(**{**given, **wrong})

    def test_a_node_that_reads_an_unknown_channel_is_refused(self, lib: Any) -> None:
        node = lib.NodeBuilder().subscribe_to("in").read_from("missing")
        with pytest.raises(ValueError, match="missing"):
            lib.Pregel(
                nodes={"node": node},
                channels={"in": lib.LastValue(int)},
                input_channels="in",
                output_channels="in",
            )

    def test_a_bare_value_and_a_dict_of_channels_exclude_each_other(self, lib: Any) -> None:
        with pytest.raises(ValueError):
            lib.NodeBuilder().subscribe_only("a").subscribe_to("b")
        with pytest.raises(ValueError):
            lib.NodeBuilder().subscribe_to("a").subscribe_only("b")

    def test_an_input_without_an_input_channel_is_empty(self, run: Any) -> None:
        with pytest.raises(EmptyInputError, match="input channels, a"):
            run.invoke(doubling_here(), {"other": 1})
        with pytest.raises(TypeError, match="expected dict"):
            run.invoke(doubling_here(), 5)

    def test_a_sync_function_has_no_timeout(self) -> None:
        node = NodeBuilder().subscribe_only("a").do(double).set_timeout(1)
        with pytest.raises(GraphBuildError, match="async def"):
            one_node(node)


def one_node(node: NodeBuilder, **options: Any) -> Any:
    return Pregel(
        nodes={"node": node},
        channels={"a": EphemeralValue(object), "b": LastValue(object)},
        input_channels="a",
        output_channels="b",
        **options,
    )


def doubling_here() -> Any:
    from both import names_of

    return doubling(names_of("milepost"))


def _their_entry() -> Any:
    from langgraph.pregel.main import ChannelWriteEntry as Theirs

    return Theirs
