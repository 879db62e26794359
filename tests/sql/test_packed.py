"""Elements that the accelerator packs: the same differences and the same rows as without it."""

import gc
import random
import sys
import tracemalloc
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from milepost import native
from milepost.checkpoint import cutting
from milepost.checkpoint.codec import Codec, Encoded
from milepost.checkpoint.cutting import as_parts, place_in, split_like
from milepost.checkpoint.rope import Rope
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.packed import Packed, cut_up, pack_elements
from milepost.checkpoint.splice import Parts, difference, joined, lengths, span
from milepost.checkpoint.sql.chains import blob_row
from milepost.checkpoint.sql.remembered import Known

if not native.AVAILABLE:
    pytest.skip("the accelerator was not built, or is switched off", allow_module_level=True)

SERDE = JsonPlusSerializer()
CODEC = Codec(SERDE)
HOOKS = SERDE.level.hooks

_LEAVES = st.one_of(st.integers(0, 5), st.text(max_size=3), st.sampled_from(["x" * 40, "y" * 300]))
_MEMBERS = st.one_of(
    _LEAVES, st.lists(_LEAVES, max_size=3), st.dictionaries(st.text(max_size=2), _LEAVES)
)
_EDITS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "set", "drop", "front", "cut"]), st.integers(0, 40), _MEMBERS
    ),
    max_size=25,
)


def edited(value: list[Any], what: str, at: int, member: Any) -> list[Any]:
    made = list(value)
    if what == "add" or not made:
        made.append(member)
    elif what == "set":
        made[at % len(made)] = member
    elif what == "drop":
        del made[at % len(made)]
    elif what == "front":
        made.insert(0, member)
    else:
        made = made[: at % len(made)]
    return made


def plainly(value: Any) -> Encoded:
    """How Python encodes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "after", None)
        found = CODEC.encode(value)
    assert not isinstance(found.parts.elements, Packed)
    return found


def shape(row: Any) -> Any:
    """All that becomes of a row, but for what is remembered of it."""
    base = row.base_version or (row.base.version if row.base else None)
    chain = row.known.chain
    how = (chain.rows, chain.spent, chain.roots, chain.tail, chain.is_root, chain.folds)
    return base, row.program, row.fresh, row.folds, how


@given(_EDITS, st.booleans(), st.booleans())
@example([("add", 0, "y" * 300)] * 25, False, False)
@settings(max_examples=150, deadline=None)
def test_rows_are_the_same_as_without(edits: Any, as_dicts: bool, forgetful: bool) -> None:
    value: list[Any] = ["z" * 50]
    base: Known | None = None
    plain: Known | None = None
    for n, edit in enumerate(edits):
        value = edited(value, *edit)
        stored: Any = {f"k{at}": member for at, member in enumerate(value)} if as_dicts else value
        encoded = CODEC.encode(stored, after=base.encoded.parts if base else None)
        expected = plainly(stored)
        assert isinstance(encoded.parts.elements, Packed)
        assert encoded.size == expected.size
        assert encoded.parts == expected.parts
        assert encoded.parts.join() == b"".join(encoded.parts.pieces()) == expected.parts.join()
        assert SERDE.decode_pieces("msgpack", encoded.parts.pieces()) == stored
        row = blob_row("c", str(n), encoded, base, None, (3, 3))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "cuts", None)
            other = blob_row("c", str(n), expected, plain, None, (3, 3))
        assert shape(row) == shape(other)
        base, plain = row.known, other.known
        if forgetful and base is not None and plain is not None:
            # As if it had been read: in one piece, and not cut.
            whole = Encoded("msgpack", Parts(b"", [expected.parts.join()]), expected.size)
            plain.encoded = whole
            base.encoded = cutting.cut(whole)


@given(st.lists(_MEMBERS, max_size=12), st.lists(_MEMBERS, max_size=12))
@settings(max_examples=200, deadline=None)
def test_differences_are_the_same_as_without(old: list[Any], new: list[Any]) -> None:
    before, after = CODEC.encode(old), CODEC.encode(new)
    program = difference(before.parts, after.parts)
    assert program == difference(plainly(old).parts, plainly(new).parts)
    assert Rope.of(before.parts.join()).apply(program).read() == after.parts.join()
    follows = CODEC.encode(new, after=before.parts)
    assert difference(before.parts, follows.parts) == program
    assert place_in(after, before) == place_in(plainly(new), plainly(old))


@given(st.lists(_MEMBERS, max_size=30), st.data())
@settings(max_examples=100, deadline=None)
def test_packed_elements_are_a_sequence(value: list[Any], data: Any) -> None:
    parts = CODEC.encode(value[: len(value) // 2]).parts
    packed = CODEC.encode(value, after=parts).parts.elements
    elements = list(plainly(value).parts.elements)
    assert isinstance(packed, Packed)
    assert packed == elements
    assert list(packed) == elements
    assert len(packed) == len(elements)
    assert lengths(packed) == list(map(len, elements))
    start, stop = data.draw(st.integers(-35, 35)), data.draw(st.integers(-35, 35))
    assert packed[start:stop] == elements[start:stop]
    assert packed[::2] == elements[::2]
    for at in range(-len(elements), len(elements)):
        assert packed[at] == elements[at]
    for at in (len(elements), -len(elements) - 1):
        with pytest.raises(IndexError):
            packed[at]
    first, last = sorted((max(0, start), max(0, stop)))
    assert span(packed, first, last) == span(elements, first, last)
    assert joined(packed, first, last) == joined(elements, first, last)
    assert packed != [*elements, b""]
    assert packed != CODEC.encode([*value, 1]).parts.elements


def test_a_change_inside_an_element_is_found() -> None:
    """Whoever changed it, and whether or not it is the same object."""
    value = [{"n": n, "text": "t" * 50} for n in range(2_000)]
    before = CODEC.encode(value)
    value[1_200]["n"] = "changed"
    after = CODEC.encode(value, after=before.parts)
    assert before.parts.elements.same(after.parts.elements) == (1_200, 799)
    assert SERDE.decode_pieces("msgpack", after.parts.pieces()) == value
    assert after.parts == plainly(value).parts


def test_versions_share_what_has_not_changed_and_keep_nothing_else_alive() -> None:
    value = ["x" * 500 for _ in range(1_000)]
    encoded = CODEC.encode(value)
    for n in range(3_000):
        value.append(f"{n}" * 20)
        encoded = CODEC.encode(value, after=encoded.parts)
    packed = encoded.parts.elements
    assert isinstance(packed, Packed)
    assert encoded.parts.join() == SERDE.dumps_typed(value)[1]
    assert len(packed.segments) < 60
    assert sum(len(data) for data, _ in packed.segments) == packed.size


def test_a_value_that_shrinks_lets_go_of_what_it_was() -> None:
    value = [f"{n}" * 100 for n in range(3_000)]
    for before in (CODEC.encode(value), cutting.cut(as_parts(SERDE.dumps_typed(value)))):
        after = CODEC.encode(value[:70], after=before.parts)
        packed = after.parts.elements
        assert isinstance(packed, Packed)
        assert before.parts.elements.same(packed) == (70, 0)
        assert after.parts == plainly(value[:70]).parts
        assert sum(len(data) for data, _ in packed.segments) <= 2 * packed.size


def test_what_is_not_plain_is_left_to_python() -> None:
    for value in ([1, {2}], [bytearray(b"x")], {"a": 1j}, {(1,): 2}, ["\ud800"]):
        assert pack_elements(value, 4, None) is None
    assert CODEC.encode([1, {2}]).parts == plainly([1, {2}]).parts


@given(st.binary(max_size=60))
@example(b"\x92\x01\x02")
@example(b"\x91")
@example(b"\x92\x01")
@example(b"\xdf\xff\xff\xff\xff")
@example(b"\xdd\xff\xff\xff\xff\x01")
@example(b"\x91\xc1")
@example(b"\x93" + b"\xdd\xff\xff\xff\xff" * 3)
@settings(max_examples=500, deadline=None)
def test_other_bytes_are_cut_as_python_cuts_them_or_not_at_all(data: bytes) -> None:
    assert split_like(data, Parts(b"", [])).join() == data
    packed = cut_up(data)
    if packed is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "cuts", None)
            assert split_like(data, Parts(b"", [])).elements == packed


def test_cuts_of_every_kind_of_value() -> None:
    members: list[Any] = [
        *(
            1,
            200,
            70_000,
            2**40,
            2**63,
            -5,
            -100,
            -1_000,
            -70_000,
            -(2**40),
            0.5,
            None,
            True,
            False,
        ),
        *("x" * n for n in (0, 31, 32, 255, 256, 65_536)),
        *(b"x" * n for n in (0, 255, 256, 65_536)),
        *((b"x" * n,) for n in (0, 1, 5, 13, 300, 70_000)),
        *(list(range(n)) for n in (0, 15, 16, 70_000)),
        *(dict.fromkeys(range(n)) for n in (0, 15, 16, 70_000)),
    ]
    for value in (members, dict(enumerate(members))):
        packed = cut_up(SERDE.dumps_typed(value)[1])
        assert packed is not None
        assert packed == CODEC.encode(value).parts.elements


def test_pieces_are_read_only_if_elements_are_whole() -> None:
    value = {"a": [1, "é"], "b": {"c": (1, 2)}, "d": 7}
    data = SERDE.dumps_typed(value)[1]
    packed = cut_up(data)
    assert packed is not None
    ends = [1, *accumulate(packed.lengths(), initial=1)]
    for at in range(len(data) + 1):
        pieces = [data[:at], b"", memoryview(data)[at:]]
        assert SERDE.decode_pieces("msgpack", pieces) == value
        if at in ends:
            assert native.unpack_pieces(pieces, HOOKS) == value
    for pieces in (
        [],
        [b""],
        [b"\x92", b"\x01"],
        [b"\x91", b"\x01", b"\x01"],
        [b"\x01"],
        [b"\xdd", b"\0\0\0\0"],
    ):
        with pytest.raises(ValueError):
            native.unpack_pieces(pieces, HOOKS)
    with pytest.raises(ValueError):  # a number in two pieces
        native.unpack_pieces([b"\x91\xcd\x01", b"\x00"], HOOKS)
    for wrong in (1, [1], [b"\x90", "x"]):
        with pytest.raises(TypeError):
            native.unpack_pieces(wrong, HOOKS)


def test_segments_that_are_none_are_refused() -> None:
    for wrong in ([], (1,), ((b"",),), ((b"", b""),), ((b"", b"1234567"),), (("", b"12345678"),)):
        with pytest.raises(TypeError):
            native.after([], 0, wrong)
        with pytest.raises(TypeError):
            native.same((), wrong)
    outside = ((b"abc", b"".join(n.to_bytes(8, sys.byteorder) for n in (0, 9, 2**64 - 1))),)
    assert native.same(outside, outside) == (0, 0)
    assert native.after(["abc", "d"], 0, outside)[:2] == (0, 0)


def test_nothing_leaks() -> None:
    source = random.Random(1)
    value: list[Any] = [{"a": "x" * source.randrange(400), "é": [n, (n,)]} for n in range(800)]
    member = value[5]["é"]
    base = native.after(value, 4, ())[2]
    data = SERDE.dumps_typed(value)[1]

    def work() -> None:
        for changed in (value, [*value, 1], [1, *value], value[:300], [*value, object()], [{1}]):
            native.after(changed, 4, base)
        native.after(dict(enumerate(value)), 4, base)
        native.same(base, native.after(value[:500], 4, ())[2])
        native.cuts(data)
        native.cuts(data[:-3])
        pieces = Packed(base).pieces()
        head = data[: len(data) - sum(map(len, pieces))]
        assert len(native.unpack_pieces([head, *pieces], HOOKS)) == 800
        for broken in ([head, *pieces[:-1]], [head, *pieces, b"x"], [b"\x92\x01\xd4\x70\x01"]):
            with pytest.raises((ValueError, KeyError)):
                native.unpack_pieces(broken, HOOKS)

    work()
    count = sys.getrefcount(member)
    grown = []
    tracemalloc.start()
    try:
        for _ in range(4):  # what others in this process keep for a while, they do not keep often
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(5):
                work()
            gc.collect()
            grown.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()
    assert sys.getrefcount(member) == count
    assert min(grown) < 200, grown


class Trap:
    """Garbage that empties a list when it is collected."""

    def __init__(self, value: Any) -> None:
        self.itself, self.value = self, value

    def __del__(self) -> None:
        self.value.clear()


def with_little_garbage(value: Any, work: Any) -> Any:
    """What `work` makes of a value that is emptied after it has made about a hundred objects."""
    before = gc.get_threshold()
    gc.collect()
    Trap(value)
    gc.set_threshold(100)
    try:
        return work(value)
    finally:
        gc.set_threshold(*before)


def test_a_list_that_shrinks_while_it_is_packed_is_left_to_python() -> None:
    """Making a segment may run the garbage collector, and that may run anything."""
    long = "x" * 70_000
    for value in ([long] * 300, dict.fromkeys(range(300), long)):
        found = with_little_garbage(value, lambda value: native.after(value, 0, ()))
        # Later versions collect only while Python code runs.
        assert found is None if sys.version_info < (3, 12) else len(Packed(found[2])) == 300
