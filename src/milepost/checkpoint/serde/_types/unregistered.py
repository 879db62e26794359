"""Types that are not registered and are written all the same, with a warning.

- A subclass of a built-in type is stored as the type that it extends, unless it is a data type: a
  named tuple or an enum. What the subclass adds is not stored. Its methods are not called.
- A data type is stored as if it were registered. This process reads it back. Another one does so
  only if its own graphs show the type: a name in stored bytes is never enough. A serializer that
  was given a list without the type reads its fields, and stores an enum as its value.
- An exception is stored as a RemoteError.

The first value of each class gives a warning that names the line which keeps it. A strict
serializer refuses such values instead.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost.checkpoint.serde._msgpack.failures import NotExact
from milepost.checkpoint.serde._msgpack.survey import NATIVE_KEYS, only_native
from milepost.checkpoint.serde._types import exceptions, records
from milepost.checkpoint.serde._types.standard import counter_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde.registry import TypeRegistry, Writer

_ALL: Final = slice(None)


class Fallback(NamedTuple):
    """How the values of a class that is not registered are written."""

    writer: Writer
    warning: str
    record: records.RecordType | None = None
    """What reads them back, for a data type."""
    as_fields: bool = False
    """Whether they are read back as a dict of their fields."""


def fallback_of(cls: type, registry: TypeRegistry) -> Fallback | None:
    """How the values of `cls` are written; None if they are refused."""
    found = _base_of(cls)
    as_base = None
    if found is not None:
        as_base = Fallback(_base_writer(*found), _stored_as_base(cls, found[0]))
    if not records.is_data_type(cls):
        return as_base
    if issubclass(cls, BaseException):
        return Fallback(exceptions.stand_in_writer(registry), _stored_as_remote(cls))
    if registry.only_registered and issubclass(cls, Enum):
        plain = all(type(member.value) in NATIVE_KEYS for member in cls)
        return Fallback(lambda member, _: member.value, _read_as_fields(cls)) if plain else as_base
    if records.name_of(cls) in registry.types:
        return as_base  # the name of another class
    try:
        record = records.make(cls)
    except (TypeError, ValueError):
        return as_base  # it needs encode and decode functions, or a name of its own
    if registry.only_registered:
        return Fallback(record.write, _read_as_fields(cls), as_fields=True)
    return Fallback(record.write, _stored_for_this_process(cls), record)


_TO_BASE: Final[dict[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    bytes: lambda value: bytes(memoryview(value)),
    bytearray: lambda value: bytearray(memoryview(value)),
    list: lambda value: list.__getitem__(value, _ALL),
    tuple: lambda value: tuple.__getitem__(value, _ALL),
    dict: lambda value: dict(dict.items(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    deque: lambda value: deque(deque.__iter__(value), value.maxlen),
    OrderedDict: lambda value: OrderedDict(OrderedDict.items(value)),
    defaultdict: lambda value: defaultdict(value.default_factory, dict.items(value)),
    Counter: lambda value: counter_of(dict.items(value)),
}
_STANDARD: Final = frozenset({"datetime", "decimal", "uuid"})
"""Where the other types are defined whose subclasses are stored so: see `stdlib.TO_BASE`."""


def _base_of(cls: type) -> tuple[type, Callable[[Any], Any]] | None:
    """The built-in type that `cls` extends, and what makes one of an instance; None if there is
    none, or if the class has declared fields of its own besides, which would be lost."""
    if records.is_dataclass_or_attrs(cls):
        return None
    if cls is memoryview:
        return bytes, bytes
    for base in cls.__mro__[1:]:
        to_base = _TO_BASE.get(base)
        if to_base is None and base.__module__ in _STANDARD:
            from milepost.checkpoint.serde._types import stdlib

            to_base = stdlib.TO_BASE.get(base)
        if to_base is not None:
            return base, to_base
    return None


def _base_writer(base: type, to_base: Callable[[Any], Any]) -> Writer:
    """Writes an instance as one of its base type."""

    def write(value: Any, _: Level) -> Any:
        return to_base(value)

    def write_surveyed(value: Any, level: Level) -> Any:
        plain = to_base(value)
        # A survey of the value around it has not seen this one, nor what is inside.
        if not level.exact and not only_native(plain):
            raise NotExact
        return plain

    return write_surveyed if base in (bytearray, dict, list) else write


def _stored_as_base(cls: type, base: type) -> str:
    name = cls.__qualname__
    keep = (
        f"register_type({name})"
        if records.is_data_type(cls)
        else f"register_type({name}, encode={base.__name__}, decode={name})"
    )
    return (
        f"values of the type {cls.__module__}.{name}, which is not registered, are stored as plain"
        f" {base.__name__} and read back as such; to keep the type, call {keep} {_IMPORT}"
    )


def _stored_as_remote(cls: type) -> str:
    return (
        f"exceptions of the type {cls.__module__}.{cls.__qualname__}, which is not registered, are"
        " stored with their message and read back as RemoteError; to keep the type, call"
        f" register_type({cls.__qualname__}) {_IMPORT}"
    )


def _read_as_fields(cls: type) -> str:
    what = "value" if issubclass(cls, Enum) else "fields"
    return (
        f"the type {cls.__module__}.{cls.__qualname__} is not in the list that the serializer was"
        f" given: its values are read back as their {what}; to keep the type, name it in"
        f" allowed_msgpack_modules, or call register_type({cls.__qualname__}) {_IMPORT}"
    )


def _stored_for_this_process(cls: type) -> str:
    return (
        f"values of the unregistered type {cls.__module__}.{cls.__qualname__} are stored, but"
        " another process may refuse to read them, since no graph shows the type; call"
        f" register_type({cls.__qualname__}), or name it in allowed_msgpack_modules {_IMPORT}"
    )


_IMPORT: Final = (
    "(from milepost.checkpoint.serde import register_type). JsonPlusSerializer(strict=True) refuses"
    " such values."
)
