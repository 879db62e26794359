"""`get_tuple`: the latest, or exactly the one that was asked for."""

from __future__ import annotations

from milepost.checkpoint.records import CheckpointTuple
from milepost.ids import checkpoint_id
from milepost.testing.clauses import Trait, clause, holds, same
from milepost.testing.desk import Desk, Trail, id_in, values_of
from milepost.testing.effects import Program, call

NAMES = (
    *("a", "A", "a ", "a/b", "a\\b", "../a", ".", "..", "a%", "a_", "a*", "é", "a\nb"),
    *("' OR '1'='1", '"; DROP TABLE checkpoints; --', "a:b|c", "0", "None", "x" * 200),
)
"""Ids that have to be taken literally."""


@clause("get_tuple")
def without_an_id_the_latest_is_found(desk: Desk) -> Program[None]:
    """Without a checkpoint_id `get_tuple` gives the newest checkpoint, and its config names it."""
    trail = desk.trail()
    for n in range(3):
        yield from trail.put(n, key=n)
    found = yield from trail.get()
    same(values_of(found), {"key": 2}, "the values of the latest")
    wanted = {"thread_id": trail.thread_id, "checkpoint_ns": "", "checkpoint_id": trail.ids[-1]}
    seen = {name: found.config["configurable"].get(name) for name in wanted}
    same(seen, wanted, "the configurable of the latest")


@clause("get_tuple", Trait.HISTORY)
def an_id_finds_exactly_that_checkpoint(desk: Desk) -> Program[None]:
    """With a checkpoint_id `get_tuple` gives that checkpoint and no other."""
    trail = desk.trail()
    for n in range(3):
        yield from trail.put(n, key=n)
    for n, id in enumerate(trail.ids):
        found = yield from trail.get(trail.at(id))
        same((found.checkpoint["id"], id_in(found.config)), (id, id), "the id")
        same(values_of(found), {"key": n}, f"the values of checkpoint {n}")


@clause("get_tuple")
def what_is_not_there_is_none(desk: Desk) -> Program[None]:
    """An unknown thread, namespace or id gives None: not the latest, and no error."""
    trail = desk.trail()
    same((yield from trail.look()), None, "an unknown thread")
    yield from trail.put(key=1)
    same((yield from trail.look(trail.at(checkpoint_id()))), None, "an unknown id")
    same((yield from desk.trail(ns="child:1").look()), None, "an unknown namespace")
    elsewhere = desk.trail("other").at(trail.ids[0])
    same((yield from trail.look(elsewhere)), None, "the id of another thread")


@clause("get_tuple")
def reading_creates_nothing(desk: Desk) -> Program[None]:
    """A thread that was only asked for does not exist afterwards."""
    trail = desk.trail()
    yield from trail.look()
    yield from trail.look(trail.at(checkpoint_id()))
    yield from trail.list()
    found = yield call(desk.saver, "list", None)
    same([one for one in found if desk.is_own(one)], [], "the checkpoints")


@clause("get_tuple")
def namespaces_are_kept_apart(desk: Desk) -> Program[None]:
    """Each checkpoint_ns of a thread has a latest checkpoint and a history of its own."""
    root, child, grandchild = (desk.trail(ns=ns) for ns in ("", "child:1", "child:1|inner:2"))
    for trail in (grandchild, child, root):
        yield from trail.put(key=trail.ns)
        yield from trail.write([("key", trail.ns)], "task")
    for trail in (root, child, grandchild):
        found = yield from trail.get()
        same(values_of(found), {"key": trail.ns}, f"the values in namespace '{trail.ns}'")
        same(found.pending_writes, [("task", "key", trail.ns)], "the writes")
        same(found.config["configurable"]["checkpoint_ns"], trail.ns, "the namespace")
        listed = yield from trail.list()
        same([one.checkpoint["id"] for one in listed], trail.ids, f"the list of '{trail.ns}'")


@clause("get_tuple")
def a_config_without_a_namespace_means_the_root(desk: Desk) -> Program[None]:
    """A config with a thread_id alone reads, and writes, the namespace ''."""
    trail, child = desk.trail(), desk.trail(ns="child:1")
    trail.head = desk.config()
    yield from trail.put(key="root")
    yield from child.put(key="child")
    for config in (desk.config(), trail.root):
        found = yield from trail.get(config)
        same(values_of(found), {"key": "root"}, f"the values for {config}")


@clause("get_tuple")
def names_are_taken_literally(desk: Desk) -> Program[None]:
    """Threads and namespaces with slashes, quotes, wildcards or capitals stay apart."""
    trails = [desk.trail(name, ns=name) for name in NAMES]
    for trail in trails:
        yield from trail.put(key=trail.ns)
    for trail in trails:
        found = yield from trail.get()
        same(values_of(found), {"key": trail.ns}, f"the values of thread {trail.ns!r}")
        same(found.config["configurable"]["thread_id"], trail.thread_id, "the thread_id")
        same(len((yield from trail.list())), 1, f"the number of checkpoints of {trail.ns!r}")
    astray = yield from trails[0].look(trails[0].at("../" + trails[1].ids[0]))
    same(astray, None, "a checkpoint_id that is no id")


@clause("get_tuple")
def get_gives_the_bare_checkpoint(desk: Desk) -> Program[None]:
    """`get` gives the checkpoint of `get_tuple`, or None."""
    trail = desk.trail()
    same((yield call(desk.saver, "get", trail.root)), None, "an unknown thread")
    yield from trail.put(key=1)
    found = yield call(desk.saver, "get", trail.root)
    same(found, (yield from trail.get()).checkpoint, "the checkpoint")


@clause("get_tuple")
def what_is_returned_can_be_changed(desk: Desk) -> Program[None]:
    """Every reader gets objects of its own: changing them changes nothing that is stored."""
    trail = desk.trail()
    yield from trail.put(key={"items": [1]})
    yield from trail.write([("key", [1])], "task")
    for reading in (trail.get(), _first(trail)):
        vandal = yield from reading
        values_of(vandal)["key"]["items"].append(2)
        vandal.checkpoint["channel_versions"].clear()
        vandal.metadata["step"] = 99
        holds(vandal.pending_writes, "the writes are missing")
        (vandal.pending_writes or [])[0][2].append(2)
        (vandal.pending_writes or []).clear()
        found = yield from trail.get()
        same(values_of(found), {"key": {"items": [1]}}, "the values")
        same(found.checkpoint["channel_versions"], trail.versions, "the versions")
        same(found.metadata["step"], 0, "the step")
        same(found.pending_writes, [("task", "key", [1])], "the writes")


def _first(trail: Trail) -> Program[CheckpointTuple]:
    return (yield from trail.list())[0]
