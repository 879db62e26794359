"""The optional accelerator: what is written in C where a compiler was found, and None elsewhere.

Everything works without it, only slower, and stores the same bytes. `MILEPOST_PURE=1` in the
environment leaves it out; `AVAILABLE` says whether it is in use.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Buffer: TypeAlias = "bytes | memoryview"
"""Bytes, or a view of bytes that are too many to copy."""

pack: Callable[[Any, int], bytes | None] | None = None
"""`pack(value, tuples)`: a plain value as msgpack; None if there is anything else in it.

Plain are None, bool, int, float, str, bytes, list, dict and tuple, each of that very type, with
tuples nested at most `tuples` deep. None does not mean that the value is refused: the encoder in
Python decides.
"""

Hooks: TypeAlias = "tuple[Callable[[int, bytes], Any], ...]"
Decoders: TypeAlias = "dict[str, Callable[[Any], Any]]"

unpack: Callable[[Buffer | tuple[Buffer, ...], Hooks, Decoders], Any] | None = None
"""`unpack(data, hooks, known)`: the value in `data`; ValueError if bytes are missing or left over.
`data` may be a tuple with the pieces of a list, the first with its head: ValueError if an element
is cut by the end of a piece.

An object whose tag is in `known` is decoded by the callable there; a FieldsDecoder is read without
a call. `known` may be left out. `hooks[n]` is called for all other extensions inside n tuples and
objects, and the last hook for those that are nested deeper.
"""

elements: (
    Callable[[Any, int, object, object, object], tuple[bytes, list[bytes], int] | None] | None
) = None
"""`elements(value, tuples, base, models, copy)`: head and elements of a plain list or dict, and
their size in bytes; None if anything in it is not plain. A list may also have elements of the
classes in `models`, pydantic models whose fields are plain (`TypeRegistry.models`).

Where the list `base` has equal bytes at the same index, that object is returned: versions share
their bytes, and most comparisons are of identity. The list `copy` has copies of the elements of
`base`, of all or of the first ones. An element whose texts and numbers are the same objects as in
its copy is not packed. The call replaces the content of `copy` by copies of the elements of
`value`, or empties it if there can be none.
"""

copies: Callable[[list[Any], object], list[Any] | None] | None = None
"""`copies(elements, models)`: new containers and models, equal to those that decoding the bytes
of the elements would give; None if only decoding can give them.
"""

cut_up: Callable[[Buffer], tuple[bytes, list[bytes]] | None] | None = None
"""`cut_up(data)`: head and elements of a stored list or dict; None if `data` is neither."""

try:
    if os.environ.get("MILEPOST_PURE") == "1":
        raise ImportError
    # By name: one that was built from older source lacks some, and counts as not built.
    from milepost._native import copies as _copies
    from milepost._native import cut_up as _cut_up
    from milepost._native import pack as _pack
    from milepost._native import pack_elements as _elements
    from milepost._native import unpack as _unpack
except ImportError:
    pass
else:
    elements, copies, cut_up = _elements, _copies, _cut_up
    pack, unpack = _pack, _unpack

AVAILABLE: Final = pack is not None
"""Whether the accelerator was built, and is not switched off."""
