"""Two writers on one thread: exactly one wins, and the other is told."""

import threading
import time
import uuid
from typing import Any

import pytest

from graphs import PATIENCE, Log, appends, elsewhere, id_of, line, steps, thread
from milepost.errors import BrokenChainError, CheckpointError, ThreadConflict
from milepost.graph import START, StateGraph
from milepost.types import interrupt


class Meddled:
    """A graph a -> b on thread `t`, in whose node a something else happens to the thread."""

    def __init__(self, saver: Any, meddle: Any) -> None:
        self.saver = saver
        self.meddle = meddle
        self.ran: list[str] = []
        self.stored: Any = None
        builder = StateGraph(Log).add_node("a", self.node).add_node("b", appends("b", self.ran))
        self.graph = builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)

    def node(self, state: Log) -> dict[str, Any]:
        self.ran.append("a")
        elsewhere(self.meddle)
        self.stored = content(self.saver)
        return {"log": ["loser"]}


def content(saver: Any) -> list[Any]:
    """All that a saver holds of thread `t`."""
    return [(t.checkpoint, t.metadata, t.pending_writes) for t in saver.list(thread("t"))]


def assert_linear(history: list[Any]) -> None:
    """Each checkpoint descends from the one listed after it."""
    assert [s.parent_config for s in history] == [*(s.config for s in history[1:]), None]


DECIDED = pytest.mark.parametrize("durability", ["sync", "exit"])
"""Where it is certain that the meddler comes before the run's next commit."""


@DECIDED
def test_a_run_that_another_run_overtook_gets_a_conflict(run, saver, config, durability):
    rival = line("x", "y").compile(checkpointer=saver)
    meddled = Meddled(
        saver, lambda: rival.invoke({"log": ["rival"]}, config, durability=durability)
    )
    with pytest.raises(ThreadConflict, match="'t'") as caught:
        run.invoke(meddled.graph, {"log": ["in"]}, config, durability=durability)
    assert isinstance(caught.value, CheckpointError)
    assert meddled.ran == (["a"] if durability == "sync" else ["a", "b"])
    winner = run.get_state(rival, config)
    assert winner.next == ()
    assert winner.values["log"][-3:] == ["rival", "x", "y"]


@DECIDED
def test_nothing_of_the_loser_is_stored(run, saver, config, durability):
    rival = line("x").compile(checkpointer=saver)
    meddled = Meddled(saver, lambda: rival.invoke({}, config, durability=durability))
    with pytest.raises(ThreadConflict):
        run.invoke(meddled.graph, {}, config, durability=durability)
    assert content(saver) == meddled.stored
    assert "loser" not in repr(content(saver))


@DECIDED
def test_the_chain_stays_linear(run, saver, config, durability):
    rival = line("x").compile(checkpointer=saver)
    run.invoke(rival, {}, config, durability=durability)
    meddled = Meddled(saver, lambda: rival.invoke({}, config, durability=durability))
    with pytest.raises(ThreadConflict):
        run.invoke(meddled.graph, {}, config, durability=durability)
    assert_linear(run.history(rival, config))


def test_under_every_durability_exactly_one_of_two_runs_wins(run, saver, config, durability):
    rival = line("x", "y").compile(checkpointer=saver)
    lost: list[str] = []

    def meddle() -> None:
        try:
            rival.invoke({"log": ["rival"]}, config, durability=durability)
        except ThreadConflict:
            lost.append("rival")

    meddled = Meddled(saver, meddle)
    try:
        run.invoke(meddled.graph, {"log": ["in"]}, config, durability=durability)
    except ThreadConflict:
        lost.append("meddled")
    assert len(lost) == 1
    assert_linear(run.history(rival, config))
    log = run.get_state(rival, config).values["log"]
    assert ("y" in log) != ("b" in log)


def test_two_runs_that_load_before_either_commits_do_not_both_succeed(saver, config):
    both = threading.Barrier(2)
    outcomes: list[Any] = []

    def meet(state: Log) -> dict[str, Any]:
        both.wait(PATIENCE)
        return {"log": ["met"]}

    def work() -> None:
        graph = StateGraph(Log).add_node("meet", meet).add_edge(START, "meet")
        try:
            outcomes.append(graph.compile(checkpointer=saver).invoke({}, config, durability="exit"))
        except ThreadConflict as conflict:
            outcomes.append(conflict)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    assert len(outcomes) == 2
    assert sorted(isinstance(outcome, ThreadConflict) for outcome in outcomes) == [False, True]
    assert len(list(saver.list(config))) == 1


def test_concurrent_increments_lose_none(saver, config, durability):
    """A run that conflicts loads the thread again and repeats the call."""
    graph = line("a").compile(checkpointer=saver)
    each, workers = 5, 4
    left: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for n in range(each):
                for _ in range(10_000):
                    try:
                        graph.invoke({"log": [(name, n)]}, config, durability=durability)
                        break
                    except ThreadConflict:
                        continue
                else:
                    raise AssertionError("never got the thread")
        except BaseException as error:
            left.append(error)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(workers)]
    for worker in threads:
        worker.start()
    for worker in threads:
        worker.join(2 * PATIENCE)
    assert not any(worker.is_alive() for worker in threads)
    assert left == []
    done = {tuple(item) for item in graph.get_state(config).values["log"] if item != "a"}
    assert done == {(w, n) for w in range(workers) for n in range(each)}
    history = list(graph.get_state_history(config))
    parents = [id_of(s.parent_config) for s in history if s.parent_config]
    assert len(parents) == len(set(parents))


def test_the_loser_can_repeat_its_call(run, saver, config):
    rival = line("x").compile(checkpointer=saver)
    once = [lambda: rival.invoke({}, config)]
    meddled = Meddled(saver, lambda: once.pop()() if once else None)
    with pytest.raises(ThreadConflict):
        run.invoke(meddled.graph, {}, config, durability="sync")
    result = run.invoke(meddled.graph, {}, config, durability="sync")
    assert result["log"][-2:] == ["loser", "b"]


def test_runs_on_different_threads_do_not_conflict(run, saver, config, durability):
    rival = line("x").compile(checkpointer=saver)
    meddled = Meddled(saver, lambda: rival.invoke({}, thread("other"), durability=durability))
    result = run.invoke(meddled.graph, {}, config, durability=durability)
    assert result["log"] == ["loser", "b"]
    assert run.get_state(rival, thread("other")).values == {"log": ["x"]}


def test_reading_a_thread_does_not_take_it(run, saver, config, durability):
    rival = line("x", "a", "b").compile(checkpointer=saver)
    meddled = Meddled(
        saver, lambda: (rival.get_state(config), list(rival.get_state_history(config)))
    )
    assert run.invoke(meddled.graph, {}, config, durability=durability)["log"] == ["loser", "b"]


def test_a_rival_that_finds_nothing_to_do_does_not_take_the_thread(run, saver, config):
    finished = line("x").compile(checkpointer=saver)
    run.invoke(finished, {}, config)
    meddled = Meddled(saver, lambda: saver.get_tuple(config))
    assert run.invoke(meddled.graph, {}, config, durability="sync")["log"] == ["x", "loser", "b"]


def test_deleting_the_thread_during_a_run_makes_it_conflict(run, saver, config, durability):
    run.invoke(line("x").compile(checkpointer=saver), {}, config, durability=durability)
    meddled = Meddled(saver, lambda: saver.delete_thread("t"))
    with pytest.raises(ThreadConflict):
        run.invoke(meddled.graph, {}, config, durability=durability)
    assert content(saver) == []


def test_deleting_a_new_thread_during_its_first_run_makes_it_conflict(run, saver, config):
    meddled = Meddled(saver, lambda: saver.delete_thread("t"))
    with pytest.raises(ThreadConflict):
        run.invoke(meddled.graph, {}, config, durability="sync")
    assert content(saver) == []


@DECIDED
def test_an_update_from_outside_takes_the_thread(run, saver, config, durability):
    editor = line("x", "a", "b").compile(checkpointer=saver)
    run.invoke(editor, {}, config, durability=durability)
    meddled = Meddled(saver, lambda: editor.update_state(config, {"log": ["edit"]}, as_node="x"))
    with pytest.raises(ThreadConflict):
        run.invoke(meddled.graph, {}, config, durability=durability)
    state = run.get_state(editor, config)
    assert state.values["log"][-1] == "edit"
    assert state.metadata["source"] == "update"
    assert_linear(run.history(editor, config))


def test_an_update_inside_a_node_writes_with_the_runs_own_claim(run, saver, config):
    def node(state: Log, config) -> dict[str, Any]:
        place = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
        graph.update_state(place, {"log": ["noted"]}, as_node="node")
        return {"log": ["done"]}

    builder = StateGraph(Log).add_node("node", node).add_node("after", appends("after"))
    graph = builder.add_edge(START, "node").add_edge("node", "after").compile(checkpointer=saver)
    result = run.invoke(graph, {}, config, durability="sync")
    assert result["log"][-2:] == ["done", "after"]
    assert "update" in [source for _, source, _ in steps(run.history(graph, config))]


def test_a_subgraph_writes_with_the_runs_own_claim(run, saver, config, durability):
    inner = line("x", "y").compile()
    builder = StateGraph(Log).add_node("inner", inner).add_node("after", appends("after"))
    graph = builder.add_edge(START, "inner").add_edge("inner", "after").compile(checkpointer=saver)
    for _ in range(2):
        run.invoke(graph, {}, config, durability=durability)
    assert run.get_state(graph, config).next == ()


def test_a_replay_starts_from_an_older_checkpoint_on_purpose(run, saver, config, durability):
    graph = line("a", "b").compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    old = run.history(graph, config)[1].config
    run.invoke(graph, {}, config)
    assert run.invoke(graph, None, old, durability=durability)["log"] == ["a", "b"]


@DECIDED
def test_a_replay_during_a_run_takes_the_thread(run, saver, config, durability):
    graph = line("x", "y").compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    old = run.history(graph, config)[1].config
    meddled = Meddled(saver, lambda: graph.invoke(None, old, durability=durability))
    with pytest.raises(ThreadConflict):
        run.invoke(meddled.graph, {"log": ["in"]}, config, durability=durability)
    assert run.get_state(graph, config).values == {"log": ["x", "y"]}


def test_a_conflict_in_a_parallel_step_stores_no_write_of_any_task(run, saver, config):
    """The rival comes while two nodes run; neither's writes may appear anywhere."""
    rival = line("x").compile(checkpointer=saver)
    meddled = threading.Event()

    def first(state: Log) -> dict[str, Any]:
        elsewhere(lambda: rival.invoke({}, config, durability="sync"))
        meddled.set()
        return {"log": ["first"]}

    def second(state: Log) -> dict[str, Any]:
        assert meddled.wait(PATIENCE)
        return {"log": ["second"]}

    builder = StateGraph(Log).add_node(first).add_node(second)
    graph = builder.add_edge(START, "first").add_edge(START, "second").compile(checkpointer=saver)
    with pytest.raises(ThreadConflict):
        run.invoke(graph, {}, config, durability="sync")
    written = [
        value for *_, pending in content(saver) for _, channel, value in pending if channel == "log"
    ]
    assert written == [["x"]]
    assert run.get_state(rival, config).values == {"log": ["x"]}


def test_a_run_that_fails_after_it_lost_the_thread_stores_no_error(run, saver, config):
    rival = line("x").compile(checkpointer=saver)

    def node(state: Log) -> None:
        elsewhere(lambda: rival.invoke({}, config, durability="sync"))
        raise RuntimeError("too late")

    builder = StateGraph(Log).add_node("node", node).add_edge(START, "node")
    with pytest.raises((ThreadConflict, RuntimeError)):
        run.invoke(builder.compile(checkpointer=saver), {}, config, durability="sync")
    assert "too late" not in repr(content(saver))
    assert run.get_state(rival, config).values == {"log": ["x"]}


def test_a_replay_that_was_overtaken_before_its_first_commit_gets_a_conflict(
    run, saver, config, monkeypatch
):
    graph = line("x").compile(checkpointer=saver)
    run.invoke(graph, {"log": ["in"]}, config)
    old = run.history(graph, config)[-1].config
    prepare = saver.prepare

    def overtaken(step: Any) -> Any:
        """The replay has the id of its first checkpoint. Now another stores a newer one."""
        prepared = prepare(step)
        monkeypatch.setattr(saver, "prepare", prepare)
        elsewhere(lambda: graph.update_state(config, {"log": ["rival"]}, as_node="x"))
        return prepared

    monkeypatch.setattr(saver, "prepare", overtaken)
    with pytest.raises(ThreadConflict, match="'t'"):
        run.invoke(graph, None, old, durability="sync")
    history = run.history(graph, config)
    assert history[0].values["log"][-1] == "rival"
    assert_linear(history)


def test_a_clock_that_stands_still_makes_no_rival_of_inner_graphs(run, saver, config, monkeypatch):
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    inner = line("x", "y", "z").compile()
    builder = StateGraph(Log).add_node("a", appends("a")).add_node("inner", inner)
    graph = builder.add_edge(START, "a").add_edge("a", "inner").compile(checkpointer=saver)
    run.invoke(graph, {"log": ["in"]}, config, durability="sync")
    old = run.history(graph, config)[-2].config
    fork = run.update_state(graph, old, {"log": ["fork"]}, as_node="a")
    assert run.get_state(graph, fork).values["log"] == ["in", "fork"]


def test_a_fork_that_stores_an_inner_graph_first_is_found_to_be_overtaken(
    run, saver, config, monkeypatch
):
    asks = threading.Event()

    def may_ask(state: Log) -> dict[str, Any]:
        return {"log": [interrupt("?") if asks.is_set() else "x"]}

    inner = StateGraph(Log).add_node("x", may_ask).add_edge(START, "x").compile()
    builder = StateGraph(Log).add_node("a", appends("a")).add_node("inner", inner)
    graph = builder.add_edge(START, "a").add_edge("a", "inner").compile(checkpointer=saver)
    run.invoke(graph, {"log": ["in"]}, config, durability="sync")
    old = run.history(graph, config)[-2].config
    rival = line("y").compile(checkpointer=saver)
    names = ("commit", "acommit")
    commits = {name: getattr(saver, name) for name in names}

    def overtaken(name: str) -> Any:
        def commit(steps: Any) -> Any:
            for other in names:
                monkeypatch.setattr(saver, other, commits[other])
            elsewhere(lambda: rival.update_state(config, {"log": ["rival"]}, as_node="y"))
            return commits[name](steps)

        return commit

    asks.set()
    for name in names:
        monkeypatch.setattr(saver, name, overtaken(name))
    with pytest.raises(ThreadConflict, match="'t'"):
        run.invoke(graph, {"log": ["fork"]}, old, durability="exit")
    assert run.get_state(rival, config).values["log"][-1] == "rival"
    assert_linear(run.history(rival, config))


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("ending", ["fails", "waits"])
def test_a_run_beside_which_another_has_stored_writes_of_the_same_step_gets_a_conflict(
    run, saver, config, durability, ending
):
    """The head is as it was, but what the other's tasks wrote counts, and not this run's."""

    def compiled(a: Any, b: Any) -> Any:
        builder = StateGraph(Log).add_node("start", appends("start"))
        builder.add_node("a", a).add_node("b", b).add_edge(START, "start")
        builder.add_edge("start", "a").add_edge("start", "b")
        return builder.compile(checkpointer=saver, interrupt_after=["start"])

    def does_not_end(state: Log) -> dict[str, Any]:
        return {"log": [1 / 0 if ending == "fails" else interrupt("?")]}

    rival = compiled(appends("of the rival"), does_not_end)

    def beside(state: Log) -> dict[str, Any]:
        elsewhere(lambda: rival.batch([None], config, return_exceptions=True, durability="sync"))
        is_done.set()
        return {"log": ["mine"]}

    def after(state: Log) -> dict[str, Any]:
        assert is_done.wait(PATIENCE)
        return {"log": ["mine too"]}

    is_done = threading.Event()
    graph = compiled(beside, after)
    run.invoke(graph, {"log": ["in"]}, config)
    with pytest.raises(ThreadConflict, match="'t'"):
        run.invoke(graph, None, config, durability=durability)
    state = run.get_state(graph, config)
    assert state.values["log"] == ["in", "start", "of the rival"]
    assert [task.result for task in state.tasks] == [{"log": ["of the rival"]}, None]


@pytest.mark.parametrize("ending", ["asks", "fails", "ends"])
def test_a_run_whose_checkpoints_were_removed_while_a_graph_in_it_ran_is_refused(
    run, saver, config, ending
):
    """The inner graph has its own chain, of which nothing is missing."""
    run_id = uuid.uuid4()

    def last(state: Log) -> dict[str, Any]:
        if ending == "asks":
            interrupt("?")
        return {"log": [1 / 0 if ending == "fails" else "y"]}

    builder = StateGraph(Log).add_node("x", appends("x")).add_node("y", last)
    inner = builder.add_edge(START, "x").add_edge("x", "y").compile()

    def undone(state: Log) -> Any:
        elsewhere(lambda: saver.delete_for_runs([str(run_id)]))
        return inner.invoke(state)

    builder = StateGraph(Log).add_node("a", appends("a")).add_node("b", undone)
    graph = builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)
    first = line("first").compile(checkpointer=saver)
    run.invoke(first, {"log": ["in"]}, config)
    with pytest.raises(BrokenChainError, match=r"'t'.*which is gone"):
        run.invoke(graph, {"log": ["undone"]}, {**config, "run_id": run_id}, durability="sync")
    state = run.get_state(first, config)
    assert (state.values["log"], state.next) == (["in", "first"], ())
    assert saver.head("t") == id_of(state.config)
    graphs = {found.config["configurable"]["checkpoint_ns"] for found in saver.list(config)}
    assert graphs == {""}
    assert not hasattr(saver, "verify") or saver.verify() == []
