"""`put_writes`: what tasks wrote after a checkpoint, in order, once."""

from __future__ import annotations

from typing import Any

from milepost.checkpoint._contract.records import WRITES_IDX_MAP
from milepost.testing._kit.clauses import KitEffects, Trait, clause, exactly, same
from milepost.testing._kit.saver_fixture import SaverFixture
from milepost.testing._suite.storing import EXACT


@clause("put_writes", Trait.HISTORY)
def writes_belong_to_their_checkpoint(fixture: SaverFixture) -> KitEffects[None]:
    """Writes are pending at the checkpoint that the config names, and at no other."""
    thread = yield from fixture.started(1, key=1)
    first = thread.head
    yield from thread.write([("key", "a"), ("other", [1])], "task-1")
    yield from thread.put(2, key=2)
    same((yield from thread.pending()), [], "the writes of the later checkpoint")
    wanted = [("task-1", "key", "a"), ("task-1", "other", [1])]
    same((yield from thread.pending(first)), wanted, "the writes of the earlier checkpoint")


@clause("put_writes")
def values_of_writes_come_back_exactly(fixture: SaverFixture) -> KitEffects[None]:
    """Values of every kind come back from a write equal and of the same type."""
    thread = yield from fixture.started(key=1)
    yield from thread.write(list(EXACT.items()), "task")
    found = yield from thread.pending()
    same([channel for _, channel, _ in found], list(EXACT), "the channels")
    for _, channel, value in found:
        exactly(value, EXACT[channel], f"the write to '{channel}'")


@clause("put_writes")
def writes_of_a_task_keep_their_order(fixture: SaverFixture) -> KitEffects[None]:
    """A task may write a channel several times: all its writes stay, in the order given."""
    thread = yield from fixture.started(key=1)
    given: list[tuple[str, Any]] = [("key" if n % 3 else "other", n) for n in range(12)]
    yield from thread.write(given, "task")
    same((yield from thread.pending()), [("task", c, v) for c, v in given], "the writes")


@clause("put_writes")
def tasks_come_in_the_order_of_their_paths(fixture: SaverFixture) -> KitEffects[None]:
    """Writes come back in the order of `task_path`, not in that of their arrival."""
    thread = yield from fixture.started(key=1)
    for task, path in (("task-a", "~3"), ("task-c", "~1"), ("task-b", "~2")):
        yield from thread.write([("key", path), ("key", task)], task, path)
    found = [value for _, _, value in (yield from thread.pending())]
    same(found, ["~1", "task-c", "~2", "task-b", "~3", "task-a"], "the writes")


@clause("put_writes")
def the_first_write_at_a_place_stays(fixture: SaverFixture) -> KitEffects[None]:
    """A task's ordinary write is stored once: a second one at its place changes nothing."""
    thread = yield from fixture.started(key=1)
    yield from thread.write([("key", "first"), ("other", 1)], "task")
    yield from thread.write([("key", "second"), ("other", 1)], "task")
    wanted = [("task", "key", "first"), ("task", "other", 1)]
    same((yield from thread.pending()), wanted, "the writes")


@clause("put_writes")
def later_places_are_added(fixture: SaverFixture) -> KitEffects[None]:
    """A repeated call that has more writes than the first adds what is new."""
    thread = yield from fixture.started(key=1)
    yield from thread.write([("key", "a")], "task")
    yield from thread.write([("key", "a"), ("key", "b")], "task")
    same((yield from thread.pending()), [("task", "key", "a"), ("task", "key", "b")], "the writes")


@clause("put_writes")
def tasks_do_not_share_places(fixture: SaverFixture) -> KitEffects[None]:
    """Two tasks that write the same channel at the same position both keep their write."""
    thread = yield from fixture.started(key=1)
    for task in ("task-1", "task-2"):
        yield from thread.write([("key", task)], task)
    found = yield from thread.pending()
    same(sorted(found), [(task, "key", task) for task in ("task-1", "task-2")], "the writes")


@clause("put_writes")
def special_writes_are_replaced(fixture: SaverFixture) -> KitEffects[None]:
    """Of the writes to a channel of WRITES_IDX_MAP the later one counts."""
    thread = yield from fixture.started(key=1)
    for channel in WRITES_IDX_MAP:
        yield from thread.write([(channel, "old")], "task")
        yield from thread.write([(channel, "new")], "task")
    found = yield from thread.pending()
    same(sorted(found), sorted(("task", c, "new") for c in WRITES_IDX_MAP), "the writes")


@clause("put_writes")
def special_writes_have_places_of_their_own(fixture: SaverFixture) -> KitEffects[None]:
    """Special writes neither hide a task's ordinary writes nor each other."""
    thread = yield from fixture.started(key=1)
    yield from thread.write([(channel, channel) for channel in WRITES_IDX_MAP], "task")
    yield from thread.write([("key", "kept"), ("other", "kept")], "task")
    wanted = [*((c, c) for c in WRITES_IDX_MAP), ("key", "kept"), ("other", "kept")]
    found = yield from thread.pending()
    same(sorted(found), sorted(("task", c, v) for c, v in wanted), "the writes")


@clause("put_writes")
def no_writes_are_no_error(fixture: SaverFixture) -> KitEffects[None]:
    """A task may write nothing."""
    thread = yield from fixture.started(key=1)
    yield from thread.write([], "task")
    same((yield from thread.pending()), [], "the writes")
