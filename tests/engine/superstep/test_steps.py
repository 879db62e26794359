"""Super-steps: what runs when, what it is given, and in which order its updates are applied."""

import asyncio
import threading
from typing import Any

import pytest

from graphs import PATIENCE, Log, appends, line, single
from milepost.errors import GraphRecursionError, InvalidUpdateError
from milepost.graph import END, START, StateGraph
from milepost.types import Command, Send


def parallel(*names: str) -> StateGraph:
    builder = StateGraph(Log)
    for name in names:
        builder.add_node(name, appends(name)).add_edge(START, name)
    return builder


# -- one step


def test_nodes_of_one_step_see_the_state_from_before_the_step(run):
    builder = StateGraph(Log)
    for name in ("a", "b"):
        builder.add_node(name, lambda state: {"log": [list(state["log"])]}).add_edge(START, name)
    assert run.invoke(builder.compile(), {"log": ["in"]})["log"] == ["in", ["in"], ["in"]]


def test_nodes_of_one_step_run_at_the_same_time(run):
    meeting = threading.Barrier(3)

    def meet(state: Log) -> dict[str, Any]:
        meeting.wait(PATIENCE)
        return {"log": ["met"]}

    builder = StateGraph(Log)
    for name in ("a", "b", "c"):
        builder.add_node(name, meet).add_edge(START, name)
    assert run.invoke(builder.compile(), {})["log"] == ["met"] * 3


def test_updates_are_applied_in_the_order_of_the_node_names(run):
    assert run.invoke(parallel("c", "a", "b").compile(), {})["log"] == ["a", "b", "c"]


def test_the_order_of_updates_does_not_depend_on_which_node_finishes_first(run):
    done = threading.Event()

    def late(state: Log) -> dict[str, Any]:
        assert done.wait(PATIENCE)
        return {"log": ["a"]}

    def early(state: Log) -> dict[str, Any]:
        done.set()
        return {"log": ["b"]}

    builder = StateGraph(Log).add_node("a", late).add_node("b", early)
    graph = builder.add_edge(START, "a").add_edge(START, "b").compile()
    assert run.invoke(graph, {})["log"] == ["a", "b"]


def test_a_node_runs_once_when_several_edges_lead_to_it_in_one_step(run):
    builder = parallel("a", "b").add_node("c", appends("c"))
    builder.add_edge("a", "c").add_edge("b", "c")
    assert run.invoke(builder.compile(), {})["log"] == ["a", "b", "c"]


def test_a_node_is_not_started_by_a_write_to_a_key_that_it_reads(run):
    builder = parallel("a").add_node("idle", appends("idle"))
    assert run.invoke(builder.compile(), {})["log"] == ["a"]


def test_a_deferred_node_waits_until_nothing_else_is_left(run):
    builder = parallel("a", "b")
    for name in ("b2", "b3", "after"):
        builder.add_node(name, appends(name))
    builder.add_node("last", appends("last"), defer=True)
    builder.add_edge("b", "b2").add_edge("b2", "b3")
    builder.add_edge("a", "last").add_edge("b3", "last").add_edge("last", "after")
    assert run.invoke(builder.compile(), {})["log"] == ["a", "b", "b2", "b3", "last", "after"]


def test_a_deferred_join_waits_until_nothing_else_is_left(run):
    builder = parallel("a", "b", "slow")
    builder.add_node("slower", appends("slower")).add_edge("slow", "slower")
    builder.add_node("join", appends("join"), defer=True).add_edge(["a", "b"], "join")
    assert run.invoke(builder.compile(), {})["log"] == ["a", "b", "slow", "slower", "join"]


# -- Send


def test_send_runs_a_node_once_for_each_input(run):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item * 10]})
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in (3, 1, 2)])
    assert run.invoke(builder.compile(), {"log": ["in"]})["log"] == ["in", 30, 10, 20]


def test_updates_of_sends_come_after_those_of_edges(run):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item]})
    builder.add_node("zebra", appends("zebra")).add_edge(START, "zebra")
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in (2, 1)])
    assert run.invoke(builder.compile(), {})["log"] == ["zebra", 2, 1]


def test_a_join_after_a_fan_out_runs_once(run):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item]})
    builder.add_node("sum", lambda state: {"log": [sum(state["log"])]})
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(5)])
    builder.add_edge("worker", "sum")
    assert run.invoke(builder.compile(), {})["log"] == [0, 1, 2, 3, 4, 10]


def test_send_and_names_may_be_mixed(run):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item]})
    builder.add_node("named", appends("named"))
    builder.add_conditional_edges(START, lambda state: ["named", Send("worker", 1)])
    assert run.invoke(builder.compile(), {})["log"] == ["named", 1]


def test_the_tasks_of_sends_are_part_of_the_snapshot(run, saver, config):
    builder = StateGraph(Log).add_node("worker", lambda item: {"log": [item]})
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in (1, 2)])
    graph = builder.compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    fanned = next(s for s in run.history(graph, config) if s.metadata["step"] == 0)
    assert fanned.next == ("worker", "worker")
    assert [task.result for task in fanned.tasks] == [{"log": [1]}, {"log": [2]}]
    assert len({task.id for task in fanned.tasks}) == 2


def test_snapshots_name_nodes_in_the_order_in_which_they_were_added(run, saver, config):
    builder = parallel("zebra", "mouse", "ape").add_node("worker", lambda item: {"log": [item]})
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in (2, 1)])
    graph = builder.compile(checkpointer=saver, interrupt_before="*")
    run.invoke(graph, {}, config)
    order = ("worker", "worker", "zebra", "mouse", "ape")
    assert run.get_state(graph, config).next == order
    assert run.invoke(graph, None, config)["log"] == ["ape", "mouse", "zebra", 2, 1]
    past = run.history(graph, config)[1]
    assert (past.next, tuple(task.name for task in past.tasks)) == (order, order)


def test_a_send_to_end_is_refused(run):
    builder = StateGraph(Log).add_node("a", appends("a")).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: Send(END, 1))
    with pytest.raises(InvalidUpdateError):
        run.invoke(builder.compile(), {})


# -- Command


def going(goto: Any) -> StateGraph:
    """A node that goes where it is told, beside nodes x and y that no edge leads to."""
    builder = StateGraph(Log)
    builder.add_node("go", lambda state: Command(update={"log": ["go"]}, goto=goto))
    builder.add_node("x", appends("x"))
    builder.add_node("y", lambda state: {"log": ["y", *state["log"][:1]]})
    return builder.add_edge(START, "go")


def test_a_command_updates_the_state_and_goes_to_a_node(run):
    assert run.invoke(going("x").compile(), {})["log"] == ["go", "x"]


def test_a_command_may_go_to_several_nodes_and_send(run):
    graph = going(["x", Send("y", {"log": ["sent"]})]).compile()
    assert run.invoke(graph, {})["log"] == ["go", "x", "y", "sent"]


@pytest.mark.parametrize("goto", [END, (), []], ids=repr)
def test_a_command_may_go_nowhere(run, goto):
    assert run.invoke(going(goto).compile(), {})["log"] == ["go"]


def test_a_command_adds_to_the_edges_of_its_node(run):
    assert run.invoke(going("x").add_edge("go", "y").compile(), {})["log"] == ["go", "x", "y", "go"]


def test_a_node_may_return_several_commands(run):
    builder = StateGraph(Log).add_node("x", appends("x")).add_node("y", appends("y"))
    builder.add_node(
        "go",
        lambda state: [
            Command(update={"log": [1]}, goto="x"),
            Command(update={"log": [2]}, goto="y"),
        ],
    )
    assert run.invoke(builder.add_edge(START, "go").compile(), {})["log"] == [1, 2, "x", "y"]


def test_a_command_to_the_parent_leaves_the_subgraph(run):
    inner = StateGraph(Log)
    inner.add_node(
        "leave",
        lambda state: Command(graph=Command.PARENT, update={"log": ["left"]}, goto="target"),
    )
    inner.add_edge(START, "leave")
    outer = StateGraph(Log).add_node("inner", inner.compile()).add_node("target", appends("target"))
    assert run.invoke(outer.add_edge(START, "inner").compile(), {})["log"] == ["left", "target"]


# -- recursion_limit


def test_a_loop_without_an_end_reaches_the_recursion_limit(run):
    builder = StateGraph(Log).add_node("a", appends("a")).add_edge(START, "a").add_edge("a", "a")
    with pytest.raises(GraphRecursionError, match="3") as caught:
        run.invoke(builder.compile(), {}, {"recursion_limit": 3})
    assert isinstance(caught.value, RecursionError)
    assert "recursion_limit" in str(caught.value)


def test_the_steps_before_the_recursion_limit_are_kept_and_the_run_can_go_on(
    run, saver, config, durability
):
    builder = StateGraph(Log).add_node("a", appends("a")).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 5 else END)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(GraphRecursionError):
        run.invoke(graph, {}, {**config, "recursion_limit": 3}, durability=durability)
    state = run.get_state(graph, config)
    assert (state.values["log"], state.next) == (["a"] * 3, ("a",))
    assert run.invoke(graph, None, config, durability=durability)["log"] == ["a"] * 5


def test_a_run_needs_one_step_more_than_its_nodes_to_see_that_it_has_ended(run):
    assert run.invoke(line("a", "b").compile(), {}, {"recursion_limit": 3})["log"] == ["a", "b"]
    with pytest.raises(GraphRecursionError):
        run.invoke(line("a", "b").compile(), {}, {"recursion_limit": 2})


@pytest.mark.parametrize("limit", [0, -1])
def test_a_recursion_limit_below_one_is_refused(run, limit):
    with pytest.raises(ValueError, match="recursion_limit"):
        run.invoke(line("a").compile(), {}, {"recursion_limit": limit})


def test_the_default_recursion_limit_lets_long_loops_run(run):
    builder = StateGraph(Log).add_node("a", appends("a")).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 200 else END)
    assert len(run.invoke(builder.compile(), {})["log"]) == 200


# -- max_concurrency


class Crowd:
    """Counts how many calls are under way at the same time."""

    def __init__(self, meeting: int) -> None:
        self.meeting = threading.Barrier(meeting)
        self.lock = threading.Lock()
        self.now = self.most = 0

    def __call__(self, item: Any) -> dict[str, Any]:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.meeting.wait(PATIENCE)
        with self.lock:
            self.now -= 1
        return {"log": [item]}


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_max_concurrency_limits_how_many_tasks_run_at_once(run, limit):
    crowd = Crowd(limit)
    builder = StateGraph(Log).add_node("worker", crowd)
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(6)])
    result = run.invoke(builder.compile(), {}, {"max_concurrency": limit})
    assert result["log"] == list(range(6))
    assert crowd.most == limit


def test_max_concurrency_limits_async_nodes_too(run):
    under_way: list[int] = [0, 0]

    async def worker(item: int) -> dict[str, Any]:
        under_way[0] += 1
        under_way[1] = max(under_way)
        await asyncio.sleep(0)
        under_way[0] -= 1
        return {"log": [item]}

    builder = StateGraph(Log).add_node("worker", worker)
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(6)])
    result = run.invoke(builder.compile(), {}, {"max_concurrency": 2})
    assert result["log"] == list(range(6))
    assert under_way[1] <= 2


# -- errors


def test_the_error_of_a_node_surfaces_unchanged_with_a_note_that_names_the_node(run):
    error = RuntimeError("boom")

    def node(state: Log) -> None:
        raise error

    with pytest.raises(RuntimeError, match="boom") as caught:
        run.invoke(
            StateGraph(Log).add_node("culprit", node).add_edge(START, "culprit").compile(), {}
        )
    assert caught.value is error
    assert any("culprit" in note for note in error.__notes__)


def test_an_error_handler_takes_over_from_a_node_that_failed(run):
    def node(state: Log) -> None:
        raise RuntimeError("boom")

    builder = StateGraph(Log)
    builder.add_node("node", node, error_handler=lambda state: {"log": ["handled"]})
    assert run.invoke(builder.add_edge(START, "node").compile(), {})["log"] == ["handled"]


def test_a_keyboard_interrupt_is_not_swallowed():
    def node(state: Log) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        single(node).compile().invoke({})
