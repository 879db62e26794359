"""The elements of a list or dict, joined, are the bytes of the whole."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.checkpoint._delta.diff import Parts
from milepost.checkpoint._delta.encode import Codec
from milepost.checkpoint._delta.split import split_like
from milepost.checkpoint.serde._msgpack.engine import (
    elements_kind,
    encode_elements,
    offers_elements,
)
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import SerializationError

SERDE = JsonPlusSerializer()
CODEC = Codec(SERDE)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.binary().map(bytearray),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda v: st.one_of(st.lists(v), st.lists(v).map(tuple), st.dictionaries(st.integers(), v)),
    max_leaves=6,
)
_SMALL = st.integers(-(2**63), 2**64 - 1)
_WHOLES = st.one_of(
    st.lists(_VALUES),
    st.dictionaries(st.one_of(st.text(), _SMALL, st.binary(), st.none()), _VALUES),
)


@given(_WHOLES)
@settings(max_examples=60, deadline=None)
def test_joined_elements_are_the_whole(value: Any) -> None:
    parts = CODEC.encode(value).parts
    whole = SERDE.dumps_typed(value)[1]
    assert parts.join() == whole
    assert parts.elements == encode_elements(value, SERDE.level)
    assert split_like(whole, Parts(b"", [])) == parts


@pytest.mark.parametrize("size", [0, 15, 16, 65_535, 65_536])
def test_every_size_of_head(size: int) -> None:
    for value in (list(range(size)), dict.fromkeys(range(size))):
        assert CODEC.encode(value).parts.join() == SERDE.dumps_typed(value)[1]


@pytest.mark.parametrize("value", [(1,), {(1,): 2}, {2**70: 1}, {1}, "x", 1, None, b"x"], ids=repr)
def test_other_values_are_one_piece(value: Any) -> None:
    assert elements_kind(value) is None
    assert CODEC.encode(value).parts == Parts(b"", [SERDE.dumps_typed(value)[1]])


def test_a_refused_element_says_where() -> None:
    for value, path in (([1, {"a": object()}], "[1].a"), ({"k": [object()]}, "k[0]")):
        with pytest.raises(SerializationError) as caught:
            encode_elements(value, SERDE.level)
        assert caught.value.path == path


def test_our_serializers_offer_elements_and_those_that_write_in_their_own_way_do_not() -> None:
    class Own(JsonPlusSerializer):
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            return super().dumps_typed([obj])

    encrypted = EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 16)
    assert offers_elements(SERDE)
    assert offers_elements(encrypted)
    assert encode_elements([1, 2], encrypted.level) == [b"\x01", b"\x02"]
    assert not offers_elements(Own())
    assert not offers_elements(object())


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_splitting_never_fails_on_other_bytes(data: bytes) -> None:
    assert split_like(data, Parts(b"", [])).join() == data
