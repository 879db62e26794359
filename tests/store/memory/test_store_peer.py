"""The same calls on LangGraph's store in memory and on ours give the same."""

from __future__ import annotations

import random

import langgraph.store.base as their
import pytest
from embedders import Model
from langgraph.store.memory import InMemoryStore as Theirs

import milepost.store.base as our
from milepost.store.memory import InMemoryStore as Ours

SPACES = [("a",), ("a", "b"), ("a", "b", "c"), ("b", "a"), ("ab",)]


def plain(result):
    if isinstance(result, list):
        return [plain(one) for one in result]
    if isinstance(result, (our.Item, their.Item)):
        score = getattr(result, "score", None)
        return (result.namespace, result.key, result.value, score and round(score, 4))
    return result


@pytest.mark.parametrize("seed", range(20))
def test_our_store_does_what_langgraphs_does_in_a_random_life(seed):
    rng = random.Random(seed)
    pair = [
        (Ours(index={"embed": Model(), "dims": 3}), our),
        (Theirs(index={"embed": Model(), "dims": 3}), their),
    ]
    for _ in range(120):
        space, key = rng.choice(SPACES), rng.choice("xyz")
        value = {"n": rng.randint(0, 3), "text": rng.choice(["a", "ab", "b", "cc"]), "in": {"m": 1}}
        choice, number, depth = rng.random(), rng.randint(0, 3), rng.choice([None, 1, 2])
        results = []
        for store, records in pair:
            if choice < 0.4:
                results.append(store.put(space, key, value))
            elif choice < 0.5:
                results.append(store.delete(space, key))
            elif choice < 0.6:
                results.append(plain(store.get(space, key)))
            elif choice < 0.7:
                found = store.search(space, filter={"n": {"$gte": number}}, limit=100)
                results.append(sorted(map(repr, map(plain, found))))
            elif choice < 0.8:
                found = store.search(space[:1], filter={"in": {"m": 1}, "n": number}, limit=100)
                results.append(sorted(map(repr, map(plain, found))))
            elif choice < 0.9:
                found = store.search(space, query="ab", limit=100)
                results.append(sorted((item.key, round(item.score, 4)) for item in found))
            else:
                results.append(
                    plain(
                        store.batch(
                            [
                                records.PutOp(space, key, value),
                                records.GetOp(space, key),
                                records.ListNamespacesOp(max_depth=depth, limit=3),
                            ]
                        )
                    )
                )
        if choice >= 0.9:
            for result in results:  # LangGraph keeps namespaces that have become empty
                result.pop()
        assert results[0] == results[1]


@pytest.mark.parametrize(
    "name", ["Item", "SearchItem", "GetOp", "PutOp", "SearchOp", "MatchCondition"]
)
def test_the_records_have_the_same_fields(name):
    ours, theirs = getattr(our, name), getattr(their, name)
    fields = getattr(theirs, "_fields", None)
    if fields is not None:
        assert ours._fields[: len(fields)] == fields
    assert issubclass(ours, tuple) == issubclass(theirs, tuple)


def test_our_module_has_all_of_its_names():
    public = {"Item", "SearchItem", "Op", "Result", "IndexConfig", "TTLConfig", "NOT_PROVIDED"}
    public |= {"ListNamespacesOp", "InvalidNamespaceError", "BaseStore", "ensure_embeddings"}
    public |= {"get_text_at_path", "tokenize_path", "Embeddings", "NamespacePath"}
    assert public <= set(dir(our)) & set(dir(their))
