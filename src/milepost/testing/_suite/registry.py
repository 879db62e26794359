"""The registry of threads: `list_threads`, `get_thread`, `create_thread`, metadata."""

from __future__ import annotations

from typing import Any

from milepost.checkpoint._contract.step_saver import Fence
from milepost.errors import MilepostError
from milepost.testing._kit.clauses import KitEffects, Trait, call, caught, clause, holds, same
from milepost.testing._kit.saver_fixture import SaverFixture
from milepost.testing._suite.graphs import line, story
from milepost.testing._suite.steps import committed, prepared


def _listed(fixture: SaverFixture, **wanted: Any) -> KitEffects[list[str]]:
    """The threads of this clause that a listing gives, by their short names."""
    own = fixture.thread_id("")
    prefix = own + wanted.pop("prefix", "")
    found = yield fixture.call("list_threads", prefix=prefix, **wanted)
    return [info.thread_id.removeprefix(own) for info in found]


def _people(fixture: SaverFixture) -> KitEffects[None]:
    for name in ("bob:1", "ann:2", "ann:1", "ann%", "anna:1"):
        yield from fixture.thread(name).put(key=1)
        owner = name.split(":")[0]
        described = {"owner": owner, "tags": ["x", owner], "n": 1}
        yield fixture.call("set_thread_metadata", fixture.thread_id(name), described)


@clause("registry", Trait.REGISTRY)
def a_thread_is_known_from_its_first_checkpoint_on(fixture: SaverFixture) -> KitEffects[None]:
    """`get_thread` gives None before, and then the head and how much is stored."""
    thread = fixture.thread()
    same((yield fixture.call("get_thread", thread.thread_id)), None, "an unknown thread")
    for n in range(2):
        yield from thread.put(n, key=n)
    yield from thread.write([("key", 1), ("other", 2)], "task")
    info = yield fixture.call("get_thread", thread.thread_id)
    holds(info is not None, "the thread is not known")
    seen = (info.thread_id, info.head, info.metadata)
    same(seen, (thread.thread_id, thread.ids[-1], {}), "id, head and metadata")
    same((info.writes, info.checkpoints > 0, info.bytes > 0), (2, True, True), "the counts")
    holds(info.created_at <= info.updated_at, "created_at is after updated_at")


@clause("registry", Trait.REGISTRY)
def threads_are_found_by_their_metadata(fixture: SaverFixture) -> KitEffects[None]:
    """`list_threads` compares owner, tags and other keys; all that is asked for must hold."""
    yield from _people(fixture)
    same((yield from _listed(fixture, metadata={"owner": "ann"})), ["ann:1", "ann:2"], "an owner")
    same((yield from _listed(fixture, metadata={"tags": ["x", "bob"]})), ["bob:1"], "two tags")
    same((yield from _listed(fixture, metadata={"n": 1, "owner": "bob"})), ["bob:1"], "two keys")
    same((yield from _listed(fixture, metadata={"n": "1"})), [], "another type")
    same((yield from _listed(fixture, metadata={"n' OR 1=1 --": 1})), [], "a hostile key")


@clause("registry", Trait.REGISTRY)
def a_prefix_is_taken_literally(fixture: SaverFixture) -> KitEffects[None]:
    """`prefix` compares the beginning of the id, without wildcards."""
    yield from _people(fixture)
    same((yield from _listed(fixture, prefix="ann:")), ["ann:1", "ann:2"], "'ann:'")
    same((yield from _listed(fixture, prefix="ann%")), ["ann%"], "'ann%'")
    same((yield from _listed(fixture, prefix="ann_")), [], "'ann_'")


@clause("registry", Trait.REGISTRY)
def pages_follow_each_other(fixture: SaverFixture) -> KitEffects[None]:
    """Pages by `limit` and `after` give every thread once, in the order of the ids."""
    yield from _people(fixture)
    seen: list[str] = []
    for _ in range(4):
        after = {"after": fixture.thread_id(seen[-1])} if seen else {}
        seen += yield from _listed(fixture, limit=2, **after)
    same(seen, ["ann%", "ann:1", "ann:2", "anna:1", "bob:1"], "the threads")


@clause("registry", Trait.REGISTRY)
def the_status_says_how_a_thread_stands(fixture: SaverFixture) -> KitEffects[None]:
    """idle after a run, interrupted while it waits, error after a failure."""

    def fail(_state: Any) -> Any:
        raise LookupError("on purpose")

    failing = line("a").add_node("bad", fail).add_edge("a", "bad")
    for name, builder in (("idle", line("a")), ("interrupted", story([])), ("error", failing)):
        graph = builder.compile(checkpointer=fixture.saver)
        config = fixture.config(name)
        yield from caught(call(graph, "invoke", {"log": []}, config, durability="sync"))
        info = yield fixture.call("get_thread", fixture.thread_id(name))
        same(info.status, name, "the status")
        same((yield from _listed(fixture, status=name)), [name], f"the threads with status {name}")


@clause("registry", Trait.REGISTRY)
def a_deleted_thread_leaves_the_registry(fixture: SaverFixture) -> KitEffects[None]:
    """Neither the thread nor its metadata is known any more."""
    thread = yield from fixture.started(key=1)
    yield fixture.call("set_thread_metadata", thread.thread_id, {"owner": "ann"})
    yield fixture.call("delete_thread", thread.thread_id)
    same((yield fixture.call("get_thread", thread.thread_id)), None, "the thread")
    same((yield from _listed(fixture)), [], "the threads")
    yield from thread.put(key=1)
    info = yield fixture.call("get_thread", thread.thread_id)
    same(info.metadata, {}, "the metadata of a new thread of that name")


@clause("registry", Trait.REGISTRY)
def metadata_of_an_unknown_thread_is_refused(fixture: SaverFixture) -> KitEffects[None]:
    """`set_thread_metadata` raises for a thread that does not exist, and makes none."""
    asked = fixture.call("set_thread_metadata", fixture.thread_id(), {"owner": "ann"})
    error = yield from caught(asked)
    holds(isinstance(error, MilepostError), f"it raised {error!r}")
    same((yield from _listed(fixture)), [], "the threads")


@clause("registry", Trait.REGISTRY, Trait.CREATION)
def a_created_thread_is_known_and_has_no_checkpoint(fixture: SaverFixture) -> KitEffects[None]:
    """`create_thread` makes a thread known with its metadata, and a run finds it as new."""
    made = yield fixture.call("create_thread", fixture.thread_id(), {"owner": "ann"})
    seen = (made.thread_id, made.status, made.head, made.metadata)
    same(seen, (fixture.thread_id(), "idle", None, {"owner": "ann"}), "the thread")
    same(
        (yield from _listed(fixture, metadata={"owner": "ann"})), ["t"], "the threads of its owner"
    )
    same((yield from fixture.thread().find()), None, "its checkpoint")
    graph = line("a").compile(checkpointer=fixture.saver)
    found = yield call(graph, "invoke", {"log": []}, fixture.config(), durability="sync")
    same(found, {"log": ["a"]}, "the result of a run")
    info = yield fixture.call("get_thread", fixture.thread_id())
    same(info.metadata, {"owner": "ann"}, "the metadata after a run")


@clause("registry", Trait.REGISTRY, Trait.CREATION)
def a_thread_that_is_created_again_keeps_what_it_has(fixture: SaverFixture) -> KitEffects[None]:
    """`create_thread` of a known thread adds keys to its metadata, or replaces them, no more."""
    thread = yield from fixture.started(key=1)
    yield fixture.call("set_thread_metadata", thread.thread_id, {"owner": "ann", "n": 1})
    before = yield fixture.call("get_thread", thread.thread_id)
    yield fixture.call("create_thread", thread.thread_id, {"n": 2, "plan": "pro"})
    after = yield fixture.call("get_thread", thread.thread_id)
    same(after.metadata, {"owner": "ann", "n": 2, "plan": "pro"}, "the metadata")
    same(after._replace(metadata={}), before._replace(metadata={}), "all else")


@clause("registry", Trait.REGISTRY, Trait.CREATION)
def a_created_thread_is_deleted_like_any_other(fixture: SaverFixture) -> KitEffects[None]:
    """A thread without a checkpoint leaves the registry with `delete_thread`."""
    yield fixture.call("create_thread", fixture.thread_id(), {"owner": "ann"})
    yield fixture.call("delete_thread", fixture.thread_id())
    same((yield fixture.call("get_thread", fixture.thread_id())), None, "the thread")


@clause("registry", Trait.REGISTRY, Trait.STEPS)
def the_first_commit_stores_what_the_run_says_of_its_thread(
    fixture: SaverFixture,
) -> KitEffects[None]:
    """A fence's `thread_metadata` is stored with the first step, also with an inner graph's."""
    for ns in ("", "child:1"):
        thread = fixture.thread(f"t{ns}", ns=ns)
        fence = Fence(None, thread_metadata={"owner": "ann"})
        same((yield from committed(fixture, prepared(thread, fence, key=1))), [None], "the outcome")
        info = yield fixture.call("get_thread", thread.thread_id)
        same(info.metadata, {"owner": "ann"}, "the metadata")
