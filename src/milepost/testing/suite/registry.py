"""The registry of threads: `list_threads`, `get_thread`, `set_thread_metadata`."""

from __future__ import annotations

from typing import Any

from milepost.errors import MilepostError
from milepost.testing.clauses import Trait, clause, holds, same
from milepost.testing.desk import Desk
from milepost.testing.effects import Program, call, caught
from milepost.testing.suite.graphs import line, story


def _listed(desk: Desk, **wanted: Any) -> Program[list[str]]:
    """The threads of this clause that a listing gives, by their short names."""
    own = desk.thread_id("")
    prefix = own + wanted.pop("prefix", "")
    found = yield call(desk.saver, "list_threads", prefix=prefix, **wanted)
    return [info.thread_id.removeprefix(own) for info in found]


def _people(desk: Desk) -> Program[None]:
    for name in ("bob:1", "ann:2", "ann:1", "ann%", "anna:1"):
        yield from desk.trail(name).put(key=1)
        owner = name.split(":")[0]
        described = {"owner": owner, "tags": ["x", owner], "n": 1}
        yield call(desk.saver, "set_thread_metadata", desk.thread_id(name), described)


@clause("registry", Trait.REGISTRY)
def a_thread_is_known_from_its_first_checkpoint_on(desk: Desk) -> Program[None]:
    """`get_thread` gives None before, and then the head and how much is stored."""
    trail = desk.trail()
    same((yield call(desk.saver, "get_thread", trail.thread_id)), None, "an unknown thread")
    for n in range(2):
        yield from trail.put(n, key=n)
    yield from trail.write([("key", 1), ("other", 2)], "task")
    info = yield call(desk.saver, "get_thread", trail.thread_id)
    holds(info is not None, "the thread is not known")
    seen = (info.thread_id, info.head, info.metadata)
    same(seen, (trail.thread_id, trail.ids[-1], {}), "id, head and metadata")
    same((info.writes, info.checkpoints > 0, info.bytes > 0), (2, True, True), "the counts")
    holds(info.created_at <= info.updated_at, "created_at is after updated_at")


@clause("registry", Trait.REGISTRY)
def threads_are_found_by_their_metadata(desk: Desk) -> Program[None]:
    """`list_threads` compares owner, tags and other keys; all that is asked for must hold."""
    yield from _people(desk)
    same((yield from _listed(desk, metadata={"owner": "ann"})), ["ann:1", "ann:2"], "an owner")
    same((yield from _listed(desk, metadata={"tags": ["x", "bob"]})), ["bob:1"], "two tags")
    same((yield from _listed(desk, metadata={"n": 1, "owner": "bob"})), ["bob:1"], "two keys")
    same((yield from _listed(desk, metadata={"n": "1"})), [], "another type")
    same((yield from _listed(desk, metadata={"n' OR 1=1 --": 1})), [], "a hostile key")


@clause("registry", Trait.REGISTRY)
def a_prefix_is_taken_literally(desk: Desk) -> Program[None]:
    """`prefix` compares the beginning of the id, without wildcards."""
    yield from _people(desk)
    same((yield from _listed(desk, prefix="ann:")), ["ann:1", "ann:2"], "'ann:'")
    same((yield from _listed(desk, prefix="ann%")), ["ann%"], "'ann%'")
    same((yield from _listed(desk, prefix="ann_")), [], "'ann_'")


@clause("registry", Trait.REGISTRY)
def pages_follow_each_other(desk: Desk) -> Program[None]:
    """Pages by `limit` and `after` give every thread once, in the order of the ids."""
    yield from _people(desk)
    seen: list[str] = []
    for _ in range(4):
        after = {"after": desk.thread_id(seen[-1])} if seen else {}
        seen += yield from _listed(desk, limit=2, **after)
    same(seen, ["ann%", "ann:1", "ann:2", "anna:1", "bob:1"], "the threads")


@clause("registry", Trait.REGISTRY)
def the_status_says_how_a_thread_stands(desk: Desk) -> Program[None]:
    """idle after a run, interrupted while it waits, error after a failure."""

    def fail(_state: Any) -> Any:
        raise LookupError("on purpose")

    failing = line("a").add_node("bad", fail).add_edge("a", "bad")
    for name, builder in (("idle", line("a")), ("interrupted", story([])), ("error", failing)):
        graph = builder.compile(checkpointer=desk.saver)
        config = desk.config(name)
        yield from caught(call(graph, "invoke", {"log": []}, config, durability="sync"))
        info = yield call(desk.saver, "get_thread", desk.thread_id(name))
        same(info.status, name, "the status")
        same((yield from _listed(desk, status=name)), [name], f"the threads with status {name}")


@clause("registry", Trait.REGISTRY)
def a_deleted_thread_leaves_the_registry(desk: Desk) -> Program[None]:
    """Neither the thread nor its metadata is known any more."""
    trail = desk.trail()
    yield from trail.put(key=1)
    yield call(desk.saver, "set_thread_metadata", trail.thread_id, {"owner": "ann"})
    yield call(desk.saver, "delete_thread", trail.thread_id)
    same((yield call(desk.saver, "get_thread", trail.thread_id)), None, "the thread")
    same((yield from _listed(desk)), [], "the threads")
    yield from trail.put(key=1)
    info = yield call(desk.saver, "get_thread", trail.thread_id)
    same(info.metadata, {}, "the metadata of a new thread of that name")


@clause("registry", Trait.REGISTRY)
def metadata_of_an_unknown_thread_is_refused(desk: Desk) -> Program[None]:
    """`set_thread_metadata` raises for a thread that does not exist, and makes none."""
    asked = call(desk.saver, "set_thread_metadata", desk.thread_id(), {"owner": "ann"})
    error = yield from caught(asked)
    holds(isinstance(error, MilepostError), f"it raised {error!r}")
    same((yield from _listed(desk)), [], "the threads")
