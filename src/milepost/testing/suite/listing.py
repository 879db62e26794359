"""`list`: newest first, narrowed by filter, before and limit."""

from __future__ import annotations

from milepost.testing.clauses import Trait, clause, same
from milepost.testing.desk import Desk, Trail, id_in, values_of
from milepost.testing.effects import Program, call


def _five(desk: Desk) -> Program[Trail]:
    """A thread of five checkpoints, every other one odd."""
    trail = desk.trail()
    for n in range(5):
        yield from trail.put(n, key=n, meta={"odd": bool(n % 2), "nothing": None})
    return trail


@clause("list", Trait.HISTORY)
def list_gives_the_newest_first(desk: Desk) -> Program[None]:
    """`list` gives all checkpoints of a thread, in the order of their ids, newest first."""
    trail = yield from _five(desk)
    same((yield from trail.steps()), [4, 3, 2, 1, 0], "the steps")


@clause("list")
def list_gives_what_get_tuple_gives(desk: Desk) -> Program[None]:
    """An item of a listing is the same as what `get_tuple` gives: values, parent, writes."""
    trail = desk.trail()
    for n in range(3):
        yield from trail.put(n, key=n, still=0)
        yield from trail.write([("key", n), ("other", [n])], f"task-{n}", "~1")
    for found in (yield from trail.list()):
        same(found, (yield from trail.get(trail.at(found.checkpoint["id"]))), "the item")


@clause("list", Trait.HISTORY)
def limit_bounds_a_listing(desk: Desk) -> Program[None]:
    """`limit` gives at most that many, the newest; 0 gives none."""
    trail = yield from _five(desk)
    same((yield from trail.steps(limit=2)), [4, 3], "limit=2")
    same((yield from trail.steps(limit=0)), [], "limit=0")
    same((yield from trail.steps(limit=9)), [4, 3, 2, 1, 0], "limit=9")


@clause("list", Trait.HISTORY)
def before_gives_older_ones_only(desk: Desk) -> Program[None]:
    """`before` leaves out the checkpoint that it names and all newer ones."""
    trail = yield from _five(desk)
    same((yield from trail.steps(before=trail.at(trail.ids[2]))), [1, 0], "before the third")
    same((yield from trail.steps(before=trail.at(trail.ids[0]))), [], "before the first")


@clause("list", Trait.HISTORY)
def filter_compares_metadata(desk: Desk) -> Program[None]:
    """All pairs of `filter` must be equal to the metadata; a key that is absent equals nothing."""
    trail = yield from _five(desk)
    same((yield from trail.steps(filter={"odd": True})), [3, 1], "one pair")
    same((yield from trail.steps(filter={"odd": True, "step": 1})), [1], "two pairs")
    same((yield from trail.steps(filter={"odd": True, "step": 2})), [], "two pairs that exclude")
    same((yield from trail.steps(filter={"source": "input"})), [], "another value")
    same((yield from trail.steps(filter={"nothing": None, "step": 0})), [0], "None that is there")
    same((yield from trail.steps(filter={"unknown": None})), [], "None for an unknown key")
    same(len((yield from trail.steps(filter={}))), 5, "an empty filter: the number of items")


@clause("list")
def filters_are_not_interpreted(desk: Desk) -> Program[None]:
    """Keys and values of a filter are compared literally, whatever they contain."""
    trail = desk.trail()
    yield from trail.put(meta={"a.b": "dot", "$.step": "path", "nested": {"a": 1}}, key=1)
    for key in ("source' OR '1'='1", "step); DROP TABLE checkpoints; --", "%", "nested.a"):
        same((yield from trail.steps(filter={key: "loop"})), [], f"the key {key!r}")
    for value in ("%", "l_op", "' OR ''='"):
        same((yield from trail.steps(filter={"source": value})), [], f"the value {value!r}")
    for pair in ({"a.b": "dot"}, {"$.step": "path"}, {"nested": {"a": 1}}):
        same((yield from trail.steps(filter=pair)), [0], f"the filter {pair}")


@clause("list", Trait.HISTORY)
def filter_before_and_limit_work_together(desk: Desk) -> Program[None]:
    """`limit` counts what `filter` and `before` leave."""
    trail = yield from _five(desk)
    last = trail.at(trail.ids[4])
    same((yield from trail.steps(filter={"odd": False}, before=last, limit=1)), [2], "the steps")
    same((yield from trail.steps(filter={"step": 0}, limit=1)), [0], "a match far back")


@clause("list", Trait.HISTORY)
def list_with_an_id_gives_that_one(desk: Desk) -> Program[None]:
    """A config with a checkpoint_id lists that checkpoint alone."""
    trail = yield from _five(desk)
    found = yield call(desk.saver, "list", trail.at(trail.ids[1]))
    same([id_in(one.config) for one in found], [trail.ids[1]], "the ids")


@clause("list")
def list_without_a_config_covers_all_threads(desk: Desk) -> Program[None]:
    """`list(None)` gives the checkpoints of every thread and namespace; filters apply."""
    trails = [desk.trail("t"), desk.trail("u"), desk.trail("u", ns="child:1")]
    for trail in trails:
        yield from trail.put(key=trail.ns, meta={"mine": desk.thread_id()})
    found = yield call(desk.saver, "list", None)
    ids = {one.checkpoint["id"] for one in found if desk.is_own(one)}
    same(ids, {trail.ids[0] for trail in trails}, "the ids")
    found = yield call(desk.saver, "list", None, filter={"mine": desk.thread_id()}, limit=2)
    same(len(found), 2, "the number of items with a filter and a limit")
    same([one for one in found if not desk.is_own(one)], [], "what the filter should exclude")
    same({tuple(values_of(one)) for one in found}, {("key",)}, "the channels")
