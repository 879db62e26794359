"""`on_conflict="reject"`: a run that finds another run on its thread is refused at once."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from graphs import PATIENCE, Log, appends, elsewhere, line, single, thread, until
from milepost._engine import leases
from milepost.checkpoint._contract.step_saver import Fence
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import CheckpointError, EmptyInputError, GraphRecursionError, ThreadConflict
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt
from savers import Lossy


def content(saver: Any) -> list[Any]:
    """All that a saver holds of thread `t`."""
    return [(t.checkpoint, t.metadata, t.pending_writes) for t in saver.list(thread("t"))]


class Holder:
    """A graph a -> b on thread `t`, in whose node b something else is tried with the thread."""

    def __init__(self, saver: Any, attempt: Any, **options: Any) -> None:
        self.outcome: Any = None
        self.unchanged = False

        def node(state: Log) -> dict[str, Any]:
            before = content(saver)
            try:
                self.outcome = elsewhere(attempt)
            except Exception as error:
                self.outcome = error
            self.unchanged = content(saver) == before
            return {"log": ["b"]}

        builder = line("a").add_node("b", node).add_edge("a", "b")
        self.graph = builder.compile(checkpointer=saver, **options)


def test_a_run_is_refused_while_another_is_at_work(run, saver, config, durability):
    rival = line("x").compile(checkpointer=saver, on_conflict="reject")
    holder = Holder(saver, lambda: rival.invoke({}, config), on_conflict="reject")
    result = run.invoke(holder.graph, {}, config, durability=durability)
    assert result == {"log": ["a", "b"]}
    assert isinstance(holder.outcome, ThreadConflict)
    assert "'t'" in str(holder.outcome)
    assert "on_conflict='newest'" in str(holder.outcome)
    # Under `async` the holder's own steps may arrive meanwhile.
    assert holder.unchanged or durability == "async"
    assert run.invoke(rival, {}, config)["log"] == ["a", "b", "x"]


def test_a_run_that_is_cancelled_while_its_claim_is_stored_takes_the_claim_back(tmp_path):
    async def scenario(saver: Any) -> Any:
        stored, seen, hold = asyncio.Event(), asyncio.Event(), saver.ahold

        async def ahold(thread_id: str, fence: Fence) -> None:
            await hold(thread_id, fence)
            stored.set()
            await seen.wait()

        saver.ahold = ahold
        graph = line("x").compile(checkpointer=saver, on_conflict="reject")
        cancelled = asyncio.ensure_future(graph.ainvoke({}, thread("t")))
        await asyncio.wait_for(stored.wait(), PATIENCE)
        cancelled.cancel()
        seen.set()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return await graph.ainvoke({}, thread("t"))

    with SqliteSaver.from_conn_string(str(tmp_path / "t.db")) as saver:
        assert asyncio.run(scenario(saver)) == {"log": ["x"]}


def test_a_run_that_updates_its_own_thread_still_holds_it(run, saver, config, durability):
    def attempt() -> None:
        outcome.append(list(saver.list(config)))
        with pytest.raises(ThreadConflict):
            rival.invoke({}, config)

    def node(state: Log) -> None:
        graph.update_state(config, {"log": ["edit"]}, as_node="end")
        elsewhere(attempt)

    outcome: list[Any] = []
    rival = line("x").compile(checkpointer=saver, on_conflict="reject")
    builder = line("a").add_node("b", node).add_edge("a", "b").add_node("end", appends("end"))
    graph = builder.add_edge("b", "end").compile(checkpointer=saver, on_conflict="reject")
    run.invoke(graph, {}, config, durability=durability)
    assert outcome[0]


def test_an_update_is_refused_while_a_run_is_at_work(run, saver, config, durability):
    editor = line("a").compile(checkpointer=saver)
    holder = Holder(
        saver,
        lambda: editor.update_state(config, {"log": ["edit"]}, "a", on_conflict="reject"),
        on_conflict="reject",
    )
    run.invoke(holder.graph, {}, config, durability=durability)
    assert isinstance(holder.outcome, ThreadConflict)
    assert holder.unchanged or durability == "async"
    run.update_state(editor, config, {"log": ["edit"]}, "a", on_conflict="reject")
    assert run.get_state(editor, config).values["log"] == ["a", "b", "edit"]


def test_a_run_that_lets_the_newest_win_holds_the_thread_from_its_first_commit(run, saver, config):
    rival = line("x").compile(checkpointer=saver, on_conflict="reject")
    holder = Holder(saver, lambda: rival.invoke({}, config))
    assert run.invoke(holder.graph, {}, config, durability="sync")["log"] == ["a", "b"]
    assert isinstance(holder.outcome, ThreadConflict)


def test_the_newest_takes_the_thread_from_a_run_that_would_have_rejected(run, saver, config):
    rival = line("x").compile(checkpointer=saver)
    holder = Holder(saver, lambda: rival.invoke({}, config), on_conflict="reject")
    with pytest.raises(ThreadConflict, match="taken by another run"):
        run.invoke(holder.graph, {}, config, durability="sync")
    assert holder.outcome["log"][-1] == "x"


def test_the_call_overrides_the_graph(run, saver, config):
    strict = line("x").compile(checkpointer=saver, on_conflict="reject")
    holder = Holder(saver, lambda: strict.invoke({}, config, on_conflict="newest"))
    with pytest.raises(ThreadConflict):
        run.invoke(holder.graph, {}, config, durability="sync", on_conflict="reject")
    lax = line("x").compile(checkpointer=saver)
    holder = Holder(saver, lambda: lax.invoke({}, config, on_conflict="reject"))
    run.invoke(holder.graph, {}, config, on_conflict="reject")
    assert isinstance(holder.outcome, ThreadConflict)


def test_an_unknown_policy_is_refused(run, saver, config):
    with pytest.raises(ValueError, match="'newest' or 'reject'"):
        line("x").compile(checkpointer=saver, on_conflict="oldest")
    with pytest.raises(ValueError, match="'newest' or 'reject'"):
        run.invoke(line("x").compile(checkpointer=saver), {}, config, on_conflict="oldest")


def test_another_thread_is_not_concerned(run, saver, config):
    rival = line("x").compile(checkpointer=saver, on_conflict="reject")
    holder = Holder(saver, lambda: rival.invoke({}, thread("u")), on_conflict="reject")
    run.invoke(holder.graph, {}, config)
    assert holder.outcome == {"log": ["x"]}


def test_of_two_runs_that_start_a_thread_together_one_is_refused(saver, config):
    """Neither has stored anything, and neither will before its end."""
    inside = threading.Barrier(2)
    outcomes: list[Any] = []

    def node(state: Log) -> dict[str, Any]:
        inside.wait(PATIENCE)
        inside.wait(PATIENCE)
        return {"log": ["done"]}

    graph = single(node).compile(checkpointer=saver, on_conflict="reject")

    def work() -> None:
        outcomes.append(graph.invoke({}, config, durability="exit"))

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    inside.wait(PATIENCE)
    with pytest.raises(ThreadConflict):
        graph.invoke({}, config, durability="exit")
    inside.wait(PATIENCE)
    worker.join(PATIENCE)
    assert outcomes == [{"log": ["done"]}]


def test_inner_graphs_and_updates_inside_a_node_are_part_of_the_run(run, saver, config, durability):
    inner = line("x", "y").compile(on_conflict="reject")

    def note(state: Log) -> dict[str, Any]:
        # Under `exit` nothing of the thread is there to be updated yet.
        if durability != "exit":
            graph.update_state(thread("t"), {"log": ["noted"]}, as_node="note")
        return {"log": ["done"]}

    builder = StateGraph(Log).add_node("inner", inner).add_node("note", note)
    graph = (
        builder.add_edge(START, "inner")
        .add_edge("inner", "note")
        .compile(checkpointer=saver, on_conflict="reject")
    )
    for _ in range(2):
        if run.colour == "async" and durability == "async":
            result = run.invoke(graph, {}, config, durability="sync")
        else:
            result = run.invoke(graph, {}, config, durability=durability)
    assert result["log"][-3:] == ["x", "y", "done"]


def test_a_batch_over_one_thread_runs_in_order(run, saver, config):
    graph = line("x").compile(checkpointer=saver, on_conflict="reject")
    results = run.batch(graph, [{"log": [1]}, {"log": [2]}], config)
    assert results[-1]["log"] == [1, "x", 2, "x"]


def test_an_entrypoint_has_the_policy_too(run, saver, config, durability):
    refused: list[Exception] = []

    @task
    def attempt() -> str:
        try:
            elsewhere(lambda: program.invoke("rival", config))
        except ThreadConflict as error:
            refused.append(error)
        return "done"

    @entrypoint(checkpointer=saver, on_conflict="reject")
    def program(given: str) -> str:
        return attempt().result()

    assert run.invoke(program, "in", config, durability=durability) == "done"
    assert len(refused) == 1


# -- when a run is over, however it ended, the next one may start


def ask(state: Log) -> dict[str, Any]:
    return {"log": [interrupt("?")]}


def fail(state: Log) -> dict[str, Any]:
    raise RuntimeError("no")


def loop(state: Log) -> Command[Any]:
    return Command(goto="node")


def strict(saver: Any, node: Any, **options: Any) -> Any:
    return single(node).compile(checkpointer=saver, on_conflict="reject", **options)


def test_after_an_interrupt_the_thread_is_free(run, saver, config, durability):
    graph = strict(saver, ask)
    run.invoke(graph, {}, config, durability=durability)
    assert run.invoke(graph, Command(resume="!"), config, durability=durability) == {"log": ["!"]}


def test_after_a_static_interrupt_the_thread_is_free(run, saver, config, durability):
    graph = strict(saver, appends("x"), interrupt_before=["node"])
    run.invoke(graph, {}, config, durability=durability)
    assert run.invoke(graph, None, config, durability=durability) == {"log": ["x"]}


def test_after_an_error_the_thread_is_free(run, saver, config, durability):
    with pytest.raises(RuntimeError, match="no"):
        run.invoke(strict(saver, fail), {}, config, durability=durability)
    assert run.invoke(strict(saver, appends("x")), {}, config)["log"][-1] == "x"


def test_after_the_limit_of_steps_the_thread_is_free(run, saver, config, durability):
    with pytest.raises(GraphRecursionError):
        run.invoke(strict(saver, loop), {}, {**config, "recursion_limit": 3}, durability=durability)
    assert run.invoke(strict(saver, appends("x")), {}, config)["log"] == ["x"]


def test_after_a_consumer_has_gone_the_thread_is_free(saver, config, durability):
    graph = line("a", "b").compile(checkpointer=saver, on_conflict="reject")
    events = graph.stream({}, config, durability=durability)
    next(events)
    with pytest.raises(ThreadConflict):
        elsewhere(lambda: graph.invoke({}, config))
    events.close()
    assert graph.invoke({}, config)["log"][-2:] == ["a", "b"]


def test_a_parallel_step_with_an_open_question_is_still_at_work(run, saver, config):
    """What one task asked is stored while the other runs: that is not the end of the run."""
    rival = line("x").compile(checkpointer=saver, on_conflict="reject")
    refused: list[Exception] = []
    asked = threading.Event()

    def asks(state: Log) -> dict[str, Any]:
        asked.set()
        return {"log": [interrupt("?")]}

    def works(state: Log) -> dict[str, Any]:
        assert asked.wait(PATIENCE)

        def is_stored() -> bool:
            written = saver.get_tuple(config).pending_writes
            return any(channel == "__interrupt__" for _, channel, _ in written)

        until(is_stored, "the question was not stored")
        try:
            elsewhere(lambda: rival.invoke({}, config))
        except ThreadConflict as error:
            refused.append(error)
        return {"log": ["works"]}

    builder = StateGraph(Log).add_node("asks", asks).add_node("works", works)
    builder.add_edge(START, "asks").add_edge(START, "works")
    graph = builder.compile(checkpointer=saver, on_conflict="reject")
    run.invoke(graph, {}, config, durability="sync")
    assert len(refused) == 1
    assert run.invoke(graph, Command(resume="!"), config)["log"] == ["!", "works"]


def test_a_call_that_does_nothing_leaves_nothing(run, saver, config):
    graph = line("a").compile(checkpointer=saver, on_conflict="reject")
    with pytest.raises(EmptyInputError):
        run.invoke(graph, None, config)
    assert content(saver) == []
    assert run.invoke(graph, {}, config) == {"log": ["a"]}
    before = content(saver)
    with pytest.raises(CheckpointError):
        run.invoke(graph, None, {"configurable": {**config["configurable"], "checkpoint_id": "x"}})
    with pytest.raises(Exception, match="nobody"):
        run.update_state(graph, config, {"log": []}, "nobody")
    assert content(saver) == before
    assert run.invoke(graph, {}, config) == {"log": ["a", "a"]}


def test_a_saver_that_cannot_tell_says_so(run, config):
    graph = line("a").compile(checkpointer=Lossy(), on_conflict="reject")
    with pytest.raises(CheckpointError, match="Lossy has only the methods"):
        run.invoke(graph, {}, config)
    assert run.invoke(graph, {}, config, on_conflict="newest") == {"log": ["a"]}


def test_without_a_saver_there_is_nothing_to_conflict_about(run):
    assert run.invoke(line("a").compile(on_conflict="reject"), {}) == {"log": ["a"]}


# -- leases: only databases have them


def test_a_node_may_take_longer_than_the_lease(sqlite_lease, run, saver, config):
    """Every renewal is a new sign of life, so that the lease counts from the last one."""
    rival = line("x").compile(checkpointer=saver, on_conflict="reject")

    def attempt() -> Any:
        sqlite_lease.grow_old("t")
        leases.renew()
        sqlite_lease.await_life("t")
        return rival.invoke({}, config)

    holder = Holder(saver, attempt, on_conflict="reject")
    assert run.invoke(holder.graph, {}, config, durability="sync")["log"] == ["a", "b"]
    assert isinstance(holder.outcome, ThreadConflict)


def test_a_lease_that_was_not_renewed_blocks_nobody(sqlite_lease, run, saver, config):
    rival = line("x").compile(checkpointer=saver, on_conflict="reject")

    def attempt() -> Any:
        sqlite_lease.grow_old("t")
        return rival.invoke({}, config)

    holder = Holder(saver, attempt, on_conflict="reject")
    with pytest.raises(ThreadConflict, match="taken by another run"):
        run.invoke(holder.graph, {}, config, durability="sync")
    assert holder.outcome["log"][-1] == "x"


def test_a_claim_has_one_renewal_at_a_time_though_the_database_does_not_answer(monkeypatch):
    begun: list[Any] = []
    monkeypatch.setattr(leases.threads, "submit", begun.append)
    monkeypatch.setattr(leases, "_claims", [])
    monkeypatch.setattr(leases, "_renewer", threading.current_thread())  # which never looks
    held: list[str] = []
    saver: Any = SimpleNamespace(hold=lambda thread_id, fence: held.append(thread_id))
    for name in ("one", "two"):
        leases.keep(saver, name, Fence(None))
    for _ in range(3):
        leases.renew()
    assert len(begun) == 2, "one for each claim, of which none has been answered"
    begun.pop(0)()
    leases.renew()
    for renewal in begun:
        renewal()
    assert held == ["one", "two", "one"]


def test_a_renewal_that_could_not_begin_is_tried_again(monkeypatch):
    begun: list[Any] = []
    refusals = [RuntimeError("can't start new thread")]

    def submit(job: Any) -> None:
        if refusals:
            raise refusals.pop()
        begun.append(job)

    monkeypatch.setattr(leases.threads, "submit", submit)
    monkeypatch.setattr(leases, "_claims", [])
    monkeypatch.setattr(leases, "_renewer", threading.current_thread())
    leases.keep(SimpleNamespace(), "t", Fence(None))
    leases.renew()
    assert begun == []
    leases.renew()
    assert len(begun) == 1


class Ages:
    """Makes the last sign of life of a thread an old one."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver

    def grow_old(self, thread_id: str) -> None:
        with self.saver.engine.lock:
            self.saver.conn.execute(
                "UPDATE threads SET updated_at = updated_at - 3600 WHERE thread_id = ?",
                (thread_id,),
            )
        assert self.saver.get_thread(thread_id).status == "stale"

    def await_life(self, thread_id: str) -> None:
        until(
            lambda: self.saver.get_thread(thread_id).status == "running",
            "the lease was not renewed",
        )


@pytest.fixture
def sqlite_lease(saver: Any) -> Ages:
    if not isinstance(saver, SqliteSaver):
        pytest.skip(
            "memory has no leases; tests/checkpoint/sql/test_leases.py has those of Postgres"
        )
    return Ages(saver)
