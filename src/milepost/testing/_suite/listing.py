"""`list`: newest first, narrowed by filter, before and limit."""

from __future__ import annotations

from milepost.testing._kit.clauses import KitEffects, Trait, clause, same
from milepost.testing._kit.saver_fixture import SaverFixture, ThreadBuilder, id_in, values_of


def _five(fixture: SaverFixture) -> KitEffects[ThreadBuilder]:
    """A thread of five checkpoints, every other one odd."""
    thread = fixture.thread()
    for n in range(5):
        yield from thread.put(n, key=n, meta={"odd": bool(n % 2), "nothing": None})
    return thread


@clause("list", Trait.HISTORY)
def list_gives_the_newest_first(fixture: SaverFixture) -> KitEffects[None]:
    """`list` gives all checkpoints of a thread, in the order of their ids, newest first."""
    thread = yield from _five(fixture)
    same((yield from thread.steps()), [4, 3, 2, 1, 0], "the steps")


@clause("list")
def list_gives_what_get_tuple_gives(fixture: SaverFixture) -> KitEffects[None]:
    """An item of a listing is the same as what `get_tuple` gives: values, parent, writes."""
    thread = fixture.thread()
    for n in range(3):
        yield from thread.put(n, key=n, still=0)
        yield from thread.write([("key", n), ("other", [n])], f"task-{n}", "~1")
    for found in (yield from thread.checkpoints()):
        same(found, (yield from thread.get(thread.at(found.checkpoint["id"]))), "the item")


@clause("list", Trait.HISTORY)
def limit_bounds_a_listing(fixture: SaverFixture) -> KitEffects[None]:
    """`limit` gives at most that many, the newest; 0 gives none."""
    thread = yield from _five(fixture)
    same((yield from thread.steps(limit=2)), [4, 3], "limit=2")
    same((yield from thread.steps(limit=0)), [], "limit=0")
    same((yield from thread.steps(limit=9)), [4, 3, 2, 1, 0], "limit=9")


@clause("list", Trait.HISTORY)
def before_gives_older_ones_only(fixture: SaverFixture) -> KitEffects[None]:
    """`before` leaves out the checkpoint that it names and all newer ones."""
    thread = yield from _five(fixture)
    same((yield from thread.steps(before=thread.at(thread.ids[2]))), [1, 0], "before the third")
    same((yield from thread.steps(before=thread.at(thread.ids[0]))), [], "before the first")


@clause("list", Trait.HISTORY)
def filter_compares_metadata(fixture: SaverFixture) -> KitEffects[None]:
    """All pairs of `filter` must be equal to the metadata; a key that is absent equals nothing."""
    thread = yield from _five(fixture)
    same((yield from thread.steps(filter={"odd": True})), [3, 1], "one pair")
    same((yield from thread.steps(filter={"odd": True, "step": 1})), [1], "two pairs")
    same((yield from thread.steps(filter={"odd": True, "step": 2})), [], "two pairs that exclude")
    same((yield from thread.steps(filter={"source": "input"})), [], "another value")
    same((yield from thread.steps(filter={"nothing": None, "step": 0})), [0], "None that is there")
    same((yield from thread.steps(filter={"unknown": None})), [], "None for an unknown key")
    same(len((yield from thread.steps(filter={}))), 5, "an empty filter: the number of items")


@clause("list")
def filters_are_not_interpreted(fixture: SaverFixture) -> KitEffects[None]:
    """Keys and values of a filter are compared literally, whatever they contain."""
    meta = {"a.b": "dot", "$.step": "path", "nested": {"a": 1}}
    thread = yield from fixture.started(meta=meta, key=1)
    for key in ("source' OR '1'='1", "step); DROP TABLE checkpoints; --", "%", "nested.a"):
        same((yield from thread.steps(filter={key: "loop"})), [], f"the key {key!r}")
    for value in ("%", "l_op", "' OR ''='"):
        same((yield from thread.steps(filter={"source": value})), [], f"the value {value!r}")
    for pair in ({"a.b": "dot"}, {"$.step": "path"}, {"nested": {"a": 1}}):
        same((yield from thread.steps(filter=pair)), [0], f"the filter {pair}")


@clause("list", Trait.HISTORY)
def filter_before_and_limit_work_together(fixture: SaverFixture) -> KitEffects[None]:
    """`limit` counts what `filter` and `before` leave."""
    thread = yield from _five(fixture)
    last = thread.at(thread.ids[4])
    same((yield from thread.steps(filter={"odd": False}, before=last, limit=1)), [2], "the steps")
    same((yield from thread.steps(filter={"step": 0}, limit=1)), [0], "a match far back")


@clause("list", Trait.HISTORY)
def list_with_an_id_gives_that_one(fixture: SaverFixture) -> KitEffects[None]:
    """A config with a checkpoint_id lists that checkpoint alone."""
    thread = yield from _five(fixture)
    found = yield fixture.call("list", thread.at(thread.ids[1]))
    same([id_in(one.config) for one in found], [thread.ids[1]], "the ids")


@clause("list")
def list_without_a_config_covers_all_threads(fixture: SaverFixture) -> KitEffects[None]:
    """`list(None)` gives the checkpoints of every thread and namespace; filters apply."""
    threads = [fixture.thread("t"), fixture.thread("u"), fixture.thread("u", ns="child:1")]
    for thread in threads:
        yield from thread.put(key=thread.ns, meta={"mine": fixture.thread_id()})
    found = yield fixture.call("list", None)
    ids = {one.checkpoint["id"] for one in found if fixture.is_own(one)}
    same(ids, {thread.ids[0] for thread in threads}, "the ids")
    found = yield fixture.call("list", None, filter={"mine": fixture.thread_id()}, limit=2)
    same(len(found), 2, "the number of items with a filter and a limit")
    same([one for one in found if not fixture.is_own(one)], [], "what the filter should exclude")
    same({tuple(values_of(one)) for one in found}, {("key",)}, "the channels")
