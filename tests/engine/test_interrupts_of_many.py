"""Interrupts of several tasks at once: parallel nodes, Send, called tasks, inner graphs."""

import itertools

import pytest
from typing_extensions import TypedDict

from hitl_graphs import Both, Inner, State, calling, chain, fan, ids, questions, step
from milepost.errors import UnknownInterruptError
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.types import Command, Send, interrupt


class TestInterruptsInParallelNodes:
    @pytest.fixture
    def effects(self) -> list[str]:
        return []

    @pytest.fixture
    def three(self, saver, effects):
        """Three nodes side by side; each has an effect and asks twice. Then a last node."""

        @task
        def effect(name):
            effects.append(name)
            return name

        def asking(name):
            def node(state: State):
                done = effect(name).result()
                first = interrupt(f"{name}1")
                again = effect(f"{name} after {first}").result()
                return {"log": [done, first, again, interrupt(f"{name}2")]}

            return node

        def last(state: State):
            effects.append("last")
            return {"log": ["last"]}

        nodes = [(name, asking(name)) for name in "xyz"]
        return fan(*nodes, last=("last", last), checkpointer=saver)

    def test_all_show_at_once_with_ids_of_their_own(self, run, three, config, durability):
        result = run.invoke(three, {"log": []}, config, durability=durability)
        assert sorted(questions(result)) == ["x1", "y1", "z1"]
        assert len(set(ids(result).values())) == 3
        snapshot = run.get_state(three, config)
        assert {one.value: one.id for one in snapshot.interrupts} == ids(result)
        assert [[one.value for one in waiting.interrupts] for waiting in snapshot.tasks] == [
            ["x1"],
            ["y1"],
            ["z1"],
        ]

    def test_refuse_a_bare_answer_and_say_how(self, run, three, config, durability):
        opened = run.invoke(three, {"log": []}, config, durability=durability)
        with pytest.raises((UnknownInterruptError, RuntimeError)) as refused:
            run.invoke(three, Command(resume="bare"), config, durability=durability)
        assert "interrupt" in str(refused.value)
        assert "id" in str(refused.value)
        left = run.get_state(three, config).interrupts
        assert {one.value: one.id for one in left} == ids(opened)

    def test_the_refusal_names_the_open_ids(self, run, three, config):
        opened = run.invoke(three, {"log": []}, config)
        with pytest.raises(UnknownInterruptError) as refused:
            run.invoke(three, Command(resume="bare"), config)
        for one in opened["__interrupt__"]:
            assert one.id in str(refused.value)

    def test_refuse_a_dict_with_a_key_that_is_no_open_id(self, run, three, config, durability):
        opened = run.invoke(three, {"log": []}, config, durability=durability)
        answers = {**dict.fromkeys(ids(opened).values(), "yes"), "nonsense": "no"}
        with pytest.raises((UnknownInterruptError, RuntimeError)):
            run.invoke(three, Command(resume=answers), config, durability=durability)

    def test_an_answer_that_was_given_before_does_not_disturb_the_others(
        self, run, three, config, durability
    ):
        opened = ids(run.invoke(three, {"log": []}, config, durability=durability))
        first = Command(resume={opened["x1"]: "yes", opened["y1"]: "yes"})
        left = run.invoke(three, first, config, durability=durability)["__interrupt__"]
        answers = {one.id: "yes" for one in left} | dict.fromkeys(opened.values(), "yes")
        run.invoke(three, Command(resume=answers), config, durability=durability)
        state = run.get_state(three, config)
        assert not [one for one in state.interrupts if one.id in answers]
        assert all(isinstance(entry, str) for entry in state.values["log"])

    @pytest.mark.usefixtures("strictly")
    def test_answers_to_none_of_the_open_ones_are_refused(self, run, three, config, durability):
        opened = run.invoke(three, {"log": []}, config, durability=durability)
        with pytest.raises(UnknownInterruptError) as refused:
            run.invoke(three, Command(resume={"0" * 32: "yes"}), config, durability=durability)
        for one in opened["__interrupt__"]:
            assert one.id in str(refused.value)
        assert ids(opened) == {one.value: one.id for one in run.get_state(three, config).interrupts}

    def test_are_answered_together(self, run, three, effects, config, durability):
        result = run.invoke(three, {"log": []}, config, durability=durability)
        for _ in range(2):
            answers = {one.id: one.value.upper() for one in result["__interrupt__"]}
            result = run.invoke(three, Command(resume=answers), config, durability=durability)
        assert result["log"][-1] == "last"
        assert sorted(effects) == sorted(
            ["x", "x after X1", "y", "y after Y1", "z", "z after Z1", "last"]
        )

    @pytest.mark.parametrize(
        "order",
        [
            order
            for order in itertools.permutations(["x1", "x2", "y1", "y2", "z1", "z2"])
            if all(order.index(f"{name}1") < order.index(f"{name}2") for name in "xyz")
        ][::9],
        ids="-".join,
    )
    def test_are_answered_in_any_order_and_each_earlier_effect_runs_once(
        self, run, three, effects, config, order
    ):
        result = run.invoke(three, {"log": []}, config)
        for question in order:
            answer = {ids(result)[question]: question.upper()}
            result = run.invoke(three, Command(resume=answer), config)
        assert "__interrupt__" not in result
        assert result["log"] == [
            *["x", "X1", "x after X1", "X2"],
            *["y", "Y1", "y after Y1", "Y2"],
            *["z", "Z1", "z after Z1", "Z2"],
            "last",
        ]
        assert sorted(effects) == sorted(
            ["x", "x after X1", "y", "y after Y1", "z", "z after Z1", "last"]
        )

    def test_the_others_keep_their_ids_when_one_is_answered(self, run, three, config, durability):
        opened = ids(run.invoke(three, {"log": []}, config, durability=durability))
        answer = Command(resume={opened["y1"]: "Y1"})
        left = ids(run.invoke(three, answer, config, durability=durability))
        assert sorted(left) == ["x1", "y2", "z1"]
        assert (left["x1"], left["z1"]) == (opened["x1"], opened["z1"])
        assert left["y2"] not in opened.values()

    def test_a_finished_neighbour_does_not_run_again(self, run, trace, saver, config, durability):
        graph = fan(
            ("ask", step(trace, "ask", "sure?")),
            ("free", step(trace, "free")),
            last=("last", step(trace, "last")),
            checkpointer=saver,
        )
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert result["log"] == ["free"]
        snapshot = run.get_state(graph, config)
        assert snapshot.next == ("ask",)
        result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert result == {"log": ["ask", "yes", "free", "last"]}
        assert sorted(trace) == ["ask", "ask", "free", "last"]


class TestInterruptsInSendTasks:
    @pytest.fixture
    def sending(self, trace, saver):
        class Work(TypedDict):
            n: int

        def worker(state: Work):
            trace.append(state["n"])
            return {"log": [state["n"], interrupt(f"{state['n']}?")]}

        builder = StateGraph(State)
        builder.add_node("worker", worker)
        builder.add_conditional_edges(
            START, lambda state: [Send("worker", {"n": n}) for n in range(3)], ["worker"]
        )
        return builder.compile(checkpointer=saver)

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_each_answer_reaches_its_own_task(self, run, sending, config, order):
        result = run.invoke(sending, {"log": []}, config)
        assert sorted(questions(result)) == ["0?", "1?", "2?"]
        for n in order:
            answer = {ids(result)[f"{n}?"]: f"answer {n}"}
            result = run.invoke(sending, Command(resume=answer), config)
        assert result == {"log": [0, "answer 0", 1, "answer 1", 2, "answer 2"]}

    def test_show_one_task_each_in_the_snapshot(self, run, sending, config, durability):
        run.invoke(sending, {"log": []}, config, durability=durability)
        snapshot = run.get_state(sending, config)
        assert snapshot.next == ("worker",) * 3
        assert [waiting.interrupts[0].value for waiting in snapshot.tasks] == ["0?", "1?", "2?"]

    def test_an_answered_task_does_not_run_again(self, run, sending, trace, config, durability):
        opened = run.invoke(sending, {"log": []}, config, durability=durability)
        answer = {ids(opened)["1?"]: "one"}
        left = run.invoke(sending, Command(resume=answer), config, durability=durability)
        assert left["log"] == [1, "one"]
        trace.clear()
        answers = {one.id: one.value for one in left["__interrupt__"]}
        run.invoke(sending, Command(resume=answers), config, durability=durability)
        assert sorted(trace) == [0, 2]


class TestInterruptsInTasks:
    def test_pause_the_node_that_called_the_task(self, run, saver, config, durability):
        asked = []

        @task
        def ask(question):
            asked.append(question)
            return interrupt(question)

        def node(state: State):
            return {"log": [ask("a?").result(), ask("b?").result()]}

        graph = chain(("node", node), checkpointer=saver)
        assert questions(run.invoke(graph, {"log": []}, config, durability=durability)) == ["a?"]
        result = run.invoke(graph, Command(resume="A"), config, durability=durability)
        assert questions(result) == ["b?"]
        result = run.invoke(graph, Command(resume="B"), config, durability=durability)
        assert result == {"log": ["A", "B"]}
        assert asked == ["a?", "a?", "b?", "b?"]

    @pytest.mark.parametrize("first", [0, -1])
    def test_of_parallel_tasks_each_get_their_own_answer(self, run, saver, config, first):
        @task
        def ask(question):
            return interrupt(question)

        @entrypoint(checkpointer=saver)
        def flow(count):
            asking = [ask(f"{n}?") for n in range(count)]
            return [one.result() for one in asking]

        result = run.invoke(flow, 3, config)
        for _ in range(3):
            if isinstance(result, list):
                break
            chosen = result["__interrupt__"][first]
            answer = {chosen.id: chosen.value.replace("?", "!")}
            result = run.invoke(flow, Command(resume=answer), config)
        assert result == ["0!", "1!", "2!"]

    def test_of_parallel_tasks_show_together(self, run, saver, config):
        @task
        def ask(question):
            return interrupt(question)

        @entrypoint(checkpointer=saver)
        def flow(count):
            asking = [ask(f"{n}?") for n in range(count)]
            return [one.result() for one in asking]

        opened = run.invoke(flow, 2, config)
        assert sorted(questions(opened)) == ["0?", "1?"]
        answers = {one.id: one.value.replace("?", "!") for one in opened["__interrupt__"]}
        assert run.invoke(flow, Command(resume=answers), config) == ["0!", "1!"]


class TestInterruptsInSubgraphs:
    def test_show_in_the_parent_and_resume_the_child_where_it_was(
        self, run, trace, saver, config, durability
    ):
        child = chain(
            ("c1", step(trace, "c1", key="inner")),
            ("c2", step(trace, "c2", "child?", key="inner")),
            ("c3", step(trace, "c3", key="inner")),
            schema=Inner,
        )
        graph = chain(
            ("call", calling(run, trace, "call", child, {"inner": []})),
            ("z", step(trace, "z")),
            checkpointer=saver,
        )
        opened = run.invoke(graph, {"log": []}, config, durability=durability)
        assert questions(opened) == ["child?"]
        assert trace == ["call", "c1", "c2"]
        trace.clear()
        result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert result == {"log": ["call", ["c1", "c2", "yes", "c3"], "z"]}
        assert trace == ["call", "c2", "c3", "z"]

    def test_of_a_subgraph_as_a_node_do_not_run_its_finished_nodes_again(
        self, run, trace, saver, config, durability
    ):
        child = chain(
            ("c1", step(trace, "c1", key="inner")),
            ("c2", step(trace, "c2", "one?", "two?", key="inner")),
            schema=Inner,
        )
        graph = chain(("child", child), ("z", step(trace, "z")), schema=Both, checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        run.invoke(graph, Command(resume=1), config, durability=durability)
        result = run.invoke(graph, Command(resume=2), config, durability=durability)
        assert result == {"log": ["z"], "inner": ["c1", "c2", 1, 2]}
        assert trace == ["c1", "c2", "c2", "c2", "z"]

    @pytest.mark.parametrize("order", list(itertools.permutations(["mine?", "left?", "right?"])))
    def test_of_parallel_children_and_the_parent_are_answered_in_any_order(
        self, run, trace, saver, config, order
    ):
        children = [
            chain((name, step(trace, name, f"{name}?", key="inner")), schema=Inner)
            for name in ("left", "right")
        ]
        graph = fan(
            ("l", calling(run, trace, "l", children[0], {"inner": []})),
            ("m", step(trace, "m", "mine?")),
            ("r", calling(run, trace, "r", children[1], {"inner": []})),
            checkpointer=saver,
        )
        result = run.invoke(graph, {"log": []}, config)
        assert sorted(questions(result)) == ["left?", "mine?", "right?"]
        for question in order:
            answer = {ids(result)[question]: question.upper()}
            result = run.invoke(graph, Command(resume=answer), config)
        assert result["log"] == [
            *["l", ["left", "LEFT?"]],
            *["m", "MINE?"],
            *["r", ["right", "RIGHT?"]],
        ]

    def test_of_parallel_nodes_of_one_child_are_answered_by_id(self, run, trace, saver, config):
        builder = StateGraph(State)
        for name in "pq":
            builder.add_node(name, step(trace, name, f"{name}?"))
            builder.add_edge(START, name)
        graph = chain(("child", builder.compile()), checkpointer=saver)
        opened = run.invoke(graph, {"log": []}, config)
        assert sorted(questions(opened)) == ["p?", "q?"]
        assert len(set(ids(opened).values())) == 2
        with pytest.raises((UnknownInterruptError, RuntimeError)):
            run.invoke(graph, Command(resume="bare"), config)
        left = run.invoke(graph, Command(resume={ids(opened)["q?"]: "Q"}), config)
        assert ids(left) == {"p?": ids(opened)["p?"]}
        result = run.invoke(graph, Command(resume="P"), config)
        assert result == {"log": ["p", "P", "q", "Q"]}

    def test_of_the_third_level_show_in_the_first(self, run, trace, saver, config, durability):
        deep = chain(("deep", step(trace, "deep", "deep?")))
        middle = chain(("m1", step(trace, "m1")), ("deep", deep))
        graph = chain(("t1", step(trace, "t1")), ("middle", middle), checkpointer=saver)
        opened = run.invoke(graph, {"log": []}, config, durability=durability)
        assert questions(opened) == ["deep?"]
        trace.clear()
        run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert trace == ["deep"]

    def test_without_a_checkpointer_of_its_own_run_the_child_from_its_top(
        self, run, trace, saver, config, durability
    ):
        child = chain(
            ("c1", step(trace, "c1")), ("c2", step(trace, "c2", "child?")), checkpointer=False
        )
        graph = chain(("child", child), checkpointer=saver)
        assert questions(run.invoke(graph, {"log": []}, config, durability=durability)) == [
            "child?"
        ]
        result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert result == {"log": ["c1", "c2", "yes"]}
        assert trace == ["c1", "c2", "c1", "c2"]
