"""Checksums of cells: in C and in Python the same."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from milepost import native
from milepost.checkpoint import codec

texts = st.text(st.characters(), max_size=40)
columns = st.lists(st.none() | st.integers() | texts, max_size=5).map(tuple)
places = st.lists(texts, min_size=2, max_size=6).map(tuple)

pytestmark = pytest.mark.skipif(not native.AVAILABLE, reason="the accelerator is not in use")


@given(st.binary(max_size=5000), places, columns)
@example(b"large" * 50_001, ("blob", "t"), ())
def test_the_accelerator_makes_the_same_cells(data, place, beside):
    cell = codec._pure_summed(data, place, beside)
    assert native.summed(data, place, beside) == cell
    assert native.holds(cell, place, beside)
    assert codec._pure_holds(cell, place, beside)


@given(st.binary(max_size=300), places, columns, st.data())
def test_and_knows_those_that_are_not_what_was_written(data, place, beside, draw):
    cell = codec._pure_summed(data, place, beside)
    at = draw.draw(st.integers(0, len(cell) - 1))
    bit = 1 << draw.draw(st.integers(0, 7))
    for wrong in (
        (cell[:at] + bytes([cell[at] ^ bit]) + cell[at + 1 :], place, beside),
        (cell, (*place, "x"), beside),
        (cell, place, (*beside, None)),
        (cell[:3], place, beside),
        (b"", place, beside),
    ):
        assert not native.holds(*wrong)
        assert not codec._pure_holds(*wrong)


@pytest.mark.parametrize("name", ["\ud800", "a\udfff", "Ω\0"])
def test_so_it_does_for_names_that_are_no_good_text(name):
    place = ("blob", "t", name, "c")
    assert native.summed(b"", place, (name,)) == codec._pure_summed(b"", place, (name,))


@pytest.mark.parametrize(
    "wrong",
    [
        (bytearray(b"x"), ("a", "b"), ()),
        (b"x", ["a", "b"], ()),
        (b"x", ("a",), ()),
        (b"x", ("a", "b", 1), ()),
        (b"x", ("a", "b"), [1]),
        (b"x", ("a", "b")),
    ],
)
def test_it_refuses_what_is_no_cell(wrong):
    with pytest.raises(TypeError):
        native.summed(*wrong)
    if type(wrong[0]) is bytes:
        with pytest.raises(TypeError):
            native.holds(*wrong)
