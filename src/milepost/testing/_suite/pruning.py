"""`prune`: history goes, what the latest checkpoints need stays."""

from __future__ import annotations

from milepost.testing._kit.clauses import Trait, clause, holds, same
from milepost.testing._kit.effects import Program, call, caught
from milepost.testing._kit.saver_fixture import SaverFixture, values_of
from milepost.testing._suite.delta import history_of
from milepost.testing._suite.graphs import STORY, story
from milepost.types import Command, _DeltaSnapshot


@clause("prune", Trait.PRUNING)
def prune_keeps_the_latest(fixture: SaverFixture) -> Program[None]:
    """`keep_latest` leaves the latest checkpoint of each namespace, whole and with its writes."""
    threads = [fixture.thread(), fixture.thread(ns="child:1")]
    for thread in threads:
        yield from thread.put(0, key=0, still="here")
        for n in (1, 2):
            yield from thread.put(n, key=n)
            yield from thread.write([("key", n)], "task")
    yield call(fixture.saver, "prune", [fixture.thread_id()], strategy="keep_latest")
    for thread in threads:
        same((yield from thread.steps()), [2], f"the steps of namespace '{thread.ns}'")
        found = yield from thread.get()
        same(values_of(found), {"key": 2, "still": "here"}, "the values")
        same(found.pending_writes, [("task", "key", 2)], "the writes")


@clause("prune", Trait.PRUNING)
def prune_can_delete_threads(fixture: SaverFixture) -> Program[None]:
    """`delete` removes the threads that are named."""
    threads = [fixture.thread("t"), fixture.thread("u"), fixture.thread("t", ns="child:1")]
    for thread in threads:
        yield from thread.put(key=1)
    yield call(fixture.saver, "prune", [fixture.thread_id("t")], strategy="delete")
    for thread, stays in zip(threads, (False, True, False), strict=True):
        found = yield from thread.look()
        same(found is not None, stays, f"whether {thread.root} is left")


@clause("prune", Trait.PRUNING, Trait.HISTORY)
def prune_leaves_other_threads(fixture: SaverFixture) -> Program[None]:
    """Threads that are not named keep their history; an unknown one is no error."""
    thread = fixture.thread()
    for n in range(3):
        yield from thread.put(n, key=n)
    yield call(fixture.saver, "prune", [fixture.thread_id("unknown"), fixture.thread_id("")])
    yield call(fixture.saver, "prune", [])
    same((yield from thread.steps()), [2, 1, 0], "the steps")


@clause("prune", Trait.PRUNING)
def an_unknown_strategy_is_refused(fixture: SaverFixture) -> Program[None]:
    """A strategy that does not exist raises, and removes nothing."""
    thread = fixture.thread()
    yield from thread.put(key=1)
    error = yield from caught(call(fixture.saver, "prune", [thread.thread_id], strategy="all"))
    holds(error is not None, "it was accepted")
    same((yield from thread.steps()), [0], "the steps")


@clause("prune", Trait.PRUNING, Trait.HISTORY)
def prune_keeps_what_delta_channels_need(fixture: SaverFixture) -> Program[None]:
    """After `keep_latest` a delta channel of the latest checkpoint reads as before."""
    thread = fixture.thread()
    yield from thread.put(1, log=_DeltaSnapshot(["old"]))
    yield from thread.put(2, log=_DeltaSnapshot(["seed"]))
    yield from thread.write([("log", "a")], "t1")
    counters = {"counters_since_delta_snapshot": {"log": (1, 1)}}
    yield from thread.put(3, emptied=("log",), meta=counters)
    yield call(fixture.saver, "prune", [thread.thread_id])
    found = yield from history_of(fixture, thread.head, "log")
    same(found, {"log": (_DeltaSnapshot(["seed"]), ["a"])}, "the history")


@clause("prune", Trait.PRUNING)
def a_pruned_run_can_be_resumed(fixture: SaverFixture) -> Program[None]:
    """A graph that waits for an answer goes on after its thread was pruned."""
    ran: list[str] = []
    graph = story(ran).compile(checkpointer=fixture.saver)
    yield call(graph, "invoke", {"log": ["in"]}, fixture.config(), durability="sync")
    yield call(fixture.saver, "prune", [fixture.thread_id()])
    state = yield call(graph, "get_state", fixture.config())
    same([i.value for i in state.interrupts], ["go on?"], "the questions that are open")
    result = yield call(graph, "invoke", Command(resume="yes"), fixture.config(), durability="sync")
    same(result["log"], list(STORY), "the log")
