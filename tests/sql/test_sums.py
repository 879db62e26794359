"""Checksums of cells: in C and in Python the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import native
from milepost.checkpoint import codec

texts = st.text(st.characters(), max_size=40)
columns = st.lists(st.none() | st.integers() | texts, max_size=5).map(tuple)
places = st.lists(texts, min_size=2, max_size=6).map(tuple)

pytestmark = pytest.mark.skipif(not native.AVAILABLE, reason="the accelerator is not in use")


@given(st.binary(max_size=5000), places, columns)
def test_the_accelerator_makes_the_same_cells(data, place, beside):
    assert native.bound(place, beside) == codec._pure_start(place, beside)
    assert native.summed(data, place, beside) == codec._pure_summed(data, place, beside)


@pytest.mark.parametrize("name", ["\ud800", "a\udfff", "Ω\0"])
def test_so_it_does_for_names_that_are_no_good_text(name):
    place = ("blob", "t", name, "c")
    assert native.bound(place, (name,)) == codec._pure_start(place, (name,))


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
