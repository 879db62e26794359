"""Checksums of cells: zlib's CRC-32 of what a cell is bound to, and of its bytes."""

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from milepost.checkpoint._delta.encode import Codec
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import DamagedRowError, DecryptionError

CODEC = Codec(JsonPlusSerializer())
texts = st.text(st.characters(), max_size=40)
columns = st.lists(st.none() | st.integers() | texts, max_size=5).map(tuple)
places = st.lists(texts, min_size=2, max_size=5).map(lambda names: ("blob", *names))


def test_a_cell_ends_with_the_sum_of_its_place_without_the_thread_its_columns_and_its_bytes():
    cell = CODEC.seal(b"data", ("blob", "thread", "ns", "c", "1"), (None, "0", 3, "\ud800"))
    bound = "blob\0ns\0c\0001\0\0=0\0=3\0=\ud800".encode("utf-8", "surrogatepass")
    assert cell == b"data" + crc32(bound + b"data").to_bytes(4, "big")


def holds(cell: bytes, place: tuple[str, ...], beside: tuple[object, ...]) -> bool:
    try:
        CODEC.unseal(cell, place, beside)
    except (DamagedRowError, DecryptionError):
        return False
    return True


@given(st.binary(max_size=300), places, columns, st.data())
def test_a_cell_that_is_not_what_was_written_is_known(data, place, beside, draw):
    cell = CODEC.seal(data, place, beside)
    assert holds(cell, place, beside)
    at = draw.draw(st.integers(0, len(cell) - 1))
    bit = 1 << draw.draw(st.integers(0, 7))
    for wrong in (
        (cell[:at] + bytes([cell[at] ^ bit]) + cell[at + 1 :], place, beside),
        (cell, (*place, "x"), beside),
        (cell, place, (*beside, None)),
        (cell[:3], place, beside),
        (b"", place, beside),
    ):
        assert not holds(*wrong)
