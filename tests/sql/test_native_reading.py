"""What the accelerator does to read values: the same as Python does, and no objects in common."""

from __future__ import annotations

import contextlib
import gc
import random
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import native
from milepost.checkpoint.codec import Codec
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.splice import difference, pack
from milepost.checkpoint.sql.grown import Grown, follow, whole

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
        with pytest.raises(ValueError):
            native.unpack_pieces([data[:5], data[5:size]], HOOKS)


# -- copies


def test_copies_are_independent_and_as_many_as_asked_for():
    elements = [{"a": 1}, "text", {"a": 1}]
    made = native.copies(elements, 3)
    assert made == elements
    assert made[0] is not elements[0]
    assert native.copies(elements, 1) == [{"a": 1}]
    assert native.copies(elements, 0) == []


def test_copies_of_more_than_there_are_are_refused():
    with pytest.raises(ValueError):
        native.copies([1], 2)
    with pytest.raises(ValueError):
        native.copies([1], -1)
    for arguments in (((1,), 1), ([1], "1"), ([1],)):
        with pytest.raises(TypeError):
            native.copies(*arguments)


def test_elements_that_vanish_while_they_are_copied_are_missed():
    elements = [{"a": []} for _ in range(2000)]
    with emptied_by_the_collector(elements), pytest.raises(RuntimeError, match="changed while"):
        native.copies(elements, 2000)


def test_what_vanishes_while_it_is_copied_is_copied_whole_or_not_at_all():
    for after in range(60):
        elements = [{"a": []} for _ in range(30)]
        with (
            emptied_by_the_collector(elements, after),
            contextlib.suppress(RuntimeError, ValueError),
        ):
            assert native.copies(elements, 30) == [{"a": []}] * 30


# -- pieces that are cut up


@given(st.lists(_MEMBERS | _ATOMS, max_size=20), st.data())
def test_pieces_are_cut_up_as_the_whole_is(value, data):
    head, packed = native.cut_up((encoded(value),))
    sizes = [0, *(packed.span(0, n + 1) for n in range(len(packed)))]
    cuts = sorted(data.draw(st.sets(st.sampled_from(sizes), max_size=4)))
    body = packed.join(b"")
    around = memoryview(b"before" + body + b"after")[6 : 6 + len(body)]
    pieces = [around[start:end] for start, end in pairwise([0, *cuts, len(body)])]
    for first in ([head], [head, b""]):
        found, again = native.cut_up([*first, *pieces])
        assert found == head
        assert again == packed
        assert again.join(head) == encoded(value)


def test_an_element_in_two_pieces_is_left_to_others():
    data = encoded(["a", "text", "b"])
    assert native.cut_up((data[:4], data[4:])) is None
    for wrong in ((), (b"",), (data, b"\x01"), (data[:-1],), (b"\xdd\xff\xff\xff\xff", data)):
        assert native.cut_up(wrong) is None
    gone = memoryview(bytes(data))
    gone.release()
    for given_ in (1, ("a",), (bytearray(data),), (memoryview(data)[::-1],), (data, None), (gone,)):
        with pytest.raises((TypeError, ValueError, BufferError)):
            native.cut_up(given_)


# -- rows that add to the one before


def rows_of(versions: list[list[Any]]) -> list[tuple[Any, ...]]:
    """The rows after the first, as they are stored."""
    rows = []
    parts = [CODEC.encode(version).parts for version in versions]
    for number, (old, new) in enumerate(pairwise(parts), 1):
        columns = (None, str(number - 1), 0, None)
        place = (*PLACE, "channel", str(number))
        data = CODEC.seal(pack(difference(old, new)), place, columns)
        rows.append(("channel", str(number), *columns, data))
    return rows


def by_python(rows: list[tuple[Any, ...]], base: Grown) -> list[Any]:
    programs = []
    for row in rows:
        data = CODEC.unseal(row[-1], (*PLACE, *row[:2]), row[2:6])
        programs.append(list(native.steps(data)))
    return follow(base, programs)


def grown(rows: list[tuple[Any, ...]], base: Grown) -> list[Grown] | None:
    found = native.grow(rows, PLACE, len(base.head), base.size, base.count, base.is_list)
    return None if found is None else base.grow(*found)


@given(st.lists(_MEMBERS | _ATOMS, min_size=2, max_size=30), st.data())
def test_rows_that_add_are_read_as_python_reads_them(value, data):
    counts = sorted(data.draw(st.sets(st.integers(1, len(value)), min_size=2, max_size=8)))
    versions = [value[:count] for count in counts]
    base = whole(encoded(versions[0]))
    assert isinstance(base, Grown)
    rows = rows_of(versions)
    found = grown(rows, base)
    assert found is not None
    for one, other, version in zip(found, by_python(rows, base), versions[1:], strict=True):
        assert one.read() == other.read() == encoded(version)
        assert repr(one.elements(CODEC)) == repr(version)


def test_a_large_piece_is_not_copied():
    versions = [["a"] * 20, ["a"] * 20 + ["x" * 9000]]
    base = whole(encoded(versions[0]))
    assert isinstance(base, Grown)
    [version] = grown(rows_of(versions), base) or []
    assert isinstance(version.growth.pieces[-1], memoryview)
    assert version.elements(CODEC) == versions[1]


@pytest.mark.parametrize(
    "later", [["b"] * 30, ["a"] * 10, ["a"] * 20, [*["a"] * 19, "b", "c"]], ids=len
)
def test_rows_that_do_anything_else_are_left_to_python(later):
    versions = [["a"] * 20, later]
    base = whole(encoded(versions[0]))
    assert isinstance(base, Grown)
    rows = rows_of(versions)
    assert grown(rows, base) is None
    assert by_python(rows, base)[-1].read() == encoded(later)


def test_no_damaged_row_is_taken_for_one_that_holds():
    versions = [[LONG] * 20, [LONG] * 21, [LONG] * 22]
    base = whole(encoded(versions[0]))
    assert isinstance(base, Grown)
    rows = rows_of(versions)
    assert grown(rows, base) is not None
    source = random.Random(1)
    *beside, data = rows[-1]
    for _ in range(300):
        place = source.randrange(len(data))
        broken = bytearray(data)
        broken[place] ^= 1 << source.randrange(8)
        assert grown([rows[0], (*beside, bytes(broken))], base) is None
    for column in range(6):
        changed = list(rows[-1])
        changed[column] = 7 if column == 4 else "other"
        assert grown([rows[0], tuple(changed)], base) is None
    for short in (b"", data[:3], data[:4], data[:-1]):
        assert grown([rows[0], (*beside, short)], base) is None


def test_what_is_no_row_is_left_to_python_or_refused():
    base = whole(encoded(["a"] * 20))
    assert isinstance(base, Grown)
    for wrong in ([None], [()], [("channel", "1", None, "0", 0, None, "text")]):
        assert grown(wrong, base) is None
    for arguments in (
        (1, PLACE, 1, 1, 1, True),
        ([], ("blob",), 1, 1, 1, True),
        ([], PLACE, "1", 1, 1, True),
        ([], PLACE),
    ):
        with pytest.raises(TypeError):
            native.grow(*arguments)


def test_rows_may_vanish_while_they_are_read():
    versions = [["a"] * 20, *(["a"] * 20 + ["x" * 9000] * n for n in range(1, 60))]
    base = whole(encoded(versions[0]))
    assert isinstance(base, Grown)
    rows = rows_of(versions)
    with emptied_by_the_collector(rows, after=20):
        found = grown(rows, base)
    assert rows == []
    assert found is not None
    assert found[-1].read() == encoded(versions[-1])


def test_reading_rows_leaks_nothing():
    versions = [[LONG] * 20, [LONG] * 21, [LONG] * 22]
    base = whole(encoded(versions[0]))
    assert isinstance(base, Grown)
    rows = rows_of(versions)
    broken = [rows[0], (*rows[1][:-1], rows[1][-1][:-1])]
    data = rows[0][-1]
    before = sys.getrefcount(data), sys.getrefcount(rows[0]), sys.getrefcount(PLACE)
    for _ in range(50):
        grown(rows, base)
        assert grown(broken, base) is None
        native.cut_up((data,))
    assert (sys.getrefcount(data), sys.getrefcount(rows[0]), sys.getrefcount(PLACE)) == before
