"""Value types of the standard library. Imported when the first of them is met.

Every reader names the classes it can make; a name out of stored bytes only chooses among them.
"""

from __future__ import annotations

import ipaddress
import pathlib
import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

from ormsgpack import Ext

from milepost._internal.warn import warn_of
from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._msgpack.shapes import BYTES, NUMBER, TEXT, check, fixed, is_quick

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.checkpoint.serde._msgpack.codec import Level

_PATHS: Final[dict[str, type[pathlib.PurePath]]] = {
    cls.__name__: cls
    for cls in (
        pathlib.PosixPath,
        pathlib.PurePosixPath,
        pathlib.WindowsPath,
        pathlib.PureWindowsPath,
    )
}
_ADDRESSES: Final[dict[str, type[Any]]] = {
    cls.__name__: cls
    for cls in (
        ipaddress.IPv4Address,
        ipaddress.IPv4Interface,
        ipaddress.IPv4Network,
        ipaddress.IPv6Address,
        ipaddress.IPv6Interface,
        ipaddress.IPv6Network,
    )
}
_ZONES: Final = frozenset({timezone, ZoneInfo})
_ZONE: Final = _ZONES | {type(None)}
_PYDANTIC: Final = "pydantic_core._pydantic_core.TzInfo"
"""What pydantic makes of a text: nothing but an offset, so another form of it loses nothing."""
_NAIVE: Final = ord("n")
_UTC: Final = ord("u")


def _write_moment(code: int) -> Callable[[Any, Level], Ext]:
    """datetime and time: without a zone and in UTC, which are nearly all, in a short form."""

    def write(value: Any, level: Level) -> Ext:
        zone = value.tzinfo
        if value.fold == 0:
            if zone is None:
                return Ext(code, b"n" + value.isoformat().encode())
            if zone is UTC:
                return Ext(code, b"u" + value.replace(tzinfo=None).isoformat().encode())
        zone = readable_zone(value, level)
        naive = value.replace(tzinfo=None, fold=0).isoformat()
        return Ext(code, level.pack([naive, value.fold, zone]))

    return write


def readable_zone(value: Any, level: Level) -> tzinfo | None:
    """The zone of a moment; if it could not be read back, one with the same offset from UTC."""
    zone: tzinfo | None = value.tzinfo
    if zone is None or type(zone) in _ZONES:
        return zone
    kind = f"{type(zone).__module__}.{type(zone).__qualname__}"
    offset = value.utcoffset()
    if offset is None or (level.strict and kind != _PYDANTIC):
        raise Refused(
            f"its time zone is a {kind}; use zoneinfo.ZoneInfo or datetime.timezone, which can be"
            " read back"
        )
    if kind != _PYDANTIC:
        warn_of(
            f"a time zone of the type {kind} could not be read back: the offset from UTC that it"
            " has at the time is stored in its place; zoneinfo.ZoneInfo and datetime.timezone are"
            " kept. JsonPlusSerializer(strict=True) refuses such values."
        )
    return timezone(offset) if offset else UTC


def _read_moment(cls: Any) -> Callable[[bytes, Level], Any]:
    def read(data: bytes, level: Level) -> Any:
        if data[0] == _NAIVE:
            return cls.fromisoformat(data[1:].decode())
        if data[0] == _UTC:
            return cls.fromisoformat(data[1:].decode()).replace(tzinfo=UTC)
        naive, fold, zone = check(level.unpack(data), TEXT, NUMBER, _ZONE)
        return cls.fromisoformat(naive).replace(fold=fold, tzinfo=zone)

    return read


def _write_zone(value: timezone, level: Level) -> Ext:
    # tzname() cannot tell a name that was given from one that is derived; this can.
    return Ext(ext.TIMEZONE, level.pack(list(value.__getinitargs__())))  # type: ignore[attr-defined]


def _write_zone_info(value: ZoneInfo, _: Level) -> Ext:
    if value.key is None:
        raise Refused("a ZoneInfo made from a file has no key to find it by; use ZoneInfo(key)")
    return Ext(ext.ZONEINFO, value.key.encode())


def _write_uuid(value: UUID, _: Level) -> Ext:
    safe = value.is_safe
    mark = b"" if safe is SafeUUID.unknown else (b"s" if safe is SafeUUID.safe else b"u")
    return Ext(ext.UUID, value.bytes + mark)


def _read_uuid(data: bytes, _: Level) -> UUID:
    safe = {b"": SafeUUID.unknown, b"s": SafeUUID.safe, b"u": SafeUUID.unsafe}[data[16:]]
    return UUID(bytes=data[:16], is_safe=safe)


def _write_path(value: pathlib.PurePath, level: Level) -> Ext:
    # File names need not be valid text; as bytes they survive all the same.
    text = str(value).encode("utf-8", "surrogateescape")
    return Ext(ext.PATH, level.pack([type(value).__name__, text]))


def _path(name: str, text: bytes) -> pathlib.PurePath:
    return _PATHS[name](text.decode("utf-8", "surrogateescape"))


def _write_fraction(value: Fraction, level: Level) -> Ext:
    if not is_quick(value.numerator, value.denominator):
        raise Refused("so large a fraction could not be read back in a reasonable time")
    return Ext(ext.FRACTION, level.pack([value.numerator, value.denominator]))


def _fraction(numerator: int, denominator: int) -> Fraction:
    if not is_quick(numerator, denominator):
        raise ValueError("the numbers of the fraction are too large")
    return Fraction(numerator, denominator)


def _plain_datetime(value: datetime) -> datetime:
    plain = datetime(value.year, value.month, value.day, value.hour, value.minute, value.second)
    return plain.replace(microsecond=value.microsecond, tzinfo=value.tzinfo, fold=value.fold)


def _plain_time(value: time) -> time:
    plain = time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo)
    return plain.replace(fold=value.fold)


TO_BASE: Final[dict[type, Callable[[Any], Any]]] = {
    datetime: _plain_datetime,
    date: lambda value: date(value.year, value.month, value.day),
    time: _plain_time,
    timedelta: lambda value: timedelta(value.days, value.seconds, value.microseconds),
    Decimal: Decimal,
    UUID: lambda value: UUID(int=value.int, is_safe=value.is_safe),
}
"""Class → function that makes an instance of the class out of one of a subclass."""

WRITERS: Final[dict[type, Callable[[Any, Level], Ext]]] = {
    datetime: _write_moment(ext.DATETIME),
    time: _write_moment(ext.TIME),
    date: lambda value, _: Ext(ext.DATE, value.isoformat().encode()),
    timedelta: lambda value, level: Ext(
        ext.TIMEDELTA, level.pack([value.days, value.seconds, value.microseconds])
    ),
    timezone: _write_zone,
    ZoneInfo: _write_zone_info,
    Decimal: lambda value, _: Ext(ext.DECIMAL, str(value).encode()),
    Fraction: _write_fraction,
    UUID: _write_uuid,
    re.Pattern: lambda value, level: Ext(ext.PATTERN, level.pack([value.pattern, value.flags])),
    **dict.fromkeys(_PATHS.values(), _write_path),
    **{
        cls: lambda value, level: Ext(ext.IP, level.pack([type(value).__name__, str(value)]))
        for cls in _ADDRESSES.values()
    },
}

writer_for = WRITERS.get

READERS: Final[dict[int, Callable[[bytes, Level], Any]]] = {
    ext.DATETIME: _read_moment(datetime),
    ext.TIME: _read_moment(time),
    ext.DATE: lambda data, _: date.fromisoformat(data.decode()),
    ext.TIMEDELTA: fixed(timedelta, NUMBER, NUMBER, NUMBER),
    ext.TIMEZONE: fixed(timezone, frozenset({timedelta}), TEXT, least=1),
    ext.ZONEINFO: lambda data, _: ZoneInfo(data.decode()),
    ext.DECIMAL: lambda data, _: Decimal(data.decode()),
    ext.FRACTION: fixed(_fraction, NUMBER, NUMBER),
    ext.UUID: _read_uuid,
    ext.PATH: fixed(_path, TEXT, BYTES),
    ext.IP: fixed(lambda name, text: _ADDRESSES[name](text), TEXT, TEXT),
    ext.PATTERN: fixed(
        lambda pattern, flags: re.compile(pattern, flags & ~re.DEBUG), TEXT | BYTES, NUMBER
    ),
}
