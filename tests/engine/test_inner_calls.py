"""Graphs that nodes and functions call, and what is told and kept of them.

Where a test asks for `lib` it is one program that runs on both libraries.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from both import names_of
from milepost.types import RunnableConfig


class Told(TypedDict, total=False):
    x: Annotated[int, lambda _, new: new]
    log: Annotated[list[Any], operator.add]


def graph_of(lib: Any, *nodes: tuple[str, Any], **compile_with: Any) -> Any:
    """A graph of nodes that follow one another."""
    builder = lib.StateGraph(Told)
    before = lib.START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    return builder.compile(**compile_with)


def says(prefix: str) -> Any:
    return lambda state: {"log": [f"{prefix}{state['x']}"]}


def calls(run: Any, *graphs: Any) -> Any:
    """A node that calls graphs, with 1, 2, ..., and logs what each of them has come to."""

    def node(state: Told) -> Any:
        return {"log": [graph.invoke({"x": x})["log"] for x, graph in enumerate(graphs, 1)]}

    async def anode(state: Told) -> Any:
        done = [(await graph.ainvoke({"x": x}))["log"] for x, graph in enumerate(graphs, 1)]
        return {"log": done}

    return node if run.colour == "sync" else anode


def past(run: Any, graph: Any, snapshot: Any) -> list[Any]:
    """The history of the graph that a state is of."""
    where = {**snapshot.config["configurable"]}
    del where["checkpoint_id"]
    return run.history(graph, {"configurable": where})


class TestMemoryOfItsOwn:
    """Graphs that were compiled with `checkpointer=True`."""

    def test_each_call_of_a_task_has_another(self, run, lib, config, durability):
        child = graph_of(lib, ("say", says("said ")), checkpointer=True)
        graph = graph_of(lib, ("calls", calls(run, child, child)), checkpointer=lib.InMemorySaver())
        for times in (1, 2, 3):
            told = run.invoke(graph, {"x": 0}, config, durability=durability)
            assert told["log"][-2:] == [["said 1"] * times, ["said 2"] * times]

    def test_two_graphs_in_one_node_do_not_share_it(self, run, lib, config, durability):
        one = graph_of(lib, ("say", says("one ")), checkpointer=True)
        other = graph_of(lib, ("speak", says("other ")), checkpointer=True)
        graph = graph_of(lib, ("calls", calls(run, one, other)), checkpointer=lib.InMemorySaver())
        for times in (1, 2):
            told = run.invoke(graph, {"x": 0}, config, durability=durability)
            assert told["log"][-2:] == [["one 1"] * times, ["other 2"] * times]

    def test_a_second_call_is_given_its_input_after_the_first_has_asked(
        self, run, lib, config, durability
    ):
        def ask(state: Told) -> Any:
            return {"log": [state["x"], lib.interrupt(f"{state['x']}?")]}

        child = graph_of(lib, ("ask", ask), checkpointer=True)
        graph = graph_of(lib, ("calls", calls(run, child, child)), checkpointer=lib.InMemorySaver())
        asked = run.invoke(graph, {"x": 0}, config, durability=durability)
        for number, answer in enumerate(("one", "two"), 1):
            assert [one.value for one in asked["__interrupt__"]] == [f"{number}?"]
            asked = run.invoke(graph, lib.Command(resume=answer), config, durability=durability)
        assert asked["log"] == [[1, "one"], [2, "two"]]

    def test_tasks_of_a_step_that_follow_one_another_share_it(self, run, lib, config):
        child = graph_of(lib, ("say", says("said ")), checkpointer=True)
        graph = self.sends(lib, child, lib.InMemorySaver())
        one_by_one = {**config, "max_concurrency": 1}
        assert run.invoke(graph, {"x": 0}, one_by_one)["log"] == ["said 1", "said 1", "said 2"]
        told = run.invoke(graph, {"x": 0}, one_by_one)["log"][3:]
        assert told == ["said 1", "said 2", "said 1", "said 1", "said 2", "said 1", "said 2"]

    @pytest.mark.parametrize("at_once", [1, 2])
    def test_each_of_them_goes_on_with_what_it_had_begun(
        self, run, saver, config, durability, at_once
    ):
        lib = names_of("milepost")
        begun = []

        def begin(state: Told) -> Any:
            begun.append(state["x"])
            return {"log": [f"begun {state['x']}"]}

        def ask(state: Told) -> Any:
            return {"log": [lib.interrupt(state["x"])]}

        child = graph_of(lib, ("begin", begin), ("ask", ask), checkpointer=True)
        graph = self.sends(lib, child, saver)
        limited = {**config, "max_concurrency": at_once}
        asked = run.invoke(graph, {"x": 0}, limited, durability=durability)["__interrupt__"]
        answers = {one.id: f"answer {one.value}" for one in asked}
        told = run.invoke(graph, lib.Command(resume=answers), limited, durability=durability)
        assert sorted(begun) == [1, 2]
        assert told["log"] == ["begun 1", "answer 1", "begun 2", "answer 2"]

    @staticmethod
    def sends(lib: Any, child: Any, saver: Any) -> Any:
        builder = lib.StateGraph(Told)
        builder.add_node("child", child)
        builder.add_conditional_edges(
            lib.START, lambda state: [lib.Send("child", {"x": x}) for x in (1, 2)], ["child"]
        )
        return builder.compile(checkpointer=saver)


def test_tags_reach_every_level_once(run, lib, config):
    seen = []

    def node(state: Told, config: RunnableConfig) -> None:
        seen.append(config["tags"])

    inner = graph_of(lib, ("node", node)).with_config(tags=["bound"])

    def passes_on(state: Told, config: RunnableConfig) -> Any:
        return inner.invoke(state, config)

    async def apasses_on(state: Told, config: RunnableConfig) -> Any:
        return await inner.ainvoke(state, config)

    middle = graph_of(lib, ("calls", passes_on if run.colour == "sync" else apasses_on))
    run.invoke(graph_of(lib, ("middle", middle)), {"x": 1}, {**config, "tags": ["mine"]})
    assert [sorted(tags) for tags in seen] == [["bound", "mine"]]


class TestAGraphInAFunction:
    @pytest.fixture
    def flow(self, run: Any, lib: Any) -> Any:
        """Says something and asks, in a graph that a function calls."""

        def ask(state: Told) -> Any:
            return {"log": [lib.interrupt(list(state["log"]))]}

        child = graph_of(lib, ("say", says("said ")), ("ask", ask))
        if run.colour == "sync":

            @lib.entrypoint(checkpointer=lib.InMemorySaver())
            def flow(x: int) -> Any:
                return child.invoke({"x": x})["log"]

            return flow

        @lib.entrypoint(checkpointer=lib.InMemorySaver())
        async def aflow(x: int) -> Any:
            return (await child.ainvoke({"x": x}))["log"]

        return aflow

    def test_shows_its_state(self, run, flow, config):
        run.invoke(flow, 1, config)
        inner = run.get_state(flow, config, subgraphs=True).tasks[0].state
        assert (inner.values["log"], inner.next) == (["said 1"], ("ask",))
        assert [one.next for one in past(run, flow, inner)] == [("ask",), ("say",), ("__start__",)]

    def test_can_be_changed_from_outside(self, run, lib, flow, config):
        run.invoke(flow, 1, config)
        inner = run.get_state(flow, config, subgraphs=True).tasks[0].state
        run.update_state(flow, inner.config, {"log": ["changed"]})
        (asked,) = run.invoke(flow, None, config)["__interrupt__"]
        assert asked.value == ["said 1", "changed"]
        assert run.invoke(flow, lib.Command(resume="yes"), config) == ["said 1", "changed", "yes"]


def test_a_graph_is_found_by_its_method(run, lib, config):
    def ask(state: Told) -> Any:
        return {"log": [lib.interrupt("?")]}

    child = graph_of(lib, ("ask", ask))
    if run.colour == "sync":
        call = child.invoke

        def node(state: Told) -> Any:
            return call({"x": 1})
    else:
        acall = child.ainvoke

        async def node(state: Told) -> Any:
            return await acall({"x": 1})

    graph = graph_of(lib, ("calls", node), checkpointer=lib.InMemorySaver())
    run.invoke(graph, {"x": 0}, config)
    assert run.get_state(graph, config, subgraphs=True).tasks[0].state.next == ("ask",)


class TestCheckpointsInside:
    @pytest.fixture
    def graph(self, run: Any, lib: Any, config: Any) -> Any:
        """A graph that has come to a question two levels down."""

        def ask(state: Told) -> Any:
            return {"log": [lib.interrupt("?")]}

        deep = graph_of(lib, ("say", says("said ")), ("ask", ask))
        middle = graph_of(lib, ("m", says("middle ")), ("deep", deep))
        graph = graph_of(
            lib, ("o", says("outer ")), ("middle", middle), checkpointer=lib.InMemorySaver()
        )
        run.invoke(graph, {"x": 1}, {**config, "metadata": {"mine": 1}})
        return graph

    @staticmethod
    def levels(run: Any, graph: Any, config: Any) -> list[Any]:
        found = [run.get_state(graph, config, subgraphs=True)]
        while found[-1].tasks[0].state is not None:
            found.append(found[-1].tasks[0].state)
        assert len(found) == 3
        return found

    def test_have_the_metadata_of_the_caller_and_nothing_of_the_task(self, run, graph, config):
        for level in self.levels(run, graph, config):
            assert level.metadata.keys() - {"writes"} == {"source", "step", "parents", "mine"}

    def test_name_their_parents_as_these_name_themselves(self, run, graph, config):
        for level in self.levels(run, graph, config):
            history = past(run, graph, level)
            assert len(history) == 3
            assert level.parent_config == history[1].config
            assert [one.parent_config for one in history[:2]] == [one.config for one in history[1:]]

    def test_are_shown_with_their_parents_when_they_are_gone_on_from(self, run, lib, graph, config):
        before = {
            level.config["configurable"]["checkpoint_ns"]: level.parent_config
            for level in self.levels(run, graph, config)
        }
        told = run.stream(
            graph, lib.Command(resume=1), config, stream_mode="checkpoints", subgraphs=True
        )
        first = {"|".join(ns): event["parent_config"] for ns, event in reversed(told)}
        assert first == before


class TestWhoseConfigCounts:
    """The config of an inner graph beside that of the run around it, as one program on both."""

    OUTER = {"metadata": {"who": "outer"}, "tags": ["outer"], "recursion_limit": 20}
    INNER = {"metadata": {"who": "inner"}, "tags": ["inner"], "recursion_limit": 9}

    def inner(self, lib: Any) -> Any:
        def look(state: Told, config: RunnableConfig) -> Any:
            who = config["metadata"].get("who")
            return {"log": [(who, sorted(config["tags"]), config["recursion_limit"])]}

        return graph_of(lib, ("look", look)).with_config(self.INNER)

    def seen(self, run: Any, lib: Any, node: Any) -> Any:
        graph = graph_of(lib, ("node", node))
        return run.invoke(graph, {"x": 1, "log": []}, self.OUTER)["log"]

    def test_its_own_counts_where_a_node_calls_it(self, run, lib):
        seen = self.seen(run, lib, calls(run, self.inner(lib)))
        assert seen == [[("inner", ["inner", "outer"], 9)]]

    def test_that_of_the_call_counts_where_a_node_hands_its_config_on(self, lib):
        inner = self.inner(lib)

        def node(state: Told, config: RunnableConfig) -> Any:
            return {"log": inner.invoke({"x": 1}, config)["log"]}

        graph = graph_of(lib, ("node", node))
        seen = graph.invoke({"x": 1}, self.OUTER)["log"]
        assert seen == [("outer", ["inner", "outer"], 20)]

    def test_that_of_the_run_counts_where_it_is_a_node(self, run, lib):
        assert self.seen(run, lib, self.inner(lib)) == [("outer", ["inner", "outer"], 20)]
