"""The contract of savers: ours, called directly."""

import pickle
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import Log, appends, id_of, line, thread
from milepost.channels import DeltaChannel
from milepost.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    PregelTask,
    StateSnapshot,
    empty_checkpoint,
)
from milepost.checkpoint.serde.types import _DeltaSnapshot
from milepost.errors import BrokenChainError
from milepost.graph import START, StateGraph
from milepost.warnings import MilepostWarning


class ThreadByHand:
    """Puts checkpoints on a saver by hand, each on top of the one before it."""

    def __init__(self, run: Any, saver: Any, thread_id: str = "t", ns: str = "") -> None:
        self.run = run
        self.saver = saver
        self.root = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
        self.head: Any = self.root
        self.versions: dict[str, Any] = {}
        self.values: dict[str, Any] = {}

    def put(
        self, step: int = 0, *, emptied: tuple[str, ...] = (), meta: Any = None, **new: Any
    ) -> Any:
        """A checkpoint in which the channels `new` have changed; its config."""
        changed = {
            name: self.saver.get_next_version(self.versions.get(name), None)
            for name in (*new, *emptied)
        }
        self.versions = {**self.versions, **changed}
        self.values = {k: v for k, v in {**self.values, **new}.items() if k not in emptied}
        checkpoint = {
            **empty_checkpoint(),
            "channel_values": dict(self.values),
            "channel_versions": dict(self.versions),
            "updated_channels": sorted(changed),
        }
        metadata = {"source": "loop", "step": step, "parents": {}, **(meta or {})}
        self.head = self.run.saver(self.saver, "put", self.head, checkpoint, metadata, changed)
        return self.head

    def write(self, writes: list[tuple[str, Any]], task: str, path: str = "") -> None:
        self.run.saver(self.saver, "put_writes", self.head, writes, task, path)

    def get(self, config: Any = None) -> Any:
        return self.run.saver(self.saver, "get_tuple", config or self.root)

    def list(self, *args: Any, **kwargs: Any) -> list[Any]:
        return self.run.saver(self.saver, "list", *(args or (self.root,)), **kwargs)


@pytest.fixture
def by_hand(run, saver):
    return ThreadByHand(run, saver)


# -- put and get_tuple


def test_put_returns_the_config_of_what_it_stored(by_hand):
    config = by_hand.put(key="value")
    assert set(config["configurable"]) >= {"thread_id", "checkpoint_ns", "checkpoint_id"}
    found = by_hand.get(config)
    assert isinstance(found, CheckpointTuple)
    assert id_of(found.config) == id_of(config) == found.checkpoint["id"]
    assert found.checkpoint["channel_values"] == {"key": "value"}


def test_a_stored_checkpoint_comes_back_with_all_that_belongs_to_it(by_hand):
    first = by_hand.put(1, key="one")
    by_hand.put(2, key="two")
    found = by_hand.get()
    assert found.parent_config["configurable"]["checkpoint_id"] == id_of(first)
    assert found.metadata == {"source": "loop", "step": 2, "parents": {}}
    assert found.checkpoint["channel_versions"] == by_hand.versions
    assert found.checkpoint["updated_channels"] == ["key"]
    assert found.pending_writes == []
    assert by_hand.get(first).parent_config is None


def test_without_an_id_the_latest_checkpoint_is_found_and_with_one_exactly_that(by_hand):
    configs = [by_hand.put(n, key=n) for n in range(3)]
    assert by_hand.get().checkpoint["channel_values"] == {"key": 2}
    for n, config in enumerate(configs):
        assert by_hand.get(config).checkpoint["channel_values"] == {"key": n}


def test_what_is_not_there_is_none(run, saver, by_hand):
    assert by_hand.get() is None
    by_hand.put(key=1)
    unknown = {"configurable": {**by_hand.root["configurable"], "checkpoint_id": "0"}}
    assert by_hand.get(unknown) is None
    assert by_hand.get(thread("other")) is None
    assert run.saver(saver, "get", thread("other")) is None


def test_get_returns_the_bare_checkpoint(run, saver, by_hand):
    by_hand.put(key=1)
    assert run.saver(saver, "get", by_hand.root) == by_hand.get().checkpoint


def test_channels_that_did_not_change_keep_their_values(by_hand):
    first = by_hand.put(1, still="here", moving=1)
    by_hand.put(2, moving=2)
    assert by_hand.get().checkpoint["channel_values"] == {"still": "here", "moving": 2}
    assert by_hand.get(first).checkpoint["channel_values"] == {"still": "here", "moving": 1}


def test_an_emptied_channel_has_no_value_any_more(by_hand):
    by_hand.put(1, gone=1, stays=1)
    by_hand.put(2, emptied=("gone",))
    assert by_hand.get().checkpoint["channel_values"] == {"stays": 1}


def test_namespaces_and_threads_are_kept_apart(run, saver, by_hand):
    by_hand.put(key="root")
    ThreadByHand(run, saver, ns="child:1").put(key="child")
    ThreadByHand(run, saver, "other").put(key="other")
    assert by_hand.get().checkpoint["channel_values"] == {"key": "root"}
    child = {"configurable": {"thread_id": "t", "checkpoint_ns": "child:1"}}
    assert by_hand.get(child).checkpoint["channel_values"] == {"key": "child"}
    assert len(by_hand.list()) == 1


def test_unknown_metadata_is_kept(by_hand):
    extra = {"counters_since_delta_snapshot": {"k": [1, 2]}, "mine": {"deep": [None, 1.5]}}
    by_hand.put(meta=extra, key=1)
    metadata = by_hand.get().metadata
    assert metadata["mine"] == extra["mine"]
    assert list(metadata["counters_since_delta_snapshot"]["k"]) == [1, 2]


def test_what_was_stored_does_not_change_with_what_was_given_or_returned(by_hand):
    value = {"items": [1]}
    by_hand.put(key=value)
    by_hand.write([("key", value)], "task")
    value["items"].append("later")
    by_hand.get().checkpoint["channel_values"]["key"]["items"].append("reader")
    by_hand.get().pending_writes[0][2]["items"].append("reader")
    by_hand.get().metadata["step"] = 99
    found = by_hand.get()
    assert found.checkpoint["channel_values"] == {"key": {"items": [1]}}
    assert found.pending_writes == [("task", "key", {"items": [1]})]
    assert found.metadata["step"] == 0


# -- list


def test_list_gives_the_newest_first(by_hand):
    ids = [id_of(by_hand.put(n, key=n)) for n in range(4)]
    assert [found.checkpoint["id"] for found in by_hand.list()] == ids[::-1]


def test_list_respects_before_limit_and_filter(by_hand):
    configs = [by_hand.put(n, key=n, meta={"odd": bool(n % 2)}) for n in range(5)]

    def listed(**options: Any) -> list[int]:
        return [found.metadata["step"] for found in by_hand.list(**options)]

    assert listed(limit=2) == [4, 3]
    assert listed(limit=0) == []
    assert listed(before=configs[2]) == [1, 0]
    assert listed(filter={"odd": True}) == [3, 1]
    assert listed(filter={"odd": True, "step": 1}) == [1]
    assert listed(filter={"odd": True, "step": 2}) == []
    assert listed(filter={"source": "input"}) == []
    assert listed(filter={"odd": False}, before=configs[4], limit=1) == [2]


def test_list_with_a_checkpoint_id_gives_that_one(by_hand):
    configs = [by_hand.put(n, key=n) for n in range(3)]
    assert [found.metadata["step"] for found in by_hand.list(configs[1])] == [1]


def test_list_without_a_config_covers_all_threads(run, saver, by_hand):
    by_hand.put(key=1)
    ThreadByHand(run, saver, "other").put(key=2)
    for config in (None, {}):
        found = {t.config["configurable"]["thread_id"] for t in by_hand.list(config)}
        assert found == {"t", "other"}


def test_hostile_filters_are_compared_and_not_interpreted(by_hand):
    by_hand.put(key=1)
    for hostile in ("source' OR '1'='1", "$.step", "step); DROP TABLE checkpoints; --", "%"):
        assert by_hand.list(filter={hostile: "loop"}) == []
    assert by_hand.list(filter={"source": "%"}) == []
    assert len(by_hand.list()) == 1


# -- put_writes


def test_writes_are_pending_at_the_checkpoint_that_they_belong_to(by_hand):
    first = by_hand.put(1, key=1)
    by_hand.write([("key", "a"), ("other", [1])], "task-1")
    by_hand.put(2, key=2)
    assert by_hand.get().pending_writes == []
    assert by_hand.get(first).pending_writes == [("task-1", "key", "a"), ("task-1", "other", [1])]
    assert by_hand.list()[1].pending_writes == by_hand.get(first).pending_writes


def test_writes_come_back_in_the_order_of_the_task_paths(by_hand):
    by_hand.put(key=1)
    by_hand.write([("key", "last")], "task-a", "~2")
    by_hand.write([("key", "first")], "task-b", "~1")
    assert [value for _, _, value in by_hand.get().pending_writes] == ["first", "last"]


def test_the_first_write_of_a_task_stays_and_repeating_it_is_harmless(by_hand):
    by_hand.put(key=1)
    by_hand.write([("key", "first")], "task")
    by_hand.write([("key", "second")], "task")
    assert by_hand.get().pending_writes == [("task", "key", "first")]


@pytest.mark.parametrize("channel", list(WRITES_IDX_MAP))
def test_special_writes_have_fixed_places_where_the_later_one_counts(by_hand, channel):
    by_hand.put(key=1)
    by_hand.write([("key", "kept")], "task")
    by_hand.write([(channel, "old")], "task")
    by_hand.write([(channel, "new")], "task")
    writes = by_hand.get().pending_writes
    assert sorted(writes) == sorted([("task", "key", "kept"), ("task", channel, "new")])


def test_special_places_are_negative_and_distinct():
    assert set(WRITES_IDX_MAP) == {"__error__", "__scheduled__", "__interrupt__", "__resume__"}
    assert all(place < 0 for place in WRITES_IDX_MAP.values())
    assert len(set(WRITES_IDX_MAP.values())) == len(WRITES_IDX_MAP)


# -- threads as a whole


def test_delete_thread_removes_all_of_it_and_nothing_else(run, saver, by_hand):
    child = ThreadByHand(run, saver, ns="child:1")
    other = ThreadByHand(run, saver, "other")
    for each in (by_hand, child, other):
        each.put(key=1)
        each.write([("key", 2)], "task")
    run.saver(saver, "delete_thread", "t")
    assert by_hand.get() is None
    assert child.get() is None
    assert {t.config["configurable"]["thread_id"] for t in by_hand.list(None)} == {"other"}
    assert other.get().pending_writes == [("task", "key", 2)]


def test_copy_thread_copies_the_whole_history_and_leaves_the_two_independent(run, saver, by_hand):
    child = ThreadByHand(run, saver, ns="child:1")
    for each in (by_hand, child):
        each.put(1, key="one")
        each.write([("key", "w")], "task")
        each.put(2, key="two")
    run.saver(saver, "copy_thread", "t", "copy")
    for ns, source in (("", by_hand), ("child:1", child)):
        copied = by_hand.list({"configurable": {"thread_id": "copy", "checkpoint_ns": ns}})
        original = source.list()
        assert [c.checkpoint for c in copied] == [o.checkpoint for o in original]
        assert [c.metadata for c in copied] == [o.metadata for o in original]
        assert [c.pending_writes for c in copied] == [o.pending_writes for o in original]
    run.saver(saver, "delete_thread", "t")
    assert by_hand.get(thread("copy")).checkpoint["channel_values"] == {"key": "two"}


def test_prune_keeps_the_latest_checkpoint_of_each_namespace(run, saver, by_hand):
    child = ThreadByHand(run, saver, ns="child:1")
    by_hand.put(-1, still="here")
    for n in range(3):
        by_hand.put(n, key=n)
        child.put(n, key=n)
    by_hand.write([("key", "pending")], "task")
    run.saver(saver, "prune", ["t"])
    assert [found.metadata["step"] for found in by_hand.list()] == [2]
    assert [found.metadata["step"] for found in child.list()] == [2]
    assert by_hand.get().checkpoint["channel_values"] == {"key": 2, "still": "here"}
    assert by_hand.get().pending_writes == [("task", "key", "pending")]


def test_prune_can_delete_threads_as_a_whole(run, saver, by_hand):
    ThreadByHand(run, saver, "other").put(key=1)
    by_hand.put(key=1)
    run.saver(saver, "prune", ["t"], strategy="delete")
    assert {t.config["configurable"]["thread_id"] for t in by_hand.list(None)} == {"other"}


def test_a_pruned_thread_goes_on_where_it_was(run, saver, config):
    graph = line("a", "b", "c").compile(checkpointer=saver, interrupt_before=["c"])
    run.invoke(graph, {}, config)
    run.saver(saver, "prune", ["t"])
    assert len(run.history(graph, config)) == 1
    assert run.invoke(graph, None, config)["log"] == ["a", "b", "c"]


def test_delete_for_runs_removes_what_those_runs_made(run, saver, by_hand):
    for n, run_id in enumerate(("r1", "r1", "r2")):
        by_hand.put(n, key=n, meta={"run_id": run_id})
        by_hand.write([("key", n)], "task")
    run.saver(saver, "delete_for_runs", ["r1", "unknown"])
    assert [found.metadata["run_id"] for found in by_hand.list()] == ["r2"]
    assert by_hand.get().checkpoint["channel_values"] == {"key": 2}


# -- versions


def test_versions_of_a_channel_grow(saver):
    version, seen = None, []
    for _ in range(20):
        version = saver.get_next_version(version, None)
        seen.append(version)
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)


def test_versions_of_two_branches_do_not_collide(run, saver, config):
    graph = line("a", "b").compile(checkpointer=saver)
    run.invoke(graph, {}, config)
    old = next(s for s in run.history(graph, config) if s.next == ("b",)).config
    versions = set()
    for word in ("left", "right"):
        fork = run.update_state(graph, old, {"log": [word]})
        versions.add(run.saver(saver, "get", fork)["channel_versions"]["log"])
    assert len(versions) == 2


def test_by_default_versions_are_counted_in_integers():
    base: Any = BaseCheckpointSaver()
    assert [base.get_next_version(None, None), base.get_next_version(1, None)] == [1, 2]


# -- delta channels


def delta_history(run: Any, saver: Any, config: Any, *channels: str) -> Any:
    return run.saver(saver, "get_delta_channel_history", config=config, channels=list(channels))


def test_the_history_of_a_delta_channel_is_its_writes_oldest_first(run, saver, by_hand):
    by_hand.put(1, other=1)
    by_hand.write([("log", "a"), ("other", 9)], "t1")
    by_hand.put(2, other=2)
    by_hand.write([("log", "b")], "t2")
    head = by_hand.put(3, other=3)
    by_hand.write([("log", "not yet part of it")], "t3")
    found = delta_history(run, saver, head, "log")
    assert [value for _, _, value in found["log"]["writes"]] == ["a", "b"]
    assert "seed" not in found["log"]


def test_the_history_of_a_delta_channel_ends_at_the_nearest_snapshot(run, saver, by_hand):
    by_hand.put(1, log=_DeltaSnapshot(["too old"]))
    by_hand.write([("log", "too old")], "t1")
    by_hand.put(2, log=_DeltaSnapshot(["seed"]))
    by_hand.write([("log", "a")], "t2")
    head = by_hand.put(3, emptied=("log",))
    found = delta_history(run, saver, head, "log")
    assert found["log"]["seed"] == _DeltaSnapshot(["seed"])
    assert [value for _, _, value in found["log"]["writes"]] == ["a"]


def test_ancestors_that_lead_in_a_circle_are_refused_where_a_delta_channel_needs_them(run, saver):
    for id, parent in (("1", None), ("2", "1"), ("1", "2")):
        place = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": parent}
        checkpoint = {**empty_checkpoint(), "id": id, "channel_versions": {"log": "1"}}
        config = run.saver(saver, "put", {"configurable": place}, checkpoint, {}, {"log": "1"})
    with pytest.raises(BrokenChainError):
        delta_history(run, saver, config, "log")


def test_asking_for_no_delta_channels_gives_nothing(run, saver, by_hand):
    assert dict(delta_history(run, saver, by_hand.put(key=1))) == {}


def collect(value: list[Any], writes: Any) -> list[Any]:
    return [*value, *(item for write in writes for item in write)]


def test_a_delta_channel_in_a_graph_reads_like_a_plain_reducer(run, saver, config, durability):
    class Delta(TypedDict):
        log: Annotated[list[Any], DeltaChannel(collect, snapshot_frequency=3)]

    def graph_of(schema: Any) -> Any:
        builder = StateGraph(schema)
        for name in ("a", "b"):
            builder.add_node(name, appends(name)).add_edge(START, name)
        return builder.compile(checkpointer=saver)

    delta, plain = graph_of(Delta), graph_of(Log)
    for n in range(4):
        for graph, thread_id in ((delta, "delta"), (plain, "plain")):
            run.invoke(graph, {"log": [n]}, thread(thread_id), durability=durability)
    expected = [s.values for s in run.history(plain, thread("plain"))]
    found = [s.values for s in run.history(delta, thread("delta"))]
    assert run.get_state(delta, thread("delta")).values == expected[0]
    if durability != "exit":  # where a delta channel may need a checkpoint more to start from
        assert found == expected


# -- records


def test_the_records_are_named_tuples_with_the_documented_fields():
    assert StateSnapshot._fields == (
        "values",
        "next",
        "config",
        "metadata",
        "created_at",
        "parent_config",
        "tasks",
        "interrupts",
    )
    assert PregelTask._fields == ("id", "name", "path", "error", "interrupts", "state", "result")
    assert CheckpointTuple._fields == (
        "config",
        "checkpoint",
        "metadata",
        "parent_config",
        "pending_writes",
    )


def test_an_empty_checkpoint_has_every_documented_key():
    assert set(empty_checkpoint()) == {
        "v",
        "id",
        "ts",
        "channel_values",
        "channel_versions",
        "versions_seen",
        "updated_channels",
    }


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "get": ((thread("t"),), {}),
    "get_tuple": ((thread("t"),), {}),
    "put": ((thread("t"), {}, {}, {}), {}),
    "put_writes": ((thread("t"), [], "task"), {}),
    "list": ((thread("t"),), {}),
    "delete_thread": (("t",), {}),
    "copy_thread": (("t", "u"), {}),
    "prune": ((["t"],), {}),
    "delete_for_runs": ((["r"],), {}),
}


@pytest.mark.parametrize("method", CALLS)
def test_what_a_subclass_leaves_out_raises_not_implemented(run, method):
    class Nothing(BaseCheckpointSaver[int]):
        pass

    args, kwargs = CALLS[method]
    with pytest.raises(NotImplementedError):
        run.saver(Nothing(), method, *args, **kwargs)


def test_a_foreign_serializer_with_the_two_typed_methods_is_enough(run, saver, config):
    class Pickled:
        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            return "pickled", pickle.dumps(value)

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            kind, stored = data
            assert kind == "pickled"
            return pickle.loads(stored)

    graph = line("a", "b").compile(checkpointer=saver.with_serde(Pickled()))
    run.invoke(graph, {}, config)
    assert run.invoke(graph, {}, config)["log"] == ["a", "b", "a", "b"]
    assert [s.values["log"] for s in run.history(graph, config)][:2] == [
        ["a", "b", "a", "b"],
        ["a", "b", "a"],
    ]


def test_values_without_a_version_are_named_in_a_warning(run, saver):
    kept = {"a": saver.get_next_version(None, None)}
    checkpoint = {**empty_checkpoint(), "channel_values": {"a": 1, "b": 2}}
    config = thread("t")
    config["configurable"]["checkpoint_ns"] = ""
    with pytest.warns(MilepostWarning, match="values without versions, which are not stored: 'b'"):
        run.saver(saver, "put", config, checkpoint, {"source": "input", "step": -1}, kept)
    assert run.saver(saver, "get_tuple", config).checkpoint["channel_values"] == {"a": 1}
