"""pandas' moments and durations, to the nanosecond and in the unit that they count in."""

from __future__ import annotations

from datetime import timezone
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import numpy as np
from ormsgpack import Ext

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._msgpack.shapes import NUMBER, TEXT, fixed
from milepost.checkpoint.serde._types.stdlib import readable_zone

if TYPE_CHECKING:
    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde.registry import Reader, Writer

pd: Any = import_module("pandas")

_UNITS: Final = frozenset({"s", "ms", "us", "ns"})
_ZONE: Final[frozenset[type]] = frozenset({timezone, ZoneInfo, type(None)})
_MOMENT, _DURATION, _NOTHING = "Timestamp", "Timedelta", "NaT"


def writer_for(cls: type) -> Writer | None:
    """The writer of one of these classes; None for any other class."""
    if cls is pd.Timestamp:
        return _write_moment
    if cls is pd.Timedelta:
        return _write_duration
    if cls is type(pd.NaT):
        return lambda _, level: Ext(ext.PANDAS_TIME, level.pack([_NOTHING, "ns", 0, None]))
    return None


def _write_moment(value: Any, level: Level) -> Ext:
    zone = readable_zone(value, level)
    number = int(value.asm8.astype("int64"))
    return Ext(ext.PANDAS_TIME, level.pack([_MOMENT, value.unit, number, zone]))


def _write_duration(value: Any, level: Level) -> Ext:
    number = int(value.asm8.astype("int64"))
    return Ext(ext.PANDAS_TIME, level.pack([_DURATION, value.unit, number, None]))


def _time(kind: str, unit: Any, number: int, zone: Any) -> Any:
    if unit not in _UNITS:
        raise ValueError(f"pandas does not count time in {unit[:40]!r}")
    if not -(1 << 63) < number < 1 << 63:
        raise ValueError("the time is out of the range of pandas")
    if kind == _DURATION:
        return pd.Timedelta(np.timedelta64(number, unit))
    if kind == _MOMENT:
        moment = pd.Timestamp(np.datetime64(number, unit))
        return moment if zone is None else moment.tz_localize("UTC").tz_convert(zone)
    if kind == _NOTHING:
        return pd.NaT
    raise ValueError(f"{kind[:40]!r} is no time of pandas")


READERS: Final[dict[int, Reader]] = {ext.PANDAS_TIME: fixed(_time, TEXT, TEXT, NUMBER, _ZONE)}
