"""`copy_thread`: the whole lineage, on its own from then on."""

from __future__ import annotations

from milepost.checkpoint._contract.records import CheckpointTuple
from milepost.testing._kit.clauses import Trait, clause, same
from milepost.testing._kit.effects import Program, call
from milepost.testing._kit.saver_fixture import SaverFixture, ThreadBuilder, id_in, values_of
from milepost.testing._suite.delta import history_of
from milepost.types import _DeltaSnapshot


def _copied(fixture: SaverFixture, thread: ThreadBuilder) -> ThreadBuilder:
    return ThreadBuilder(fixture.saver, fixture.thread_id("copy"), thread.ns)


def _content(found: CheckpointTuple) -> object:
    parent = id_in(found.parent_config)
    return found.checkpoint, found.metadata, found.pending_writes, parent


@clause("copy_thread", Trait.COPIES)
def a_copy_has_the_whole_history(fixture: SaverFixture) -> Program[None]:
    """All checkpoints, namespaces, parents and writes are copied, under the new thread_id."""
    threads = [fixture.thread(), fixture.thread(ns="child:1")]
    for thread in threads:
        for n in range(3):
            yield from thread.put(n, key=n, still="here")
            yield from thread.write([("key", n)], "task")
    yield call(fixture.saver, "copy_thread", fixture.thread_id(), fixture.thread_id("copy"))
    for thread in threads:
        original = yield from thread.list()
        copied = yield from _copied(fixture, thread).list()
        what = f"the content of namespace '{thread.ns}'"
        same([_content(one) for one in copied], [_content(one) for one in original], what)
        for one in copied:
            for config in (one.config, one.parent_config):
                if config is not None:
                    named = config["configurable"]["thread_id"]
                    same(named, fixture.thread_id("copy"), "the thread that a config names")


@clause("copy_thread", Trait.COPIES)
def a_copy_is_independent(fixture: SaverFixture) -> Program[None]:
    """What happens to a thread afterwards does not happen to its copy, nor the other way round."""
    thread = fixture.thread()
    yield from thread.put(1, key=1)
    yield call(fixture.saver, "copy_thread", fixture.thread_id(), fixture.thread_id("copy"))
    copy = _copied(fixture, thread)
    yield from thread.put(2, key=2)
    same(values_of((yield from copy.get())), {"key": 1}, "the copy, after the thread went on")
    copy.head, copy.versions, copy.ids = copy.at(thread.ids[0]), {}, thread.ids[:1]
    yield from copy.put(3, key=3)
    same(values_of((yield from thread.get())), {"key": 2}, "the thread, after its copy went on")
    yield call(fixture.saver, "delete_thread", fixture.thread_id())
    same(values_of((yield from copy.get())), {"key": 3}, "the copy of a deleted thread")


@clause("copy_thread", Trait.COPIES, Trait.HISTORY)
def a_copy_has_what_delta_channels_need(fixture: SaverFixture) -> Program[None]:
    """A delta channel has the same history in the copy, back to its snapshot."""
    thread = fixture.thread()
    yield from thread.put(1, log=_DeltaSnapshot(["seed"]))
    yield from thread.write([("log", "a")], "t1")
    yield from thread.put(2, emptied=("log",))
    yield from thread.write([("log", "b")], "t2")
    yield from thread.put(3, other=1)
    yield call(fixture.saver, "copy_thread", fixture.thread_id(), fixture.thread_id("copy"))
    yield call(fixture.saver, "delete_thread", fixture.thread_id())
    found = yield from history_of(fixture, _copied(fixture, thread).at(thread.ids[-1]), "log")
    same(found, {"log": (_DeltaSnapshot(["seed"]), ["a", "b"])}, "the history")
