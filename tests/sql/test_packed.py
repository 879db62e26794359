"""Elements that the accelerator packs: the same differences and the same rows as without it."""

import gc
import random
import sys
import tracemalloc
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
from milepost.checkpoint.splice import Parts, difference, ends_with, joined, lengths, span
from milepost.checkpoint.sql.chains import blob_row
from milepost.checkpoint.sql.remembered import Known
from milepost.native import Packed
from milepost.sql.dialect import Bounds

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


def kept_alive(packed: Packed) -> int:
    """How many bytes there are for these elements."""
    return sum(len(p.obj if isinstance(p, memoryview) else p) for p in packed.pieces())


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
        row = blob_row("c", str(n), encoded, base, None, Bounds(3, 3, 3))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "cut_up", None)
            other = blob_row("c", str(n), expected, plain, None, Bounds(3, 3, 3))
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
    assert len(packed.pieces()) < 60
    assert kept_alive(packed) == packed.size


def test_a_value_that_shrinks_lets_go_of_what_it_was() -> None:
    value = [f"{n}" * 100 for n in range(3_000)]
    for before in (CODEC.encode(value), cutting.cut(as_parts(SERDE.dumps_typed(value)))):
        after = CODEC.encode(value[:70], after=before.parts)
        packed = after.parts.elements
        assert isinstance(packed, Packed)
        assert before.parts.elements.same(packed) == (70, 0)
        assert after.parts == plainly(value[:70]).parts
        assert kept_alive(packed) <= 2 * packed.size


def test_what_is_not_plain_is_left_to_python() -> None:
    for value in ([1, {2}], [bytearray(b"x")], {"a": 1j}, {(1,): 2}, ["\ud800"]):
        assert native.after(value, 4, None, True) is None
        assert native.after([*"abc", value], 4, CODEC.encode([*"abc"]).parts.elements, True) is None
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
    found = native.cut_up((data,))
    if found is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "cut_up", None)
            parts = split_like(data, Parts(b"", []))
        assert (parts.head, parts.elements) == found


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
        assert native.cut_up((SERDE.dumps_typed(value)[1],)) == CODEC.encode(value).parts


def test_a_value_is_read_from_any_pieces_of_it() -> None:
    """Whether or not elements are in two of them, or in three."""
    for value in (
        {"a": [1, "é"], "b": {"c": (1, 2.5)}, "word": "word", "x" * 40: [[], {}]},
        [700, "text", "text", (1, (2, "x" * 40)), {"k": None, "l": b"bytes"}, [[[-70_000]]]],
    ):
        data = SERDE.dumps_typed(value)[1]
        for at in range(1, len(data)):
            for end in range(at, len(data) + 1):
                pieces = [data[:at], b"", memoryview(data)[at:end], data[end:]]
                assert native.unpack_pieces(pieces, HOOKS) == value
            for wrong in ([data[:at], data[at:-1]], [data[:at], data[at:], b"\0"]):
                with pytest.raises(ValueError):
                    native.unpack_pieces(wrong, HOOKS)
        assert SERDE.decode_pieces("msgpack", [b"", data[:0], data]) == value


def test_short_texts_that_recur_in_dicts_are_one_object() -> None:
    value = [{"role": "assistant", "content": "x" * 40} for _ in range(20)]
    found = native.unpack(SERDE.dumps_typed(value)[1], HOOKS)
    assert found == value
    assert len({id(message["role"]) for message in found}) == 1
    assert len({id(message["content"]) for message in found}) == 20


def test_a_hook_that_fails_is_not_asked_again() -> None:
    asked: list[bytes] = []

    def hook(code: int, payload: bytes) -> Any:
        asked.append(payload)
        raise ValueError(f"no {code}")

    extension = b"\xd4\x70\x01"
    for one in (extension, b"\xc7\x04\x20\x91" + extension):
        with pytest.raises(ValueError, match="no 112"):
            native.unpack_pieces([b"\x92", one, b"\x01"], (hook, hook))
        with pytest.raises(ValueError, match="no 112"):
            native.unpack_pieces([b"\x92", one[:-1], one[-1:] + b"\x01"], (hook, hook))
    assert asked == [b"\x01"] * 4


def test_pieces_that_are_no_list_or_dict_are_refused() -> None:
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
    for wrong in (1, [1], [b"\x90", "x"]):
        with pytest.raises(TypeError):
            native.unpack_pieces(wrong, HOOKS)


class Model:
    """What packed elements say, said by a list."""

    def __init__(self, elements: list[bytes]) -> None:
        self.elements = elements

    def same(self, new: list[bytes]) -> tuple[int, int]:
        most = min(len(self.elements), len(new))
        first = 0
        while first < most and self.elements[first] == new[first]:
            first += 1
        last = 0
        while last < most - first and self.elements[-1 - last] == new[-1 - last]:
            last += 1
        return first, last

    def ends_with(self, last: list[bytes]) -> bool:
        return not last or self.elements[-len(last) :] == last


_SIZES = (1, 20, 300, 9_000, 33_000, 70_000)


@pytest.mark.parametrize("seed", range(25))
def test_any_history_of_versions_is_what_plain_lists_say(seed: int) -> None:
    """With elements of every size, so that segments are joined, filled, cut and left behind."""
    source = random.Random(seed)
    sizes = _SIZES[: source.randint(1, len(_SIZES))]

    def members(count: int) -> list[Any]:
        return [chr(source.randrange(97, 100)) * source.choice(sizes) for _ in range(count)]

    value = members(source.randrange(30))
    versions: list[tuple[list[bytes], Packed]] = []
    for _ in range(30):
        before = source.choice(versions)[1] if versions and source.random() < 0.9 else None
        _, packed = native.after(value, 0, before, True)
        elements = [SERDE.dumps_typed(member)[1] for member in value]
        assert (list(packed), packed.size) == (elements, sum(map(len, elements)))
        assert packed.lengths() == list(map(len, elements))
        assert kept_alive(packed) <= 2 * packed.size
        start, stop = sorted((source.randrange(40), source.randrange(40)))
        part = b"".join(elements[start:stop])
        assert packed.span(start, stop) == len(part)
        assert packed.join(b"head", start, stop) == b"head" + part
        assert b"".join(packed.pieces(start, stop)) == part
        assert b"".join(packed.pieces(start)) == packed.join(b"", start)
        assert packed[start:stop:3] == elements[start:stop:3]
        assert packed[stop : start or None : -2] == elements[stop : start or None : -2]
        versions.append((elements, packed))
        for plain, other in versions:
            model = Model(plain)
            assert other.same(packed) == model.same(elements)
            assert packed.same(other) == Model(elements).same(plain)
            assert (
                other.ends_with(packed) == ends_with(plain, elements) == model.ends_with(elements)
            )
            assert (
                ends_with(other, elements) == ends_with(plain, packed) == model.ends_with(elements)
            )
            assert (other == packed) == (plain == elements) == (other == elements)
            assert (other != packed) == (plain != elements) == (elements != other)
        at, count = source.randrange(len(value) + 1), source.randrange(4)
        if source.random() < 0.6:
            value = [*value, *members(count)]
        elif source.random() < 0.5:
            value = [*value[:at], *members(count), *value[at + source.randrange(3) :]]
        else:
            value = value[: source.randrange(len(value) + 1)]


def test_what_has_not_changed_is_not_made_anew() -> None:
    value = ["x" * 500 for _ in range(10)]
    head, packed = native.after(value, 0, None, True)
    assert native.after(list(value), 0, packed, True) == (head, packed)
    assert native.after(list(value), 0, packed, True)[1] is packed
    assert packed.same(packed) == (10, 0)


def test_only_the_accelerator_makes_packed_elements() -> None:
    with pytest.raises(TypeError):
        Packed()
    _, packed = native.after(["a", "b"], 0, None, True)
    for wrong in (None, [], [b"\xa1a"]):
        with pytest.raises(TypeError):
            packed.same(wrong)
        with pytest.raises(TypeError):
            packed.ends_with(wrong)
        assert native.after(["a", "b"], 0, wrong, True)[1] == packed
    with pytest.raises(TypeError):
        hash(packed)
    with pytest.raises(TypeError):
        packed < packed  # noqa: B015
    assert packed != (b"\xa1a", b"\xa1b")
    assert b"\xa1b" in packed
    for call in (
        lambda: packed.span("a"),
        lambda: packed.pieces(0, None),
        lambda: packed.pieces(0, 1, 2),
        lambda: packed.join(),
        lambda: packed.join("head"),
        lambda: packed.join(b"", 0, 1, 2),
        lambda: packed["a"],
        lambda: native.after(["a"], 0),
        lambda: native.after(["a"], "0", None, True),
        lambda: native.cut_up("a"),
    ):
        with pytest.raises(TypeError):
            call()
    assert packed.span(-5, 1 << 70) == packed.size == 4
    assert packed.join(b"", 2, 1) == b""
    with pytest.raises(ValueError):
        packed[::0]


def test_nothing_leaks() -> None:
    source = random.Random(1)
    value: list[Any] = [{"a": "x" * source.randrange(400), "é": [n, (n,)]} for n in range(800)]
    member = value[5]["é"]
    _, base = native.after(value, 4, None, True)
    data = SERDE.dumps_typed(value)[1]

    def work() -> None:
        for changed in (value, [*value, 1], [1, *value], value[:300], [*value, object()], [{1}]):
            native.after(changed, 4, base, True)
        native.after(dict(enumerate(value)), 4, base, True)
        _, other = native.after(value[:500], 4, None, True)
        assert base.same(other) == (500, 0)
        assert base.ends_with(other) is False
        assert base != other
        assert native.cut_up((data,))[1] == base == list(base)
        native.cut_up((data[:-3],))
        native.cut_up((b"\x90",))
        assert base.span(0, 9) == sum(base.lengths()[:9]) == sum(map(len, base[8::-1]))
        assert base.join(b"head", 0, 300) == b"head" + b"".join(base.pieces(0, 300))
        pieces = base.pieces()
        head = data[: len(data) - sum(map(len, pieces))]
        assert len(native.unpack_pieces([head, *pieces], HOOKS)) == 800
        assert native.unpack_pieces([data[:9], data[9:1_000], data[1_000:]], HOOKS) == value
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


def test_nothing_else_runs_while_a_value_is_packed() -> None:
    """No garbage is collected, which could run anything: not for one segment, nor for many."""
    long = "x" * 70_000
    for value in ([long] * 300, dict.fromkeys(range(300), long)):
        _, packed = with_little_garbage(value, lambda value: native.after(value, 0, None, True))
        assert len(packed) == 300
