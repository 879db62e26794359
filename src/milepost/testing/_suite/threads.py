"""`delete_thread`: all of it goes, and nothing else."""

from __future__ import annotations

from milepost.testing._kit.clauses import KitEffects, clause, same
from milepost.testing._kit.saver_fixture import SaverFixture, values_of


@clause("delete_thread")
def delete_thread_removes_all_of_it(fixture: SaverFixture) -> KitEffects[None]:
    """A deleted thread has no checkpoint left, in no namespace."""
    threads = [fixture.thread(), fixture.thread(ns="child:1"), fixture.thread(ns="child:1|inner:2")]
    for thread in threads:
        for n in range(2):
            yield from thread.put(n, key=n)
            yield from thread.write([("key", n)], "task")
    yield fixture.call("delete_thread", fixture.thread_id())
    for thread in threads:
        same((yield from thread.find()), None, f"the latest of namespace '{thread.ns}'")
        same((yield from thread.find(thread.head)), None, "a checkpoint by its id")
        same((yield from thread.checkpoints()), [], f"the list of namespace '{thread.ns}'")
    found = yield fixture.call("list", None)
    same([one for one in found if fixture.is_own(one)], [], "the list of all threads")


@clause("delete_thread")
def delete_thread_leaves_the_others(fixture: SaverFixture) -> KitEffects[None]:
    """Other threads stay whole, also those whose ids look alike."""
    others = [fixture.thread(name) for name in ("t2", "", "T", "t_", "t%")]
    deleted = fixture.thread("t")
    for thread in (*others, deleted):
        yield from thread.put(key=thread.thread_id)
        yield from thread.write([("key", 2)], "task")
    yield fixture.call("delete_thread", deleted.thread_id)
    for thread in others:
        found = yield from thread.get()
        same(values_of(found), {"key": thread.thread_id}, f"thread {thread.thread_id!r}")
        same(found.pending_writes, [("task", "key", 2)], "its writes")


@clause("delete_thread")
def deleting_what_is_not_there_is_no_error(fixture: SaverFixture) -> KitEffects[None]:
    """An unknown thread can be deleted, also twice."""
    for _ in range(2):
        yield fixture.call("delete_thread", fixture.thread_id())


@clause("delete_thread")
def a_deleted_thread_starts_anew(fixture: SaverFixture) -> KitEffects[None]:
    """Nothing of a deleted thread comes back when its id, or a checkpoint's id, is used again."""
    thread = fixture.thread()
    checkpoint, changed = thread.next(key="old", other="old")
    yield fixture.call("put", thread.root, checkpoint, {"step": 0}, changed)
    yield from thread.write([("key", "old")], "task")
    yield fixture.call("delete_thread", thread.thread_id)
    checkpoint["channel_values"] = {"key": "new"}
    checkpoint["channel_versions"].pop("other")
    changed = {"key": changed["key"]}
    yield fixture.call("put", thread.root, checkpoint, {"step": 1}, changed)
    found = yield from thread.get()
    same(values_of(found), {"key": "new"}, "the values")
    same(found.pending_writes or [], [], "the writes")
    same(found.metadata["step"], 1, "the step")
