"""`delete_for_runs`: what certain runs did is undone."""

from __future__ import annotations

from milepost.testing.clauses import Trait, clause, same
from milepost.testing.desk import Desk, Trail, values_of
from milepost.testing.effects import Program, call
from milepost.testing.suite.delta import history_of
from milepost.types import _DeltaSnapshot


def _three_runs(desk: Desk, name: str = "t") -> Program[Trail]:
    trail = desk.trail(name)
    for n in range(3):
        yield from trail.put(n, key=n, meta={"run_id": desk.thread_id(f"run-{n}")})
        yield from trail.write([("key", n)], "task")
    return trail


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def delete_for_runs_removes_their_checkpoints(desk: Desk) -> Program[None]:
    """The checkpoints of those runs go, on every thread; the latest of what is left counts."""
    trails = []
    for name in ("t", "u"):
        trails.append((yield from _three_runs(desk, name)))
    yield call(desk.saver, "delete_for_runs", [desk.thread_id("run-2"), desk.thread_id("run-9")])
    for trail in trails:
        same((yield from trail.steps()), [1, 0], "the steps that are left")
        same((yield from trail.look(trail.head)), None, "a removed checkpoint by its id")
        found = yield from trail.get()
        same(values_of(found), {"key": 1}, "the values of the latest")
        same(found.pending_writes, [("task", "key", 1)], "the writes of the latest")


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def delete_for_runs_leaves_other_runs(desk: Desk) -> Program[None]:
    """Runs that are not named keep all they did; no run at all is no error."""
    trail = yield from _three_runs(desk)
    yield call(desk.saver, "delete_for_runs", [])
    yield call(desk.saver, "delete_for_runs", [desk.thread_id("run-"), desk.thread_id("run-%")])
    same((yield from trail.steps()), [2, 1, 0], "the steps")


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def a_run_without_checkpoints_left_leaves_no_writes(desk: Desk) -> Program[None]:
    """The writes of removed checkpoints do not come back with a checkpoint of the same id."""
    trail = desk.trail()
    checkpoint, changed = trail.next(key=1)
    metadata = {"step": 0, "run_id": desk.thread_id("run")}
    for n in range(2):
        yield call(desk.saver, "put", trail.root, checkpoint, metadata, changed)
        trail.head = trail.at(checkpoint["id"])
        found = yield from trail.get()
        same(found.pending_writes or [], [], "the writes")
        if n == 0:
            yield from trail.write([("key", 1)], "task")
            yield call(desk.saver, "delete_for_runs", [desk.thread_id("run")])
            same((yield from trail.look()), None, "the thread")


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def delete_for_runs_keeps_what_delta_channels_need(desk: Desk) -> Program[None]:
    """A delta channel of a later run reads as before: what it depends on stays."""
    trail = desk.trail()
    yield from trail.put(0, log=_DeltaSnapshot(["seed"]), meta={"run_id": desk.thread_id("a")})
    yield from trail.write([("log", "a")], "t1")
    for n, run in ((1, "a"), (2, "b")):
        counters = {"counters_since_delta_snapshot": {"log": (n, n)}}
        emptied = ("log",) if n == 1 else ()
        meta = {"run_id": desk.thread_id(run), **counters}
        yield from trail.put(n, emptied=emptied, meta=meta, other=n)
        yield from trail.write([("log", f"later {n}")], f"t{n}")
    yield call(desk.saver, "delete_for_runs", [desk.thread_id("a")])
    found = yield from history_of(desk, trail.head, "log")
    same(found, {"log": (_DeltaSnapshot(["seed"]), ["a", "later 1"])}, "the history")
