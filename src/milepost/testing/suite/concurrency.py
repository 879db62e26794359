"""Callers at the same time, and calls that come late, early or twice."""

from __future__ import annotations

from typing import Any

from milepost.testing.clauses import Trait, clause, holds, same
from milepost.testing.desk import Desk, Trail, id_in, values_of
from milepost.testing.effects import Program, Together, call
from milepost.testing.suite.graphs import line
from milepost.testing.suite.writes import pending


def _walk(trail: Trail, steps: int) -> Program[None]:
    for n in range(steps):
        yield from trail.put(n, key=[trail.thread_id, n], still=trail.thread_id)
        yield from trail.write([("key", n)], f"task-{n}")


@clause("concurrency")
def threads_at_once_do_not_disturb_each_other(desk: Desk) -> Program[None]:
    """Threads that are written at the same time each read as if they were alone."""
    trails = [desk.trail(f"t{n}") for n in range(4)]
    yield Together([_walk(trail, 4) for trail in trails])
    for trail in trails:
        found = yield from trail.get()
        wanted = {"key": [trail.thread_id, 3], "still": trail.thread_id}
        same(values_of(found), wanted, f"the values of {trail.thread_id}")
        same(found.pending_writes, [("task-3", "key", 3)], "the writes")
        same(id_in(found.config), trail.ids[-1], "the latest")


@clause("concurrency", Trait.HISTORY)
def two_writers_of_one_thread_lose_nothing(desk: Desk) -> Program[None]:
    """Checkpoints of two writers on one thread are all kept; the largest id is the latest."""
    trail = desk.trail()
    yield from trail.put(key=0)
    writers = [trail.branch(), trail.branch()]
    yield Together([_walk(writer, 4) for writer in writers])
    ids = sorted({id for writer in writers for id in writer.ids}, reverse=True)
    found = yield from trail.list()
    same([one.checkpoint["id"] for one in found], ids, "the ids")
    same((yield from trail.get()).checkpoint["id"], ids[0], "the latest")
    for writer in writers:
        mine = yield from trail.get(writer.head)
        same(values_of(mine)["key"], [trail.thread_id, 3], "the values of a writer's last")
        same(id_in(mine.parent_config), writer.ids[-2], "its parent")


@clause("concurrency")
def tasks_may_write_at_once(desk: Desk) -> Program[None]:
    """The writes of tasks that end together are all there, in the order of their paths."""
    trail = desk.trail()
    yield from trail.put(key=0)
    tasks = [f"task-{n}" for n in range(6)]
    yield Together([trail.write([("key", t), ("other", t)], t, f"~{t}") for t in tasks])
    wanted = [(task, channel, task) for task in tasks for channel in ("key", "other")]
    same((yield from pending(trail)), wanted, "the writes")


@clause("concurrency")
def the_same_calls_at_once_are_stored_once(desk: Desk) -> Program[None]:
    """A put or put_writes that arrives several times at once, by retries, has one effect."""
    trail = desk.trail()
    checkpoint, changed = trail.next(key=1)
    asked = call(desk.saver, "put", trail.root, checkpoint, {"step": 0}, changed)
    yield Together([_one(asked) for _ in range(3)])
    trail.head = trail.at(checkpoint["id"])
    yield Together([trail.write([("key", "a"), ("key", "b")], "task") for _ in range(3)])
    same(len((yield from trail.list())), 1, "the number of checkpoints")
    same((yield from pending(trail)), [("task", "key", "a"), ("task", "key", "b")], "the writes")


def _one(effect: Any) -> Program[Any]:
    return (yield effect)


@clause("concurrency")
def writes_may_come_before_their_checkpoint(desk: Desk) -> Program[None]:
    """Writes that overtake the checkpoint that they belong to are there once it is."""
    trail = desk.trail()
    checkpoint, changed = trail.next(key=1)
    trail.head = trail.at(checkpoint["id"])
    yield from trail.write([("key", "early")], "task")
    yield call(desk.saver, "put", trail.root, checkpoint, {"step": 0}, changed)
    same((yield from pending(trail)), [("task", "key", "early")], "the writes")


@clause("concurrency", Trait.HISTORY)
def checkpoints_may_come_in_any_order(desk: Desk) -> Program[None]:
    """A parent that is stored after its child is found, and is not taken for the latest."""
    trail = desk.trail()
    older, first = trail.next(key=1)
    newer, second = trail.next(key=2)
    parent = trail.at(older["id"])
    yield call(desk.saver, "put", parent, newer, {"step": 1}, second)
    yield call(desk.saver, "put", trail.root, older, {"step": 0}, first)
    found = yield from trail.get()
    same(values_of(found), {"key": 2}, "the latest values")
    same(values_of((yield from trail.get(found.parent_config))), {"key": 1}, "the parent's")
    same((yield from trail.steps()), [1, 0], "the steps")


@clause("concurrency")
def a_reader_sees_whole_checkpoints(desk: Desk) -> Program[None]:
    """While a thread is written, a reader sees one checkpoint or the next, and nothing between."""
    trail, seen = desk.trail(), []
    yield from trail.put(0, left=0, right=[0])
    done = []

    def write() -> Program[None]:
        for n in range(1, 13):
            yield from trail.put(n, left=n, right=[n] * 50)
        done.append(True)

    def read() -> Program[None]:
        reader = desk.trail()
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
def graphs_may_run_at_once(desk: Desk) -> Program[None]:
    """Runs on threads of their own, saved in the background, all end as they should."""
    graph = line("a", "b", "c").compile(checkpointer=desk.saver)
    configs = [desk.config(f"t{n}") for n in range(4)]
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
