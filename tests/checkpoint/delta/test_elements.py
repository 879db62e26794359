"""Elements that the accelerator packs: the same differences and the same rows as without it."""

import gc
import random
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from milepost._db.dialect import Bounds
from milepost._internal import native
from milepost.checkpoint._delta import split
from milepost.checkpoint._delta.diff import Parts, difference
from milepost.checkpoint._delta.encode import Codec, Encoded
from milepost.checkpoint._delta.rope import Rope
from milepost.checkpoint._delta.split import as_parts, place_in, split_like
from milepost.checkpoint._sql.cache import CachedValue
from milepost.checkpoint._sql.write.chains import blob_row
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import DeserializationError

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
        patch.setattr(native, "elements", None)
        return CODEC.encode(value)


def shape(row: Any) -> Any:
    """All that becomes of a row, but for what is remembered of it."""
    base = row.base_version or (row.base.version if row.base else None)
    chain = row.cached.chain
    how = (chain.rows, chain.spent, chain.roots, chain.tail, chain.is_root, chain.compactions)
    return base, row.delta, row.delta_from_previous, row.compactions, how


@given(_EDITS, st.booleans(), st.booleans())
@example([("add", 0, "y" * 300)] * 25, False, False)
@settings(max_examples=150, deadline=None)
def test_rows_are_the_same_as_without_the_accelerator(
    edits: Any, as_dicts: bool, forgetful: bool
) -> None:
    value: list[Any] = ["z" * 50]
    base: CachedValue | None = None
    plain: CachedValue | None = None
    for n, edit in enumerate(edits):
        value = edited(value, *edit)
        stored: Any = {f"k{at}": member for at, member in enumerate(value)} if as_dicts else value
        encoded = CODEC.encode(stored, after=base.encoded if base else None)
        expected = plainly(stored)
        assert encoded.size == expected.size
        assert encoded.parts == expected.parts
        assert encoded.parts.join() == b"".join(encoded.parts.pieces()) == expected.parts.join()
        assert SERDE.decode_pieces("msgpack", encoded.parts.pieces()) == stored
        row = blob_row("c", str(n), encoded, base, None, Bounds(3, 3, 3))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "cut_up", None)
            other = blob_row("c", str(n), expected, plain, None, Bounds(3, 3, 3))
        assert shape(row) == shape(other)
        base, plain = row.cached, other.cached
        if forgetful and base is not None and plain is not None:
            # As if it had been read: in one piece, and not cut.
            whole = Encoded("msgpack", Parts(b"", [expected.parts.join()]), expected.size)
            plain.encoded = whole
            base.encoded = split.cut(whole)


@given(st.lists(_MEMBERS, max_size=12), st.lists(_MEMBERS, max_size=12))
@settings(max_examples=200, deadline=None)
def test_differences_are_the_same_as_without(old: list[Any], new: list[Any]) -> None:
    before, after = CODEC.encode(old), CODEC.encode(new)
    delta = difference(before.parts, after.parts)
    assert delta == difference(plainly(old).parts, plainly(new).parts)
    assert Rope.of(before.parts.join()).apply(delta).read() == after.parts.join()
    follows = CODEC.encode(new, after=before)
    assert difference(before.parts, follows.parts) == delta
    assert place_in(after, before) == place_in(plainly(new), plainly(old))


def test_a_change_inside_an_element_is_found() -> None:
    """Whether or not it is the same object."""
    value = [{"n": n, "text": "t" * 50} for n in range(2_000)]
    before = CODEC.encode(value)
    value[1_200]["n"] = "changed"
    after = CODEC.encode(value, after=before)
    pairs = zip(before.parts.elements, after.parts.elements, strict=True)
    assert [n for n, (old, new) in enumerate(pairs) if old is not new] == [1_200]
    assert SERDE.decode_pieces("msgpack", after.parts.pieces()) == value
    assert after.parts == plainly(value).parts


def test_versions_share_the_elements_that_have_not_changed() -> None:
    value = ["x" * 500 for _ in range(100)]
    first = CODEC.encode(value)
    later = CODEC.encode([*value[:60], "new", *value[61:], "more"], after=first)
    same = map(lambda a, b: a is b, first.parts.elements, later.parts.elements)
    assert list(same) == [True] * 60 + [False] + [True] * 39
    cut = split.cut(as_parts(SERDE.dumps_typed(value)))
    again = CODEC.encode(value, after=cut)
    assert all(map(lambda a, b: a is b, cut.parts.elements, again.parts.elements))


def test_what_is_not_plain_is_left_to_python() -> None:
    for value in ([1, {2}], [bytearray(b"x")], {"a": 1j}, {(1,): 2}, ["\ud800"]):
        assert native.elements(value, 4, None, None, None) is None
        assert (
            native.elements([*"abc", value], 4, CODEC.encode([*"abc"]).parts.elements, None, [])
            is None
        )
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
    found = native.cut_up(data)
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
        assert native.cut_up(SERDE.dumps_typed(value)[1]) == CODEC.encode(value).parts


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
                assert SERDE.decode_pieces("msgpack", pieces) == value
            for wrong in ([data[:at], data[at:-1]], [data[:at], data[at:], b"\0"]):
                with pytest.raises(DeserializationError):
                    SERDE.decode_pieces("msgpack", wrong)
        assert SERDE.decode_pieces("msgpack", [b"", data[:0], data]) == value


def test_pieces_of_a_list_are_read_where_they_are_unless_an_element_is_in_two() -> None:
    value = [{"n": n, "text": "é" * n} for n in range(20)]
    head, *elements = CODEC.encode(value).parts.pieces()
    for pieces in (
        (head, *elements),
        (head + elements[0], b"", b"".join(elements[1:9]), memoryview(b"".join(elements[9:]))),
    ):
        assert native.unpack(pieces, HOOKS) == value
    first = elements[0]
    for wrong in (
        (),
        (b"",),
        (head,),
        (b"", head, *elements),
        (head[:1], head[1:], *elements),
        (head, first[:3], first[3:], *elements[1:]),
        (head, *elements[1:]),
        (head, *elements, first),
        (b"\x81", b"\x01", b"\x01"),
    ):
        with pytest.raises(ValueError):
            native.unpack(wrong, HOOKS)
    with pytest.raises(TypeError):
        native.unpack((head, 1), HOOKS)


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
            native.unpack(b"\x92" + one + b"\x01", (hook, hook))
    assert asked == [b"\x01"] * 2


def test_what_is_no_call_of_it_is_refused() -> None:
    for wrong in (None, (b"\xa1a",), [None, 1], ["a", "b"]):
        assert native.elements(["a", "b"], 0, wrong, None, wrong) == (
            b"\x92",
            [b"\xa1a", b"\xa1b"],
            5,
        )
    for value in ("text", (1,), 1, None):
        assert native.elements(value, 0, None, None, None) is None
    for call in (
        lambda: native.elements(["a"], 0),
        lambda: native.elements(["a"], "0", None, None, None),
        lambda: native.cut_up("a"),
        lambda: native.cut_up((b"\x90",)),
    ):
        with pytest.raises(TypeError):
            call()


def test_cutting_values_into_elements_leaks_no_references() -> None:
    source = random.Random(1)
    value: list[Any] = [{"a": "x" * source.randrange(400), "é": [n, (n,)]} for n in range(200)]
    member = value[5]["é"]
    head, base, _ = native.elements(value, 4, None, None, None)
    data = SERDE.dumps_typed(value)[1]

    def work() -> None:
        for changed in (value, [*value, 1], [1, *value], value[:70], [*value, object()], [{1}]):
            native.elements(changed, 4, base, None, None)
        native.elements(dict(enumerate(value)), 4, base, None, None)
        assert native.cut_up(data) == (head, base)
        assert native.cut_up(data[:-3]) is None
        assert native.cut_up(b"\x90") == (b"\x90", [])
        assert native.unpack(data, HOOKS) == native.unpack((head, *base), HOOKS) == value
        for broken in (
            (head, *base[:-1]),
            (head, base[0][:-1]),
            data[:-3],
            data + b"x",
            b"\x92\x01\xd4\x70\x01",
        ):
            with pytest.raises((ValueError, KeyError)):
                native.unpack(broken, HOOKS)

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
    """No garbage is collected, which could run anything: not for short ones, nor for long."""
    long = "x" * 70_000
    for value in ([long] * 300, dict.fromkeys(range(300), long)):
        _, packed, _ = with_little_garbage(
            value, lambda value: native.elements(value, 0, None, None, None)
        )
        assert len(packed) == 300
