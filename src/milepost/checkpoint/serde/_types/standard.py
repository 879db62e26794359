"""Built-in containers and numbers that msgpack has no type for.

A writer takes the object and the level on which to pack what is inside it; a reader takes the
payload and the level on which to unpack it. Both are found by exact class and by code.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict, deque
from types import EllipsisType, NotImplementedType
from typing import TYPE_CHECKING, Any, Final

from ormsgpack import Ext

from milepost._internal.warn import warn_of
from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._msgpack.failures import NotExact, Refused
from milepost.checkpoint.serde._msgpack.shapes import (
    ANY,
    LIST,
    NUMBER,
    fixed,
    is_quick,
    is_spread,
    listed,
)
from milepost.checkpoint.serde._msgpack.skim import elements_head

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from milepost.checkpoint.serde._msgpack.codec import Level

_FACTORIES: Final = {
    cls.__name__: cls
    for cls in (bool, bytes, bytearray, complex, dict, float, frozenset, int, list, set, str, tuple)
}
"""Default factories that can be found by name. Any other callable could not be read back."""

_NAME: Final[frozenset[type]] = frozenset({str, type(None)})
_SIZE: Final[frozenset[type]] = frozenset({int, type(None)})

_DISTINCT: Final = frozenset({bool, bytes, float, frozenset, int, str, tuple})
"""Types of which two members of a set have different bytes, or are both read back."""

_COMPLEX = struct.Struct("<dd")


def check_keys(keys: Collection[Any], level: Level) -> None:
    """Refused if a set or dict of these could not be made again, or would take too long."""
    if level.registry.only_registered:
        level.registry.check_keys(keys)
    if not is_spread(keys):
        raise Refused(
            "too many of its members have the same hash to be read back in a reasonable time; save"
            " a list instead"
        )


def _unordered(code: int, members: Collection[Any], level: Level) -> Ext:
    # In the order of their bytes: a set must not look changed because another process, with
    # other string hashes, wrote it.
    check_keys(members, level)
    packed = sorted(map(level.pack, members))
    if not _DISTINCT.issuperset(map(type, members)) and len(set(packed)) != len(packed):
        raise Refused(
            "two of its members are the same as plain values, so one would be lost; call"
            " register_type on their type"
        )
    return Ext(code, elements_head("list", len(packed)) + b"".join(packed))


def _flat(value: dict[Any, Any], level: Level) -> list[Any]:
    """Key, value, key, value, …"""
    check_keys(value, level)
    return [member for pair in value.items() for member in pair]


def _keys(members: list[Any]) -> list[Any]:
    """The members, as those of a set or as the keys of a dict."""
    if not is_spread(members):
        raise ValueError("too many members have the same hash")
    return members


def _paired(members: list[Any]) -> Iterable[tuple[Any, Any]]:
    """The pairs of a flat list."""
    return zip(_keys(members[::2]), members[1::2], strict=True)


def _write_int(value: int, _: Level) -> Ext:
    size = value.bit_length() // 8 + 1
    return Ext(ext.BIGINT, value.to_bytes(size, "little", signed=True))


def _write_default_dict(value: defaultdict[Any, Any], level: Level) -> Any:
    factory = value.default_factory
    if factory is not None and _FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
        reason = f"its default factory {factory!r} could not be read back; save dict(value) instead"
        if level.strict:
            raise Refused(reason)
        if not level.exact:
            raise NotExact  # a survey of the value around it has not seen what is inside
        warn_of(f"a defaultdict is stored as a plain dict: {reason}.")
        return dict(value)
    name = None if factory is None else factory.__name__
    return Ext(ext.DEFAULT_DICT, level.pack([name, _flat(value, level)]))


def _default_dict(name: str | None, members: list[Any]) -> defaultdict[Any, Any]:
    return defaultdict(None if name is None else _FACTORIES[name], _paired(members))


def _write_range(value: range, level: Level) -> Ext:
    if not is_quick(value.start, value.stop, value.step):
        raise Refused("a range of such large numbers could not be read back in a reasonable time")
    return Ext(ext.RANGE, level.pack([value.start, value.stop, value.step]))


def _range(start: int, stop: int, step: int) -> range:
    if not is_quick(start, stop, step):
        raise ValueError("the numbers of the range are too large")
    return range(start, stop, step)


def counter_of(counts: Iterable[tuple[Any, Any]]) -> Counter[Any]:
    """A Counter with these counts. Its own constructor would count the pairs."""
    counter: Counter[Any] = Counter()
    dict.update(counter, counts)
    return counter


WRITERS: Final[dict[type, Callable[[Any, Level], Ext]]] = {
    tuple: lambda value, level: Ext(ext.TUPLE, level.pack(list(value))),
    set: lambda value, level: _unordered(ext.SET, value, level),
    frozenset: lambda value, level: _unordered(ext.FROZENSET, value, level),
    deque: lambda value, level: Ext(ext.DEQUE, level.pack([value.maxlen, list(value)])),
    OrderedDict: lambda value, level: Ext(ext.ORDERED_DICT, level.pack(_flat(value, level))),
    Counter: lambda value, level: Ext(ext.COUNTER, level.pack(_flat(value, level))),
    defaultdict: _write_default_dict,
    bytearray: lambda value, _: Ext(ext.BYTEARRAY, bytes(value)),
    int: _write_int,
    complex: lambda value, _: Ext(ext.COMPLEX, _COMPLEX.pack(value.real, value.imag)),
    range: _write_range,
    slice: lambda value, level: Ext(ext.SLICE, level.pack([value.start, value.stop, value.step])),
    EllipsisType: lambda *_: Ext(ext.SINGLETON, b"..."),
    NotImplementedType: lambda *_: Ext(ext.SINGLETON, b"NotImplemented"),
}

READERS: Final[dict[int, Callable[[bytes, Level], Any]]] = {
    ext.TUPLE: listed(tuple),
    ext.SET: listed(lambda members: set(_keys(members))),
    ext.FROZENSET: listed(lambda members: frozenset(_keys(members))),
    ext.DEQUE: fixed(lambda size, members: deque(members, size), _SIZE, LIST),
    ext.PAIRS: listed(lambda members: dict(_paired(members))),
    ext.ORDERED_DICT: listed(lambda members: OrderedDict(_paired(members))),
    ext.COUNTER: listed(lambda members: counter_of(_paired(members))),
    ext.DEFAULT_DICT: fixed(_default_dict, _NAME, LIST),
    ext.SURROGATES: lambda data, _: data.decode("utf-8", "surrogatepass"),
    ext.BYTEARRAY: lambda data, _: bytearray(data),
    ext.BIGINT: lambda data, _: int.from_bytes(data, "little", signed=True),
    ext.COMPLEX: lambda data, _: complex(*_COMPLEX.unpack(data)),
    ext.RANGE: fixed(_range, NUMBER, NUMBER, NUMBER),
    ext.SLICE: fixed(slice, ANY, ANY, ANY),
    ext.SINGLETON: lambda data, _: {b"...": ..., b"NotImplemented": NotImplemented}[data],
}
