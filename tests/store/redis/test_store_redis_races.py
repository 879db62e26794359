"""Searches by meaning on Redis while others write below the same root, again and again: after some
attempts a search takes each part as it finds it, and an item is still found by what it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("redis")
pytest.importorskip("numpy")
from embedders import Model

from milepost.store._redis import core, vectors
from milepost.store.redis import RedisStore

NS = ("users", "ann")
INDEX: Any = {"embed": Model(), "dims": 3, "fields": ["text"], "model": "one"}


@pytest.fixture
def stores(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[RedisStore, RedisStore]]:
    """Two, of which reads never begin again."""
    monkeypatch.setattr(core, "_STRICT_ATTEMPTS", 0)
    with (
        RedisStore.from_conn_string(redis_url, index=INDEX) as one,
        RedisStore.from_conn_string(redis_url, index=INDEX) as other,
    ):
        yield one, other


def once_after(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Any) -> None:
    """Do something after the next call of a function."""
    found, left = getattr(owner, name), [True]

    def acting(*args: Any, **options: Any) -> Any:
        result = found(*args, **options)
        if left and left.pop():
            act()
        return result

    monkeypatch.setattr(owner, name, acting)


def found(store: RedisStore) -> dict[str, tuple[str, float]]:
    items = store.search(NS, query="a", limit=10)
    scores = [item.score for item in items]
    assert scores == sorted(scores, reverse=True)
    return {item.key: (item.value["text"], round(item.score, 2)) for item in items}


def test_what_is_put_while_vectors_are_fetched_is_not_missed_for_ever(stores, monkeypatch):
    one, other = stores
    one.put(NS, "x", {"text": "a"})
    one.put(NS, "y", {"text": "a"})
    assert found(one) == {"x": ("a", 1.0), "y": ("a", 1.0)}
    other.put(NS, "x", {"text": "aa"})
    # The vectors of x are asked for; y changes before the answer comes.
    once_after(monkeypatch, vectors, "chunks", lambda: other.put(NS, "y", {"text": "b"}))
    found(one)
    assert found(one) == {"x": ("aa", 1.0), "y": ("b", 0.0)}


def test_an_item_that_changes_during_a_search_has_the_score_of_the_value_it_comes_with(
    stores, monkeypatch
):
    one, other = stores
    one.put(NS, "x", {"text": "a"})
    one.put(NS, "y", {"text": "ab"})
    assert found(one) == {"x": ("a", 1.0), "y": ("ab", 0.71)}
    once_after(monkeypatch, vectors.Copies, "nearest", lambda: other.put(NS, "x", {"text": "b"}))
    assert found(one) == {"y": ("ab", 0.71), "x": ("b", 0.0)}


@pytest.mark.parametrize("strict", [0, 8])
def test_a_copy_that_another_thread_has_replaced_meanwhile_is_not_searched(
    strict, stores, monkeypatch
):
    """As when it knows of another generation already, in which all vectors are still to be made."""
    monkeypatch.setattr(core, "_STRICT_ATTEMPTS", strict)
    one, _ = stores
    one.put(NS, "x", {"text": "a"})
    copies: Any = one._core._ranker._copies
    replaced = vectors.CopyOf(99, b"other")
    once_after(monkeypatch, copies, "update", lambda: copies.update("users", replaced, (0, 1), []))
    assert found(one) == {"x": ("a", 1.0)}


def test_an_item_that_loses_its_text_during_a_search_is_not_found_by_meaning(stores, monkeypatch):
    one, other = stores
    one.put(NS, "x", {"text": "a"})
    one.put(NS, "y", {"text": "ab"})
    found(one)
    once_after(monkeypatch, vectors.Copies, "nearest", lambda: other.put(NS, "x", {"n": 1}))
    assert found(one) == {"y": ("ab", 0.71)}


def test_a_put_that_began_before_a_reindex_ended_leaves_the_vectors_of_others_alone(
    stores, monkeypatch
):
    one, other = stores
    one.put(NS, "x", {"text": "a"})
    engine, logic = one.engine, one._core
    engine.run(logic.reindexer().begin())
    during = engine.run(logic.notebook.load())
    one.reindex()  # goes on with it, and switches over
    load, first = other._core.notebook.load, [True]

    def loaded() -> Any:
        notes = yield from load()
        return during if first and first.pop() else notes

    monkeypatch.setattr(other._core.notebook, "load", loaded)
    other.put(NS, "y", {"text": "b"})
    assert not first
    marks = logic.keys.root(NS[0]).marks
    assert engine.client.zcount(marks, 0, 0) == 0, "items lack vectors that they had"
    assert found(one) == {"x": ("a", 1.0), "y": ("b", 0.0)}
