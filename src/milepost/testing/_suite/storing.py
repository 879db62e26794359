"""`put`: a checkpoint is stored whole, exactly, and for good."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from milepost.testing._kit.clauses import KitEffects, Trait, clause, exactly, holds, same
from milepost.testing._kit.saver_fixture import SaverFixture, id_in, values_of
from milepost.types import _DeltaSnapshot

EXACT: dict[str, Any] = {
    "none": None,
    "booleans": [True, False],
    "numbers": [0, -1, 1.0, 2**63, 1e300],
    "text": ["", "é ß 漢 🙂", 'quote " and \\ and \n', "NULL"],
    "bytes": b"\x00\xff",
    "tuples": (1, ("two", [3])),
    "sets": {1, 2},
    "empty": [[], {}, (), ""],
    "deep": {"a": {"b": [{"c": (1, None)}]}},
    "integer keys": {1: "one"},
    "time": datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
    "uuid": UUID(int=7),
    "decimal": Decimal("1.10"),
    "snapshot": _DeltaSnapshot(["whole"]),
}
"""Values that a lossy encoding would change."""


@clause("put")
def put_returns_the_config_of_the_new_checkpoint(fixture: SaverFixture) -> KitEffects[None]:
    """`put` returns a config with thread_id, checkpoint_ns and the new checkpoint_id."""
    thread = fixture.thread(ns="child:1")
    config = yield from thread.put(key=1)
    wanted = {
        "thread_id": thread.thread_id,
        "checkpoint_ns": "child:1",
        "checkpoint_id": thread.ids[-1],
    }
    found = {name: config["configurable"].get(name) for name in wanted}
    same(found, wanted, "the configurable that put returned")


@clause("put")
def a_checkpoint_comes_back_whole(fixture: SaverFixture) -> KitEffects[None]:
    """Every key of a checkpoint is stored: v, id, ts, values, versions, seen and updated."""
    thread = fixture.thread()
    checkpoint, changed = thread.next(one=1, two=2)
    yield fixture.call("put", thread.root, checkpoint, {"step": 0}, changed)
    found = yield from thread.get()
    exactly(dict(sorted(found.checkpoint.items())), dict(sorted(checkpoint.items())), "it")


@clause("put")
def values_come_back_exactly(fixture: SaverFixture) -> KitEffects[None]:
    """Values of every kind come back equal and of the same type."""
    thread = yield from fixture.started(**EXACT)
    found = values_of((yield from thread.get()))
    same(sorted(found), sorted(EXACT), "the channels")
    for name, wanted in EXACT.items():
        exactly(found[name], wanted, f"the channel '{name}'")


@clause("put")
def metadata_is_stored_in_full(fixture: SaverFixture) -> KitEffects[None]:
    """Metadata comes back with all its keys, those that the saver does not know included."""
    thread = fixture.thread()
    extra = {"mine": {"deep": [None, 1.5, "é"]}, "run_id": "r", "source": "update", "step": 7}
    yield from thread.put(7, meta=extra, key=1)
    found = yield from thread.get()
    same(dict(found.metadata), {"parents": {}, **extra}, "the metadata")


@clause("put", Trait.HISTORY)
def the_parent_is_the_checkpoint_that_put_was_given(fixture: SaverFixture) -> KitEffects[None]:
    """`parent_config` names the checkpoint in the config of `put`, and is None for the first."""
    thread = fixture.thread(ns="child:1")
    yield from thread.put(1, key=1)
    first = thread.head
    yield from thread.put(2, key=2)
    found = yield from thread.get()
    same(id_in(found.parent_config), id_in(first), "the parent's id")
    assert found.parent_config is not None
    above = yield from thread.get(found.parent_config)
    same(values_of(above), {"key": 1}, "what the parent_config leads to")
    same(above.parent_config, None, "the parent of the first")


@clause("put", Trait.HISTORY)
def channels_that_did_not_change_keep_their_values(fixture: SaverFixture) -> KitEffects[None]:
    """A channel that is not among the new versions has the value that it had before."""
    thread = yield from fixture.started(1, still="here", moving=1)
    first = thread.head
    yield from thread.put(2, moving=2)
    now = yield from thread.get()
    same(values_of(now), {"still": "here", "moving": 2}, "the values of the second checkpoint")
    then = yield from thread.get(first)
    same(values_of(then), {"still": "here", "moving": 1}, "the values of the first checkpoint")


@clause("put")
def an_emptied_channel_has_no_value(fixture: SaverFixture) -> KitEffects[None]:
    """A channel with a new version and no value is absent, not None and not its old value."""
    thread = yield from fixture.started(1, gone=1, stays=1)
    yield from thread.put(2, emptied=("gone",))
    found = yield from thread.get()
    same(values_of(found), {"stays": 1}, "the values")
    holds("gone" in found.checkpoint["channel_versions"], "the version of 'gone' is lost")


@clause("put")
def a_repeated_put_is_harmless(fixture: SaverFixture) -> KitEffects[None]:
    """Storing the same checkpoint again, as after a lost answer, leaves one of it."""
    thread = fixture.thread()
    checkpoint, changed = thread.next(key=1)
    for _ in range(2):
        yield fixture.call("put", thread.root, checkpoint, {"step": 0}, changed)
    found = yield from thread.checkpoints()
    same([one.checkpoint["id"] for one in found], thread.ids, "the checkpoints")


@clause("put")
def what_was_given_can_be_changed_afterwards(fixture: SaverFixture) -> KitEffects[None]:
    """Changing an object after it was stored does not change what is stored."""
    thread = fixture.thread()
    value, metadata = {"items": [1]}, {"step": 0, "tags": ["a"]}
    checkpoint, changed = thread.next(key=value)
    yield fixture.call("put", thread.root, checkpoint, metadata, changed)
    yield from thread.write([("key", value)], "task")
    value["items"].append(2)
    metadata["tags"].append("b")  # type: ignore[attr-defined]
    checkpoint["channel_versions"].clear()
    found = yield from thread.get()
    same(values_of(found), {"key": {"items": [1]}}, "the values")
    same(found.pending_writes, [("task", "key", {"items": [1]})], "the writes")
    same(found.metadata.get("tags"), ["a"], "the metadata")
    same(found.checkpoint["channel_versions"], changed, "the versions")


@clause("put")
def versions_grow(fixture: SaverFixture) -> KitEffects[None]:
    """`get_next_version` gives ever larger versions, also after one was stored and read back."""
    version, seen = None, []
    for _ in range(12):
        version = fixture.saver.get_next_version(version, None)
        seen.append(version)
    same(seen, sorted(set(seen)), "twelve versions")
    thread = fixture.thread()
    thread.versions["key"] = seen[-2]
    yield from thread.put(key=1)
    found = yield from thread.get()
    stored = found.checkpoint["channel_versions"]["key"]
    exactly(stored, thread.versions["key"], "the stored version")
    holds(fixture.saver.get_next_version(stored, None) > stored, "the next version is not larger")
