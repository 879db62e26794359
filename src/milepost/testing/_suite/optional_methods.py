"""What a saver may leave out: `copy_thread`, `prune`, `delete_for_runs`."""

from __future__ import annotations

from milepost.checkpoint._contract.records import CheckpointTuple
from milepost.testing._kit.clauses import KitEffects, Trait, call, caught, clause, holds, same
from milepost.testing._kit.saver_fixture import SaverFixture, ThreadBuilder, id_in, values_of
from milepost.testing._suite.graphs import STORY, story
from milepost.types import Command, _DeltaSnapshot

# -- copy_thread: the whole lineage, on its own from then on


def _copied(fixture: SaverFixture, thread: ThreadBuilder) -> ThreadBuilder:
    return ThreadBuilder(fixture.saver, fixture.thread_id("copy"), thread.ns)


def _content(found: CheckpointTuple) -> object:
    parent = id_in(found.parent_config)
    return found.checkpoint, found.metadata, found.pending_writes, parent


@clause("copy_thread", Trait.COPIES)
def a_copy_has_the_whole_history(fixture: SaverFixture) -> KitEffects[None]:
    """All checkpoints, namespaces, parents and writes are copied, under the new thread_id."""
    threads = [fixture.thread(), fixture.thread(ns="child:1")]
    for thread in threads:
        for n in range(3):
            yield from thread.put(n, key=n, still="here")
            yield from thread.write([("key", n)], "task")
    yield fixture.call("copy_thread", fixture.thread_id(), fixture.thread_id("copy"))
    for thread in threads:
        original = yield from thread.checkpoints()
        copied = yield from _copied(fixture, thread).checkpoints()
        what = f"the content of namespace '{thread.ns}'"
        same([_content(one) for one in copied], [_content(one) for one in original], what)
        for one in copied:
            for config in (one.config, one.parent_config):
                if config is not None:
                    named = config["configurable"]["thread_id"]
                    same(named, fixture.thread_id("copy"), "the thread that a config names")


@clause("copy_thread", Trait.COPIES)
def a_copy_is_independent(fixture: SaverFixture) -> KitEffects[None]:
    """What happens to a thread afterwards does not happen to its copy, nor the other way round."""
    thread = yield from fixture.started(1, key=1)
    yield fixture.call("copy_thread", fixture.thread_id(), fixture.thread_id("copy"))
    copy = _copied(fixture, thread)
    yield from thread.put(2, key=2)
    same(values_of((yield from copy.get())), {"key": 1}, "the copy, after the thread went on")
    copy.head, copy.versions, copy.ids = copy.at(thread.ids[0]), {}, thread.ids[:1]
    yield from copy.put(3, key=3)
    same(values_of((yield from thread.get())), {"key": 2}, "the thread, after its copy went on")
    yield fixture.call("delete_thread", fixture.thread_id())
    same(values_of((yield from copy.get())), {"key": 3}, "the copy of a deleted thread")


@clause("copy_thread", Trait.COPIES, Trait.HISTORY)
def a_copy_has_what_delta_channels_need(fixture: SaverFixture) -> KitEffects[None]:
    """A delta channel has the same history in the copy, back to its snapshot."""
    thread = yield from fixture.started(1, log=_DeltaSnapshot(["seed"]))
    yield from thread.write([("log", "a")], "t1")
    yield from thread.put(2, emptied=("log",))
    yield from thread.write([("log", "b")], "t2")
    yield from thread.put(3, other=1)
    yield fixture.call("copy_thread", fixture.thread_id(), fixture.thread_id("copy"))
    yield fixture.call("delete_thread", fixture.thread_id())
    copy = _copied(fixture, thread)
    copy.head = copy.at(thread.ids[-1])
    found = yield from copy.history("log")
    same(found, {"log": (_DeltaSnapshot(["seed"]), ["a", "b"])}, "the history")


# -- prune: history goes, what the latest checkpoints need stays


@clause("prune", Trait.PRUNING)
def prune_keeps_the_latest(fixture: SaverFixture) -> KitEffects[None]:
    """`keep_latest` leaves the latest checkpoint of each namespace, whole and with its writes."""
    threads = [fixture.thread(), fixture.thread(ns="child:1")]
    for thread in threads:
        yield from thread.put(0, key=0, still="here")
        for n in (1, 2):
            yield from thread.put(n, key=n)
            yield from thread.write([("key", n)], "task")
    yield fixture.call("prune", [fixture.thread_id()], strategy="keep_latest")
    for thread in threads:
        same((yield from thread.steps()), [2], f"the steps of namespace '{thread.ns}'")
        found = yield from thread.get()
        same(values_of(found), {"key": 2, "still": "here"}, "the values")
        same(found.pending_writes, [("task", "key", 2)], "the writes")


@clause("prune", Trait.PRUNING)
def prune_can_delete_threads(fixture: SaverFixture) -> KitEffects[None]:
    """`delete` removes the threads that are named."""
    threads = [fixture.thread("t"), fixture.thread("u"), fixture.thread("t", ns="child:1")]
    for thread in threads:
        yield from thread.put(key=1)
    yield fixture.call("prune", [fixture.thread_id("t")], strategy="delete")
    for thread, stays in zip(threads, (False, True, False), strict=True):
        found = yield from thread.find()
        same(found is not None, stays, f"whether {thread.root} is left")


@clause("prune", Trait.PRUNING, Trait.HISTORY)
def prune_leaves_other_threads(fixture: SaverFixture) -> KitEffects[None]:
    """Threads that are not named keep their history; an unknown one is no error."""
    thread = fixture.thread()
    for n in range(3):
        yield from thread.put(n, key=n)
    yield fixture.call("prune", [fixture.thread_id("unknown"), fixture.thread_id("")])
    yield fixture.call("prune", [])
    same((yield from thread.steps()), [2, 1, 0], "the steps")


@clause("prune", Trait.PRUNING)
def an_unknown_strategy_is_refused(fixture: SaverFixture) -> KitEffects[None]:
    """A strategy that does not exist raises, and removes nothing."""
    thread = yield from fixture.started(key=1)
    error = yield from caught(fixture.call("prune", [thread.thread_id], strategy="all"))
    holds(error is not None, "it was accepted")
    same((yield from thread.steps()), [0], "the steps")


@clause("prune", Trait.PRUNING, Trait.HISTORY)
def prune_keeps_what_delta_channels_need(fixture: SaverFixture) -> KitEffects[None]:
    """After `keep_latest` a delta channel of the latest checkpoint reads as before."""
    thread = yield from fixture.started(1, log=_DeltaSnapshot(["old"]))
    yield from thread.put(2, log=_DeltaSnapshot(["seed"]))
    yield from thread.write([("log", "a")], "t1")
    counters = {"counters_since_delta_snapshot": {"log": (1, 1)}}
    yield from thread.put(3, emptied=("log",), meta=counters)
    yield fixture.call("prune", [thread.thread_id])
    found = yield from thread.history("log")
    same(found, {"log": (_DeltaSnapshot(["seed"]), ["a"])}, "the history")


@clause("prune", Trait.PRUNING)
def a_pruned_run_can_be_resumed(fixture: SaverFixture) -> KitEffects[None]:
    """A graph that waits for an answer goes on after its thread was pruned."""
    ran: list[str] = []
    graph = story(ran).compile(checkpointer=fixture.saver)
    yield call(graph, "invoke", {"log": ["in"]}, fixture.config(), durability="sync")
    yield fixture.call("prune", [fixture.thread_id()])
    state = yield call(graph, "get_state", fixture.config())
    same([i.value for i in state.interrupts], ["go on?"], "the questions that are open")
    result = yield call(graph, "invoke", Command(resume="yes"), fixture.config(), durability="sync")
    same(result["log"], list(STORY), "the log")


# -- delete_for_runs: what certain runs did is undone


def _three_runs(fixture: SaverFixture, name: str = "t") -> KitEffects[ThreadBuilder]:
    thread = fixture.thread(name)
    for n in range(3):
        yield from thread.put(n, key=n, meta={"run_id": fixture.thread_id(f"run-{n}")})
        yield from thread.write([("key", n)], "task")
    return thread


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def delete_for_runs_removes_their_checkpoints(fixture: SaverFixture) -> KitEffects[None]:
    """The checkpoints of those runs go, on every thread; the latest of what is left counts."""
    threads = []
    for name in ("t", "u"):
        threads.append((yield from _three_runs(fixture, name)))
    yield fixture.call("delete_for_runs", [fixture.thread_id("run-2"), fixture.thread_id("run-9")])
    for thread in threads:
        same((yield from thread.steps()), [1, 0], "the steps that are left")
        same((yield from thread.find(thread.head)), None, "a removed checkpoint by its id")
        found = yield from thread.get()
        same(values_of(found), {"key": 1}, "the values of the latest")
        same(found.pending_writes, [("task", "key", 1)], "the writes of the latest")


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def delete_for_runs_leaves_other_runs(fixture: SaverFixture) -> KitEffects[None]:
    """Runs that are not named keep all they did; no run at all is no error."""
    thread = yield from _three_runs(fixture)
    yield fixture.call("delete_for_runs", [])
    yield fixture.call("delete_for_runs", [fixture.thread_id("run-"), fixture.thread_id("run-%")])
    same((yield from thread.steps()), [2, 1, 0], "the steps")


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def a_run_without_checkpoints_left_leaves_no_writes(fixture: SaverFixture) -> KitEffects[None]:
    """The writes of removed checkpoints do not come back with a checkpoint of the same id."""
    thread = fixture.thread()
    checkpoint, changed = thread.next(key=1)
    metadata = {"step": 0, "run_id": fixture.thread_id("run")}
    for n in range(2):
        yield fixture.call("put", thread.root, checkpoint, metadata, changed)
        found = yield from thread.get()
        same(found.pending_writes or [], [], "the writes")
        if n == 0:
            yield from thread.write([("key", 1)], "task")
            yield fixture.call("delete_for_runs", [fixture.thread_id("run")])
            same((yield from thread.find()), None, "the thread")


@clause("delete_for_runs", Trait.RUNS, Trait.HISTORY)
def delete_for_runs_keeps_what_delta_channels_need(fixture: SaverFixture) -> KitEffects[None]:
    """A delta channel of a later run reads as before: what it depends on stays."""
    meta = {"run_id": fixture.thread_id("a")}
    thread = yield from fixture.started(0, log=_DeltaSnapshot(["seed"]), meta=meta)
    yield from thread.write([("log", "a")], "t1")
    for n, run in ((1, "a"), (2, "b")):
        emptied = ("log",) if n == 1 else ()
        counters = {"counters_since_delta_snapshot": {"log": (n, n)}}
        own = {"run_id": fixture.thread_id(run), **counters}
        yield from thread.put(n, emptied=emptied, meta=own, other=n)
        yield from thread.write([("log", f"later {n}")], f"t{n}")
    yield fixture.call("delete_for_runs", [fixture.thread_id("a")])
    found = yield from thread.history("log")
    same(found, {"log": (_DeltaSnapshot(["seed"]), ["a", "later 1"])}, "the history")
