"""`copy_thread`: the whole lineage, on its own from then on."""

from __future__ import annotations

from milepost.checkpoint.records import CheckpointTuple
from milepost.testing.clauses import Trait, clause, same
from milepost.testing.desk import Desk, Trail, id_in, values_of
from milepost.testing.effects import Program, call
from milepost.testing.suite.delta import history_of
from milepost.types import _DeltaSnapshot


def _copied(desk: Desk, trail: Trail) -> Trail:
    return Trail(desk.saver, desk.thread_id("copy"), trail.ns)


def _content(found: CheckpointTuple) -> object:
    parent = id_in(found.parent_config)
    return found.checkpoint, found.metadata, found.pending_writes, parent


@clause("copy_thread", Trait.COPIES)
def a_copy_has_the_whole_history(desk: Desk) -> Program[None]:
    """All checkpoints, namespaces, parents and writes are copied, under the new thread_id."""
    trails = [desk.trail(), desk.trail(ns="child:1")]
    for trail in trails:
        for n in range(3):
            yield from trail.put(n, key=n, still="here")
            yield from trail.write([("key", n)], "task")
    yield call(desk.saver, "copy_thread", desk.thread_id(), desk.thread_id("copy"))
    for trail in trails:
        original = yield from trail.list()
        copied = yield from _copied(desk, trail).list()
        what = f"the content of namespace '{trail.ns}'"
        same([_content(one) for one in copied], [_content(one) for one in original], what)
        for one in copied:
            for config in (one.config, one.parent_config):
                if config is not None:
                    named = config["configurable"]["thread_id"]
                    same(named, desk.thread_id("copy"), "the thread that a config names")


@clause("copy_thread", Trait.COPIES)
def a_copy_is_independent(desk: Desk) -> Program[None]:
    """What happens to a thread afterwards does not happen to its copy, nor the other way round."""
    trail = desk.trail()
    yield from trail.put(1, key=1)
    yield call(desk.saver, "copy_thread", desk.thread_id(), desk.thread_id("copy"))
    copy = _copied(desk, trail)
    yield from trail.put(2, key=2)
    same(values_of((yield from copy.get())), {"key": 1}, "the copy, after the thread went on")
    copy.head, copy.versions, copy.ids = copy.at(trail.ids[0]), {}, trail.ids[:1]
    yield from copy.put(3, key=3)
    same(values_of((yield from trail.get())), {"key": 2}, "the thread, after its copy went on")
    yield call(desk.saver, "delete_thread", desk.thread_id())
    same(values_of((yield from copy.get())), {"key": 3}, "the copy of a deleted thread")


@clause("copy_thread", Trait.COPIES, Trait.HISTORY)
def a_copy_has_what_delta_channels_need(desk: Desk) -> Program[None]:
    """A delta channel has the same history in the copy, back to its snapshot."""
    trail = desk.trail()
    yield from trail.put(1, log=_DeltaSnapshot(["seed"]))
    yield from trail.write([("log", "a")], "t1")
    yield from trail.put(2, emptied=("log",))
    yield from trail.write([("log", "b")], "t2")
    yield from trail.put(3, other=1)
    yield call(desk.saver, "copy_thread", desk.thread_id(), desk.thread_id("copy"))
    yield call(desk.saver, "delete_thread", desk.thread_id())
    found = yield from history_of(desk, _copied(desk, trail).at(trail.ids[-1]), "log")
    same(found, {"log": (_DeltaSnapshot(["seed"]), ["a", "b"])}, "the history")
