"""One value to bytes and back: the fast path, and the exact path where that fails.

Lists and dicts also element by element: a saver that stores only what changed compares elements, so
it needs each one's bytes. Head and elements joined are exactly what encoding the whole value gives.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.serde._msgpack import exact, explain
from milepost.checkpoint.serde._msgpack.codec import (
    OTHER_KEYS,
    PASS_THROUGH,
    Level,
    native_unpack,
    packb,
    take_interrupt,
    unpack_all,
)
from milepost.checkpoint.serde._msgpack.survey import NATIVE_KEYS, holds_buffer, may_hold_bytes
from milepost.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from milepost._internal.native import Buffer
    from milepost.checkpoint.serde._msgpack.failures import Path
    from milepost.checkpoint.serde._msgpack.skim import Kind

_KEYS = PASS_THROUGH | OTHER_KEYS
_HERE = "milepost.checkpoint.serde."


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
    except Exception:
        take_interrupt()
        raise explain.failure(level, bytes(data)) from None
    except BaseException:
        take_interrupt()
        raise


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


# -- element by element


def offers_elements(serde: object) -> bool:
    """Whether `serde` encodes lists and dicts the way this module does."""
    line = _line(serde)
    return bool(line) and _is_ours(line[-1], ("dumps_typed", "encode"))


def reads_elements(serde: object) -> bool:
    """Whether `serde` decodes them so, and does nothing else with what it reads."""
    line = _line(serde)
    reading = ("loads_typed", "decode", "decode_pieces")
    return bool(line) and all(_is_ours(one, reading) for one in line)


def _line(serde: object) -> list[object]:
    """A serializer, those inside it, and ours at the end; none if ours is not there."""
    from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

    line = [serde]
    while not isinstance(line[-1], JsonPlusSerializer):
        inner = getattr(line[-1], "serde", None)
        if inner is None or not hasattr(line[-1], "seal"):
            return []
        line.append(inner)
    return line


def _is_ours(serde: object, methods: Iterable[str]) -> bool:
    """Whether it has these methods as they are written in this package."""
    found = (getattr(type(serde), name, None) for name in methods)
    return all(getattr(one, "__module__", "").startswith(_HERE) for one in found)


def elements_kind(value: Any) -> Kind | None:
    """Whether `value` can be cut into elements, and as what.

    Only exact lists, and exact dicts whose keys msgpack holds natively: any other container is
    stored as one piece.
    """
    if type(value) is list:
        return "list"
    if type(value) is not dict:
        return None
    types = set(map(type, value))
    if not types <= NATIVE_KEYS:
        return None
    if int in types and not all(-(1 << 63) <= k < 1 << 64 for k in value if type(k) is int):
        return None
    return "dict"


def encode_elements(value: list[Any] | dict[Any, Any], level: Level) -> list[bytes]:
    """The bytes of each element of a value that `elements_kind` says can be cut into them: of a
    dict, of each key and its value together.

    SerializationError as for the whole value, and for keys that are text but not UTF-8: such a
    dict is stored as one piece.
    """
    if isinstance(value, dict):
        values = _encode(level, list(value.values()), value)
        return list(map(add, _encode_keys(value), values))
    return _encode(level, value, range(len(value)))


def _encode(level: Level, members: list[Any], places: Iterable[Any]) -> list[bytes]:
    default = level.default
    try:
        encoded = [packb(member, default, PASS_THROUGH) for member in members]
        if not any(map(may_hold_bytes, encoded)) or not holds_buffer(members):
            return encoded
    except Exception:
        take_interrupt()
    return [pack(level, member, [place]) for member, place in zip(members, places, strict=True)]


def _encode_keys(value: dict[Any, Any]) -> list[bytes]:
    try:
        return [packb(key, None, _KEYS) for key in value]
    except Exception:
        # Text that is not UTF-8 makes the whole dict a list of pairs.
        raise SerializationError("a key of the dict has no place in a msgpack map") from None
