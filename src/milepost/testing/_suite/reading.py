"""`get_tuple`: the latest, or exactly the one that was asked for."""

from __future__ import annotations

from milepost._internal.ids import checkpoint_id
from milepost.checkpoint._contract.records import CheckpointTuple
from milepost.testing._kit.clauses import KitEffects, Trait, clause, holds, same
from milepost.testing._kit.saver_fixture import SaverFixture, ThreadBuilder, id_in, values_of

NAMES = (
    *("a", "A", "a ", "a/b", "a\\b", "../a", ".", "..", "a%", "a_", "a*", "é", "a\nb"),
    *("' OR '1'='1", '"; DROP TABLE checkpoints; --', "a:b|c", "0", "None", "x" * 200),
)
"""Ids that have to be taken literally."""


@clause("get_tuple")
def without_an_id_the_latest_is_found(fixture: SaverFixture) -> KitEffects[None]:
    """Without a checkpoint_id `get_tuple` gives the newest checkpoint, and its config names it."""
    thread = fixture.thread()
    for n in range(3):
        yield from thread.put(n, key=n)
    found = yield from thread.get()
    same(values_of(found), {"key": 2}, "the values of the latest")
    wanted = {"thread_id": thread.thread_id, "checkpoint_ns": "", "checkpoint_id": thread.ids[-1]}
    seen = {name: found.config["configurable"].get(name) for name in wanted}
    same(seen, wanted, "the configurable of the latest")


@clause("get_tuple", Trait.HISTORY)
def an_id_finds_exactly_that_checkpoint(fixture: SaverFixture) -> KitEffects[None]:
    """With a checkpoint_id `get_tuple` gives that checkpoint and no other."""
    thread = fixture.thread()
    for n in range(3):
        yield from thread.put(n, key=n)
    for n, id in enumerate(thread.ids):
        found = yield from thread.get(thread.at(id))
        same((found.checkpoint["id"], id_in(found.config)), (id, id), "the id")
        same(values_of(found), {"key": n}, f"the values of checkpoint {n}")


@clause("get_tuple")
def what_is_not_there_is_none(fixture: SaverFixture) -> KitEffects[None]:
    """An unknown thread, namespace or id gives None: not the latest, and no error."""
    thread = fixture.thread()
    same((yield from thread.find()), None, "an unknown thread")
    yield from thread.put(key=1)
    same((yield from thread.find(thread.at(checkpoint_id()))), None, "an unknown id")
    same((yield from fixture.thread(ns="child:1").find()), None, "an unknown namespace")
    elsewhere = fixture.thread("other").at(thread.ids[0])
    same((yield from thread.find(elsewhere)), None, "the id of another thread")


@clause("get_tuple")
def reading_creates_nothing(fixture: SaverFixture) -> KitEffects[None]:
    """A thread that was only asked for does not exist afterwards."""
    thread = fixture.thread()
    yield from thread.find()
    yield from thread.find(thread.at(checkpoint_id()))
    yield from thread.checkpoints()
    found = yield fixture.call("list", None)
    same([one for one in found if fixture.is_own(one)], [], "the checkpoints")


@clause("get_tuple")
def namespaces_are_kept_apart(fixture: SaverFixture) -> KitEffects[None]:
    """Each checkpoint_ns of a thread has a latest checkpoint and a history of its own."""
    root, child, grandchild = (fixture.thread(ns=ns) for ns in ("", "child:1", "child:1|inner:2"))
    for thread in (grandchild, child, root):
        yield from thread.put(key=thread.ns)
        yield from thread.write([("key", thread.ns)], "task")
    for thread in (root, child, grandchild):
        found = yield from thread.get()
        same(values_of(found), {"key": thread.ns}, f"the values in namespace '{thread.ns}'")
        same(found.pending_writes, [("task", "key", thread.ns)], "the writes")
        same(found.config["configurable"]["checkpoint_ns"], thread.ns, "the namespace")
        listed = yield from thread.checkpoints()
        same([one.checkpoint["id"] for one in listed], thread.ids, f"the list of '{thread.ns}'")


@clause("get_tuple")
def a_config_without_a_namespace_means_the_root(fixture: SaverFixture) -> KitEffects[None]:
    """A config with a thread_id alone reads, and writes, the namespace ''."""
    thread, child = fixture.thread(), fixture.thread(ns="child:1")
    thread.head = fixture.config()
    yield from thread.put(key="root")
    yield from child.put(key="child")
    for config in (fixture.config(), thread.root):
        found = yield from thread.get(config)
        same(values_of(found), {"key": "root"}, f"the values for {config}")


@clause("get_tuple")
def names_are_taken_literally(fixture: SaverFixture) -> KitEffects[None]:
    """Threads and namespaces with slashes, quotes, wildcards or capitals stay apart."""
    threads = [fixture.thread(name, ns=name) for name in NAMES]
    for thread in threads:
        yield from thread.put(key=thread.ns)
    for thread in threads:
        found = yield from thread.get()
        same(values_of(found), {"key": thread.ns}, f"the values of thread {thread.ns!r}")
        same(found.config["configurable"]["thread_id"], thread.thread_id, "the thread_id")
        listed = yield from thread.checkpoints()
        same(len(listed), 1, f"the number of checkpoints of {thread.ns!r}")
    astray = yield from threads[0].find(threads[0].at("../" + threads[1].ids[0]))
    same(astray, None, "a checkpoint_id that is no id")


@clause("get_tuple")
def get_gives_the_bare_checkpoint(fixture: SaverFixture) -> KitEffects[None]:
    """`get` gives the checkpoint of `get_tuple`, or None."""
    thread = fixture.thread()
    same((yield fixture.call("get", thread.root)), None, "an unknown thread")
    yield from thread.put(key=1)
    found = yield fixture.call("get", thread.root)
    same(found, (yield from thread.get()).checkpoint, "the checkpoint")


@clause("get_tuple")
def what_is_returned_can_be_changed(fixture: SaverFixture) -> KitEffects[None]:
    """Every reader gets objects of its own: changing them changes nothing that is stored."""
    thread = yield from fixture.started(key={"items": [1]})
    yield from thread.write([("key", [1])], "task")
    for reading in (thread.get(), _first(thread)):
        changed = yield from reading
        values_of(changed)["key"]["items"].append(2)
        changed.checkpoint["channel_versions"].clear()
        changed.metadata["step"] = 99
        holds(changed.pending_writes, "the writes are missing")
        (changed.pending_writes or [])[0][2].append(2)
        (changed.pending_writes or []).clear()
        found = yield from thread.get()
        same(values_of(found), {"key": {"items": [1]}}, "the values")
        same(found.checkpoint["channel_versions"], thread.versions, "the versions")
        same(found.metadata["step"], 0, "the step")
        same(found.pending_writes, [("task", "key", [1])], "the writes")


def _first(thread: ThreadBuilder) -> KitEffects[CheckpointTuple]:
    return (yield from thread.checkpoints())[0]
