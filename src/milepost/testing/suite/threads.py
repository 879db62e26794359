"""`delete_thread`: all of it goes, and nothing else."""

from __future__ import annotations

from milepost.testing.clauses import clause, same
from milepost.testing.desk import Desk, values_of
from milepost.testing.effects import Program, call


@clause("delete_thread")
def delete_thread_removes_all_of_it(desk: Desk) -> Program[None]:
    """A deleted thread has no checkpoint left, in no namespace."""
    trails = [desk.trail(), desk.trail(ns="child:1"), desk.trail(ns="child:1|inner:2")]
    for trail in trails:
        for n in range(2):
            yield from trail.put(n, key=n)
            yield from trail.write([("key", n)], "task")
    yield call(desk.saver, "delete_thread", desk.thread_id())
    for trail in trails:
        same((yield from trail.look()), None, f"the latest of namespace '{trail.ns}'")
        same((yield from trail.look(trail.head)), None, "a checkpoint by its id")
        same((yield from trail.list()), [], f"the list of namespace '{trail.ns}'")
    found = yield call(desk.saver, "list", None)
    same([one for one in found if desk.is_own(one)], [], "the list of all threads")


@clause("delete_thread")
def delete_thread_leaves_the_others(desk: Desk) -> Program[None]:
    """Other threads stay whole, also those whose ids look alike."""
    others = [desk.trail(name) for name in ("t2", "", "T", "t_", "t%")]
    doomed = desk.trail("t")
    for trail in (*others, doomed):
        yield from trail.put(key=trail.thread_id)
        yield from trail.write([("key", 2)], "task")
    yield call(desk.saver, "delete_thread", doomed.thread_id)
    for trail in others:
        found = yield from trail.get()
        same(values_of(found), {"key": trail.thread_id}, f"thread {trail.thread_id!r}")
        same(found.pending_writes, [("task", "key", 2)], "its writes")


@clause("delete_thread")
def deleting_what_is_not_there_is_no_error(desk: Desk) -> Program[None]:
    """An unknown thread can be deleted, also twice."""
    for _ in range(2):
        yield call(desk.saver, "delete_thread", desk.thread_id())


@clause("delete_thread")
def a_deleted_thread_starts_anew(desk: Desk) -> Program[None]:
    """Nothing of a deleted thread comes back when its id, or a checkpoint's id, is used again."""
    trail = desk.trail()
    checkpoint, changed = trail.next(key="old", other="old")
    yield call(desk.saver, "put", trail.root, checkpoint, {"step": 0}, changed)
    trail.head = trail.at(checkpoint["id"])
    yield from trail.write([("key", "old")], "task")
    yield call(desk.saver, "delete_thread", trail.thread_id)
    checkpoint["channel_values"] = {"key": "new"}
    checkpoint["channel_versions"].pop("other")
    changed = {"key": changed["key"]}
    yield call(desk.saver, "put", trail.root, checkpoint, {"step": 1}, changed)
    found = yield from trail.get()
    same(values_of(found), {"key": "new"}, "the values")
    same(found.pending_writes or [], [], "the writes")
    same(found.metadata["step"], 1, "the step")
