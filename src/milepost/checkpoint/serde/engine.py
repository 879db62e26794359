"""One value to bytes and back: the fast path, and the exact path where that fails."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.serde import exact, explain
from milepost.checkpoint.serde.codec import (
    OTHER_KEYS,
    Level,
    native_unpack,
    native_unpack_pieces,
    take_interrupt,
    unpackb,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint.serde.paths import Trail
    from milepost.native import Buffer

_NUMBER: Final = os.urandom(8)
MARK: Final = int.from_bytes(_NUMBER, "big", signed=True)
AROUND: Final = (b"\x92", b"\xd3" + _NUMBER)
"""Read around stored bytes: a pair of the value and a mark that nobody could have stored.

`data.join(AROUND)` puts them there in one call and one copy.
"""


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


def unpack(level: Level, data: Buffer) -> Any:
    """The value in `data`; DeserializationError if it does not decode."""
    if native_unpack is None:
        # ormsgpack ignores what follows the value. Read as the first of a pair whose second is
        # known, a value that is too short or too long does not go unnoticed.
        return unpack_pair(level, bytes(data).join(AROUND))
    try:
        return native_unpack(data, level.hooks)
    except BaseException as error:
        return unpack_failed(level, data, error)


def unpack_failed(level: Level, data: Buffer, error: BaseException) -> Any:
    """The same after the accelerator has failed, so that it can be explained."""
    take_interrupt()
    if not isinstance(error, Exception):
        raise error
    return unpack_again(level, bytes(data).join(AROUND))


def unpack_pieces(level: Level, pieces: Sequence[Buffer]) -> Any:
    """The same for data that is in pieces: they are joined only if elements are in two of them."""
    if native_unpack is None:
        before, after = AROUND
        return unpack_pair(level, b"".join((before, *pieces, after)))
    if len(pieces) == 1:
        return unpack(level, pieces[0])
    try:
        return native_unpack_pieces(pieces, level.hooks)
    except Exception:
        take_interrupt()
    except BaseException:
        take_interrupt()
        raise
    return unpack(level, b"".join(pieces))


def unpack_pair(level: Level, pair: bytes) -> Any:
    """The same for stored bytes that stand between those of `AROUND` already."""
    try:
        value, mark = unpackb(pair, ext_hook=level.hook)
        if mark == MARK:
            return value
    except Exception:
        take_interrupt()
    return unpack_again(level, pair)


def unpack_again(level: Level, pair: bytes) -> Any:
    """The same after a first try that failed, perhaps for a dict with other keys than str."""
    try:
        value, mark = unpackb(pair, ext_hook=level.hook, option=OTHER_KEYS)
        if mark == MARK:
            return value
    except Exception:
        take_interrupt()
    raise explain.failure(level, pair[len(AROUND[0]) : -len(AROUND[1])])
