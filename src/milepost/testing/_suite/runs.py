"""`delete_for_runs`: what certain runs did is undone."""

from __future__ import annotations

from milepost.testing._kit.clauses import Trait, clause, same
from milepost.testing._kit.effects import Program, call
from milepost.testing._kit.saver_fixture import SaverFixture, ThreadBuilder, values_of
from milepost.testing._suite.delta import history_of
from milepost.types import _DeltaSnapshot


def _three_runs(fixture: SaverFixture, name: str = "t") -> Program[ThreadBuilder]:
    thread = fixture.thread(name)
    for n in range(3):
        yield from thread.put(n, key=n, meta={"run_id": fixture.thread_id(f"run-{n}")})
        yield from thread.write([("key", n)], "task")
    return thread


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def delete_for_runs_removes_their_checkpoints(fixture: SaverFixture) -> Program[None]:
    """The checkpoints of those runs go, on every thread; the latest of what is left counts."""
    threads = []
    for name in ("t", "u"):
        threads.append((yield from _three_runs(fixture, name)))
    yield call(
        fixture.saver, "delete_for_runs", [fixture.thread_id("run-2"), fixture.thread_id("run-9")]
    )
    for thread in threads:
        same((yield from thread.steps()), [1, 0], "the steps that are left")
        same((yield from thread.look(thread.head)), None, "a removed checkpoint by its id")
        found = yield from thread.get()
        same(values_of(found), {"key": 1}, "the values of the latest")
        same(found.pending_writes, [("task", "key", 1)], "the writes of the latest")


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def delete_for_runs_leaves_other_runs(fixture: SaverFixture) -> Program[None]:
    """Runs that are not named keep all they did; no run at all is no error."""
    thread = yield from _three_runs(fixture)
    yield call(fixture.saver, "delete_for_runs", [])
    yield call(
        fixture.saver, "delete_for_runs", [fixture.thread_id("run-"), fixture.thread_id("run-%")]
    )
    same((yield from thread.steps()), [2, 1, 0], "the steps")


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def a_run_without_checkpoints_left_leaves_no_writes(fixture: SaverFixture) -> Program[None]:
    """The writes of removed checkpoints do not come back with a checkpoint of the same id."""
    thread = fixture.thread()
    checkpoint, changed = thread.next(key=1)
    metadata = {"step": 0, "run_id": fixture.thread_id("run")}
    for n in range(2):
        yield call(fixture.saver, "put", thread.root, checkpoint, metadata, changed)
        thread.head = thread.at(checkpoint["id"])
        found = yield from thread.get()
        same(found.pending_writes or [], [], "the writes")
        if n == 0:
            yield from thread.write([("key", 1)], "task")
            yield call(fixture.saver, "delete_for_runs", [fixture.thread_id("run")])
            same((yield from thread.look()), None, "the thread")


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def delete_for_runs_keeps_what_delta_channels_need(fixture: SaverFixture) -> Program[None]:
    """A delta channel of a later run reads as before: what it depends on stays."""
    thread = fixture.thread()
    yield from thread.put(0, log=_DeltaSnapshot(["seed"]), meta={"run_id": fixture.thread_id("a")})
    yield from thread.write([("log", "a")], "t1")
    for n, run in ((1, "a"), (2, "b")):
        counters = {"counters_since_delta_snapshot": {"log": (n, n)}}
        emptied = ("log",) if n == 1 else ()
        meta = {"run_id": fixture.thread_id(run), **counters}
        yield from thread.put(n, emptied=emptied, meta=meta, other=n)
        yield from thread.write([("log", f"later {n}")], f"t{n}")
    yield call(fixture.saver, "delete_for_runs", [fixture.thread_id("a")])
    found = yield from history_of(fixture, thread.head, "log")
    same(found, {"log": (_DeltaSnapshot(["seed"]), ["a", "later 1"])}, "the history")
