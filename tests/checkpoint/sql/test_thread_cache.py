"""What a saver remembers: how much of it, and that it never hides what is in the database."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs import thread
from milepost import START, StateGraph
from milepost.checkpoint._delta.diff import Parts
from milepost.checkpoint._delta.encode import Encoded
from milepost.checkpoint._sql import cache
from milepost.checkpoint._sql.cache import (
    CachedManifest,
    CachedValue,
    Chain,
    EarlyWrite,
    ThreadCache,
)
from milepost.checkpoint._sql.manifest import Manifest
from milepost.checkpoint.base import CheckpointTuple
from milepost.errors import DamagedRowError


def cached(version: int, size: int) -> CachedValue:
    encoded = Encoded("msgpack", Parts(b"", [bytes(size)]), size)
    return CachedValue(None, 0, str(version), encoded, Chain(), size)


def manifest(id: int) -> CachedManifest:
    return CachedManifest(None, 0, str(id), Manifest({}, {}, {}), 1, 0, 0)


names = st.sampled_from("abc")
numbers = st.integers(0, 5)
learnt = st.tuples(
    names, names, st.none() | numbers, st.dictionaries(names, st.tuples(numbers, numbers))
)


@given(st.lists(learnt | names, max_size=40))
def test_what_is_remembered_is_counted_exactly_and_stays_below_its_limit(told):
    memory = ThreadCache(limit=8000)
    for one in told:
        if isinstance(one, str):
            memory.forget(one)
            continue
        thread_id, ns, id, values = one
        made = {channel: cached(*value) for channel, value in values.items()}
        memory.learn(thread_id, ns, None if id is None else manifest(id), made)
        for channel, value in made.items():
            assert memory.latest(thread_id, ns, channel, None) is value
            assert memory.value(thread_id, ns, channel, value.version) is value
        sizes = []
        for graphs in memory._threads.values():
            size = cache._THREAD_SIZE
            for graph in graphs.values():
                assert len({f.checkpoint_id for f in graph.manifests}) == len(graph.manifests) <= 3
                size += cache._MANIFEST_SIZE * len(graph.manifests)
                for line in graph.values.values():
                    assert len({k.version for k in line}) == len(line) <= 3
                    size += sum(k.size + cache._VALUE_SIZE for k in line)
            assert graphs.size == size
            sizes.append(size)
        assert memory._size == sum(sizes)
        assert memory._size <= 8000 or len(sizes) == 1


def test_what_is_learnt_again_is_the_latest_and_the_last_to_be_dropped():
    memory = ThreadCache()
    versions = [cached(n, 1) for n in range(4)]
    for value in (*versions[:3], versions[0], versions[3]):
        memory.learn("t", "", None, {"a": value})
    assert memory.latest("t", "", "a", None) is versions[3]
    assert [memory.value("t", "", "a", str(n)) is not None for n in range(4)] == [1, 0, 1, 1]


def test_large_writes_are_counted_until_their_step_ends():
    memory = ThreadCache(limit=5000)
    memory.learn("other", "", None, {})
    size = memory._size
    value = cached(1, 4000).encoded
    memory.add_early_write("t", "", EarlyWrite("1", "task", "", 0, "a", value, "token"))
    assert not memory.holds("other", "")
    assert list(memory._threads) == ["t"]
    assert memory._size == size + 4000
    assert len(memory.take_early_writes("t", "", "1", "token")) == 1
    assert memory._size == size


@pytest.mark.parametrize("saver", ["sqlite", "postgres", "redis"], indirect=True)
def test_a_process_that_serves_many_threads_keeps_no_more_of_them_than_the_limit(saver):
    graph = chatting(saver)
    saver.cache_limit = limit = 60_000
    found = []
    for number in range(40):
        graph.invoke({"text": "so "}, thread(str(number)), durability="exit")
        found.append(saver._cache._size)
    assert max(found) <= limit
    assert 0 < len(saver._cache._threads) < 40
    saver.cache_limit = 0
    graph.invoke({"text": "so "}, thread("0"), durability="exit")
    assert list(saver._cache._threads) == ["0"]
    assert graph.get_state(thread("1")).values == {"text": "so " + "x" * 3000}


def test_what_is_counted_is_about_what_it_takes(sqlite):
    graph = chatting(sqlite)
    graph.invoke({"text": "so "}, thread("first"), durability="exit")
    gc.collect()
    tracemalloc.start()
    try:
        before, counted = tracemalloc.get_traced_memory()[0], sqlite._cache._size
        for number in range(50):
            graph.invoke({"text": "so "}, thread(str(number)), durability="exit")
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.6 * taken < sqlite._cache._size - counted < 1.8 * taken


# -- what is read by a saver that remembers it


def chatting(saver: Any) -> Any:
    builder = StateGraph(dict).add_node("say", lambda state: {"text": state["text"] + "x" * 3000})
    return builder.add_edge(START, "say").compile(checkpointer=saver)


def chatted(saver: Any) -> Any:
    graph = chatting(saver)
    graph.invoke({"text": "so "}, thread("t"), durability="sync")
    return graph


@pytest.mark.parametrize("column", ["frame", "metadata"])
def test_a_row_that_was_damaged_since_is_noticed(sqlite, column):
    head = chatted(sqlite).get_state(thread("t")).config["configurable"]["checkpoint_id"]
    sqlite.conn.execute(
        f"UPDATE checkpoints SET {column} = zeroblob(40) WHERE checkpoint_id = ?", (head,)
    )
    with pytest.raises(DamagedRowError, match=head):
        sqlite.get_tuple(thread("t"))


def test_damage_to_the_checkpoint_before_it_is_told_to_those_who_look_at_that(sqlite):
    found = sqlite_tuple(sqlite)
    before = found.parent_config["configurable"]["checkpoint_id"]
    sqlite.conn.execute(
        "UPDATE checkpoints SET frame = zeroblob(40) WHERE checkpoint_id = ?", (before,)
    )
    again = sqlite.get_tuple(thread("t"))
    assert again == found
    with pytest.raises(DamagedRowError, match=before):
        _ = again.parent.checkpoint


def test_what_was_read_is_copied_pickled_and_shown_as_an_ordinary_tuple(sqlite):
    found = sqlite_tuple(sqlite)
    plain = CheckpointTuple(*found)
    for other in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert type(other) is CheckpointTuple
        assert other == found == plain
    assert repr(found) == repr(plain)


def sqlite_tuple(saver: Any) -> Any:
    chatted(saver)
    return saver.get_tuple(thread("t"))
