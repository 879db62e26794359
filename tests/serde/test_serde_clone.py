"""Copies of plain values, as good as written and read."""

import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost import native
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

if not native.AVAILABLE:
    pytest.skip("the accelerator was not built, or is switched off", allow_module_level=True)

SERDE = JsonPlusSerializer()
clone = native.clone
_KEYS = st.one_of(
    st.text(),
    st.integers(0, 2**63),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
    st.binary(),
)
_VALUES = st.recursive(
    st.one_of(_KEYS, st.just("long " * 50)),
    lambda v: st.one_of(st.lists(v), st.lists(v).map(tuple), st.dictionaries(_KEYS, v)),
    max_leaves=25,
)


def mutable(value: Any) -> list[Any]:
    """Every list and dict in a value."""
    inside: list[Any] = []
    if type(value) in (list, tuple):
        inside = [found for member in value for found in mutable(member)]
    elif type(value) is dict:
        inside = [found for member in value.values() for found in mutable(member)]
    return [*inside, value] if type(value) in (list, dict) else inside


@given(_VALUES)
@settings(max_examples=300, deadline=None)
def test_a_copy_is_what_reading_would_give(value: Any) -> None:
    copy = clone(value)
    assert SERDE.dumps_typed(copy) == SERDE.dumps_typed(value)
    assert {id(one) for one in mutable(copy)}.isdisjoint(id(one) for one in mutable(value))
    assert len(mutable(copy)) == len(mutable(value))


def test_what_cannot_change_is_shared() -> None:
    text, number = "x" * 50, 10**30
    pair = (text, (number,))
    copy = clone({text: [text, pair, number, (1, [2])]})
    (key, (first, second, third, (_, inner))) = next(iter(copy.items()))
    assert key is text
    assert first is text
    assert second is pair
    assert third is number
    inner.append(3)
    assert clone((1, [2])) == (1, [2])


def test_a_dict_from_which_much_was_removed() -> None:
    value: dict[Any, Any] = {n: [n] for n in range(1_000)}
    for n in range(990):
        del value[n]
    copy = clone(value)
    copy[995].append(1)
    assert value[995] == [995]
    assert list(copy) == list(value)


def test_what_is_not_plain_is_not_copied() -> None:
    class Text(str):
        pass

    others: list[Any] = [object(), {1}, bytearray(), Text("x"), 1j, type, {(1,): 2}, {Text("x"): 1}]
    for other in others:
        for value in (other, [1, other], {"a": [other]}, (1, other), [[], {"a": (other,)}]):
            assert clone(value) is NotImplemented
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert clone(deep) is NotImplemented
    circle: list[Any] = []
    circle.append(circle)
    assert clone(circle) is NotImplemented
    circle.clear()
    while type(deep) is list:  # taken apart, so that nothing overflows when it is freed
        deep = deep[0]


def test_nothing_leaks() -> None:
    leaf = "a leaf that is long"
    value = [{"a": leaf, "b": [leaf, (leaf, [1])], leaf: {}} for _ in range(50)]

    def work() -> None:
        assert clone(value) == value
        assert clone([*value, object()]) is NotImplemented
        assert clone({"a": value, "b": {1}}) is NotImplemented
        assert clone({"a": value, (1,): 1}) is NotImplemented
        assert clone((value, {1})) is NotImplemented

    work()
    count = sys.getrefcount(leaf)
    tracemalloc.start()
    try:
        work()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(50):
            work()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sys.getrefcount(leaf) == count
    assert after - before < 1_000
