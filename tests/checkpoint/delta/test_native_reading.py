"""What the accelerator does to read values: the same as Python does, and no objects in common."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost._internal import native
from milepost.checkpoint._delta.encode import Codec
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

if TYPE_CHECKING:
    from collections.abc import Iterator

if not native.AVAILABLE:
    pytest.skip("the accelerator was not built, or is switched off", allow_module_level=True)

SERDE = JsonPlusSerializer()
CODEC = Codec(SERDE)
HOOKS = SERDE.level.hooks
PLACE = ("blob", "thread", "ns")
LONG = "long enough that words are remembered " * 6

_ATOMS = st.none() | st.booleans() | st.integers(-5, 300) | st.sampled_from(["", "user", "é", LONG])
_FLAT = st.dictionaries(st.sampled_from("abcé"), _ATOMS, max_size=4)
_MEMBERS = st.dictionaries(
    st.sampled_from("abcé"),
    _ATOMS | st.lists(_FLAT, max_size=2) | _FLAT | st.tuples(_FLAT) | st.tuples(_FLAT, _ATOMS),
    max_size=4,
)


def encoded(value: Any) -> bytes:
    return CODEC.encode(value).parts.join()


def insides(value: Any) -> list[Any]:
    """All lists and dicts in a value."""
    if isinstance(value, dict):
        return [value, *(one for member in value.values() for one in insides(member))]
    if isinstance(value, list | tuple):
        found = [value] if isinstance(value, list) else []
        return [*found, *(one for member in value for one in insides(member))]
    return []


@contextlib.contextmanager
def emptied_by_the_collector(value: list[Any], after: int = 50) -> Iterator[None]:
    """A list that is emptied when so many objects have been made."""
    before = gc.get_threshold()
    gc.collect()

    def clear(*_: object) -> None:
        value.clear()

    gc.callbacks.append(clear)
    gc.set_threshold(after + 1)
    try:
        yield
    finally:
        gc.callbacks.remove(clear)
        gc.set_threshold(*before)


# -- dicts that are made like others


@given(st.lists(_MEMBERS | _FLAT, max_size=30))
def test_dicts_of_a_list_are_read_exactly_and_have_nothing_in_common(value):
    value = [LONG, *value]
    read = SERDE.loads_typed(SERDE.dumps_typed(value))
    assert repr(read) == repr(value)
    containers = insides(read)
    assert len(set(map(id, containers))) == len(containers)


def test_dicts_with_the_same_keys_in_another_order_keep_it():
    value = [{"role": "user", "content": LONG}, {"content": LONG, "role": "user"}] * 3
    value += [{"role": "user", "content": "", "more": 1}, {"role": "b"}, {}, {"role": "c"}]
    read = SERDE.loads_typed(SERDE.dumps_typed(value))
    assert [list(one.items()) for one in read] == [list(one.items()) for one in value]


def test_a_key_that_is_there_twice_counts_once_however_often_it_recurs():
    twice = b"\x82\xa1a\x01\xa1a\x02"
    once = b"\x82\xa1a\x01\xa1b\x02"
    data = b"\x96" + twice + once + twice + twice + once + b"\xd9\xf0" + b"x" * 240
    read = native.unpack(data, HOOKS)
    assert read[:-1] == [{"a": 2}, {"a": 1, "b": 2}, {"a": 2}, {"a": 2}, {"a": 1, "b": 2}]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=1, max_size=40))
def test_values_that_recur_are_those_of_their_own_dict(pairs):
    value = [{"role": role, "number": number, "content": LONG} for role, number in pairs]
    assert SERDE.loads_typed(SERDE.dumps_typed(value)) == value


def test_a_list_that_ends_too_soon_is_refused_wherever_it_is_cut():
    data = encoded([{"role": "user", "content": "x" * 60}, {"role": "b", "content": "y"}] * 3)
    for size in range(len(data)):
        with pytest.raises(ValueError):
            native.unpack(data[:size] + b"", HOOKS)
