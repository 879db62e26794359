"""Dataclasses, attrs classes, named tuples and enums as plain values."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, Final

from milepost.checkpoint.serde._msgpack import shapes
from milepost.checkpoint.serde._msgpack.shapes import LIST, check
from milepost.errors import DeserializationError

Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]
Codec = tuple[Encode, Decode]
Default = Callable[[str, Mapping[str, Any]], Any]
"""The default of a field, beside those that have a value; KeyError if it has none."""


class Migrated(dict[str, Any]):
    """Fields that a migration has made: not to be taken for what the class itself had written."""


FIELDS: Final = shapes.FIELDS | {Migrated}
"""What fields are stored as, or what a migration has made of them."""


def is_named_tuple(cls: type) -> bool:
    """Whether `cls` was made by NamedTuple or namedtuple."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_plain_object(cls: type) -> bool:
    """Whether instances have no content besides their attributes: no str, dict or list inside."""
    return all(base.__module__ != "builtins" or base is object for base in cls.__mro__)


def of_named_tuple(cls: Any) -> Codec:
    """Fields by name, so that their order may change and new ones may have defaults."""
    names: tuple[str, ...] = cls._fields
    defaults: dict[str, Any] = cls._field_defaults

    def encode(obj: Any) -> Any:
        return dict(zip(names, obj, strict=True))

    def decode(payload: Any) -> Any:
        check([payload], FIELDS)
        if payload.keys() != set(names):
            payload = complete(cls, payload, names, lambda name, _: defaults[name])
        return tuple.__new__(cls, [payload[name] for name in names])

    return encode, decode


def of_enum(cls: type[enum.Enum]) -> Codec:
    """Members by name; flags by value, since a combination has no name of its own."""
    if issubclass(cls, enum.Flag):
        return (lambda member: member.value), cls

    def encode(member: Any) -> Any:
        return member._name_

    return encode, cls._member_map_.__getitem__


def of_dataclass(cls: Any) -> Codec:
    """Fields by name; attributes that are not fields go along beside them."""
    specs = {spec.name: spec for spec in dataclasses.fields(cls)}

    def default(name: str, _: Mapping[str, Any]) -> Any:
        spec = specs[name]
        if spec.default is not dataclasses.MISSING:
            return spec.default
        if spec.default_factory is not dataclasses.MISSING:
            return spec.default_factory()
        raise KeyError(name)

    return _of_fields(cls, list(specs), default, _DERIVED | cached_properties(cls))


def is_attrs(cls: type) -> bool:
    """Whether `cls` was made by attrs, which leaves its fields in the class."""
    return isinstance(getattr(cls, "__attrs_attrs__", None), tuple)


def of_attrs(cls: Any) -> Codec:
    """The same for attrs. The library itself is not needed, nor are its converters."""
    specs = {spec.name: spec for spec in cls.__attrs_attrs__}

    def default(name: str, _: Mapping[str, Any]) -> Any:
        found = specs[name].default
        if getattr(type(found), "__name__", "") == "_Nothing":
            raise KeyError(name)
        if not hasattr(found, "factory"):
            return found
        if found.takes_self:
            raise KeyError(name)  # what it would be computed from is not there yet
        return found.factory()

    cached = _cached_hash()
    encode, decode = _of_fields(
        cls, list(specs), default, _DERIVED.union(cached, cached_properties(cls))
    )
    used = getattr(getattr(cls.__hash__, "__code__", None), "co_names", ())
    unhashed = {name: value for name, value in cached.items() if name in used}
    if not unhashed:
        return encode, decode

    def decode_unhashed(payload: Any) -> Any:
        obj = decode(payload)
        for name, value in unhashed.items():
            object.__setattr__(obj, name, value)
        return obj

    return encode, decode_unhashed


@cache
def _cached_hash() -> Mapping[str, Any]:
    """The attribute in which attrs keeps the hash of an instance, as it is before the first hash.

    Another process has another hash. The name of the attribute is not documented: a class shows it.
    """
    try:
        import attr
    except ImportError:  # a copy of attrs inside another package
        return {}
    fresh: object = attr.make_class("Empty", [], frozen=True, cache_hash=True)()
    return vars(fresh)


def cached_properties(cls: type) -> frozenset[str]:
    """The attributes in which a class keeps what it computes of others, and will compute again."""
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        members.update(vars(base))
    found = (name for name, member in members.items() if isinstance(member, cached_property))
    return frozenset(found)


_DERIVED: Final = frozenset({"__orig_class__"})
"""Attributes that are not content."""


def _of_fields(
    cls: Any,
    in_order: list[str],
    default: Default,
    derived: frozenset[str],
) -> Codec:
    names = dict.fromkeys(in_order).keys()
    set_one = object.__setattr__
    make = object.__new__
    in_dict = not any("__slots__" in vars(base) for base in cls.__mro__) and not any(
        hasattr(getattr(cls, name, None), "__set__") for name in names
    )

    def encode(obj: Any) -> Any:
        attributes = getattr(obj, "__dict__", None)
        if attributes is not None and attributes.keys() == names:
            return attributes
        kept = {name: getattr(obj, name) for name in names if hasattr(obj, name)}
        others = {
            name: value
            for name, value in (attributes or {}).items()
            if name not in names and name not in derived
        }
        unset = [name for name in names if name not in kept]
        return [kept, others, unset] if others or unset else kept

    def decode(payload: Any) -> Any:
        others: Any = {}
        unset: Any = ()
        if type(payload) is list:
            payload, others, unset = check(payload, FIELDS, FIELDS, LIST)
        check([payload], FIELDS)
        payload = dict(payload)
        if payload.keys() != names:
            payload = complete(cls, payload, [n for n in names if n not in unset], default)
        obj = make(cls)
        if in_dict:
            set_one(obj, "__dict__", payload)
        else:
            for name, value in payload.items():
                set_one(obj, name, value)
        for name, value in others.items():
            set_one(obj, name, value)
        return obj

    holder: Any = next((vars(base) for base in cls.__mro__ if "__dict__" in vars(base)), {})
    set_dict: Any = getattr(holder.get("__dict__"), "__set__", None)

    # The usual instance, quickly: all of its fields and nothing else, in their order.
    def encode_usual(obj: Any) -> Any:
        attributes = obj.__dict__
        return attributes if [*attributes] == in_order else encode(obj)

    def decode_usual(payload: Any) -> Any:
        if type(payload) is dict and [*payload] == in_order:
            obj = make(cls)
            set_dict(obj, payload)
            return obj
        return decode(payload)

    if not in_dict or not set_dict:
        return encode, decode
    if cls.__setattr__ is set_one and in_order and all(map(str.isidentifier, in_order)):
        return encode_usual, _assigning(cls, in_order, decode)
    return encode_usual, decode_usual


def _assigning(cls: type, names: list[str], decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Decodes by one assignment a field, written out as dataclasses write out their `__init__`.

    The interpreter knows where such an attribute goes in the instance; an instance whose whole
    `__dict__` is replaced costs an allocation more. As many entries as there are fields, and each
    field among them: those are all.
    """
    lines = [
        "def decode_fields(payload):",
        f"    if type(payload) is not dict or len(payload) != {len(names)}:",
        "        return decode(payload)",
        "    obj = make(cls)",
        "    try:",
        *(f"        obj.{name} = payload[{name!r}]" for name in names),
        "    except KeyError:",
        "        return decode(payload)",
        "    return obj",
    ]
    scope: dict[str, Any] = {"cls": cls, "make": object.__new__, "decode": decode}
    exec("\n".join(lines), scope)  # nothing but the names of the class's own fields
    made: Callable[[Any], Any] = scope["decode_fields"]
    return made


def complete(cls: type, stored: Any, names: Any, default: Default) -> dict[str, Any]:
    """The stored fields in today's shape: new ones get their default, lost ones are an error."""
    lost = [name for name in stored if name not in names]
    if lost:
        raise DeserializationError(
            f"{cls.__qualname__} no longer has the stored field {lost[0]!r}; raise its version and"
            " register a migration that drops or renames it."
        )
    complete = dict(stored)
    for name in names:
        if name not in complete:
            try:
                complete[name] = default(name, complete)
            except KeyError:
                raise DeserializationError(
                    f"{cls.__qualname__} now needs the field {name!r}, which was not stored; give"
                    " it a default, or raise the version and register a migration that sets it."
                ) from None
    return complete
