"""Pausing a run for an answer: where the question shows, and how the answer finds its way back."""

import pytest

from hitl_graphs import Both, Inner, State, chain, fan, ids, questions, step
from milepost.errors import GraphInterrupt, UnknownInterruptError
from milepost.func import task
from milepost.graph import END, START, StateGraph
from milepost.types import Command, Interrupt, RetryPolicy, interrupt
from milepost.warnings import MilepostWarning


@pytest.fixture
def asking(trace, saver):
    """a -> ask -> z, where `ask` asks one question."""
    return chain(
        ("a", step(trace, "a")),
        ("ask", step(trace, "ask", "sure?")),
        ("z", step(trace, "z")),
        checkpointer=saver,
    )


class TestWhereAnInterruptShows:
    def test_in_the_result_of_invoke(self, run, asking, config, durability):
        result = run.invoke(asking, {"log": []}, config, durability=durability)
        assert result["log"] == ["a"]
        (shown,) = result["__interrupt__"]
        assert isinstance(result["__interrupt__"], list)
        assert isinstance(shown, Interrupt)
        assert shown.value == "sure?"
        assert isinstance(shown.id, str)
        assert shown.id

    def test_an_interrupt_is_the_last_event_of_the_updates_stream(
        self, run, asking, config, durability
    ):
        events = run.stream(
            asking, {"log": []}, config, stream_mode="updates", durability=durability
        )
        (shown,) = run.get_state(asking, config).interrupts
        assert events == [{"a": {"log": ["a"]}}, {"__interrupt__": (shown,)}]

    def test_an_interrupt_is_the_last_event_of_the_values_stream(
        self, run, asking, config, durability
    ):
        events = run.stream(
            asking, {"log": []}, config, stream_mode="values", durability=durability
        )
        (shown,) = run.get_state(asking, config).interrupts
        assert events == [
            {"log": []},
            {"log": ["a"]},
            {"log": ["a"], "__interrupt__": (shown,)},
        ]

    def test_in_the_finish_event_of_its_task(self, run, asking, config, durability):
        events = run.stream(asking, {"log": []}, config, stream_mode="tasks", durability=durability)
        (shown,) = run.get_state(asking, config).interrupts
        (interrupted,) = events[-1]["interrupts"]
        assert events[-1]["name"] == "ask"
        assert (interrupted["value"], interrupted["id"]) == (shown.value, shown.id)

    def test_in_the_tasks_of_the_snapshot(self, run, asking, config, durability):
        run.invoke(asking, {"log": []}, config, durability=durability)
        (waiting,) = run.get_state(asking, config).tasks
        assert waiting.name == "ask"
        assert [one.value for one in waiting.interrupts] == ["sure?"]

    def test_in_the_interrupts_of_the_snapshot(self, run, asking, config, durability):
        result = run.invoke(asking, {"log": []}, config, durability=durability)
        snapshot = run.get_state(asking, config)
        assert snapshot.next == ("ask",)
        assert list(snapshot.interrupts) == result["__interrupt__"]

    def test_nowhere_once_the_run_has_ended(self, run, asking, config, durability):
        run.invoke(asking, {"log": []}, config, durability=durability)
        result = run.invoke(asking, Command(resume="yes"), config, durability=durability)
        assert "__interrupt__" not in result
        assert run.get_state(asking, config).interrupts == ()

    def test_in_the_history_after_it_was_answered(self, run, asking, config, durability):
        opened = run.invoke(asking, {"log": []}, config, durability=durability)
        run.invoke(asking, Command(resume="yes"), config, durability=durability)
        shown = [one for snapshot in run.history(asking, config) for one in snapshot.interrupts]
        assert shown == opened["__interrupt__"]

    def test_every_answered_interrupt_of_a_node_stays_in_the_history(
        self, run, trace, saver, config, durability
    ):
        graph = chain(("ask", step(trace, "ask", "one?", "two?")), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        run.invoke(graph, Command(resume=1), config, durability=durability)
        run.invoke(graph, Command(resume=2), config, durability=durability)
        waited = [task for snapshot in run.history(graph, config) for task in snapshot.tasks]
        shown = [one.value for task in waited for one in task.interrupts]
        assert set(shown) == {"one?", "two?"}

    def test_with_a_value_and_an_id_and_none_of_the_removed_fields(self):
        shown = Interrupt(value="sure?", id="x")
        assert (shown.value, shown.id) == ("sure?", "x")
        for removed in ("ns", "when", "resumable"):
            assert not hasattr(shown, removed)

    def test_whatever_its_value_is(self, run, trace, saver, config, durability):
        value = {"text": "sure?", "options": ["yes", "no"], "nested": {"n": 1}}
        graph = chain(("ask", step(trace, "ask", value)), checkpointer=saver)
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        assert questions(result) == [value]
        assert [one.value for one in run.get_state(graph, config).interrupts] == [value]


class TestResuming:
    def test_gives_the_value_to_the_interrupt(self, run, asking, config, durability):
        run.invoke(asking, {"log": []}, config, durability=durability)
        result = run.invoke(asking, Command(resume="yes"), config, durability=durability)
        assert result == {"log": ["a", "ask", "yes", "z"]}

    def test_starts_the_node_from_its_top_and_no_finished_node_again(
        self, run, asking, trace, config, durability
    ):
        run.invoke(asking, {"log": []}, config, durability=durability)
        run.invoke(asking, Command(resume="yes"), config, durability=durability)
        assert trace == ["a", "ask", "ask", "z"]

    @pytest.mark.parametrize("answer", [False, 0, "", [], {"a": 1}, ["x"]])
    def test_passes_any_value_through(self, run, asking, config, answer):
        run.invoke(asking, {"log": []}, config)
        result = run.invoke(asking, Command(resume=answer), config)
        assert result["log"] == ["a", "ask", answer, "z"]

    def test_by_the_id_of_the_interrupt_answers_it(self, run, asking, config, durability):
        opened = run.invoke(asking, {"log": []}, config, durability=durability)
        answer = {ids(opened)["sure?"]: "by id"}
        result = run.invoke(asking, Command(resume=answer), config, durability=durability)
        assert result["log"] == ["a", "ask", "by id", "z"]

    def test_with_a_dict_that_has_a_key_which_is_no_open_id_gives_the_dict_itself(
        self, run, asking, config, durability
    ):
        opened = run.invoke(asking, {"log": []}, config, durability=durability)
        answer = {ids(opened)["sure?"]: "by id", "comment": "but not only"}
        result = run.invoke(asking, Command(resume=answer), config, durability=durability)
        assert result["log"] == ["a", "ask", answer, "z"]

    def test_streams_what_is_left_of_the_run(self, run, asking, config, durability):
        run.invoke(asking, {"log": []}, config, durability=durability)
        events = run.stream(
            asking, Command(resume="yes"), config, stream_mode="updates", durability=durability
        )
        assert events == [{"ask": {"log": ["ask", "yes"]}}, {"z": {"log": ["z"]}}]

    def test_adds_no_checkpoint_of_its_own(self, run, asking, config):
        run.invoke(asking, {"log": []}, config)
        run.invoke(asking, Command(resume="yes"), config)
        steps = [snapshot.metadata["step"] for snapshot in run.history(asking, config)]
        assert steps == [3, 2, 1, 0, -1]

    def test_works_in_another_graph_object_over_the_same_saver(
        self, run, saver, config, durability
    ):
        first, second = [], []
        for trace in (first, second):
            graph = chain(
                ("a", step(trace, "a")), ("ask", step(trace, "ask", "sure?")), checkpointer=saver
            )
            given = {"log": []} if trace is first else Command(resume="yes")
            result = run.invoke(graph, given, config, durability=durability)
        assert (first, second) == (["a", "ask"], ["ask"])
        assert result == {"log": ["a", "ask", "yes"]}

    def test_without_an_answer_asks_the_same_question_under_the_same_id(
        self, run, asking, config, durability
    ):
        opened = run.invoke(asking, {"log": []}, config, durability=durability)
        again = run.invoke(asking, None, config, durability=durability)
        assert again == opened
        assert run.invoke(asking, Command(resume=1), config)["log"] == ["a", "ask", 1, "z"]

    def test_without_a_checkpointer_is_refused(self, run, trace):
        graph = chain(("ask", step(trace, "ask", "sure?")))
        assert questions(run.invoke(graph, {"log": []})) == ["sure?"]
        with pytest.raises(RuntimeError, match="checkpointer"):
            run.invoke(graph, Command(resume="yes"))

    def test_of_a_thread_that_has_ended_runs_nothing(self, run, asking, trace, config, durability):
        run.invoke(asking, {"log": []}, config, durability=durability)
        ended = run.invoke(asking, Command(resume="yes"), config, durability=durability)
        trace.clear()
        with pytest.warns(MilepostWarning, match="has no open interrupt"):
            again = run.invoke(asking, Command(resume="late"), config, durability=durability)
        assert again == ended
        assert trace == []

    @pytest.mark.parametrize("as_node", ["a", None])
    def test_after_an_update_answers_what_is_asked_then(
        self, run, asking, config, durability, as_node
    ):
        run.invoke(asking, {"log": []}, config, durability=durability)
        run.update_state(asking, config, {"log": ["edited"]}, as_node=as_node)
        found = run.invoke(asking, Command(resume="yes"), config, durability=durability)
        assert found["log"] == ["a", "edited", "ask", "yes", "z"]

    def test_after_an_update_answers_the_first_question_of_a_node_alone(
        self, run, trace, saver, config
    ):
        two = chain(
            ("a", step(trace, "a")), ("ask", step(trace, "ask", "1", "2")), checkpointer=saver
        )
        run.invoke(two, {"log": []}, config)
        run.update_state(two, config, {"log": []}, as_node="a")
        assert questions(run.invoke(two, Command(resume="one"), config)) == ["2"]
        assert run.invoke(two, Command(resume="two"), config)["log"] == ["a", "ask", "one", "two"]

    def test_after_an_update_several_nodes_ask_again_and_a_warning_says_so(
        self, run, trace, saver, config
    ):
        builder = StateGraph(State).add_node("first", step(trace, "first")).add_edge(START, "first")
        for name in ("one", "two"):
            builder.add_node(name, step(trace, name, f"{name}?")).add_edge("first", name)
        both = builder.compile(checkpointer=saver)
        asked = questions(run.invoke(both, {"log": []}, config))
        run.update_state(both, config, {"log": ["edited"]}, as_node="first")
        with pytest.warns(MilepostWarning, match="after its update: what waits asks again"):
            again = run.invoke(both, Command(resume="yes"), config)
        assert sorted(questions(again)) == sorted(asked)

    def test_two_threads_keep_their_answers_apart(self, run, asking, durability):
        threads = [{"configurable": {"thread_id": name}} for name in ("one", "two")]
        for thread in threads:
            run.invoke(asking, {"log": []}, thread, durability=durability)
        for thread, answer in zip(reversed(threads), "21", strict=True):
            result = run.invoke(asking, Command(resume=answer), thread, durability=durability)
            assert result["log"] == ["a", "ask", answer, "z"]


class TestSeveralInterruptsInOneNode:
    @pytest.fixture
    def two(self, trace, saver):
        return chain(("ask", step(trace, "ask", "one?", "two?")), checkpointer=saver)

    def test_are_asked_one_after_the_other(self, run, two, trace, config, durability):
        assert questions(run.invoke(two, {"log": []}, config, durability=durability)) == ["one?"]
        result = run.invoke(two, Command(resume=1), config, durability=durability)
        assert questions(result) == ["two?"]
        result = run.invoke(two, Command(resume=2), config, durability=durability)
        assert result == {"log": ["ask", 1, 2]}
        assert trace == ["ask", "ask", "ask"]

    def test_have_ids_of_their_own(self, run, two, config, durability):
        first = run.invoke(two, {"log": []}, config, durability=durability)
        second = run.invoke(two, Command(resume=1), config, durability=durability)
        assert first["__interrupt__"][0].id != second["__interrupt__"][0].id

    def test_only_the_open_one_shows_in_the_snapshot(self, run, two, config, durability):
        run.invoke(two, {"log": []}, config, durability=durability)
        second = run.invoke(two, Command(resume=1), config, durability=durability)
        assert list(run.get_state(two, config).interrupts) == second["__interrupt__"]

    def test_keep_their_ids_when_the_node_runs_again(self, run, two, config, durability):
        run.invoke(two, {"log": []}, config, durability=durability)
        second = run.invoke(two, Command(resume=1), config, durability=durability)
        assert run.invoke(two, None, config, durability=durability) == second

    @pytest.mark.usefixtures("strictly")
    def test_a_late_answer_to_the_first_is_not_taken_for_the_second(
        self, run, two, config, durability
    ):
        first = run.invoke(two, {"log": []}, config, durability=durability)
        run.invoke(two, Command(resume=1), config, durability=durability)
        late = Command(resume={ids(first)["one?"]: "late"})
        with pytest.raises(UnknownInterruptError):
            run.invoke(two, late, config, durability=durability)
        result = run.invoke(two, Command(resume=2), config, durability=durability)
        assert result == {"log": ["ask", 1, 2]}

    def test_with_the_same_question_are_still_two(self, run, trace, saver, config, durability):
        graph = chain(("ask", step(trace, "ask", "again?", "again?")), checkpointer=saver)
        first = run.invoke(graph, {"log": []}, config, durability=durability)
        second = run.invoke(graph, Command(resume=1), config, durability=durability)
        assert first["__interrupt__"][0].id != second["__interrupt__"][0].id
        result = run.invoke(graph, Command(resume=2), config, durability=durability)
        assert result == {"log": ["ask", 1, 2]}

    def test_in_a_loop_until_the_answer_will_do(self, run, saver, config, durability):
        def ask(state: State):
            question = "a number?"
            while not isinstance(answer := interrupt(question), int):
                question = f"{answer} is no number"
            return {"log": [answer]}

        graph = chain(("ask", ask), checkpointer=saver)
        asked = questions(run.invoke(graph, {"log": []}, config, durability=durability))
        for answer in ("x", "y"):
            result = run.invoke(graph, Command(resume=answer), config, durability=durability)
            asked += questions(result)
        assert asked == ["a number?", "x is no number", "y is no number"]
        assert run.invoke(graph, Command(resume=7), config, durability=durability) == {"log": [7]}


class TestInterruptsInALoopOfTheGraph:
    def test_have_an_id_each_round(self, run, saver, config, durability):
        def ask(state: State):
            return {"log": [interrupt(len(state["log"]))]}

        builder = StateGraph(State)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        builder.add_conditional_edges("ask", lambda state: END if len(state["log"]) == 3 else "ask")
        graph = builder.compile(checkpointer=saver)
        result = run.invoke(graph, {"log": []}, config, durability=durability)
        seen = {}
        for answer in "abc":
            seen.update(ids(result))
            result = run.invoke(graph, Command(resume=answer), config, durability=durability)
        assert result == {"log": ["a", "b", "c"]}
        assert list(seen) == [0, 1, 2]
        assert len(set(seen.values())) == 3


class TestStaticInterrupts:
    @pytest.fixture
    def build(self, trace, saver):
        def build(**compile_with):
            nodes = [(name, step(trace, name)) for name in "abc"]
            return chain(*nodes, checkpointer=saver, **compile_with)

        return build

    @pytest.mark.parametrize("when", ["compile", "call"])
    def test_before_a_node(self, run, build, trace, config, durability, when):
        graph = build(interrupt_before=["b"]) if when == "compile" else build()
        at_call = {"interrupt_before": ["b"]} if when == "call" else {}
        result = run.invoke(graph, {"log": []}, config, durability=durability, **at_call)
        assert result == {"log": ["a"]}
        snapshot = run.get_state(graph, config)
        assert (snapshot.next, snapshot.interrupts) == (("b",), ())
        result = run.invoke(graph, None, config, durability=durability, **at_call)
        assert result == {"log": ["a", "b", "c"]}
        assert trace == ["a", "b", "c"]

    @pytest.mark.parametrize("when", ["compile", "call"])
    def test_after_a_node(self, run, build, trace, config, durability, when):
        graph = build(interrupt_after=["b"]) if when == "compile" else build()
        at_call = {"interrupt_after": ["b"]} if when == "call" else {}
        result = run.invoke(graph, {"log": []}, config, durability=durability, **at_call)
        assert result == {"log": ["a", "b"]}
        assert run.get_state(graph, config).next == ("c",)
        result = run.invoke(graph, None, config, durability=durability, **at_call)
        assert result == {"log": ["a", "b", "c"]}
        assert trace == ["a", "b", "c"]

    @pytest.mark.parametrize("side", ["interrupt_before", "interrupt_after"])
    @pytest.mark.parametrize("when", ["compile", "call"])
    def test_at_every_node(self, run, build, trace, config, durability, when, side):
        graph = build(**{side: "*"}) if when == "compile" else build()
        at_call = {side: "*"} if when == "call" else {}
        run.invoke(graph, {"log": []}, config, durability=durability, **at_call)
        waiting = []
        while upcoming := run.get_state(graph, config).next:
            waiting.append(upcoming)
            run.invoke(graph, None, config, durability=durability, **at_call)
        before, after = [("a",), ("b",), ("c",)], [("b",), ("c",)]
        assert waiting == (before if side == "interrupt_before" else after)
        assert trace == ["a", "b", "c"]

    @pytest.mark.parametrize("when", ["compile", "call"])
    def test_at_a_single_name_and_not_at_parts_of_it(self, run, trace, saver, config, when):
        breakpoint = {"interrupt_before": "ask again"}
        nodes = [(name, step(trace, name)) for name in ("ask", "ask again")]
        graph = chain(*nodes, checkpointer=saver, **(breakpoint if when == "compile" else {}))
        run.invoke(graph, {"log": []}, config, **(breakpoint if when == "call" else {}))
        assert trace == ["ask"]
        assert run.get_state(graph, config).next == ("ask again",)

    def test_at_the_call_take_the_place_of_those_at_compile_time(
        self, run, build, config, durability
    ):
        graph = build(interrupt_before=["b"])
        result = run.invoke(
            graph, {"log": []}, config, durability=durability, interrupt_before=["c"]
        )
        assert result == {"log": ["a", "b"]}

    def test_before_and_after_together(self, run, build, config, durability):
        graph = build(interrupt_before=["c"], interrupt_after=["a"])
        run.invoke(graph, {"log": []}, config, durability=durability)
        assert run.get_state(graph, config).next == ("b",)
        run.invoke(graph, None, config, durability=durability)
        assert run.get_state(graph, config).next == ("c",)

    def test_end_the_updates_stream_with_an_empty_interrupt(self, run, build, config, durability):
        graph = build(interrupt_before=["b"])
        events = run.stream(
            graph, {"log": []}, config, stream_mode="updates", durability=durability
        )
        assert events == [{"a": {"log": ["a"]}}, {"__interrupt__": ()}]

    def test_pause_before_parallel_nodes_as_one_step(self, run, trace, saver, config, durability):
        graph = fan(
            *[(name, step(trace, name)) for name in "xy"],
            last=("last", step(trace, "last")),
            checkpointer=saver,
            interrupt_before=["y"],
        )
        run.invoke(graph, {"log": []}, config, durability=durability)
        assert trace == []
        assert run.get_state(graph, config).next == ("x", "y")
        assert run.invoke(graph, None, config, durability=durability)["log"] == ["x", "y", "last"]

    def test_let_the_state_be_edited_before_going_on(self, run, build, config, durability):
        graph = build(interrupt_before=["c"])
        run.invoke(graph, {"log": []}, config, durability=durability)
        run.update_state(graph, config, {"log": ["edited"]})
        result = run.invoke(graph, None, config, durability=durability)
        assert result == {"log": ["a", "b", "edited", "c"]}

    def test_in_a_subgraph_pause_the_parent(self, run, trace, saver, config, durability):
        child = chain(
            *[(name, step(trace, name, key="inner")) for name in ("c1", "c2")],
            schema=Inner,
            interrupt_before=["c2"],
        )
        graph = chain(("child", child), ("z", step(trace, "z")), schema=Both, checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        assert run.get_state(graph, config).next == ("child",)
        assert trace == ["c1"]
        result = run.invoke(graph, None, config, durability=durability)
        assert result == {"log": ["z"], "inner": ["c1", "c2"]}
        assert trace == ["c1", "c2", "z"]

    def test_of_unknown_nodes_are_refused_when_compiling(self, build):
        with pytest.raises(ValueError, match="nowhere"):
            build(interrupt_before=["nowhere"])


class TestCommandsAsInput:
    @pytest.fixture
    def graph(self, trace, saver):
        builder = StateGraph(State)
        builder.add_node("ask", step(trace, "ask", "sure?"))
        builder.add_node("aside", step(trace, "aside"))
        builder.add_edge(START, "ask")
        return builder.compile(checkpointer=saver)

    def test_resume_update_and_goto_together(self, run, graph, trace, config, durability):
        run.invoke(graph, {"log": []}, config, durability=durability)
        trace.clear()
        given = Command(resume="yes", update={"log": ["more"]}, goto="aside")
        result = run.invoke(graph, given, config, durability=durability)
        assert result["log"][0] == "more"
        assert sorted(result["log"]) == ["aside", "ask", "more", "yes"]
        assert sorted(trace) == ["aside", "ask"]

    def test_resume_and_update(self, run, graph, config, durability):
        run.invoke(graph, {"log": []}, config, durability=durability)
        given = Command(resume="yes", update={"log": ["more"]})
        assert run.invoke(graph, given, config, durability=durability) == {
            "log": ["more", "ask", "yes"]
        }

    def test_update_alone_leaves_the_question_open(self, run, graph, config, durability):
        run.invoke(graph, {"log": []}, config, durability=durability)
        given = Command(update={"log": ["more"]})
        result = run.invoke(graph, given, config, durability=durability)
        assert result["log"] == ["more"]
        assert questions(result) == ["sure?"]

    def test_goto_alone_leaves_the_question_open(self, run, graph, config, durability):
        run.invoke(graph, {"log": []}, config, durability=durability)
        result = run.invoke(graph, Command(goto="aside"), config, durability=durability)
        assert result["log"] == ["aside"]
        assert questions(result) == ["sure?"]
        result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert sorted(result["log"]) == ["aside", "ask", "yes"]

    def test_a_resumed_node_may_itself_return_a_command(
        self, run, trace, saver, config, durability
    ):
        def decide(state: State):
            return Command(goto=interrupt("where?"), update={"log": ["decided"]})

        builder = StateGraph(State)
        builder.add_node("decide", decide, destinations=("left", "right"))
        for name in ("left", "right"):
            builder.add_node(name, step(trace, name))
        builder.add_edge(START, "decide")
        graph = builder.compile(checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        result = run.invoke(graph, Command(resume="right"), config, durability=durability)
        assert result == {"log": ["decided", "right"]}


class TestANewInputOnAnInterruptedThread:
    def test_starts_from_the_top_and_abandons_the_question(
        self, run, asking, trace, config, durability
    ):
        opened = run.invoke(asking, {"log": []}, config, durability=durability)
        trace.clear()
        result = run.invoke(asking, {"log": ["new"]}, config, durability=durability)
        assert trace == ["a", "ask"]
        assert result["log"] == ["a", "new", "a"]
        assert questions(result) == ["sure?"]
        assert ids(result)["sure?"] != ids(opened)["sure?"]

    def test_the_answer_goes_to_the_new_question(self, run, asking, config, durability):
        run.invoke(asking, {"log": []}, config, durability=durability)
        run.invoke(asking, {"log": ["new"]}, config, durability=durability)
        result = run.invoke(asking, Command(resume="yes"), config, durability=durability)
        assert result == {"log": ["a", "new", "a", "ask", "yes", "z"]}

    def test_the_abandoned_question_stays_in_the_history(self, run, asking, config, durability):
        opened = run.invoke(asking, {"log": []}, config, durability=durability)
        again = run.invoke(asking, {"log": ["new"]}, config, durability=durability)
        shown = [one for snapshot in run.history(asking, config) for one in snapshot.interrupts]
        assert shown == again["__interrupt__"] + opened["__interrupt__"]


class TestInterruptItself:
    def test_outside_a_run_is_refused(self):
        with pytest.raises(RuntimeError):
            interrupt("anybody?")

    def test_without_a_checkpointer_shows_the_question_and_ends_the_run(self, run, trace):
        graph = chain(("ask", step(trace, "ask", "sure?")), ("z", step(trace, "z")))
        result = run.invoke(graph, {"log": []})
        assert questions(result) == ["sure?"]
        assert trace == ["ask"]

    def test_raises_what_a_node_can_tell_from_a_failure(self, run, saver, config):
        caught = []

        def ask(state: State):
            try:
                return {"log": [interrupt("sure?")]}
            except GraphInterrupt as pausing:
                caught.append(pausing)
                raise

        graph = chain(("ask", ask), checkpointer=saver)
        assert questions(run.invoke(graph, {"log": []}, config)) == ["sure?"]
        assert len(caught) == 1

    def test_in_an_async_node(self, run, saver, config, durability):
        if run.colour == "sync":
            pytest.skip("async nodes are driven by the async face here")

        async def ask(state: State):
            return {"log": [interrupt("one?"), interrupt("two?")]}

        graph = chain(("ask", ask), checkpointer=saver)
        assert questions(run.invoke(graph, {"log": []}, config, durability=durability)) == ["one?"]
        run.invoke(graph, Command(resume=1), config, durability=durability)
        result = run.invoke(graph, Command(resume=2), config, durability=durability)
        assert result == {"log": [1, 2]}

    def test_with_a_node_that_has_several_attempts_is_no_failure(
        self, run, trace, saver, config, durability
    ):
        builder = StateGraph(State)
        retry = RetryPolicy(initial_interval=0, jitter=False, retry_on=Exception)
        builder.add_node("ask", step(trace, "ask", "sure?"), retry_policy=retry)
        builder.add_edge(START, "ask")
        graph = builder.compile(checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        assert trace == ["ask"]


class TestEffectsBeforeAnInterrupt:
    def test_a_task_that_finished_is_not_run_again(self, run, saver, config, durability):
        effects = []

        @task
        def charge(amount):
            effects.append(amount)
            return f"charged {amount}"

        def node(state: State):
            receipt = charge(5).result()
            return {"log": [receipt, interrupt("keep it?")]}

        graph = chain(("node", node), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        run.invoke(graph, None, config, durability=durability)
        result = run.invoke(graph, Command(resume="yes"), config, durability=durability)
        assert result == {"log": ["charged 5", "yes"]}
        assert effects == [5]

    def test_equal_calls_are_remembered_apart(self, run, saver, config, durability):
        effects = []

        @task
        def roll():
            effects.append(len(effects))
            return len(effects)

        def node(state: State):
            first, second = roll().result(), roll().result()
            return {"log": [first, second, interrupt("again?")]}

        graph = chain(("node", node), checkpointer=saver)
        run.invoke(graph, {"log": []}, config, durability=durability)
        result = run.invoke(graph, Command(resume="no"), config, durability=durability)
        assert result == {"log": [1, 2, "no"]}
        assert effects == [0, 1]

    def test_a_deliberate_replay_runs_it_again(self, run, saver, config):
        effects = []

        @task
        def charge(amount):
            effects.append(amount)
            return f"charged {amount}"

        def node(state: State):
            return {"log": [charge(5).result(), interrupt("keep it?")]}

        graph = chain(("node", node), checkpointer=saver)
        run.invoke(graph, {"log": []}, config)
        run.invoke(graph, Command(resume="yes"), config)
        before = next(snap for snap in run.history(graph, config) if snap.next == ("node",))
        assert questions(run.invoke(graph, None, before.config)) == ["keep it?"]
        assert effects == [5, 5]


def test_an_answer_after_an_update_that_no_node_asks_for_is_warned_of(run, trace, saver, config):
    graph = chain(
        ("a", step(trace, "a")),
        ("b", step(trace, "b")),
        checkpointer=saver,
        interrupt_before=["b"],
    )
    run.invoke(graph, {"log": []}, config)
    run.update_state(graph, config, {"log": ["edited"]})
    with pytest.warns(MilepostWarning, match="was given an answer, and has asked nothing"):
        found = run.invoke(graph, Command(resume="lost"), config)
    assert found["log"] == ["a", "edited", "b"]
