"""InMemorySaver: what it keeps, what that costs, and what it lets go."""

from __future__ import annotations

import asyncio
import copy
import operator
import random
import tracemalloc
from collections import defaultdict
from typing import Annotated, Any, TypedDict

import pytest

from graphs import line, thread, two_nodes
from milepost import END, START, StateGraph
from milepost.channels import DeltaChannel
from milepost.checkpoint._contract.pruning import Lineage, with_ancestors
from milepost.checkpoint._delta.encode import Codec
from milepost.checkpoint._memory import manifests
from milepost.checkpoint._memory.value_log import Slice, keep, part, read, release, size_of, whole
from milepost.checkpoint.memory import InMemorySaver, MemorySaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import CheckpointError, DecryptionError

CONFIG = thread("t")


def stored(saver: InMemorySaver) -> int:
    """The bytes of all values and writes; those that are shared, once."""
    writes = [row[2] for rows in saver.writes.values() for row in rows.values()]
    return size_of([*saver.blobs.values(), *writes])


def text(seed: int, size: int = 2000) -> str:
    return random.Random(seed).randbytes(size // 2).hex()


class Chat(TypedDict):
    messages: Annotated[list[str], operator.add]


class Anything(TypedDict):
    value: Any


def chat(saver: InMemorySaver) -> Any:
    builder = StateGraph(Chat)
    builder.add_node("reply", lambda state: {"messages": [text(len(state["messages"]))]})
    builder.add_edge(START, "reply").add_edge("reply", END)
    return builder.compile(checkpointer=saver)


def keeping(saver: InMemorySaver, change: Any, **others: Any) -> Any:
    """A graph whose node changes the one value that there is; each invoke is a step."""
    builder = StateGraph(Anything)
    builder.add_node("change", lambda state: {"value": change(copy.deepcopy(state["value"]))})
    builder.add_edge(START, "change").add_edge("change", END)
    return builder.compile(checkpointer=saver, **others)


def test_a_conversation_costs_its_payload_and_twice_the_turns_twice_the_bytes():
    sizes = []
    for turns in (50, 100):
        saver = InMemorySaver()
        graph = chat(saver)
        for n in range(turns):
            graph.invoke({"messages": [text(-n)]}, CONFIG)
        sizes.append(stored(saver))
        assert sizes[-1] < 1.3 * turns * 2 * 2000
    assert sizes[1] < 2.2 * sizes[0]


class Counting(TypedDict):
    n: int
    constant: Any


@pytest.mark.parametrize("constant", [b"x" * 1_000_000, text(0, 1_000_000), [text(0, 1_000_000)]])
def test_a_constant_is_stored_once(constant):
    saver = InMemorySaver()
    builder = StateGraph(Counting)
    # The node returns the whole state, as many do: the constant gets a new version every time.
    builder.add_node("count", lambda state: {"n": state["n"] + 1, "constant": state["constant"]})
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", lambda s: END if s["n"] > 20 else "count")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"n": 0, "constant": constant}, {**CONFIG, "recursion_limit": 100})
    assert stored(saver) < 2.1 * 1_000_000  # the input, and the value
    assert graph.get_state(CONFIG).values["constant"] == constant
    saver.delete_thread("t")
    assert stored(saver) == 0


def slide(value: list[str]) -> list[str]:
    return [*value[1:], text(int(value[-1][:8], 16))]


def edit_far_apart(value: list[str]) -> list[str]:
    n = sum(len(entry) for entry in value)
    value[3] = text(n)
    value[-4] += "!"
    return value


def drop_one(value: list[str]) -> list[str]:
    del value[len(value) // 2]
    return value


def edit_key(value: dict[str, str]) -> dict[str, str]:
    value["5"] += "and more"
    return value


def grow_inside(value: dict[str, Any]) -> dict[str, Any]:
    value["deep"]["list"].append(text(len(value["deep"]["list"]), 100))
    return value


LIST = [text(n) for n in range(100)]


@pytest.mark.parametrize(
    ("change", "first", "a_step"),
    [
        (slide, LIST, 2000),
        (edit_far_apart, LIST, 2 * 2000),
        (drop_one, LIST, 0),
        (edit_key, {str(n): text(n) for n in range(100)}, 10),
        (grow_inside, {"deep": {"blob": text(1, 200_000), "list": []}}, 100),
        (lambda value: value + "!", text(1, 200_000), 1),
    ],
)
def test_a_change_costs_what_changed(change, first, a_step):
    saver = InMemorySaver()
    graph = keeping(saver, change)
    graph.invoke({"value": first}, CONFIG)
    before, steps, value = stored(saver), 30, first
    values = [value := change(copy.deepcopy(value)) for _ in range(steps + 1)]
    for _ in range(steps):
        graph.invoke({}, CONFIG)
    # Twice the change, for a full value now and then, and what spans and frames take.
    assert stored(saver) - before < steps * (2 * a_step + 400)
    found = [s.values["value"] for s in graph.get_state_history(CONFIG) if not s.next]
    assert found == values[::-1]


def test_writes_are_parts_of_the_values_that_they_led_to(run):
    saver = InMemorySaver()
    graph = line("a").compile(checkpointer=saver)
    run.invoke(graph, {"log": [text(1, 100_000)]}, CONFIG)
    assert stored(saver) < 1.1 * 100_000 + 1000
    assert run.history(graph, CONFIG)[-1].tasks[0].result == {"log": [text(1, 100_000)]}


def test_writes_that_were_stored_early_become_parts_too():
    saver = InMemorySaver()
    builder = StateGraph(Chat)
    for n in range(4):
        builder.add_node(f"n{n}", lambda _, n=n: {"messages": [text(n, 50_000)]})
        builder.add_edge(START, f"n{n}").add_edge(f"n{n}", END)
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"messages": []}, CONFIG, durability="sync")
    assert stored(saver) < 1.1 * 4 * 50_000
    assert len(graph.get_state(CONFIG).values["messages"]) == 4


def test_what_a_node_does_to_its_objects_later_changes_nothing_that_was_saved():
    def vandal(value: list[str]) -> list[str]:
        value.append(text(len(value)))
        value[0] = value[0][::-1]
        return value

    saver = InMemorySaver()
    builder = StateGraph(Anything)
    builder.add_node("change", lambda state: {"value": vandal(state["value"])})
    builder.add_edge(START, "change").add_edge("change", END)
    graph = builder.compile(checkpointer=saver)
    expected = [text(1), text(2)]
    for _ in range(5):
        graph.invoke({} if saver.storage else {"value": [text(1), text(2)]}, CONFIG)
        vandal(expected)
        assert graph.get_state(CONFIG).values["value"] == expected


def test_pruning_and_deleting_let_go_of_what_nobody_uses():
    saver = InMemorySaver()
    graph = keeping(saver, slide)
    graph.invoke({"value": LIST}, CONFIG)
    for _ in range(200):
        graph.invoke({}, CONFIG)
    latest = graph.get_state(CONFIG).values
    assert stored(saver) > 2 * 200_000
    saver.prune(["t"])
    assert stored(saver) < 1.2 * 200_000
    assert graph.get_state(CONFIG).values == latest
    graph.invoke({}, CONFIG)
    assert graph.get_state(CONFIG).values["value"] == slide(latest["value"])


def test_a_copy_shares_its_bytes_and_outlives_its_source():
    saver = InMemorySaver()
    graph = keeping(saver, slide)
    graph.invoke({"value": LIST}, CONFIG)
    graph.invoke({}, CONFIG)
    before, history = stored(saver), [s.values for s in graph.get_state_history(CONFIG)]
    saver.copy_thread("t", "copy")
    assert stored(saver) < before + 1000
    graph.invoke({}, CONFIG)
    saver.delete_thread("t")
    assert [s.values for s in graph.get_state_history(thread("copy"))] == history


def test_few_differences_follow_each_other_however_a_value_grows():
    codec, value = Codec(JsonPlusSerializer()), text(0, 10_000)
    kept = keep(codec.encode(value), None)
    log, followed = kept.log, 0
    for n in range(300):
        value = text(n, len(value) // 50) + value
        kept = keep(codec.encode(value), kept)
    assert read(kept) == whole(codec.encode(value))
    while log.newer is not None:
        log, followed = log.newer, followed + 1
    assert 10 < followed <= 64


@pytest.mark.parametrize("change", [slide, edit_far_apart])
def test_a_deep_copy_and_its_original_go_on_apart(change):
    saver = InMemorySaver()
    keeping(saver, change).invoke({"value": LIST}, CONFIG)
    for _ in range(100):
        keeping(saver, change).invoke({}, CONFIG)
    before = [s.values for s in keeping(saver, change).get_state_history(CONFIG)]
    twin = copy.deepcopy(saver)
    for one, other in ((saver, slide), (twin, drop_one)):
        graph = keeping(one, other)
        graph.invoke({}, CONFIG)
        found = [s.values for s in graph.get_state_history(CONFIG)]
        assert found[0] == {"value": other(copy.deepcopy(before[0]["value"]))}
        assert found[-len(before) :] == before


def test_copying_onto_a_thread_that_exists_is_refused():
    saver = InMemorySaver()
    graph = line("a").compile(checkpointer=saver)
    for name in ("a", "b"):
        graph.invoke({}, thread(name))
    with pytest.raises(CheckpointError, match="'b' exists already"):
        saver.copy_thread("a", "b")


def test_a_copy_that_fails_leaves_nothing_of_the_new_thread():
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    saver = InMemorySaver(serde=serde)
    graph = chat(saver)
    for turn in range(3):
        graph.invoke({"messages": [text(turn)]}, thread("t"))
    sound = graph.get_state(thread("t")).values
    for key, (kind, data) in list(saver.blobs.items()):
        saver.blobs[key] = (kind, data[:-1] + bytes((data[-1] ^ 1,)))
        with pytest.raises(DecryptionError):
            saver.copy_thread("t", "copy")
        for kept in (saver.storage, saver.writes, saver.blobs):
            assert [at for at in kept if "copy" in at] == []
        assert [info.thread_id for info in saver.list_threads()] == ["t"]
        saver.blobs[key] = (kind, data)
    saver.copy_thread("t", "copy")
    assert graph.get_state(thread("copy")).values == sound


def test_what_is_encrypted_is_stored_whole_and_sealed():
    saver = InMemorySaver(serde=EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32))
    graph = chat(saver)
    for n in range(3):
        graph.invoke({"messages": [text(-n)]}, CONFIG)
    assert not any(isinstance(kept, Slice) for kept in saver.blobs.values())
    raw = b"".join(read(kept)[1] for kept in saver.blobs.values())
    assert text(0).encode() not in raw
    assert len(graph.get_state(CONFIG).values["messages"]) == 6


class Remembering(InMemorySaver):
    """Keeps beside each checkpoint a full snapshot of what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshots: dict[tuple[str, str], Any] = {}

    def prepare(self, step: Any) -> Any:
        if step.new is not None:
            new = step.new
            self.snapshots[step.checkpoint_ns, new.id] = copy.deepcopy(
                (new.values(), new.versions, new.versions_seen)
            )
        return super().prepare(step)

    def check(self) -> int:
        found = list(self.list(None))
        for one in found:
            configurable = one.config["configurable"]
            key = configurable["checkpoint_ns"], configurable["checkpoint_id"]
            checkpoint = one.checkpoint
            assert (
                checkpoint["channel_values"],
                checkpoint["channel_versions"],
                checkpoint["versions_seen"],
            ) == self.snapshots[key]
        return len(found)


class Story(TypedDict):
    log: Annotated[list[str], operator.add]
    latest: dict[str, str]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_every_branch_reads_as_a_full_snapshot_would(seed, durability):
    dice = random.Random(seed)
    saver = Remembering()

    def work(state: Story) -> dict[str, Any]:
        latest = dict(state.get("latest", {}))
        latest[str(dice.randrange(8))] = text(dice.randrange(10**6), 300)
        return {"log": [text(dice.randrange(10**6), dice.choice([20, 400]))], "latest": latest}

    inner = StateGraph(Story).add_node("deep", work).add_edge(START, "deep").compile()
    builder = StateGraph(Story).add_node("work", work).add_node("inner", inner)
    builder.add_edge(START, "work").add_conditional_edges(
        "work", lambda state: "inner" if dice.random() < 0.3 else END, ["inner", END]
    )
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"log": ["begin"]}, CONFIG, durability=durability)
    for n in range(40):
        action = dice.choice(["run", "run", "run", "fork", "update", "prune", "copy", "delete"])
        history = list(graph.get_state_history(CONFIG))
        if action == "run" or not history:
            of_run = {**CONFIG, "metadata": {"run_id": str(n % 3)}}
            graph.invoke({"log": [text(n, 500)]}, of_run, durability=durability)
        elif action == "fork":
            graph.invoke({"log": ["fork"]}, dice.choice(history).config, durability=durability)
        elif action == "update":
            graph.update_state(dice.choice(history).config, {"latest": {"x": text(n)}}, "work")
        elif action == "prune" and dice.random() < 0.3:
            saver.prune(["t"])
        elif action == "delete" and dice.random() < 0.5:
            saver.delete_for_runs([str(dice.randrange(3))])
        elif action == "copy":
            saver.copy_thread("t", f"copy {n}")
            if dice.random() < 0.5:
                saver.delete_thread(f"copy {n}")
    assert saver.check() >= 5


def test_a_step_of_a_wide_state_costs_what_changed():
    wide = TypedDict("wide", {"n": int, **{f"k{i}": int for i in range(500)}})  # type: ignore
    saver = InMemorySaver()
    builder = StateGraph(wide).add_node("count", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", lambda s: END if s["n"] >= 60 else "count")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"n": 0, **{f"k{i}": i for i in range(500)}}, {**CONFIG, "recursion_limit": 99})
    sizes = [len(stored.manifest) for stored in saver.storage["t"][""].values()]
    assert sorted(sizes)[len(sizes) // 2] < 400
    assert graph.get_state(CONFIG).values["k499"] == 499


def test_writes_that_came_before_their_checkpoint_are_counted():
    saver = InMemorySaver()
    place = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "later"}}
    saver.put_writes(place, [("a", text(1)), ("b", 2)], task_id="task")
    found = saver.get_thread("t")
    assert found.writes == 2
    assert found.bytes > 2000
    assert saver.prune(["t"], strategy="delete").writes == 2


def test_memory_saver_is_another_name_for_in_memory_saver():
    assert MemorySaver is InMemorySaver


def test_the_constructor_takes_keywords_only():
    with pytest.raises(TypeError):
        InMemorySaver(None)


def test_an_in_memory_saver_is_a_context_manager_in_both_colours():
    with InMemorySaver() as saver:
        assert isinstance(saver, InMemorySaver)

    async def main() -> None:
        async with InMemorySaver() as saver:
            assert isinstance(saver, InMemorySaver)

    asyncio.run(main())


def test_iterating_the_storage_gives_the_thread_ids(run):
    saver = InMemorySaver()
    graph = line("a").compile(checkpointer=saver)
    for name in ("user:ann:1", "user:bob:1", "user:ann:2"):
        run.invoke(graph, {}, thread(name))
    assert [t for t in saver.storage if t.startswith("user:ann:")] == ["user:ann:1", "user:ann:2"]
    assert "user:bob:1" in saver.storage
    assert len(saver.storage) == 3


def test_delete_thread_empties_storage_writes_and_blobs(run):
    saver = InMemorySaver()
    graph = line("a", "b").compile(checkpointer=saver)
    run.invoke(graph, {}, thread("gone"))
    assert saver.storage
    assert saver.blobs
    assert saver.writes
    run.saver(saver, "delete_thread", "gone")
    assert len(saver.storage) == len(saver.writes) == len(saver.blobs) == 0


def test_delete_thread_leaves_the_other_threads_in_all_three(run):
    saver = InMemorySaver()
    graph = line("a", "b").compile(checkpointer=saver)
    run.invoke(graph, {}, thread("kept"))
    sizes = len(saver.storage), len(saver.writes), len(saver.blobs)
    run.invoke(graph, {}, thread("gone"))
    run.saver(saver, "delete_thread", "gone")
    assert (len(saver.storage), len(saver.writes), len(saver.blobs)) == sizes
    assert run.get_state(graph, thread("kept")).values == {"log": ["a", "b"]}


def test_the_factory_makes_storage_writes_and_blobs(run, config):
    class Mappings(defaultdict[Any, Any]):
        entered = left = 0

        def __enter__(self) -> Any:
            Mappings.entered += 1
            return self

        def __exit__(self, *_: Any) -> None:
            Mappings.left += 1

    with InMemorySaver(factory=Mappings) as saver:
        assert type(saver.storage) is type(saver.writes) is type(saver.blobs) is Mappings
        graph = two_nodes().compile(checkpointer=saver)
        run.invoke(graph, {"foo": ""}, config)
        assert len(run.history(graph, config)) == 4
    assert Mappings.entered == Mappings.left == 3


def test_results_and_snapshots_can_be_changed_without_changing_the_thread(run, config):
    graph = line("a").compile(checkpointer=InMemorySaver())
    run.invoke(graph, {}, config)["log"].append("vandal")
    run.get_state(graph, config).values["log"].append("vandal")
    run.history(graph, config)[0].values["log"].append("vandal")
    assert run.get_state(graph, config).values == {"log": ["a"]}


def test_the_oldest_checkpoint_that_a_prune_keeps_has_no_parent():
    """What is before it is gone, and nothing that is read goes to look for it there."""

    class Delta(TypedDict):
        log: Annotated[list[str], DeltaChannel(lambda old, new: old + [x for w in new for x in w])]

    saver = InMemorySaver()
    builder = StateGraph(Delta).add_sequence([(n, lambda _: {"log": ["x"]}) for n in "abc"])
    graph = builder.add_edge(START, "a").compile(checkpointer=saver)
    graph.invoke({}, CONFIG)
    saver.prune(["t"])
    assert graph.get_state(CONFIG).values == {"log": ["x"] * 3}
    kept = {found.config["configurable"]["checkpoint_id"] for found in saver.list(CONFIG)}
    parents = [found.parent_config for found in saver.list(CONFIG)]
    assert {p["configurable"]["checkpoint_id"] for p in parents if p is not None} < kept


def test_a_run_builds_on_a_checkpoint_as_it_was_last_put():
    saver = InMemorySaver()
    graph = line("a", "b").compile(checkpointer=saver)
    graph.invoke({}, CONFIG)
    found = saver.get_tuple(CONFIG)
    version = saver.get_next_version(max(found.checkpoint["channel_versions"].values()), None)
    again = copy.deepcopy(found.checkpoint)
    again["channel_values"]["log"] = ["put"]
    again["channel_versions"]["log"] = version
    saver.put(found.parent_config, again, found.metadata, {"log": version})
    assert graph.invoke({}, CONFIG) == {"log": ["put", "a", "b"]}
    assert graph.get_state(CONFIG).values == {"log": ["put", "a", "b"]}
    assert [s.values["log"] for s in graph.get_state_history(CONFIG)][3:4] == [["put"]]


def test_a_prune_opens_each_frame_a_few_times_whatever_is_before_it(monkeypatch):
    """Sixty frames build on each other: reading each of them whole would take thirty times that."""
    saver = InMemorySaver()
    others = {f"key {n}": n for n in range(70)}  # of few channels, fewer frames build on each other
    builder = StateGraph(TypedDict("Wide", {"n": int, **dict.fromkeys(others, int)}))
    builder.add_node("count", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", lambda state: "count" if state["n"] < 600 else END)
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"n": 0, **others}, {**CONFIG, "recursion_limit": 1_000})
    assert max(stored.level for stored in saver.storage["t"][""].values()) == 64
    saver.copy_thread("t", "other")
    opened = 0

    def counting(data: bytes) -> Any:
        nonlocal opened
        opened += 1
        return unpackb(data)

    unpackb = manifests.unpackb
    monkeypatch.setattr(manifests, "unpackb", counting)
    assert saver.prune(["t"]).checkpoints == 601
    few, opened = opened, 0
    assert saver.prune(["other"], keep=300).checkpoints == 302
    assert few < 3 * 602
    assert opened < 4 * 602
    values = {"n": 600, **others}
    assert graph.get_state(CONFIG).values == graph.get_state(thread("other")).values == values
    assert len(list(graph.get_state_history(thread("other")))) == 300


def test_what_the_kept_checkpoints_need_is_found_in_one_pass():
    class Watched(dict[Any, Any]):
        looked_up = 0

        def __contains__(self, key: object) -> bool:
            self.looked_up += 1
            return super().__contains__(key)

    count = 3_000
    history = Watched(
        (("", str(n)), Lineage(str(n - 1), None, True, {"inner": str(n)}, {})) for n in range(count)
    )
    assert with_ancestors(history, list(history)) == set(history)
    assert history.looked_up < 5 * count


@pytest.mark.parametrize("base", [None, "edited"])
def test_a_large_list_is_kept_with_few_copies(base):
    codec = Codec(JsonPlusSerializer())
    value = [text(n) for n in range(2_000)]
    if base is not None:
        base = keep(codec.encode([*value[:1_000], "edited", *value[1_000:]]), None)
    encoded = codec.encode(value)
    tracemalloc.start()
    try:
        kept = keep(encoded, base)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read(kept) == (encoded.kind, encoded.parts.join())
    assert peak < 1.2 * encoded.size  # its bytes, or the elements of the one before to compare with


def changed(rng: random.Random, value: Any) -> Any:
    """Another version of a list, a dict or a text."""
    new = text(rng.random(), rng.choice((2, 10, 100, 1000)))
    at = rng.randrange(len(value) + 1)
    if isinstance(value, dict):
        key = str(at)
        return {**value, key: value.get(key, "") + new}
    if isinstance(value, str):
        return value[:at] + new + value[rng.choice((at, at + 9)) :]
    edited = [*value[:at], *(part + new for part in value[at : at + 1]), *value[at + 1 :]]
    return rng.choice(([*value, new], [*value, new, new[::-1]], value[at // 4 :], edited))


@pytest.mark.parametrize("seed", range(30))
def test_versions_that_share_a_log_are_read_as_they_were_kept(seed):
    """Appended to, edited and shortened, in branches, with parts of them, after removals."""
    rng = random.Random(seed)
    codec = Codec(JsonPlusSerializer())
    value = rng.choice((text(seed), [text(n, 20) for n in range(30)], {"1": text(seed), "2": "b"}))
    versions: list[list[Any]] = [[value, (first := codec.encode(value)), whole(first)]]
    for _ in range(50):
        base = rng.choice((versions[-1], rng.choice(versions)))
        value = changed(rng, base[0])
        after = base[2].encoded if isinstance(base[2], Slice) else None
        encoded = codec.encode(value, after=after)
        kept = keep(encoded, base[2])
        versions.append([value, encoded, kept])
        if isinstance(value, list) and value:
            write = codec.encode(value[-2:])
            assert read(part(kept, encoded, write) or whole(write)) == whole(write)
        if rng.random() < 0.05:
            versions = rng.sample(versions, len(versions) // 3 + 1)
            release(v[2] for v in versions if isinstance(v[2], Slice))
        assert [read(kept) for _, _, kept in versions] == [whole(one) for _, one, _ in versions]


@pytest.mark.parametrize("changes", ["last", "middle", "first"])
def test_another_input_at_the_first_checkpoint_is_read_as_it_was(changes):
    """The first input shares its bytes with the write that it became."""

    class State(TypedDict):
        items: Annotated[list[str], operator.add]

    builder = StateGraph(State).add_node("node", lambda _: {"items": ["node"]})
    saver = InMemorySaver()
    graph = builder.add_edge(START, "node").compile(checkpointer=saver)
    items = [text(n, 50) for n in range(30)]
    graph.invoke({"items": items}, CONFIG)
    begin = list(graph.get_state_history(CONFIG))[-1].config
    at = {"last": 29, "middle": 15, "first": 0}[changes]
    others = [*items[:at], text(99, 60), *items[at + 1 :]]
    graph.invoke({"items": others}, begin)
    assert graph.get_state(CONFIG).values["items"] == [*others, "node"]
    inputs = [
        found.checkpoint["channel_values"]["__start__"]["items"]
        for found in saver.list(CONFIG)
        if "__start__" in found.checkpoint["channel_values"]
    ]
    assert inputs == [others, items]
