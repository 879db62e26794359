"""The optional accelerator: what is written in C where a compiler was found, and None elsewhere.

Everything works without it, only slower, and stores the same bytes. `MILEPOST_PURE=1` in the
environment leaves it out; `AVAILABLE` says whether it is in use.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Buffer: TypeAlias = "bytes | memoryview"
"""Bytes, or a view of some that were not worth copying."""

pack: Callable[[Any, int], bytes | None] | None = None
"""`pack(value, tuples)`: a plain value as msgpack; None if there is anything else in it.

Plain are None, bool, int, float, str, bytes, list, dict and tuple, each of that very type; tuples
nested at most so often. What it leaves alone may still be one that we write: ask the slow path.
"""

unpack: Callable[[Buffer, tuple[Callable[[int, bytes], Any], ...]], Any] | None = None
"""`unpack(data, hooks)`: the value in `data`, which ends with it; ValueError if it does not.

`hooks[n]` is called for an extension inside n tuples. Tuples that are nested deeper than there are
hooks, and all other extensions, go to a hook as well.
"""

unpack_pieces: Callable[[Sequence[Buffer], tuple[Callable[[int, bytes], Any], ...]], Any] | None = (
    None
)
"""`unpack_pieces(pieces, hooks)`: a list or dict, if its head is in one piece; what goes on in
another piece is joined.

ValueError if the head is in two of them, or if `unpack` would raise it for all of them joined.
"""

if TYPE_CHECKING:
    from milepost._native import Packed as Packed
else:

    class Packed:
        """The elements of a list or dict, many in one piece of bytes; there are none in Python.

        Versions of a value share what they begin with. One that follows another knows how much it
        took over, so that nobody has to compare them again.
        """


after: Callable[[Any, int, object, bool], tuple[bytes, Packed] | None] | None = None
"""`after(value, tuples, base, keeps)`: head and elements of a plain list or dict; None if there is
anything in it that is not plain. What a packed `base` begins with is taken from there.

With `keeps` the values of flat dicts in a list are kept beside their bytes. A later version is then
compared with them, object by object, and a reader gets dicts made of them.
"""

cut_up: Callable[[Sequence[Buffer]], tuple[bytes, Packed] | None] | None = None
"""`cut_up(pieces)`: head and elements of a list or dict as it is stored; None if it is none, or if
an element goes on in another piece."""

copies: Callable[[list[Any], int], list[Any]] | None = None
"""`copies(elements, count)`: the first ones in a list of its own, with a copy of each dict."""

Columns: TypeAlias = "tuple[str | int | None, ...]"
"""What stands beside a stored cell: see `milepost.checkpoint.codec`."""

summed: Callable[[bytes, tuple[str, ...], Columns], bytes] | None = None
"""`summed(data, place, columns)`: the bytes of a cell, and the checksum of these and of what it is
bound to."""

holds: Callable[[bytes, tuple[str, ...], Columns], bool] | None = None
"""`holds(data, place, columns)`: whether the bytes of a cell end with their checksum."""

SWIFT = False
"""Whether the processor has instructions for these. Else zlib sums up large cells faster."""

steps: Callable[[Buffer], list[Buffer | tuple[int, int]] | None] | None = None
"""`steps(data)`: the steps of a stored difference, large ones as views; None if it is none."""

Row: TypeAlias = "tuple[Any, ...]"
"""Of stored values: see `BlobRecord`."""

grow: (
    Callable[
        [Sequence[Row], tuple[str, str, str], int, int, int, bool],
        tuple[list[bytes], list[int], list[Buffer]] | None,
    ]
    | None
) = None
"""`grow(rows, place, head, size, count, is_list)`: rows that each add to the value before. Their
heads, how many elements these speak of, and the new elements.

The value before the first has a head of so many bytes, and elements in so many, of that number.
None if a row does anything else than to add, or if its checksum does not hold.
"""

try:
    if os.environ.get("MILEPOST_PURE") == "1":
        raise ImportError
    # By name: one that was built from older source lacks some, and counts as not built.
    from milepost._native import SWIFT as _SWIFT
    from milepost._native import Packed as _Packed
    from milepost._native import after as _after
    from milepost._native import copies as _copies
    from milepost._native import cut_up as _cut_up
    from milepost._native import grow as _grow
    from milepost._native import holds as _holds
    from milepost._native import pack as _pack
    from milepost._native import steps as _steps
    from milepost._native import summed as _summed
    from milepost._native import unpack as _unpack
    from milepost._native import unpack_pieces as _unpack_pieces
except ImportError:
    pass
else:
    after, copies, cut_up = _after, _copies, _cut_up
    steps, grow = _steps, _grow
    if not TYPE_CHECKING:
        Packed = _Packed
    summed, holds, SWIFT = _summed, _holds, _SWIFT
    pack, unpack, unpack_pieces = _pack, _unpack, _unpack_pieces

AVAILABLE: Final = pack is not None
"""Whether the accelerator was built, and is not switched off."""
