"""`prune`: history goes, what the latest checkpoints need stays."""

from __future__ import annotations

from milepost.testing.clauses import Trait, clause, holds, same
from milepost.testing.desk import Desk, values_of
from milepost.testing.effects import Program, call, caught
from milepost.testing.suite.delta import history_of
from milepost.testing.suite.graphs import STORY, story
from milepost.types import Command, _DeltaSnapshot


@clause("prune", Trait.PRUNING)
def prune_keeps_the_latest(desk: Desk) -> Program[None]:
    """`keep_latest` leaves the latest checkpoint of each namespace, whole and with its writes."""
    trails = [desk.trail(), desk.trail(ns="child:1")]
    for trail in trails:
        yield from trail.put(0, key=0, still="here")
        for n in (1, 2):
            yield from trail.put(n, key=n)
            yield from trail.write([("key", n)], "task")
    yield call(desk.saver, "prune", [desk.thread_id()], strategy="keep_latest")
    for trail in trails:
        same((yield from trail.steps()), [2], f"the steps of namespace '{trail.ns}'")
        found = yield from trail.get()
        same(values_of(found), {"key": 2, "still": "here"}, "the values")
        same(found.pending_writes, [("task", "key", 2)], "the writes")


@clause("prune", Trait.PRUNING)
def prune_can_delete_threads(desk: Desk) -> Program[None]:
    """`delete` removes the threads that are named."""
    trails = [desk.trail("t"), desk.trail("u"), desk.trail("t", ns="child:1")]
    for trail in trails:
        yield from trail.put(key=1)
    yield call(desk.saver, "prune", [desk.thread_id("t")], strategy="delete")
    for trail, stays in zip(trails, (False, True, False), strict=True):
        found = yield from trail.look()
        same(found is not None, stays, f"whether {trail.root} is left")


@clause("prune", Trait.PRUNING, Trait.HISTORY)
def prune_leaves_other_threads(desk: Desk) -> Program[None]:
    """Threads that are not named keep their history; an unknown one is no error."""
    trail = desk.trail()
    for n in range(3):
        yield from trail.put(n, key=n)
    yield call(desk.saver, "prune", [desk.thread_id("unknown"), desk.thread_id("")])
    yield call(desk.saver, "prune", [])
    same((yield from trail.steps()), [2, 1, 0], "the steps")


@clause("prune", Trait.PRUNING)
def an_unknown_strategy_is_refused(desk: Desk) -> Program[None]:
    """A strategy that does not exist raises, and removes nothing."""
    trail = desk.trail()
    yield from trail.put(key=1)
    error = yield from caught(call(desk.saver, "prune", [trail.thread_id], strategy="all"))
    holds(error is not None, "it was accepted")
    same((yield from trail.steps()), [0], "the steps")


@clause("prune", Trait.PRUNING, Trait.HISTORY)
def prune_keeps_what_delta_channels_need(desk: Desk) -> Program[None]:
    """After `keep_latest` a delta channel of the latest checkpoint reads as before."""
    trail = desk.trail()
    yield from trail.put(1, log=_DeltaSnapshot(["old"]))
    yield from trail.put(2, log=_DeltaSnapshot(["seed"]))
    yield from trail.write([("log", "a")], "t1")
    counters = {"counters_since_delta_snapshot": {"log": (1, 1)}}
    yield from trail.put(3, emptied=("log",), meta=counters)
    yield call(desk.saver, "prune", [trail.thread_id])
    found = yield from history_of(desk, trail.head, "log")
    same(found, {"log": (_DeltaSnapshot(["seed"]), ["a"])}, "the history")


@clause("prune", Trait.PRUNING)
def a_pruned_run_can_be_resumed(desk: Desk) -> Program[None]:
    """A graph that waits for an answer goes on after its thread was pruned."""
    ran: list[str] = []
    graph = story(ran).compile(checkpointer=desk.saver)
    yield call(graph, "invoke", {"log": ["in"]}, desk.config(), durability="sync")
    yield call(desk.saver, "prune", [desk.thread_id()])
    state = yield call(graph, "get_state", desk.config())
    same([i.value for i in state.interrupts], ["go on?"], "the questions that are open")
    result = yield call(graph, "invoke", Command(resume="yes"), desk.config(), durability="sync")
    same(result["log"], list(STORY), "the log")
