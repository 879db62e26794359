"""Nodes and keys that are renamed between two deploys, while threads wait at them."""

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.channels import DeltaChannel
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.evolution import adry_run, dry_run
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import GraphBuildError, MissingNodeError
from milepost.graph import END, START, StateGraph
from milepost.types import Command, Send, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def says(word: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [word]}


def asks(question: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [interrupt(question)]}


def asking(name: str, saver: Any = None, schema: Any = State, **compiled: Any) -> Any:
    """A graph of a node that asks, and one that follows it."""
    builder = StateGraph(schema).add_node(name, asks("sure?")).add_node("after", says("after"))
    builder.add_edge(START, name).add_edge(name, "after")
    return builder.compile(checkpointer=saver, **compiled)


def questions(state: Any) -> list[Any]:
    return [question.value for question in state.interrupts]


class TestANodeThatIsMissing:
    """`ask` was renamed to `approve`, and nobody told the new graph."""

    @pytest.fixture
    def renamed(self, run, saver, config, durability) -> Any:
        run.invoke(asking("ask", saver), {"log": ["in"]}, config, durability=durability)
        return asking("approve", saver)

    def refused(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        with pytest.raises(MissingNodeError, match="Thread 't' waits for 'ask'") as raised:
            call(*args, **kwargs)
        assert (raised.value.nodes, raised.value.thread) == (("ask",), "t")
        assert "renamed_nodes={'ask': ...}" in str(raised.value)

    def test_is_an_error_for_whatever_reads_or_goes_on(self, run, renamed, saver, config):
        self.refused(run.get_state, renamed, config)
        self.refused(run.invoke, renamed, None, config)
        self.refused(run.invoke, renamed, Command(resume="yes"), config)
        self.refused(run.invoke, renamed, Command(goto="after"), config)
        self.refused(run.stream, renamed, Command(resume="yes"), config)
        self.refused(run.update_state, renamed, config, {"log": ["x"]}, as_node="after")
        latest = run.history(renamed, config)[0]
        self.refused(run.invoke, renamed, None, latest.config)
        assert questions(run.get_state(asking("ask", saver), config)) == ["sure?"]

    def test_leaves_the_history_readable(self, run, renamed, config):
        assert [state.values["log"] for state in run.history(renamed, config)][:1] == [["in"]]
        latest = run.history(renamed, config)[0]
        assert run.get_state(renamed, latest.config).values == {"log": ["in"]}

    def test_is_dropped_by_a_new_input(self, run, renamed, config):
        result = run.invoke(renamed, {"log": ["again"]}, config)
        assert result["log"] == ["in", "again"]
        assert run.get_state(renamed, config).next == ("approve",)
        assert run.invoke(renamed, Command(resume="yes"), config)["log"][2:] == ["yes", "after"]
        assert run.get_state(renamed, config).next == ()

    def test_is_dropped_by_an_update_that_ends_the_thread(self, run, renamed, config):
        run.update_state(renamed, config, None, as_node=END)
        assert run.get_state(renamed, config).next == ()

    def test_is_found_by_a_dry_run(self, renamed, saver):
        asking("ask", saver).invoke({"log": []}, {"configurable": {"thread_id": "second"}})
        finished = {"configurable": {"thread_id": "finished"}}
        asking("ask", saver).invoke({"log": []}, finished)
        asking("ask", saver).invoke(Command(resume="yes"), finished)
        assert dry_run(saver)
        report = dry_run(saver, graph=renamed)
        assert not report
        assert report.threads == ["second", "t"]
        assert all(isinstance(failure.error, MissingNodeError) for failure in report.failures)
        assert dry_run(saver, graph=renamed, threads=["finished"])
        assert dry_run(saver, graph=asking("new", renamed_nodes={"ask": "new"}))


def test_a_dry_run_on_an_event_loop_finds_a_missing_node():
    saver = InMemorySaver()
    asking("ask", saver).invoke({"log": []}, {"configurable": {"thread_id": "t"}})
    assert asyncio.run(adry_run(saver, graph=asking("approve"))).threads == ["t"]
    assert asyncio.run(adry_run(saver, graph=asking("ask")))


class TestWhereNothingWaits:
    def test_a_finished_thread_may_have_used_any_node(self, run, saver, config, durability):
        old = asking("ask", saver)
        run.invoke(old, {"log": []}, config, durability=durability)
        run.invoke(old, Command(resume="yes"), config, durability=durability)
        new = asking("approve", saver)
        assert run.get_state(new, config).next == ()
        run.update_state(new, config, {"log": ["x"]}, as_node="after")
        run.invoke(new, {"log": ["more"]}, config)
        assert questions(run.get_state(new, config)) == ["sure?"]

    def test_a_join_that_never_came_about_does_not_matter(self, run, saver, config):
        def build(last: str) -> Any:
            builder = StateGraph(State)
            for name in ("a", "b", last):
                builder.add_node(name, says(name))
            builder.add_edge(START, "a").add_edge(["a", "b"], last)
            return builder.compile(checkpointer=saver)

        run.invoke(build("join"), {"log": []}, config)
        assert run.get_state(build("merge"), config).next == ()

    def test_nodes_that_the_thread_does_not_wait_for_may_go(self, run, saver, config):
        def build(*names: str) -> Any:
            builder = StateGraph(State)
            before = START
            for name in names:
                builder.add_node(name, asks("sure?") if name == "ask" else says(name))
                builder.add_edge(before, name)
                before = name
            return builder.compile(checkpointer=saver)

        run.invoke(build("first", "ask", "last"), {"log": []}, config)
        shorter = build("ask")
        assert questions(run.get_state(shorter, config)) == ["sure?"]
        assert run.invoke(shorter, Command(resume="yes"), config)["log"] == ["first", "yes"]


class TestARenamedNode:
    def test_keeps_its_question_and_takes_the_answer(self, run, saver, config, durability):
        old = asking("ask", saver)
        run.invoke(old, {"log": ["in"]}, config, durability=durability)
        (asked,) = run.get_state(old, config).interrupts
        new = asking("approve", saver, renamed_nodes={"ask": "approve"})
        state = run.get_state(new, config)
        assert (state.next, state.interrupts) == (("approve",), (asked,))
        result = run.invoke(new, Command(resume={asked.id: "yes"}), config, durability=durability)
        assert result["log"] == ["in", "yes", "after"]
        assert run.get_state(new, config).next == ()
        told = [state.next for state in run.history(new, config)]
        assert told[0] == ()
        if durability != "exit":
            assert told == [(), ("after",), ("approve",), ("__start__",)]
            made = run.history(new, config)[1]
            assert made.metadata["writes"] == {"approve": {"log": ["yes"]}}

    def test_goes_on_under_its_new_name(self, run, saver, config, durability):
        run.invoke(asking("ask", saver), {"log": []}, config, durability=durability)
        new = asking("approve", saver, renamed_nodes={"ask": "approve"})
        run.invoke(new, Command(resume="1"), config, durability=durability)
        run.invoke(new, {"log": []}, config, durability=durability)
        without_the_map = asking("approve", saver)
        assert questions(run.get_state(without_the_map, config)) == ["sure?"]
        result = run.invoke(without_the_map, Command(resume="2"), config, durability=durability)
        assert result["log"] == ["1", "after", "2", "after"]

    def test_that_fails_keeps_the_answer(self, run, saver, config, durability):
        def build(name: str, works: bool, **renamed: Any) -> Any:
            def pay(state: Any) -> dict[str, Any]:
                answer = interrupt("sure?")
                if not works:
                    raise ConnectionError
                return {"log": [answer]}

            builder = StateGraph(State).add_node(name, pay).add_edge(START, name)
            return builder.compile(checkpointer=saver, **renamed)

        old = build("pay", False)
        run.invoke(old, {"log": []}, config, durability=durability)
        with pytest.raises(ConnectionError):
            run.invoke(old, Command(resume="yes"), config, durability=durability)
        new = build("charge", True, renamed_nodes={"pay": "charge"})
        assert run.get_state(new, config).tasks[0].error is not None
        assert run.invoke(new, None, config, durability=durability) == {"log": ["yes"]}

    def test_may_have_had_several_names(self, run, saver, config):
        run.invoke(asking("first", saver), {"log": []}, config)
        renamed = {"first": "second", "second": "third"}
        new = asking("third", saver, renamed_nodes=renamed)
        assert questions(run.get_state(new, config)) == ["sure?"]
        assert run.invoke(new, Command(resume="yes"), config)["log"] == ["yes", "after"]

    def test_can_be_updated_in_its_place(self, run, saver, config):
        run.invoke(asking("ask", saver), {"log": []}, config)
        new = asking("approve", saver, renamed_nodes={"ask": "approve"})
        run.update_state(new, config, {"log": ["by hand"]}, as_node="approve")
        assert run.get_state(new, config).next == ("after",)
        assert run.invoke(new, None, config)["log"] == ["by hand", "after"]

    def test_can_be_replayed_from_the_past(self, run, saver, config):
        old = asking("ask", saver)
        run.invoke(old, {"log": []}, config)
        run.invoke(old, Command(resume="yes"), config)
        new = asking("approve", saver, renamed_nodes={"ask": "approve"})
        (past,) = [s for s in run.history(new, config) if s.next == ("approve",)]
        run.invoke(new, None, past.config)
        assert questions(run.get_state(new, config)) == ["sure?"]
        assert run.invoke(new, Command(resume="no"), config)["log"] == ["no", "after"]

    @pytest.mark.parametrize("defer", [False, True])
    def test_may_be_reached_by_a_conditional_edge(self, run, saver, config, defer):
        def build(name: str, **renamed: Any) -> Any:
            builder = StateGraph(State).add_node(name, asks("sure?"), defer=defer)
            builder.add_node("choose", says("choose")).add_edge(START, "choose")
            builder.add_conditional_edges("choose", lambda state: name, [name])
            return builder.compile(checkpointer=saver, **renamed)

        run.invoke(build("ask"), {"log": []}, config)
        with pytest.raises(MissingNodeError):
            run.get_state(build("approve"), config)
        new = build("approve", renamed_nodes={"ask": "approve"})
        assert questions(run.get_state(new, config)) == ["sure?"]
        assert run.invoke(new, Command(resume="yes"), config)["log"] == ["choose", "yes"]

    def test_may_have_been_sent_to(self, run, saver, config, durability):
        def build(name: str, **renamed: Any) -> Any:
            def work(state: Any) -> dict[str, Any]:
                return {"log": [(state["n"], interrupt(f"{state['n']}?"))]}

            def share(state: Any) -> list[Send]:
                return [Send(name, {"n": n}) for n in (1, 2)]

            builder = StateGraph(State).add_node(name, work)
            builder.add_conditional_edges(START, share, [name])
            return builder.compile(checkpointer=saver, **renamed)

        run.invoke(build("work"), {"log": []}, config, durability=durability)
        missing = build("toil")
        with pytest.raises(MissingNodeError, match="'work'"):
            run.get_state(missing, config)
        new = build("toil", renamed_nodes={"work": "toil"})
        state = run.get_state(new, config)
        assert (state.next, questions(state)) == (("toil", "toil"), ["1?", "2?"])
        first, second = (question.id for question in state.interrupts)
        run.invoke(new, Command(resume={first: "a"}), config, durability=durability)
        result = run.invoke(new, Command(resume={second: "b"}), config, durability=durability)
        assert result["log"] == [(1, "a"), (2, "b")]
        run.invoke(missing, {"log": []}, config)

    @pytest.mark.parametrize("renamed", ["first", "ask", "last"])
    def test_may_be_part_of_a_join(self, run, saver, config, durability, renamed):
        def build(new: bool, **compiled: Any) -> Any:
            names = {n: n.upper() if new and n == renamed else n for n in ("first", "ask", "last")}
            builder = StateGraph(State)
            builder.add_node(names["first"], says("first"))
            builder.add_node(names["ask"], asks("sure?"))
            builder.add_node(names["last"], says("last"))
            builder.add_edge(START, names["first"]).add_edge(START, names["ask"])
            builder.add_edge([names["first"], names["ask"]], names["last"])
            return builder.compile(checkpointer=saver, **compiled)

        run.invoke(build(False), {"log": []}, config, durability=durability)
        new = build(True, renamed_nodes={renamed: renamed.upper()})
        assert questions(run.get_state(new, config)) == ["sure?"]
        result = run.invoke(new, Command(resume="yes"), config, durability=durability)
        assert sorted(result["log"]) == ["first", "last", "yes"]
        if renamed == "last":
            other = {"configurable": {"thread_id": "other"}}
            run.invoke(build(False), {"log": []}, other, durability=durability)
            with pytest.raises(MissingNodeError, match="'last'"):
                run.invoke(build(True), Command(resume="yes"), other, durability=durability)

    def test_may_be_what_a_finished_sibling_leads_to(self, run, saver, config, durability):
        def build(name: str, **renamed: Any) -> Any:
            builder = (
                StateGraph(State).add_node("ask", asks("sure?")).add_node("done", says("done"))
            )
            builder.add_node(name, says("next")).add_edge("done", name)
            builder.add_edge(START, "ask").add_edge(START, "done")
            return builder.compile(checkpointer=saver, **renamed)

        run.invoke(build("next"), {"log": []}, config, durability=durability)
        with pytest.raises(MissingNodeError, match="'next'"):
            run.get_state(build("following"), config)
        new = build("following", renamed_nodes={"next": "following"})
        result = run.invoke(new, Command(resume="yes"), config, durability=durability)
        assert sorted(result["log"]) == ["done", "next", "yes"]

    def test_may_be_inside_an_inner_graph(self, run, saver, config, durability):
        def build(name: str, **renamed: Any) -> Any:
            inner = asking(name, **renamed)
            return (
                StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile(saver)
            )

        run.invoke(build("ask"), {"log": []}, config, durability=durability)
        missing = build("approve")
        with pytest.raises(MissingNodeError, match="'ask'"):
            run.get_state(missing, config, subgraphs=True)
        with pytest.raises(MissingNodeError, match="Thread 't' waits for 'ask'"):
            run.invoke(missing, Command(resume="yes"), config, durability=durability)
        assert dry_run(saver, graph=missing).threads == ["t"]
        new = build("approve", renamed_nodes={"ask": "approve"})
        (task,) = run.get_state(new, config, subgraphs=True).tasks
        assert task.state.next == ("approve",)
        result = run.invoke(new, Command(resume="yes"), config, durability=durability)
        assert result["log"] == ["yes", "after"]

    def test_may_hold_an_inner_graph(self, run, saver, config, durability):
        def build(name: str, **renamed: Any) -> Any:
            builder = StateGraph(State).add_node(name, asking("ask")).add_edge(START, name)
            return builder.compile(checkpointer=saver, **renamed)

        run.invoke(build("inner"), {"log": []}, config, durability=durability)
        new = build("nested", renamed_nodes={"inner": "nested"})
        (task,) = run.get_state(new, config).tasks
        inside = run.get_state(new, task.state)
        assert (inside.next, questions(inside)) == (("ask",), ["sure?"])
        result = run.invoke(new, Command(resume="yes"), config, durability=durability)
        assert result["log"] == ["yes", "after"]

    def test_is_read_by_another_process(self, run, tmp_path, config):
        path = str(tmp_path / "renamed.db")
        with SqliteSaver.from_conn_string(path) as saver:
            asking("ask", saver).invoke({"log": []}, config)
        with SqliteSaver.from_conn_string(path) as saver:
            new = asking("approve", saver, renamed_nodes={"ask": "approve"})
            assert questions(new.get_state(config)) == ["sure?"]
            new.update_state(config, {"log": ["x"]}, as_node="approve")
        with SqliteSaver.from_conn_string(path) as saver:
            new = asking("approve", saver)
            assert new.invoke(None, config)["log"] == ["x", "after"]
            assert saver.verify() == []


class Priced(TypedDict, total=False):
    price: int
    log: Annotated[list[Any], operator.add]


class Totalled(TypedDict, total=False):
    total: int
    lines: Annotated[list[Any], operator.add]


def last(old: list[Any], writes: list[Any]) -> list[Any]:
    return [*old, *(item for write in writes for item in write)]


class Grown(TypedDict, total=False):
    log: Annotated[list[Any], DeltaChannel(last)]


class Regrown(TypedDict, total=False):
    lines: Annotated[list[Any], DeltaChannel(last)]


KEYS = {"price": "total", "log": "lines"}


class TestARenamedKey:
    def new(self, saver: Any, **compiled: Any) -> Any:
        builder = StateGraph(Totalled).add_node("ask", lambda s: {"lines": [interrupt("sure?")]})
        builder.add_node("after", lambda state: {"lines": [state["total"]]})
        builder.add_edge(START, "ask").add_edge("ask", "after")
        return builder.compile(checkpointer=saver, **compiled)

    def test_keeps_its_value(self, run, saver, config, durability):
        old = asking("ask", saver, schema=Priced)
        run.invoke(old, {"price": 7, "log": ["in"]}, config, durability=durability)
        new = self.new(saver, renamed_keys=KEYS)
        assert run.get_state(new, config).values == {"total": 7, "lines": ["in"]}
        result = run.invoke(new, Command(resume="yes"), config, durability=durability)
        assert result == {"total": 7, "lines": ["in", "yes", 7]}
        assert run.get_state(new, config).values == result
        assert [s.values.get("total") for s in run.history(new, config)][:2] == [7, 7]
        assert run.get_state(self.new(saver), config).values == result

    def test_keeps_what_finished_nodes_wrote_to_it(self, run, saver, config, durability):
        def build(key: str, schema: Any, **renamed: Any) -> Any:
            builder = StateGraph(schema).add_node("say", lambda state: {key: ["said"]})
            builder.add_node("ask", lambda state: {key: [interrupt("sure?")]})
            builder.add_edge(START, "say").add_edge(START, "ask")
            return builder.compile(checkpointer=saver, **renamed)

        run.invoke(build("log", Priced), {"log": []}, config, durability=durability)
        new = build("lines", Totalled, renamed_keys=KEYS)
        assert run.get_state(new, config).values == {"lines": ["said"]}
        result = run.invoke(new, Command(resume="yes"), config, durability=durability)
        assert sorted(result["lines"]) == ["said", "yes"]

    def test_may_be_a_delta_channel(self, run, saver, config, durability):
        def build(key: str, schema: Any, **renamed: Any) -> Any:
            builder = StateGraph(schema).add_node("say", lambda state: {key: ["said"]})
            builder.add_node("ask", lambda state: {key: [interrupt("sure?")]})
            builder.add_edge(START, "say").add_edge("say", "ask")
            return builder.compile(checkpointer=saver, **renamed)

        run.invoke(build("log", Grown), {"log": ["in"]}, config, durability=durability)
        new = build("lines", Regrown, renamed_keys={"log": "lines"})
        assert run.get_state(new, config).values == {"lines": ["in", "said"]}
        result = run.invoke(new, Command(resume="yes"), config, durability=durability)
        assert result == {"lines": ["in", "said", "yes"]}
        run.invoke(new, {"lines": ["more"]}, config, durability=durability)
        told = {"lines": ["in", "said", "yes", "more", "said"]}
        assert run.get_state(new, config).values == told
        assert run.get_state(build("lines", Regrown), config).values == told

    def test_written_by_old_code_again_counts(self, run, saver, config):
        old, new = asking("ask", saver, schema=Priced), self.new(saver, renamed_keys=KEYS)
        run.invoke(old, {"price": 7, "log": []}, config)
        run.update_state(new, config, {"total": 8}, as_node="ask")
        run.update_state(old, config, {"price": 9}, as_node="ask")
        assert run.get_state(new, config).values["total"] == 9


class TestAMapThatCannotBeFollowed:
    @pytest.mark.parametrize(
        ("renamed", "reason"),
        [
            ({"before": "approve"}, "'approve' now, which is not a node"),
            ({"a": "b", "b": "c"}, "'c' now, which is not a node"),
            ({"old": "ask", "ask": "after"}, "the graph has a node 'ask'"),
            ({"ask": "after", "after": "ask"}, "Use a name that no stored thread has"),
            ({"a": "b", "b": "a"}, "in a circle"),
            ({"old": START}, "which is not a node"),
            ({START: "ask"}, "which no node of a graph was ever called"),
            ({END: "ask"}, "which no node of a graph was ever called"),
            ({"": "ask"}, "'', which is not the name of a node"),
            ({1: "ask"}, "1, which is not the name of a node"),
            ({"old": ["ask"]}, "which is not the name of a node"),
            ({"old": None}, "None, which is not the name of a node"),
            (["ask"], "expected a dict"),
            ("ask", "expected a dict"),
        ],
    )
    def test_of_nodes_is_refused(self, renamed, reason):
        with pytest.raises(GraphBuildError, match=reason):
            asking("ask", renamed_nodes=renamed)

    def test_of_keys_is_refused(self):
        with pytest.raises(GraphBuildError, match="'price' is called 'total' now, which is not a"):
            asking("ask", renamed_keys={"price": "total"})
        with pytest.raises(GraphBuildError, match="the graph has a key 'log'"):
            asking("ask", renamed_keys={"log": "log"})
        with pytest.raises(GraphBuildError, match="which no key of a graph was ever called"):
            asking("ask", renamed_keys={"__root__": "log"})

    def test_of_two_keys_onto_one_is_refused(self):
        with pytest.raises(GraphBuildError, match="one of their values would be lost"):
            asking("ask", renamed_keys={"price": "log", "total": "log"})
        asking("ask", renamed_keys={"price": "total", "total": "log"})

    def test_of_a_node_with_a_graph_that_has_memory_is_refused(self):
        inner = asking("ask", True)
        builder = StateGraph(State).add_node("inner", inner).add_edge(START, "inner")
        with pytest.raises(GraphBuildError, match="memory of its own"):
            builder.compile(renamed_nodes={"old": "inner"})

    def test_two_nodes_that_became_one_cannot_both_wait(self, run, saver, config):
        builder = StateGraph(State).add_node("a", asks("a?")).add_node("b", asks("b?"))
        builder.add_edge(START, "a").add_edge(START, "b")
        run.invoke(builder.compile(checkpointer=saver), {"log": []}, config)
        one = asking("both", saver, renamed_nodes={"a": "both", "b": "both"})
        with pytest.raises(MissingNodeError):
            run.get_state(one, config)
