"""Replaying and forking from any checkpoint, of the parent or of a child."""

from typing import Any

import pytest

from hitl_graphs import (
    Both,
    Inner,
    State,
    before_node,
    calling,
    chain,
    fan,
    ids,
    questions,
    step,
)
from milepost.errors import InvalidUpdateError
from milepost.func import entrypoint, task
from milepost.graph import END, START, StateGraph
from milepost.types import Command, Send, StateSnapshot, interrupt


def checkpoint_id(snapshot: Any) -> str:
    return snapshot.config["configurable"]["checkpoint_id"]


class TestOneLevel:
    @pytest.fixture
    def graph(self, trace, saver):
        return chain(*[(name, step(trace, name)) for name in "abc"], checkpointer=saver)

    @pytest.mark.parametrize(
        ("number", "after"),
        [(-1, "abc"), (0, "abc"), (1, "bc"), (2, "c"), (3, "")],
    )
    def test_a_replay_runs_exactly_what_comes_after(self, run, graph, trace, config, number, after):
        ended = run.invoke(graph, {"log": []}, config)
        (at,) = [s for s in run.history(graph, config) if s.metadata["step"] == number]
        trace.clear()
        assert run.invoke(graph, None, at.config) == ended
        assert trace == list(after)

    @pytest.mark.parametrize(
        ("number", "after"),
        [(-1, "abc"), (0, "abc"), (1, "bc"), (2, "c"), (3, "")],
    )
    def test_a_fork_runs_exactly_what_comes_after_on_the_changed_state(
        self, run, graph, trace, config, number, after
    ):
        run.invoke(graph, {"log": []}, config)
        (at,) = [s for s in run.history(graph, config) if s.metadata["step"] == number]
        forked = run.update_state(graph, at.config, {"log": ["fork"]})
        trace.clear()
        result = run.invoke(graph, None, forked)
        assert trace == list(after)
        assert result["log"] == [*at.values["log"], "fork", *after]

    def test_the_old_branch_stays_as_it_was(self, run, graph, config):
        run.invoke(graph, {"log": []}, config)
        before = run.history(graph, config)
        run.invoke(graph, None, before[2].config)
        run.update_state(graph, before[1].config, {"log": ["fork"]})
        after = {checkpoint_id(snapshot): snapshot for snapshot in run.history(graph, config)}
        for old in before:
            kept = after[checkpoint_id(old)]
            assert (kept.values, kept.next, kept.metadata) == (old.values, old.next, old.metadata)
            assert kept.parent_config == old.parent_config

    def test_the_thread_goes_on_from_the_new_branch(self, run, graph, config):
        run.invoke(graph, {"log": []}, config)
        at = before_node(run.history(graph, config), "c")
        forked = run.update_state(graph, at.config, {"log": ["fork"]})
        run.invoke(graph, None, forked)
        assert run.get_state(graph, config).values == {"log": ["a", "b", "fork", "c"]}
        result = run.invoke(graph, {"log": ["more"]}, config)
        assert result["log"] == ["a", "b", "fork", "c", "more", "a", "b", "c"]

    def test_a_fork_as_another_node_goes_on_after_that_node(self, run, graph, trace, config):
        run.invoke(graph, {"log": []}, config)
        at = before_node(run.history(graph, config), "a")
        forked = run.update_state(graph, at.config, {"log": ["as b"]}, as_node="b")
        assert run.get_state(graph, forked).next == ("c",)
        trace.clear()
        assert run.invoke(graph, None, forked) == {"log": ["as b", "c"]}
        assert trace == ["c"]

    def test_a_fork_of_a_fork(self, run, graph, trace, config):
        run.invoke(graph, {"log": []}, config)
        at = before_node(run.history(graph, config), "b")
        first = run.update_state(graph, at.config, {"log": ["one"]})
        second = run.update_state(graph, first, {"log": ["two"]})
        assert run.invoke(graph, None, second) == {"log": ["a", "one", "two", "b", "c"]}
        assert run.invoke(graph, None, first) == {"log": ["a", "one", "b", "c"]}

    def test_a_new_input_at_an_old_checkpoint_starts_a_branch_there(
        self, run, graph, trace, config
    ):
        run.invoke(graph, {"log": []}, config)
        at = before_node(run.history(graph, config), "c")
        trace.clear()
        result = run.invoke(graph, {"log": ["new"]}, at.config)
        assert result["log"] == ["a", "b", "new", "a", "b", "c"]
        assert trace == ["a", "b", "c"]

    def test_a_replay_runs_every_parallel_node_of_the_step(self, run, trace, saver, config):
        graph = fan(
            *[(name, step(trace, name)) for name in "xy"],
            last=("last", step(trace, "last")),
            checkpointer=saver,
        )
        run.invoke(graph, {"log": []}, config)
        at = before_node(run.history(graph, config), "x", "y")
        trace.clear()
        run.invoke(graph, None, at.config)
        assert sorted(trace[:2]) == ["x", "y"]
        assert trace[2:] == ["last"]

    def test_a_replay_of_the_end_runs_nothing(self, run, graph, trace, config):
        ended = run.invoke(graph, {"log": []}, config)
        trace.clear()
        assert run.invoke(graph, None, run.get_state(graph, config).config) == ended
        assert trace == []


class TestAsWhichNode:
    """`as_node` decides what comes next."""

    @pytest.fixture
    def graph(self, trace, saver):
        return chain(*[(name, step(trace, name)) for name in "abc"], checkpointer=saver)

    @pytest.mark.parametrize(
        ("as_node", "upcoming"),
        [("__start__", ("a",)), ("a", ("b",)), ("b", ("c",)), ("c", ())],
    )
    def test_the_nodes_after_it_run_next(self, run, graph, trace, config, as_node, upcoming):
        run.invoke(graph, {"log": []}, config)
        run.update_state(graph, config, {"log": ["new"]}, as_node=as_node)
        assert run.get_state(graph, config).next == upcoming
        trace.clear()
        run.invoke(graph, None, config)
        assert trace == list("abc"["abc".index(upcoming[0]) :] if upcoming else "")

    def test_without_it_the_last_node_that_wrote_is_taken(self, run, graph, config):
        run.invoke(graph, {"log": []}, config, interrupt_before=["c"])
        run.update_state(graph, config, {"log": ["new"]})
        assert run.get_state(graph, config).next == ("c",)
        assert run.get_state(graph, config).metadata["source"] == "update"

    def test_without_it_two_last_nodes_are_refused(self, run, trace, saver, config):
        graph = fan(*[(name, step(trace, name)) for name in "xy"], checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        with pytest.raises(InvalidUpdateError, match=r"(?i)ambiguous|as_node"):
            run.update_state(graph, config, {"log": ["new"]})
        run.update_state(graph, config, {"log": ["new"]}, as_node="x")
        assert run.get_state(graph, config).values["log"][-1] == "new"

    def test_a_node_that_does_not_exist_is_refused(self, run, graph, config):
        run.invoke(graph, {"log": []}, config)
        with pytest.raises(InvalidUpdateError, match="nowhere"):
            run.update_state(graph, config, {"log": ["new"]}, as_node="nowhere")

    def test_its_branches_are_evaluated_on_the_new_state(self, run, trace, saver, config):
        builder = StateGraph(State)
        for name in ("a", "left", "right"):
            builder.add_node(name, step(trace, name))
        builder.add_edge(START, "a")
        builder.add_conditional_edges(
            "a", lambda state: "right" if "go right" in state["log"] else "left", ["left", "right"]
        )
        graph = builder.compile(checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        assert trace == ["a", "left"]
        at = before_node(run.history(graph, config), "left")
        forked = run.update_state(graph, at.config, {"log": ["go right"]}, as_node="a")
        trace.clear()
        run.invoke(graph, None, forked)
        assert trace == ["right"]

    def test_an_update_of_an_interrupted_node_answers_for_it(self, run, trace, saver, config):
        graph = chain(
            ("ask", step(trace, "ask", "sure?")), ("z", step(trace, "z")), checkpointer=saver
        )
        run.invoke(graph, {"log": []}, config)
        run.update_state(graph, config, {"log": ["decided"]}, as_node="ask")
        assert run.get_state(graph, config).interrupts == ()
        assert run.invoke(graph, None, config) == {"log": ["decided", "z"]}
        assert trace == ["ask", "z"]

    def test_a_new_thread_can_be_started_by_an_update(self, run, graph, trace, config):
        run.update_state(graph, config, {"log": ["made up"]}, as_node="b")
        assert run.invoke(graph, None, config) == {"log": ["made up", "c"]}
        assert trace == ["c"]


class TestAroundInterrupts:
    @pytest.fixture
    def graph(self, trace, saver):
        """a -> ask (twice) -> z"""
        return chain(
            ("a", step(trace, "a")),
            ("ask", step(trace, "ask", "one?", "two?")),
            ("z", step(trace, "z")),
            checkpointer=saver,
        )

    @pytest.fixture
    def answered(self, run, graph, trace, config):
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume=1), config)
        run.invoke(graph, Command(resume=2), config)
        trace.clear()
        return run.history(graph, config)

    @pytest.mark.parametrize("fork", [False, True], ids=["replay", "fork"])
    @pytest.mark.parametrize(
        ("upcoming", "again"),
        [("__start__", ["a", "ask"]), ("a", ["a", "ask"]), ("ask", ["ask"])],
    )
    def test_before_the_interrupt_asks_again(
        self, run, graph, trace, config, answered, upcoming, again, fork
    ):
        at = before_node(answered, upcoming).config
        if fork:
            at = run.update_state(graph, at, {"log": ["fork"]})
        result = run.invoke(graph, None, at)
        assert questions(result) == ["one?"]
        assert trace == again
        trace.clear()
        result = run.invoke(graph, Command(resume="new 1"), config)
        assert questions(result) == ["two?"]
        result = run.invoke(graph, Command(resume="new 2"), config)
        assert [word for word in result["log"] if word != "fork"] == [
            *["a", "ask", "new 1", "new 2", "z"]
        ]
        assert trace == ["ask", "ask", "z"]

    def test_after_the_interrupt_keeps_the_answers(self, run, graph, trace, answered):
        result = run.invoke(graph, None, before_node(answered, "z").config)
        assert result == {"log": ["a", "ask", 1, 2, "z"]}
        assert trace == ["z"]

    def test_between_two_interrupts_asks_both_again(self, run, graph, trace, config):
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume=1), config)
        at = run.get_state(graph, config)
        trace.clear()
        result = run.invoke(graph, None, at.config)
        assert questions(result) == ["one?"]
        assert trace == ["ask"]

    def test_a_replayed_interrupt_has_a_new_id(self, run, graph, config, answered):
        asked = {
            one.id
            for snapshot in answered
            for waiting in snapshot.tasks
            for one in waiting.interrupts
        }
        result = run.invoke(graph, None, before_node(answered, "ask").config)
        assert ids(result)["one?"] not in asked

    def test_the_answers_of_the_old_branch_stay_there(self, run, graph, config, answered):
        run.invoke(graph, None, before_node(answered, "ask").config)
        run.invoke(graph, Command(resume="x"), config)
        run.invoke(graph, Command(resume="y"), config)
        old = run.get_state(graph, answered[0].config)
        assert old.values == {"log": ["a", "ask", 1, 2, "z"]}

    def test_an_open_interrupt_is_answered_at_its_own_checkpoint(self, run, graph, config):
        run.invoke(graph, {"log": []}, config)
        at = run.get_state(graph, config).config
        run.invoke(graph, Command(resume=1), at)
        result = run.invoke(graph, Command(resume=2), config)
        assert result == {"log": ["a", "ask", 1, 2, "z"]}

    def test_an_answered_interrupt_can_be_answered_otherwise(self, run, trace, saver, config):
        graph = chain(("ask", step(trace, "ask", "sure?")), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        at = run.get_state(graph, config).config
        run.invoke(graph, Command(resume="yes"), config)
        assert run.invoke(graph, Command(resume="no"), at) == {"log": ["ask", "no"]}

    def test_between_two_nodes_that_ask(self, run, trace, saver, config):
        graph = chain(
            ("p", step(trace, "p", "p?")),
            ("q", step(trace, "q", "q?")),
            checkpointer=saver,
        )
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume="P"), config)
        run.invoke(graph, Command(resume="Q"), config)
        trace.clear()
        at = before_node(run.history(graph, config), "q")
        assert questions(run.invoke(graph, None, at.config)) == ["q?"]
        assert trace == ["q"]
        result = run.invoke(graph, Command(resume="R"), config)
        assert result == {"log": ["p", "P", "q", "R"]}

    def test_a_replay_runs_the_tasks_in_a_function_again(self, run, saver, config):
        effects = []

        @task
        def effect(n):
            effects.append(n)
            return n

        @entrypoint(checkpointer=saver)
        def flow(n):
            return [effect(n).result(), interrupt("sure?")]

        run.invoke(flow, 1, config)
        assert run.invoke(flow, Command(resume="yes"), config) == [1, "yes"]
        assert effects == [1]
        at = before_node(run.history(flow, config), "flow")
        assert questions(run.invoke(flow, None, at.config)) == ["sure?"]
        assert effects == [1, 1]


ORDER = ["t1", "m1", "d1", "d2", "d3", "m3", "t3"]
"""What a run of the three levels executes."""

LEVELS = {
    "top": [("__start__", "t1"), ("t1", "t1"), ("middle", "m1"), ("t3", "t3"), ("", "")],
    "middle": [("__start__", "m1"), ("m1", "m1"), ("deep", "d1"), ("m3", "m3"), ("", "t3")],
    "deep": [("__start__", "d1"), ("d1", "d1"), ("d2", "d2"), ("d3", "d3"), ("", "m3")],
}
"""For each checkpoint of each level, by its next node: the first node that comes after it."""

CASES = [
    (level, upcoming, first) for level, snapshots in LEVELS.items() for upcoming, first in snapshots
]


class TestThreeLevels:
    """top: t1, middle, t3; middle: m1, deep, m3; deep: d1, d2, d3."""

    @pytest.fixture(params=[None, True], ids=["inherits", "own memory"])
    def build(self, request, trace, saver):
        def build(*asked):
            deep = chain(
                ("d1", step(trace, "d1", key="inner")),
                ("d2", step(trace, "d2", *asked, key="inner")),
                ("d3", step(trace, "d3", key="inner")),
                schema=Inner,
                checkpointer=request.param,
            )
            middle = chain(
                ("m1", step(trace, "m1")),
                ("deep", deep),
                ("m3", step(trace, "m3")),
                schema=Both,
                checkpointer=request.param,
            )
            return chain(
                ("t1", step(trace, "t1")),
                ("middle", middle),
                ("t3", step(trace, "t3")),
                schema=Both,
                checkpointer=saver,
            )

        return build

    def histories(self, run, graph, config) -> dict[str, list[StateSnapshot]]:
        top = run.history(graph, config)
        middle = run.history(graph, before_node(top, "middle").tasks[0].state)
        deep = run.history(graph, before_node(middle, "deep").tasks[0].state)
        return {"top": top, "middle": middle, "deep": deep}

    def at(self, histories, level, upcoming) -> StateSnapshot:
        return before_node(histories[level], *([upcoming] if upcoming else []))

    @staticmethod
    def after(first: str) -> list[str]:
        return ORDER[ORDER.index(first) :] if first else []

    def test_the_run_itself(self, run, build, trace, config, durability):
        run.invoke(build(), {"log": []}, config, durability=durability)
        assert trace == ORDER

    @pytest.mark.parametrize(("level", "upcoming", "first"), CASES)
    def test_replay_runs_exactly_what_comes_after(
        self, run, build, trace, config, level, upcoming, first
    ):
        graph = build()
        ended = run.invoke(graph, {"log": []}, config)
        at = self.at(self.histories(run, graph, config), level, upcoming)
        trace.clear()
        result = run.invoke(graph, None, at.config)
        assert trace == self.after(first)
        assert result == ended

    @pytest.mark.parametrize(("level", "upcoming", "first"), CASES)
    def test_fork_runs_exactly_what_comes_after_on_the_changed_state(
        self, run, build, trace, config, level, upcoming, first
    ):
        graph = build()
        ended = run.invoke(graph, {"log": []}, config)
        at = self.at(self.histories(run, graph, config), level, upcoming)
        key = "inner" if level == "deep" else "log"
        forked = run.update_state(graph, at.config, {key: ["fork"]})
        trace.clear()
        result = run.invoke(graph, None, forked)
        assert trace == self.after(first)
        assert "fork" in result[key]
        if upcoming != "__start__":  # there the update takes the place of the input
            assert {
                name: [word for word in words if word != "fork"] for name, words in result.items()
            } == ended

    @pytest.mark.parametrize("fork", [False, True], ids=["replay", "fork"])
    @pytest.mark.parametrize(("level", "upcoming", "first"), CASES)
    def test_an_interrupt_that_comes_after_is_asked_again(
        self, run, build, trace, config, level, upcoming, first, fork
    ):
        graph = build("deep?")
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume="old"), config)
        at = self.at(self.histories(run, graph, config), level, upcoming).config
        if fork:
            key = "inner" if level == "deep" else "log"
            at = run.update_state(graph, at, {key: ["fork"]})
        trace.clear()
        result = run.invoke(graph, None, at)
        after = self.after(first)
        if "d2" in after:
            assert trace == after[: after.index("d2") + 1]
            assert questions(result) == ["deep?"]
            trace.clear()
            result = run.invoke(graph, Command(resume="new"), config)
            assert trace == ["d2", "d3", "m3", "t3"]
            assert [word for word in result["inner"] if word != "fork"] == [
                *["d1", "d2", "new", "d3"]
            ]
        else:
            assert trace == after
            assert [word for word in result["inner"] if word != "fork"] == [
                *["d1", "d2", "old", "d3"]
            ]

    def test_every_level_keeps_its_old_branch(self, run, build, config):
        graph = build("deep?")
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume="old"), config)
        before = self.histories(run, graph, config)
        for snapshots in before.values():
            run.invoke(graph, None, snapshots[2].config)
        for snapshots in before.values():
            for old in snapshots:
                kept = run.get_state(graph, old.config)
                assert (kept.values, kept.next) == (old.values, old.next)


class TestAGraphCalledInsideAFunction:
    @pytest.fixture
    def graph(self, run, trace, saver):
        child = chain(
            ("c1", step(trace, "c1", key="inner")),
            ("c2", step(trace, "c2", "child?", key="inner")),
            ("c3", step(trace, "c3", key="inner")),
            schema=Inner,
        )
        return chain(
            ("a", step(trace, "a")),
            ("call", calling(run, trace, "call", child, {"inner": []})),
            ("z", step(trace, "z")),
            checkpointer=saver,
        )

    @pytest.mark.parametrize("fork", [False, True], ids=["replay", "fork"])
    @pytest.mark.parametrize(
        ("upcoming", "again"),
        [("a", ["a", "call", "c1", "c2"]), ("call", ["call", "c1", "c2"]), ("z", ["z"])],
    )
    def test_is_replayed_with_its_parent(self, run, graph, trace, config, upcoming, again, fork):
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume="old"), config)
        at = before_node(run.history(graph, config), upcoming).config
        if fork:
            at = run.update_state(graph, at, {"log": ["fork"]})
        trace.clear()
        result = run.invoke(graph, None, at)
        assert trace == again
        if upcoming != "z":
            trace.clear()
            result = run.invoke(graph, Command(resume="new"), config)
            assert trace == ["call", "c2", "c3", "z"]
            assert ["c1", "c2", "new", "c3"] in result["log"]

    @pytest.mark.parametrize(
        ("upcoming", "again"),
        [("c1", ["call", "c1", "c2"]), ("c2", ["call", "c2"]), ("c3", ["call", "c3", "z"])],
    )
    def test_is_replayed_from_its_own_checkpoints(self, run, graph, trace, config, upcoming, again):
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume="old"), config)
        parent = before_node(run.history(graph, config), "call")
        child = run.history(graph, parent.tasks[0].state)
        trace.clear()
        run.invoke(graph, None, before_node(child, upcoming).config)
        assert trace == again


class TestTheChildStateOfThatMoment:
    """A subgraph with memory of its own, over several runs of one thread."""

    @pytest.fixture
    def graph(self, run, trace, saver):
        def add(state: Inner):
            return {"inner": [f"call {len(state['inner'])}"]}

        child = chain(("add", add), schema=Inner, checkpointer=True)
        return chain(
            ("a", step(trace, "a")),
            ("call", calling(run, trace, "call", child, {"inner": []})),
            checkpointer=saver,
        )

    @pytest.mark.parametrize("number", [0, 1, 2])
    @pytest.mark.parametrize("upcoming", ["a", "call"])
    def test_is_what_a_replay_starts_from(self, run, graph, config, number, upcoming):
        for _ in range(3):
            run.invoke(graph, {"log": []}, config)
        snapshots = [s for s in run.history(graph, config) if s.next == (upcoming,)][::-1]
        result = run.invoke(graph, None, snapshots[number].config)
        assert result["log"][-1] == [f"call {n}" for n in range(number + 1)]

    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_is_what_a_fork_starts_from(self, run, graph, config, number):
        for _ in range(3):
            run.invoke(graph, {"log": []}, config)
        snapshots = [s for s in run.history(graph, config) if s.next == ("call",)][::-1]
        forked = run.update_state(graph, snapshots[number].config, {"log": ["fork"]})
        result = run.invoke(graph, None, forked)
        assert result["log"][-1] == [f"call {n}" for n in range(number + 1)]

    def test_goes_on_from_the_replayed_branch(self, run, graph, config):
        for _ in range(3):
            run.invoke(graph, {"log": []}, config)
        first = [s for s in run.history(graph, config) if s.next == ("call",)][-1]
        run.invoke(graph, None, first.config)
        result = run.invoke(graph, {"log": []}, config)
        assert result["log"][-1] == ["call 0", "call 1"]

    @pytest.mark.parametrize("memory", [None, True], ids=["inherits", "own memory"])
    def test_in_a_loop_is_that_of_the_round(self, run, saver, config, memory):
        seen = []

        def add(state: Inner):
            seen.append(len(state["inner"]))
            return {"inner": ["more"]}

        child = chain(("add", add), schema=Inner, checkpointer=memory)
        builder = StateGraph(State)
        builder.add_node("call", calling(run, [], "call", child, {"inner": []}))
        builder.add_edge(START, "call")
        builder.add_conditional_edges(
            "call", lambda state: END if len(state["log"]) == 6 else "call"
        )
        graph = builder.compile(checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        expected = [0, 1, 2] if memory else [0, 0, 0]
        assert seen == expected
        rounds = [s for s in run.history(graph, config) if s.next == ("call",)][::-1]
        for number, at in enumerate(rounds):
            seen.clear()
            run.invoke(graph, None, at.config)
            assert seen == expected[number:]


class TestAnInnerCheckpoint:
    """Where a replay starts from one, this call of the inner graph goes on, and no other."""

    def test_is_not_that_of_a_sibling(self, run, trace, saver, config):
        def ask(state: Both):
            trace.append(state["inner"][0])
            return {"log": [interrupt(state["inner"][0])]}

        child = chain(("before", lambda state: None), ("ask", ask), schema=Both)
        builder = StateGraph(Both).add_node("child", child)
        sends = [Send("child", {"inner": [name]}) for name in ("x", "y")]
        graph = builder.add_conditional_edges(START, lambda _: sends).compile(saver)
        run.invoke(graph, {"log": []}, config)
        trace.clear()
        tasks = run.get_state(graph, config, subgraphs=True).tasks
        run.invoke(graph, None, tasks[1].state.config)
        assert sorted(trace) == ["x", "y"]
        assert sorted(i.value for i in run.get_state(graph, config).interrupts) == ["x", "y"]

    def test_is_not_that_of_a_later_round(self, run, trace, saver, config):
        child = chain(("a", step(trace, "a")), ("b", step(trace, "b")))
        builder = StateGraph(State).add_node("child", child).add_edge(START, "child")
        builder.add_conditional_edges("child", lambda s: END if len(s["log"]) > 5 else "child")
        graph = builder.compile(checkpointer=saver)
        options = {"stream_mode": "checkpoints", "subgraphs": True}
        events = run.stream(graph, {"log": []}, config, **options)
        rounds = [event["config"] for ns, event in events if ns and event["next"] == ["b"]]
        trace.clear()
        run.invoke(graph, None, rounds[0])
        assert trace == ["b", *["a", "b"] * (len(rounds) - 1)]

    def test_is_not_that_of_another_task(self, run, trace, saver, config):
        nodes = [(name, lambda s, n=name: trace.append(n + s["inner"][0])) for name in "ab"]
        child = chain(*nodes, schema=Inner)
        call = task(lambda name: child.invoke({"inner": [name]}))
        flow = entrypoint(saver)(lambda names: [call(name).result() for name in names])
        events = run.stream(flow, ["x", "y"], config, stream_mode="checkpoints", subgraphs=True)
        calls = [event["config"] for ns, event in events if ns and event["next"] == ["b"]]
        trace.clear()
        run.invoke(flow, None, calls[1])
        assert trace == ["ax", "bx", "by"]
