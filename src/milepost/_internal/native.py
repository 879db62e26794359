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

elements: (
    Callable[[Any, int, object, object, object], tuple[bytes, list[bytes], int] | None] | None
) = None
"""`elements(value, tuples, base, models, copy)`: head and elements of a plain list or dict, and how
many bytes they are together; None if there is anything in it that is not plain. A list may also
have elements of the classes among `models`, pydantic models whose fields are plain
(`TypeRegistry.models`).

An element that a list `base` has at the same place is that object: versions share their bytes, and
most of a comparison is one of objects. A list `copy` has copies of the elements of `base`, of all
or of the first ones. What has the same texts and numbers as its copy, the same objects, is not
packed. Afterwards the list has copies of the elements of `value`, or none, if there can be none.
"""

copies: Callable[[list[Any], object], list[Any] | None] | None = None
"""`copies(elements, models)`: what reading the bytes of such elements would give, containers and
models of its own; None if that cannot be made without reading them.
"""

cut_up: Callable[[Buffer], tuple[bytes, list[bytes]] | None] | None = None
"""`cut_up(data)`: head and elements of a list or dict as it is stored; None if it is none."""

try:
    if os.environ.get("MILEPOST_PURE") == "1":
        raise ImportError
    # By name: one that was built from older source lacks some, and counts as not built.
    from milepost._native import copies as _copies
    from milepost._native import cut_up as _cut_up
    from milepost._native import pack as _pack
    from milepost._native import pack_elements as _elements
    from milepost._native import unpack as _unpack
    from milepost._native import unpack_pieces as _unpack_pieces
except ImportError:
    pass
else:
    elements, copies, cut_up = _elements, _copies, _cut_up
    pack, unpack, unpack_pieces = _pack, _unpack, _unpack_pieces

AVAILABLE: Final = pack is not None
"""Whether the accelerator was built, and is not switched off."""
