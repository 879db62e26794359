"""When one of several parallel nodes fails, what the others wrote is kept."""

import threading
from typing import Any

import pytest

from graphs import PATIENCE, Log, appends, steps
from milepost.graph import START, StateGraph
from milepost.types import Send


class Trial:
    """START -> first, fails and third -> join; `fails` fails as long as `broken` is set.

    It fails only when the other two have done their work, so that all depends on whether their
    writes are kept and nothing on who was faster.
    """

    def __init__(self, saver: Any) -> None:
        self.ran: list[str] = []
        self.broken = True
        self.others = {name: threading.Event() for name in ("first", "third")}
        builder = StateGraph(Log).add_node("fails", self.fails).add_edge(START, "fails")
        for name in self.others:
            builder.add_node(name, self.works(name)).add_edge(START, name)
        builder.add_node("join", appends("join", self.ran))
        builder.add_edge(["first", "fails", "third"], "join")
        self.graph = builder.compile(checkpointer=saver)

    def works(self, name: str) -> Any:
        def node(state: Log) -> dict[str, Any]:
            self.ran.append(name)
            self.others[name].set()
            return {"log": [name]}

        return node

    def fails(self, state: Log) -> dict[str, Any]:
        for done in self.others.values():
            assert done.wait(PATIENCE)
        self.ran.append("fails")
        if self.broken:
            raise RuntimeError("broken")
        return {"log": ["fails"]}


@pytest.fixture
def failed(run, saver, config, durability):
    trial = Trial(saver)
    with pytest.raises(RuntimeError, match="broken"):
        run.invoke(trial.graph, {"log": ["in"]}, config, durability=durability)
    assert sorted(trial.ran) == ["fails", "first", "third"]
    trial.ran.clear()
    return trial


def test_a_resume_runs_only_the_node_that_failed(run, failed, config, durability):
    failed.broken = False
    result = run.invoke(failed.graph, None, config, durability=durability)
    assert failed.ran == ["fails", "join"]
    assert result["log"] == ["in", "fails", "first", "third", "join"]


def test_the_state_shows_what_was_kept_and_what_has_to_run_again(run, failed, config):
    state = run.get_state(failed.graph, config)
    assert state.next == ("fails",)
    assert state.values["log"] == ["in", "first", "third"]
    assert {task.name: task.result for task in state.tasks} == {
        "first": {"log": ["first"]},
        "fails": None,
        "third": {"log": ["third"]},
    }


def test_the_failed_task_alone_shows_an_error(run, failed, config):
    tasks = {task.name: task for task in run.get_state(failed.graph, config).tasks}
    assert "broken" in str(tasks["fails"].error)
    assert tasks["first"].error is None
    assert tasks["third"].error is None


def test_the_checkpoint_itself_is_the_one_before_the_failed_step(run, failed, config):
    newest = run.history(failed.graph, config)[0]
    assert newest.values == {"log": ["in"]}
    assert set(newest.next) == {"first", "fails", "third"}
    assert newest.metadata["step"] == 0


def test_a_second_failure_saves_nothing_new(run, failed, config, durability):
    before = steps(run.history(failed.graph, config))
    with pytest.raises(RuntimeError):
        run.invoke(failed.graph, None, config, durability=durability)
    assert failed.ran == ["fails"]
    assert steps(run.history(failed.graph, config)) == before
    failed.broken = False
    result = run.invoke(failed.graph, None, config, durability=durability)
    assert result["log"] == ["in", "fails", "first", "third", "join"]


@pytest.mark.filterwarnings("ignore:Thread .* waits in a step in which")
def test_a_new_input_after_a_failure_starts_over(run, failed, config, durability):
    failed.broken = False
    result = run.invoke(failed.graph, {"log": ["new"]}, config, durability=durability)
    assert sorted(failed.ran) == ["fails", "first", "join", "third"]
    assert result["log"] == ["in", "new", "fails", "first", "third", "join"]


def test_a_replay_of_the_failed_step_runs_all_of_it_again(run, failed, config, durability):
    failed.broken = False
    failed_step = run.history(failed.graph, config)[0].config
    result = run.invoke(failed.graph, None, failed_step, durability=durability)
    assert sorted(failed.ran) == ["fails", "first", "join", "third"]
    assert result["log"] == ["in", "fails", "first", "third", "join"]


def test_the_writes_are_there_for_a_reader_of_the_saver(run, saver, failed, config):
    written = run.saver(saver, "get_tuple", config).pending_writes
    assert [value for _, channel, value in written if channel == "log"] == [["first"], ["third"]]
    assert len([write for write in written if write[1] == "__error__"]) == 1


def test_sends_that_finished_are_kept_too(run, saver, config, durability):
    ran: list[int] = []
    broken = [True]
    others = threading.Barrier(2)

    def worker(item: int) -> dict[str, Any]:
        others.wait(PATIENCE)
        ran.append(item)
        if item == 1 and broken[0]:
            raise RuntimeError("broken")
        return {"log": [item]}

    builder = StateGraph(Log).add_node("worker", worker)
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in (0, 1)])
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        run.invoke(graph, {}, config, durability=durability)
    assert sorted(ran) == [0, 1]
    broken[0] = False
    others = threading.Barrier(1)
    ran.clear()
    assert run.invoke(graph, None, config, durability=durability)["log"] == [0, 1]
    assert ran == [1]


def test_a_node_that_decided_where_to_go_is_not_asked_again(run, saver, config, durability):
    """Routing is part of what is kept."""
    asked: list[str] = []
    broken = [True]
    routed = threading.Event()

    def route(state: Log) -> str:
        asked.append("route")
        routed.set()
        return "target"

    def fails(state: Log) -> dict[str, Any]:
        assert routed.wait(PATIENCE)
        if broken[0]:
            raise RuntimeError("broken")
        return {"log": ["fails"]}

    builder = StateGraph(Log).add_node("a", appends("a")).add_node(fails)
    builder.add_node("target", appends("target"))
    builder.add_edge(START, "a").add_edge(START, "fails").add_conditional_edges("a", route)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        run.invoke(graph, {}, config, durability=durability)
    broken[0] = False
    assert run.invoke(graph, None, config, durability=durability)["log"] == ["a", "fails", "target"]
    assert asked == ["route"]


def test_two_failures_in_one_step_are_both_recorded_and_both_run_again(
    run, saver, config, durability
):
    ran: list[str] = []
    broken = [True]
    both = threading.Barrier(2)

    def failing(name: str) -> Any:
        def node(state: Log) -> dict[str, Any]:
            if broken[0]:
                both.wait(PATIENCE)
                raise RuntimeError(f"{name} broke")
            ran.append(name)
            return {"log": [name]}

        return node

    builder = StateGraph(Log)
    for name in ("a", "b"):
        builder.add_node(name, failing(name)).add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        run.invoke(graph, {}, config, durability=durability)
    assert set(run.get_state(graph, config).next) == {"a", "b"}
    broken[0] = False
    assert run.invoke(graph, None, config, durability=durability)["log"] == ["a", "b"]
    assert sorted(ran) == ["a", "b"]
