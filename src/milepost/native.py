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

unpack: Callable[[Buffer, tuple[Callable[[int, bytes], Any], ...]], Any] | None = None
"""`unpack(data, hooks)`: the value in `data`, which ends with it; ValueError if it does not.

`hooks[n]` is called for an extension inside n tuples. Tuples that are nested deeper than there are
hooks, and all other extensions, go to a hook as well.
"""

try:
    if os.environ.get("MILEPOST_PURE") == "1":
        raise ImportError
    import milepost._native as accelerator
except ImportError:
    pass
else:
    pack = accelerator.pack
    unpack = accelerator.unpack

AVAILABLE: Final = pack is not None
"""Whether the accelerator was built, and is not switched off."""
