"""One value to bytes and back: the fast path, and the exact path where that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.checkpoint.serde._msgpack import exact, explain
from milepost.checkpoint.serde._msgpack.codec import (
    Level,
    native_unpack,
    take_interrupt,
    unpack_all,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._internal.native import Buffer
    from milepost.checkpoint.serde._msgpack.failures import Path


def pack(level: Level, value: Any, path: Path | None = None) -> bytes:
    """`value` as msgpack; SerializationError if it could not be read back exactly."""
    try:
        return level.pack(value)
    except Exception:
        return pack_exactly(level, value, path)


def pack_exactly(level: Level, value: Any, path: Path | None = None) -> bytes:
    """The same, for a value that the fast path did not write."""
    take_interrupt()
    return exact.pack(level, value, path)


def unpack(level: Level, data: Buffer) -> Any:
    """The value in `data`; DeserializationError if it does not decode."""
    try:
        if native_unpack is None:
            return unpack_all(data, level.hook)
        return native_unpack(data, level.hooks, level.registry.by_tag)
    except BaseException as error:
        raise unpack_failed(level, data, error) from None


def unpack_failed(level: Level, data: Buffer, error: BaseException) -> BaseException:
    """What to raise after `error`: an interrupt as it is, and otherwise what explains it."""
    take_interrupt()
    return explain.failure(level, bytes(data)) if isinstance(error, Exception) else error


def unpack_pieces(level: Level, pieces: Sequence[Buffer]) -> Any:
    """The same for data that is in pieces. They are joined, unless it is a list of which each
    element is in one of them."""
    if len(pieces) > 1 and native_unpack is not None:
        try:
            return native_unpack(tuple(pieces), level.hooks, level.registry.by_tag)
        except Exception:
            take_interrupt()
        except BaseException:
            take_interrupt()
            raise
    return unpack(level, pieces[0] if len(pieces) == 1 else b"".join(pieces))
