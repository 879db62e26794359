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
"""Bytes, or a view of some that were not worth copying."""

pack: Callable[[Any, int], bytes | None] | None = None
"""`pack(value, tuples)`: a plain value as msgpack; None if there is anything else in it.

Plain are None, bool, int, float, str, bytes, list, dict and tuple, each of that very type; tuples
nested at most so often. What it leaves alone may still be one that we write: ask the slow path.
"""

Hooks: TypeAlias = "tuple[Callable[[int, bytes], Any], ...]"
Decoders: TypeAlias = "dict[str, Callable[[Any], Any]]"

unpack: Callable[[Buffer | tuple[Buffer, ...], Hooks, Decoders], Any] | None = None
"""`unpack(data, hooks, known)`: the value in `data`, which ends with it; ValueError if it does not.
`data` may be pieces of a list in a tuple, its head in the first of them: ValueError if an element
is in two of them.

An object whose tag is `known` is decoded by what that names, a FieldsDecoder without calling it;
`known` may be left out. `hooks[n]` is called for all other extensions inside n tuples and objects,
and for those that are nested deeper than there are hooks.
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
except ImportError:
    pass
else:
    elements, copies, cut_up = _elements, _copies, _cut_up
    pack, unpack = _pack, _unpack

AVAILABLE: Final = pack is not None
"""Whether the accelerator was built, and is not switched off."""
