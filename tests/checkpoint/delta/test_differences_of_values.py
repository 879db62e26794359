"""The difference of two values, applied to the one, gives the other; and it is small."""

import random
from itertools import pairwise

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.checkpoint._delta.diff import (
    Delta,
    Parts,
    common_end,
    common_start,
    cost,
    difference,
    pack,
    unpack,
)
from milepost.checkpoint._delta.encode import Codec
from milepost.checkpoint._delta.rope import Rope
from milepost.checkpoint._delta.split import split_like
from milepost.checkpoint._sql.read.values import Resolver
from milepost.checkpoint._sql.shared_list import whole
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import DeserializationError

codec = Codec(JsonPlusSerializer())
element = st.binary(max_size=40)
parts = st.builds(Parts, st.binary(max_size=5), st.lists(element, max_size=12))


def encoded(value: object) -> Parts:
    return codec.encode(value).parts


def applied(program: Delta, base: bytes) -> bytes:
    return Rope.of(base).apply(program).read()


@given(parts, parts)
def test_a_difference_makes_the_new_value_out_of_the_old(old, new):
    assert applied(difference(old, new), old.join()) == new.join()


@given(st.lists(element, max_size=12), st.data())
def test_a_difference_makes_an_edited_list_out_of_the_old_one(elements, data):
    old = Parts(b"\x90", elements)
    changed = list(elements)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(changed)))
        if data.draw(st.booleans()):
            changed.insert(at, data.draw(element))
        elif at < len(changed):
            del changed[at]
    new = Parts(b"\x91", changed)
    assert applied(difference(old, new), old.join()) == new.join()


@given(parts, parts)
def test_a_program_survives_being_stored(old, new):
    program = difference(old, new)
    assert unpack(pack(program)) == program


steps = st.lists(
    st.binary(max_size=300)
    | st.just(b"x" * 70_000)
    | st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)),
    max_size=20,
)


@given(steps, st.booleans())
def test_a_program_is_read_as_it_was_packed(program, as_view):
    stored = pack(program)
    assert unpack(memoryview(stored) if as_view else stored) == program


@given(st.binary(max_size=40) | steps.map(lambda program: pack(program)[:-1] + b"\xc1"))
def test_any_bytes_are_a_program_or_a_typed_error(data):
    try:
        program = unpack(data)
    except DeserializationError:
        return
    assert all(type(step) in (bytes, tuple) for step in program)


@given(st.lists(parts, min_size=1, max_size=6))
def test_a_chain_of_differences_applied_as_ropes_gives_the_last_value(versions):
    rope = Rope.of(versions[0].join())
    for old, new in pairwise(versions):
        rope = rope.apply(difference(old, new))
        assert rope.read() == new.join()
        assert len(rope) == new.size
    for size in range(min(8, len(rope) + 1)):
        assert Rope(rope.cut(0, size)).read() == versions[-1].join()[:size]


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=9000))
def test_common_starts_and_ends_are_exact(a, b, shared):
    left, right = shared + a, shared + b
    same = common_start(left, right)
    assert left[:same] == right[:same]
    assert same == min(len(left), len(right)) or left[same] != right[same]
    left, right = a + shared, b + shared
    same = common_end(left, right, min(len(left), len(right)))
    assert left[len(left) - same :] == right[len(right) - same :]
    assert same >= len(shared)


def message(n: int) -> dict[str, str]:
    return {"role": "user", "content": random.Random(n).randbytes(300).hex()}


MESSAGES = [message(n) for n in range(100)]


@pytest.mark.parametrize(
    ("change", "most"),
    [
        (lambda m: [*m, message(1000)], 700),
        (lambda m: [*m[1:], message(1000)], 700),
        (lambda m: m[:40] + m[41:], 40),
        (lambda m: [m[0], message(7000), *m[2:90], message(7001), *m[91:]], 1400),
        (lambda m: m[50:] + m[:50], 60),
        (lambda m: list(m), 20),
        (lambda m: [], 20),
    ],
    ids=["append", "sliding window", "remove one", "edit two", "rotate", "same", "clear"],
)
def test_a_change_costs_what_changed(change, most):
    program = difference(encoded(MESSAGES), encoded(change(MESSAGES)))
    assert cost(program) <= most
    assert applied(program, ormsgpack.packb(MESSAGES)) == ormsgpack.packb(change(MESSAGES))


def test_an_append_inside_a_dict_costs_what_was_appended():
    old = {"title": "x", "messages": MESSAGES}
    new = {"title": "x", "messages": [*MESSAGES, message(1000)]}
    program = difference(encoded(old), encoded(new))
    assert cost(program) < 750
    assert applied(program, ormsgpack.packb(old)) == ormsgpack.packb(new)


def test_an_edit_of_a_long_text_costs_what_changed():
    text = random.Random(1).randbytes(50_000).hex()
    program = difference(encoded(text), encoded(text[:30_000] + "!" + text[30_000:]))
    assert cost(program) < 60


@given(st.lists(st.integers(), max_size=20), st.lists(st.integers(), max_size=20))
def test_a_stored_list_is_cut_at_its_elements(old, new):
    data = ormsgpack.packb([n % 2**60 for n in old])
    cut = split_like(data, encoded([n % 2**60 for n in new]))
    assert cut.join() == data
    assert len(cut.elements) == len(old)


def test_a_damaged_program_is_refused_and_not_applied():
    with pytest.raises(DeserializationError, match="refers to bytes 5 to 25"):
        applied([(5, 20)], b"0123456789")
    with pytest.raises(DeserializationError, match="does not decode"):
        unpack(b"\xc1")
    with pytest.raises(DeserializationError):
        unpack(ormsgpack.packb([None]))
    for no_program in (
        None,
        5,
        "12",
        {"12": 1},
        ["12"],
        [[1, 2, 3]],
        [[1]],
        [[1.0, 2]],
        [[True, 2]],
    ):
        with pytest.raises(DeserializationError):
            unpack(ormsgpack.packb(no_program))


repeating = st.lists(st.sampled_from([b"a" * 20, b"b" * 40, b"c", b"a" * 19 + b"!"]), max_size=12)


@given(repeating.map(lambda e: Parts(b"\x90", e)), repeating.map(lambda e: Parts(b"\x91", e)))
def test_a_program_takes_no_more_of_the_base_than_it_has(old, new):
    program = difference(old, new)
    assert sum(step[1] for step in program if isinstance(step, tuple)) <= old.size
    assert applied(program, old.join()) == new.join()


def test_an_element_that_is_there_several_times_is_copied_as_often_as_there_is_room():
    large, other = b"x" * 1_000, b"y" * 1_000
    program = difference(
        Parts(b"\x92", [large, other]), Parts(b"\x94", [b"!", large, large, large])
    )
    assert cost(program) < 1_100
    assert applied(program, b"\x92" + large + other) == b"\x94!" + 3 * large


@pytest.mark.parametrize(
    "base", [Rope.of(b"z" * 500), whole(codec.encode(["z" * 500]).parts.join())]
)
def test_a_chain_of_differences_that_multiplies_is_refused(base):
    size = len(base)
    for program in ([(0, size)] * 2, [(0, size), (size - 1, 1)], [(1, size - 1), b"!", (0, 2)]):
        with pytest.raises(DeserializationError, match="takes more bytes of a value than"):
            base.apply(program)
    data = base.read()
    assert base.apply([(1, size - 1), b"!", (0, 1)]).read() == data[1:] + b"!" + data[:1]


def test_empty_steps_make_no_pieces():
    """Else a difference could take the same nothing of a base again and again, in many pieces."""
    rope = Rope.of(b"ab").apply([(0, 1), *[b""] * 100, (1, 1), (1, 0)])
    assert rope.buffers() == [b"a", b"b"]
    assert Rope.of(b"").apply([b"", (0, 0)]).read() == b""


@pytest.mark.parametrize("value", [["z" * 500], "z" * 500], ids=["list", "text"])
def test_rows_that_describe_more_than_they_hold_are_refused_where_they_are(value):
    """Each holds its checksum, and has ten times the value before it."""
    data = codec.encode(value).parts.join()
    rows, size, base = [], len(data), None
    for version in ("1", "2", "3"):
        columns = (None, base, 0, None)
        stored = data if base is None else pack([(0, size)] * 10)
        sealed = codec.seal(stored, ("blob", "t", "", "x", version), columns)
        rows.append(("x", version, *columns, sealed))
        size, base = size if base is None else 10 * size, version
    resolver = Resolver(codec, ("t", ""), rows, {})
    assert resolver.value("x", "1") == value
    for version in ("2", "3"):
        with pytest.raises(DeserializationError, match="takes more bytes of a value") as caught:
            resolver.value("x", version)
        assert (caught.value.thread, caught.value.channel) == ("t", "x")
