"""One value to bytes and back: the fast path, and the exact path where that fails."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.serde import exact, explain
from milepost.checkpoint.serde.codec import (
    FAILED_INSIDE,
    OTHER_KEYS,
    Level,
    take_interrupt,
    unpackb,
)

if TYPE_CHECKING:
    from milepost.checkpoint.serde.paths import Trail

HEAD: Final = b"\x92"
MARK: Final = os.urandom(4).hex()
TAIL: Final = b"\xa8" + MARK.encode()
"""Read around stored bytes: a pair of the value and a mark that nobody could have stored."""


def pack(level: Level, value: Any, trail: Trail | None = None) -> bytes:
    """`value` as msgpack; SerializationError if it could not be read back exactly."""
    try:
        return level.pack(value)
    except Exception:
        return pack_exactly(level, value, trail)


def pack_exactly(level: Level, value: Any, trail: Trail | None = None) -> bytes:
    """The same, for a value that the fast path did not write."""
    take_interrupt()
    return exact.pack(level, value, trail)


def unpack(level: Level, data: bytes) -> Any:
    """The value in `data`; DeserializationError if it does not decode."""
    # ormsgpack ignores what follows the value. Read as the first of a pair whose second is known,
    # a value that is too short or too long does not go unnoticed.
    pair = b"".join((HEAD, data, TAIL))
    try:
        try:
            value, mark = unpackb(pair, ext_hook=level.hook)
        except ValueError as error:
            if error.args == FAILED_INSIDE:
                raise
            value, mark = unpackb(pair, ext_hook=level.hook, option=OTHER_KEYS)
        if mark == MARK:
            return value
    except Exception:
        take_interrupt()
    raise explain.failure(level, data)
