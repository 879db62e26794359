"""Subclasses of built-in types that are not registered: stored as the type that they extend.

What a subclass adds is not stored, so the first value of each class gives a warning that names the
line which keeps it. A strict serializer refuses such values instead.

The content is taken as the base type has it: methods of the subclass are not called.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any, Final

from milepost._internal.warn import warn_of
from milepost.checkpoint.serde._msgpack.signals import NotExact
from milepost.checkpoint.serde._msgpack.survey import only_native
from milepost.checkpoint.serde._types import records

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde.registry import Writer

_ALL: Final = slice(None)


def _counter(value: Counter[Any]) -> Counter[Any]:
    plain: Counter[Any] = Counter()
    dict.update(plain, dict.items(value))
    return plain


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
    Counter: _counter,
}
_STANDARD: Final = frozenset({"datetime", "decimal", "uuid"})
"""Where the other types are defined whose subclasses are stored so: see `stdlib.TO_BASE`."""


def base_of(cls: type) -> tuple[type, Callable[[Any], Any]] | None:
    """The built-in type that `cls` extends, and what makes one of an instance; None if there is
    none, or if the class has declared fields of its own besides, which would be lost."""
    if records.is_dataclass_or_attrs(cls):
        return None
    for base in cls.__mro__[1:]:
        to_base = _TO_BASE.get(base)
        if to_base is None and base.__module__ in _STANDARD:
            from milepost.checkpoint.serde._types import stdlib

            to_base = stdlib.TO_BASE.get(base)
        if to_base is not None:
            return base, to_base
    return None


def writer_for(base: type, to_base: Callable[[Any], Any]) -> Writer:
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


def warn(cls: type, base: type) -> None:
    """Tell that values of this class are stored as plain ones."""
    name = cls.__qualname__
    keep = (
        f"register_type({name})"
        if records.is_data_type(cls)
        else f"register_type({name}, encode={base.__name__}, decode={name})"
    )
    warn_of(
        f"values of the type {cls.__module__}.{name}, which is not registered, are stored as plain"
        f" {base.__name__} and read back as such; to keep the type, call {keep} (from"
        " milepost.checkpoint.serde import register_type). JsonPlusSerializer(strict=True) refuses"
        " such values."
    )
