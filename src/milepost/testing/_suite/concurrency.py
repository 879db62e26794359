"""Callers at the same time, and calls that come late, early or twice."""

from __future__ import annotations

from typing import Any

from milepost.testing._kit.clauses import KitEffects, Together, Trait, call, clause, holds, same
from milepost.testing._kit.saver_fixture import SaverFixture, ThreadBuilder, id_in, values_of
from milepost.testing._suite.graphs import line


def _walk(thread: ThreadBuilder, steps: int) -> KitEffects[None]:
    for n in range(steps):
        yield from thread.put(n, key=[thread.thread_id, n], still=thread.thread_id)
        yield from thread.write([("key", n)], f"task-{n}")


@clause("concurrency")
def threads_at_once_do_not_disturb_each_other(fixture: SaverFixture) -> KitEffects[None]:
    """Threads that are written at the same time each read as if they were alone."""
    threads = [fixture.thread(f"t{n}") for n in range(4)]
    yield Together([_walk(thread, 4) for thread in threads])
    for thread in threads:
        found = yield from thread.get()
        wanted = {"key": [thread.thread_id, 3], "still": thread.thread_id}
        same(values_of(found), wanted, f"the values of {thread.thread_id}")
        same(found.pending_writes, [("task-3", "key", 3)], "the writes")
        same(id_in(found.config), thread.ids[-1], "the latest")


@clause("concurrency", Trait.HISTORY)
def two_writers_of_one_thread_lose_nothing(fixture: SaverFixture) -> KitEffects[None]:
    """Checkpoints of two writers on one thread are all kept; the largest id is the latest."""
    thread = yield from fixture.started(key=0)
    writers = [thread.branch(), thread.branch()]
    yield Together([_walk(writer, 4) for writer in writers])
    ids = sorted({id for writer in writers for id in writer.ids}, reverse=True)
    found = yield from thread.checkpoints()
    same([one.checkpoint["id"] for one in found], ids, "the ids")
    same((yield from thread.get()).checkpoint["id"], ids[0], "the latest")
    for writer in writers:
        mine = yield from thread.get(writer.head)
        same(values_of(mine)["key"], [thread.thread_id, 3], "the values of a writer's last")
        same(id_in(mine.parent_config), writer.ids[-2], "its parent")


@clause("concurrency")
def tasks_may_write_at_once(fixture: SaverFixture) -> KitEffects[None]:
    """The writes of tasks that end together are all there, in the order of their paths."""
    thread = yield from fixture.started(key=0)
    tasks = [f"task-{n}" for n in range(6)]
    yield Together([thread.write([("key", t), ("other", t)], t, f"~{t}") for t in tasks])
    wanted = [(task, channel, task) for task in tasks for channel in ("key", "other")]
    same((yield from thread.pending()), wanted, "the writes")


@clause("concurrency")
def the_same_calls_at_once_are_stored_once(fixture: SaverFixture) -> KitEffects[None]:
    """A put or put_writes that arrives several times at once, by retries, has one effect."""
    thread = fixture.thread()
    checkpoint, changed = thread.next(key=1)
    asked = fixture.call("put", thread.root, checkpoint, {"step": 0}, changed)
    yield Together([_one(asked) for _ in range(3)])
    yield Together([thread.write([("key", "a"), ("key", "b")], "task") for _ in range(3)])
    same(len((yield from thread.checkpoints())), 1, "the number of checkpoints")
    same((yield from thread.pending()), [("task", "key", "a"), ("task", "key", "b")], "the writes")


def _one(effect: Any) -> KitEffects[Any]:
    return (yield effect)


@clause("concurrency")
def writes_may_come_before_their_checkpoint(fixture: SaverFixture) -> KitEffects[None]:
    """Writes that overtake the checkpoint that they belong to are there once it is."""
    thread = fixture.thread()
    checkpoint, changed = thread.next(key=1)
    yield from thread.write([("key", "early")], "task")
    yield fixture.call("put", thread.root, checkpoint, {"step": 0}, changed)
    same((yield from thread.pending()), [("task", "key", "early")], "the writes")


@clause("concurrency", Trait.HISTORY)
def checkpoints_may_come_in_any_order(fixture: SaverFixture) -> KitEffects[None]:
    """A parent that is stored after its child is found, and is not taken for the latest."""
    thread = fixture.thread()
    older, first = thread.next(key=1)
    newer, second = thread.next(key=2)
    parent = thread.at(older["id"])
    yield fixture.call("put", parent, newer, {"step": 1}, second)
    yield fixture.call("put", thread.root, older, {"step": 0}, first)
    found = yield from thread.get()
    same(values_of(found), {"key": 2}, "the latest values")
    same(values_of((yield from thread.get(found.parent_config))), {"key": 1}, "the parent's")
    same((yield from thread.steps()), [1, 0], "the steps")


@clause("concurrency")
def a_reader_sees_whole_checkpoints(fixture: SaverFixture) -> KitEffects[None]:
    """While a thread is written, a reader sees one checkpoint or the next, and nothing between."""
    thread, seen = fixture.thread(), []
    yield from thread.put(0, left=0, right=[0])
    done = []

    def write() -> KitEffects[None]:
        for n in range(1, 13):
            yield from thread.put(n, left=n, right=[n] * 50)
        done.append(True)

    def read() -> KitEffects[None]:
        reader = fixture.thread()
        while not done:
            found = yield from reader.get()
            values = values_of(found)
            seen.append(values["left"])
            holds(
                set(values["right"]) == {values["left"]} and found.metadata["step"] == seen[-1],
                f"a reader saw half of a checkpoint: {values} at step {found.metadata['step']}",
            )

    yield Together([write(), read()])
    same(seen, sorted(seen), "the steps that the reader saw")


@clause("concurrency")
def graphs_may_run_at_once(fixture: SaverFixture) -> KitEffects[None]:
    """Runs on threads of their own, saved in the background, all end as they should."""
    graph = line("a", "b", "c").compile(checkpointer=fixture.saver)
    configs = [fixture.config(f"t{n}") for n in range(4)]
    asked = [
        call(graph, "invoke", {"log": [str(n)]}, config, durability="async")
        for n, config in enumerate(configs)
    ]
    results = yield Together([_one(each) for each in asked])
    wanted = [{"log": [str(n), "a", "b", "c"]} for n in range(4)]
    same(results, wanted, "the results")
    for config, values in zip(configs, wanted, strict=True):
        state = yield call(graph, "get_state", config)
        same((state.values, state.next), (values, ()), "what is stored")
