"""Values kept beside their bytes: every change is seen, and what is read is exact and one's own."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost import native
from milepost.checkpoint.codec import Codec
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.splice import Parts

if not native.AVAILABLE:
    pytest.skip("the accelerator was not built, or is switched off", allow_module_level=True)

SERDE = JsonPlusSerializer()
KEEPING, PLAIN = Codec(SERDE, keeps=True), Codec(SERDE)

_ATOMS = st.sampled_from(
    [None, True, False, 1, 1.0, 0, 0.0, -0.0, "user", "a long text " * 9, "é", b"user", 2**40, ""]
)
_KEYS = st.sampled_from(["role", "content", "é", "more"])
_FLAT = st.dictionaries(_KEYS, _ATOMS, max_size=4)
_MESSAGES = st.fixed_dictionaries({"role": _ATOMS, "content": _ATOMS})
_OTHERS = _FLAT | _ATOMS | st.dictionaries(_KEYS, st.lists(_ATOMS, max_size=2), max_size=2)
_ELEMENTS = _MESSAGES | _MESSAGES | _OTHERS
_CHANGES = st.tuples(
    st.sampled_from(
        ["append", "append", "set", "replace", "copy", "drop", "turn", "key", "remove", "cut"]
    ),
    st.integers(0, 40),
    _ELEMENTS,
    _KEYS,
    _ATOMS,
)


def change(value: list[Any], what: str, at: int, element: Any, key: str, atom: Any) -> None:
    """Change a list, or one of its elements, in place."""
    if what == "append" or not value:
        value.append(element)
        return
    at %= len(value)
    found = value[at]
    if what == "replace":
        value[at] = element
    elif what == "drop":
        del value[at]
    elif what == "cut":
        del value[at + 1 :]
    elif not isinstance(found, dict):
        return
    elif what == "set":
        found[key] = atom
    elif what == "copy":
        value[at] = {name[:0] + name: inside for name, inside in found.items()}
    elif what == "turn":
        value[at] = dict(reversed(found.items()))
    elif what == "key" and found:
        found["another"] = found.pop(next(iter(found)))
    elif what == "remove" and found:
        del found[next(iter(found))]


def as_encoded(value: list[Any], before: Parts | None) -> Parts:
    made = KEEPING.encode(value, after=before)
    assert made.parts.join() == PLAIN.encode(value).parts.join()
    return made.parts


def as_read(value: list[Any], before: Parts) -> list[Any]:
    """What a reader gets, which must be the value."""
    encoded = KEEPING.encode(value, after=before)
    read: list[Any] = KEEPING.decode_parts(encoded)
    assert repr(read) == repr(value)
    return read


@given(st.lists(_ELEMENTS, max_size=20), st.lists(_CHANGES, max_size=25), st.booleans())
@settings(max_examples=300)
def test_every_change_is_seen(value, changes, goes_on):
    parts = as_encoded(value, None)
    for one in changes:
        change(value, *one)
        parts = as_encoded(value, parts)
        read = as_read(value, parts)
        if goes_on:  # with what was read, as the next run does
            value = read


def test_what_is_read_is_nobody_elses():
    value = [{"role": "user", "content": f"text {number}"} for number in range(50)]
    encoded = KEEPING.encode(value)
    first, second = KEEPING.decode_parts(encoded), KEEPING.decode_parts(encoded)
    assert first == second == value
    everything = [*value, *first, *second]
    assert len(set(map(id, everything))) == len(everything)
    first[3]["content"] = value[4]["content"] = "mine"
    assert KEEPING.decode_parts(encoded) == second


def test_texts_of_flat_dicts_are_neither_packed_nor_decoded_again():
    text = "a text " * 20
    value = [{"role": "user", "content": text}]
    packed = KEEPING.encode(value).parts.elements
    assert isinstance(packed, native.Packed)
    assert packed.made()[0]["content"] is text
    assert PLAIN.encode(value).parts.elements.made() is None


def test_after_a_cold_read_they_are_kept_from_the_first_comparison_on():
    value = [{"role": "user", "content": f"text {number}"} for number in range(50)]
    head, packed = native.cut_up((PLAIN.encode(value).parts.join(),))
    assert packed.made() is None
    again = KEEPING.encode(value, after=Parts(head, packed)).parts.elements
    assert again is packed
    assert packed.made() == value


@pytest.mark.parametrize("value", [[], {}, {"a": {"role": "user"}}, [[1], {"a": 1}], ["a"]])
def test_whatever_else_is_decoded_from_its_bytes(value):
    encoded = KEEPING.encode(value)
    assert encoded.parts.elements.made() is None
    assert KEEPING.decode_parts(encoded) == value


def test_many_keys_are_not_kept():
    for count in (8, 9):
        value = [{f"key {n}": n for n in range(count)}] * 3
        encoded = KEEPING.encode(value)
        assert (encoded.parts.elements.made() is None) is (count == 9)
        assert KEEPING.decode_parts(encoded) == value


def test_lists_of_several_kinds_of_dicts_are_read_exactly():
    kinds = [{"role": "user"}, {"role": "tool", "id": 1}, {"id": 1, "role": "tool"}, {}]
    value = [dict(kinds[n % 4], n=n, text="x" * 400) for n in range(1000)]
    parts: Parts | None = None
    for size in (1, 2, 3, 500, 501, 1000, 400, 401):
        parts = as_encoded(value[:size], parts)
        as_read(value[:size], parts)


def test_what_was_removed_is_not_kept_alive_by_what_stays():
    large = "".join(["x"] * 1_000_000)
    before = sys.getrefcount(large)
    value = [*({"content": "y" * 12_000, "n": n} for n in range(3)), {"content": large, "n": 3}]
    encoded = KEEPING.encode(value)
    assert sys.getrefcount(large) > before + 1
    value.pop()
    encoded = KEEPING.encode(value, after=encoded.parts)
    assert sys.getrefcount(large) == before
    as_read(value, encoded.parts)


@pytest.mark.parametrize("text", ["x" * 1000, "é" * 1000, "x" * 999 + "\N{GRINNING FACE}"])
def test_what_is_kept_is_counted(text):
    def copies() -> list[dict[str, str]]:
        return [{"content": text[:-1] + text[-1:], "role": "user"} for _ in range(200)]

    tracemalloc.start()
    try:
        encoded = KEEPING.encode(copies())
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.6 < encoded.parts.weight / taken < 1.5
    assert PLAIN.encode(copies()).parts.weight < encoded.size + 1


def test_a_serializer_that_reads_in_its_own_way_is_asked():
    class Dated(JsonPlusSerializer):
        def decode_pieces(self, kind: str, pieces: Any) -> Any:
            return [{**one, "seen": True} for one in super().decode_pieces(kind, pieces)]

    class Sealed(EncryptedSerializer):
        decode_pieces = Dated.decode_pieces

    value = [{"role": "user", "content": "x" * 5000}] * 3
    key = bytes(32)
    for serde in (Dated(), Sealed.from_pycryptodome_aes(key=key)):
        codec = Codec(serde, keeps=True)
        assert codec.encode(value).parts.elements.made() is None
    codec = Codec(Dated(), keeps=True)
    assert codec.decode_parts(codec.encode(value)) == [{**one, "seen": True} for one in value]
    usual = Codec(EncryptedSerializer.from_pycryptodome_aes(key=key), keeps=True)
    assert usual.encode(value).parts.elements.made() == value


def test_what_is_kept_is_let_go():
    text = "".join(["a ", "text"])
    before = sys.getrefcount(text)
    value = [{"content": text, "n": n} for n in range(300)]
    encoded = KEEPING.encode(value)
    for size in range(301, 330):
        value.append({"content": text, "n": size})
        encoded = KEEPING.encode(value, after=encoded.parts)
        KEEPING.decode_parts(encoded)
        assert native.after([*value, object()], 4, encoded.parts.elements, True) is None
        KEEPING.encode(value[:20], after=encoded.parts)
    value.clear()
    assert sys.getrefcount(text) > before
    del encoded
    gc.collect()
    assert sys.getrefcount(text) == before
