"""Lists and dicts, element by element: the bytes of the parts are the bytes of the whole.

A saver that stores only what changed compares elements, so it needs each one's bytes. Head and
elements joined are exactly what encoding the whole value gives.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from milepost.checkpoint.serde import engine, exact
from milepost.checkpoint.serde.codec import OTHER_KEYS, PASS_THROUGH, Level, packb, take_interrupt
from milepost.checkpoint.serde.paths import Trail
from milepost.checkpoint.serde.standard import array_head, map_head
from milepost.checkpoint.serde.survey import NATIVE_KEYS, holds_buffer, suspects

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Kind: TypeAlias = Literal["list", "dict"]


class Layered(Protocol):
    """Our serializers, encrypted or not."""

    @property
    def level(self) -> Level: ...


_KEYS = PASS_THROUGH | OTHER_KEYS


def offers_elements(serde: object) -> bool:
    """Whether `serde` encodes lists and dicts the way this module does."""
    return _is_ours(serde, ("dumps_typed", "encode"))


def reads_elements(serde: object) -> bool:
    """Whether `serde` decodes them so, and does nothing else with what it reads."""
    return _is_ours(serde, ("loads_typed", "decode", "decode_pieces"))


def _is_ours(serde: object, methods: Sequence[str]) -> bool:
    from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

    while not isinstance(serde, JsonPlusSerializer):
        inner = getattr(serde, "serde", None)
        if inner is None or not hasattr(serde, "seal"):
            return False
        serde = inner
    own = type(serde)
    return all(getattr(own, name) is getattr(JsonPlusSerializer, name) for name in methods)


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


def encode_elements(value: list[Any] | dict[Any, Any], serde: Layered | None = None) -> list[bytes]:
    """The bytes of each element: of a dict, of each key and its value together.

    TypeError if `elements_kind` says that the value has none; SerializationError as for the
    whole value.
    """
    level = _level_of(serde)
    kind = elements_kind(value)
    if kind is None:
        raise TypeError(f"a {type(value).__qualname__} like this one is stored as one piece")
    if isinstance(value, dict):
        values = _encode(level, list(value.values()), value)
        keys = _encode_keys(level, value)
        return list(map(add, keys, values))
    return _encode(level, value, range(len(value)))


def elements_head(kind: Kind, count: int) -> bytes:
    """The bytes that come before so many elements."""
    return (array_head if kind == "list" else map_head)(count)


def _level_of(serde: Layered | None) -> Level:
    if serde is None:
        from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer

        serde = JsonPlusSerializer()
    return serde.level


def _encode(level: Level, members: list[Any], places: Iterable[Any]) -> list[bytes]:
    default = level.default
    try:
        encoded = [packb(member, default, PASS_THROUGH) for member in members]
        doubtful = suspects(members, encoded)
        if not doubtful or not holds_buffer(doubtful):
            return encoded
    except Exception:
        take_interrupt()
    return [
        _encode_one(level, member, place) for member, place in zip(members, places, strict=True)
    ]


def _encode_one(level: Level, member: Any, place: Any) -> bytes:
    return engine.pack(level, member, Trail(place))


def _encode_keys(level: Level, value: dict[Any, Any]) -> list[bytes]:
    try:
        return [packb(key, None, _KEYS) for key in value]
    except Exception:
        return [exact.pack(level, key, Trail(key)) for key in value]
