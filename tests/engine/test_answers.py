"""What a person has answered is kept, whatever becomes of the run that was given the answer."""

import operator
import signal
import subprocess
import sys
import textwrap
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from hitl_graphs import Inner, chain, fan, ids, step
from milepost.errors import UnknownInterruptError
from milepost.func import entrypoint
from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt


class Down:
    """Something that fails the first time it is used."""

    def __init__(self) -> None:
        self.down = True

    def use(self) -> None:
        down, self.down = self.down, False
        if down:
            raise ConnectionError("the bank is down")


def paying(bank: Down, *questions: str, key: str = "log") -> Any:
    """A node that asks, and then uses something that may fail."""

    def pay(state: Any) -> dict[str, Any]:
        answers = [interrupt(question) for question in questions]
        bank.use()
        return {key: answers}

    return pay


def fails(run: Any, graph: Any, *args: Any, **kwargs: Any) -> None:
    with pytest.raises(ConnectionError):
        run.invoke(graph, *args, **kwargs)


def test_a_node_that_fails_after_its_answer_does_not_ask_again(run, saver, config, durability):
    graph = chain(("pay", paying(Down(), "sure?")), checkpointer=saver)
    run.invoke(graph, {"log": []}, config, durability=durability)
    fails(run, graph, Command(resume="yes"), config, durability=durability)
    assert run.invoke(graph, None, config, durability=durability) == {"log": ["yes"]}


def test_of_several_answers_none_is_lost(run, saver, config, durability):
    graph = chain(("pay", paying(Down(), "sure?", "really?")), checkpointer=saver)
    run.invoke(graph, {"log": []}, config, durability=durability)
    run.invoke(graph, Command(resume="yes"), config, durability=durability)
    fails(run, graph, Command(resume="really"), config, durability=durability)
    assert run.invoke(graph, None, config, durability=durability) == {"log": ["yes", "really"]}


def test_a_graph_inside_that_fails_after_its_answer_does_not_ask_again(
    run, saver, config, durability
):
    inner = chain(("pay", paying(Down(), "sure?", key="inner")), schema=Inner)
    outer = (
        StateGraph(Inner)
        .add_node("inner", inner)
        .add_edge(START, "inner")
        .compile(checkpointer=saver)
    )
    run.invoke(outer, {"inner": []}, config, durability=durability)
    fails(run, outer, Command(resume="yes"), config, durability=durability)
    assert run.invoke(outer, None, config, durability=durability) == {"inner": ["yes"]}


def test_what_was_answered_is_not_listed_when_the_node_has_failed_since(
    run, saver, config, durability
):
    graph = chain(("pay", paying(Down(), "sure?")), checkpointer=saver)
    run.invoke(graph, {"log": []}, config, durability=durability)
    fails(run, graph, Command(resume="yes"), config, durability=durability)
    state = run.get_state(graph, config)
    assert (state.next, state.interrupts) == (("pay",), ())


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("same_node", [True, False])
def test_what_was_answered_is_not_listed_when_a_graph_inside_has_failed_since(
    run, saver, config, durability, depth, same_node
):
    bank = Down()
    asks = [("ask", paying(bank, "sure?", key="inner"))]
    if not same_node:
        asks = [("ask", step([], "ask", "sure?", key="inner")), ("pay", paying(bank, key="inner"))]
    graph = chain(*asks, schema=Inner)
    for _ in range(depth - 1):
        graph = chain(("around", graph), schema=Inner)
    graph = chain(("outer", graph), schema=Inner, checkpointer=saver)
    run.invoke(graph, {"inner": []}, config, durability=durability)
    fails(run, graph, Command(resume="yes"), config, durability=durability)

    state = run.get_state(graph, config, subgraphs=True)
    assert state.next == ("outer",)
    while state is not None:
        assert state.interrupts == ()
        (task,) = state.tasks
        assert task.error is not None
        state = task.state
    assert "yes" in run.invoke(graph, None, config, durability=durability)["inner"]


def test_what_was_answered_is_not_listed_inside_a_graph_that_has_ended_since(
    run, saver, config, durability
):
    inner = StateGraph(Inner).add_node("ask", lambda _: {"inner": [interrupt("inner?")]})
    builder = StateGraph(Inner).add_node("inner", inner.add_edge(START, "ask").compile())
    builder.add_node("beside", lambda _: {"inner": [interrupt("beside?")]})
    graph = builder.add_edge(START, "inner").add_edge(START, "beside").compile(saver)
    run.invoke(graph, {"inner": []}, config, durability=durability)
    asked = {i.value: i for i in run.get_state(graph, config).interrupts}["inner?"]
    run.invoke(graph, Command(resume={asked.id: "yes"}), config, durability=durability)
    state = run.get_state(graph, config, subgraphs=True)
    task = {task.name: task for task in state.tasks}["inner"]
    assert (task.result, task.state.interrupts, task.state.next) == ({"inner": ["yes"]}, (), ())


def test_a_question_stays_open_if_its_node_fails_before_it_is_answered(
    run, saver, config, durability
):
    runs = iter(range(3))

    def ask(state: Any) -> dict[str, Any]:
        if next(runs) == 1:
            raise ConnectionError("no question is asked this time")
        return {"log": [interrupt("sure?")]}

    graph = chain(("ask", ask), checkpointer=saver)
    run.invoke(graph, {"log": []}, config, durability=durability)
    fails(run, graph, None, config, durability=durability)
    assert [i.value for i in run.get_state(graph, config).interrupts] == ["sure?"]
    assert run.invoke(graph, Command(resume="yes"), config) == {"log": ["yes"]}


def test_another_answer_may_be_given_after_a_failure(run, saver, config, durability):
    graph = chain(("pay", paying(Down(), "which bank?")), checkpointer=saver)
    run.invoke(graph, {"log": []}, config, durability=durability)
    fails(run, graph, Command(resume="this one"), config, durability=durability)
    result = run.invoke(graph, Command(resume="that one"), config, durability=durability)
    assert result == {"log": ["that one"]}


def test_an_answer_reaches_a_graph_that_is_called_with_a_command(run, saver, config, trace):
    inner = chain(("ask", step(trace, "ask", "sure?", key="inner")), schema=Inner)

    def calls(state: Any) -> Any:
        return inner.invoke(Command(update={"inner": ["given"]}))

    outer = chain(("calls", calls), schema=Inner, checkpointer=saver)
    run.invoke(outer, {"inner": []}, config)
    result = run.invoke(outer, Command(resume="yes"), config)
    assert "__interrupt__" not in result
    assert result["inner"][-2:] == ["ask", "yes"]


def test_a_function_that_fails_after_its_answer_does_not_ask_again(run, saver, config):
    bank = Down()

    @entrypoint(checkpointer=saver)
    def program(given: str) -> str:
        answer: str = interrupt(given)
        bank.use()
        return answer

    run.invoke(program, "sure?", config)
    fails(run, program, Command(resume="yes"), config)
    assert run.invoke(program, None, config) == "yes"


def test_whoever_changes_their_mind_is_heard(run, saver, config, durability):
    graph = chain(("pay", paying(Down(), "sure?")), checkpointer=saver)
    run.invoke(graph, {"log": []}, config, durability=durability)
    fails(run, graph, Command(resume="yes"), config, durability=durability)
    assert run.invoke(graph, Command(resume="no"), config, durability=durability) == {"log": ["no"]}


def test_the_next_answer_is_for_the_question_that_has_none(run, saver, config, trace, durability):
    graph = fan(
        ("pay", paying(Down(), "sure?")), ("ask", step(trace, "ask", "how?")), checkpointer=saver
    )
    opened = run.invoke(graph, {"log": []}, config, durability=durability)
    sure = ids(opened)["sure?"]
    fails(run, graph, Command(resume={sure: "yes"}), config, durability=durability)
    result = run.invoke(graph, Command(resume="so"), config, durability=durability)
    assert sorted(map(str, result["log"])) == ["ask", "so", "yes"]


def test_a_node_whose_question_was_not_answered_asks_again(run, saver, config, trace):
    graph = fan(
        ("one", step(trace, "one", "one?")), ("two", step(trace, "two", "two?")), checkpointer=saver
    )
    opened = run.invoke(graph, {"log": []}, config)
    run.invoke(graph, Command(resume={ids(opened)["one?"]: 1}), config)
    trace.clear()
    run.invoke(graph, None, config)
    assert trace == ["two"]


def test_an_answer_outlives_the_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import os, signal, sys
            from typing_extensions import TypedDict
            from milepost.checkpoint.sqlite import SqliteSaver
            from milepost.graph import START, StateGraph
            from milepost.types import Command, interrupt

            database, given = sys.argv[1:]

            class State(TypedDict):
                answer: str

            def pay(state):
                answer = interrupt("sure?")
                if given == "answer":
                    os.kill(os.getpid(), signal.SIGKILL)
                return {"answer": answer}

            inputs = {"input": {"answer": ""}, "answer": Command(resume="yes"), "nothing": None}
            with SqliteSaver.from_conn_string(database) as saver:
                graph = StateGraph(State).add_node(pay).add_edge(START, "pay").compile(saver)
                config = {"configurable": {"thread_id": "t"}}
                print(graph.invoke(inputs[given], config, durability="sync")["answer"])
            """
        )
    )

    def start(given: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(program), str(tmp_path / "threads.db"), given]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert start("input").returncode == 0
    assert start("answer").returncode == -signal.SIGKILL
    ended = start("nothing")
    assert ended.stdout == "yes\n", ended.stderr


class TestCommandsToAPausedThread:
    def test_each_update_comes_after_the_one_before(self, run, saver, config, durability):
        class Plain(TypedDict):
            x: int
            log: Annotated[list[int], operator.add]

        def ask(state: Plain) -> dict[str, int]:
            return {"x": interrupt(f"x is {state['x']}")}

        graph = StateGraph(Plain).add_node(ask).add_edge(START, "ask").compile(saver)
        run.invoke(graph, {"x": 1, "log": [1]}, config, durability=durability)
        for x in (2, 3):
            update = Command(update={"x": x, "log": [x]})
            shown = run.invoke(graph, update, config, durability=durability)
            assert [one.value for one in shown["__interrupt__"]] == [f"x is {x}"]
            assert run.get_state(graph, config).values == {"x": x, "log": [*range(1, x + 1)]}
        result = run.invoke(graph, Command(resume=9), config, durability=durability)
        assert result == {"x": 9, "log": [1, 2, 3]}

    def test_one_that_cannot_be_applied_leaves_nothing_behind(self, run, saver, config):
        def sums(old: int, new: int) -> int:
            return old + new

        class Counted(TypedDict):
            x: Annotated[int, sums]

        def ask(state: Counted) -> dict[str, int]:
            return {"x": interrupt("how many?")}

        graph = StateGraph(Counted).add_node(ask).add_edge(START, "ask").compile(saver)
        run.invoke(graph, {"x": 1}, config)
        with pytest.raises(TypeError):
            run.invoke(graph, Command(update={"x": "many"}, resume=1), config)
        assert run.get_state(graph, config).values == {"x": 1}
        assert run.invoke(graph, Command(resume=2), config) == {"x": 3}

    def test_one_with_an_answer_that_fits_no_question_neither(self, run, saver, config, trace):
        graph = fan(
            ("one", step(trace, "one", "one?")),
            ("two", step(trace, "two", "two?")),
            checkpointer=saver,
        )
        run.invoke(graph, {"log": []}, config)
        before = run.get_state(graph, config)
        with pytest.raises(UnknownInterruptError, match="2 open interrupts"):
            run.invoke(graph, Command(update={"log": ["more"]}, resume="yes"), config)
        assert run.get_state(graph, config) == before

    def test_at_a_past_checkpoint_one_value_is_not_enough_for_two(self, run, saver, config, trace):
        graph = fan(
            ("one", step(trace, "one", "one?")),
            ("two", step(trace, "two", "two?")),
            checkpointer=saver,
        )
        opened = run.invoke(graph, {"log": []}, config)
        past = run.get_state(graph, config)
        found = ids(opened)
        both = {found["one?"]: 1, found["two?"]: 2}
        result = run.invoke(graph, Command(resume=both), config)
        head = run.get_state(graph, config)
        with pytest.raises(UnknownInterruptError, match="2 open interrupts"):
            run.invoke(graph, Command(resume="which?"), past.config)
        assert run.get_state(graph, config) == head
        assert run.invoke(graph, Command(resume=both), past.config) == result


def test_no_state_key_can_be_taken_for_answers():
    with pytest.raises(ValueError, match="__answers__"):
        StateGraph(TypedDict("Named", {"__answers__": str}))
