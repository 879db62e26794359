"""The extension codes of the stored format.

A stored value is msgpack. What msgpack has no type for is an extension: one of these codes and
its payload, which for containers is msgpack again. A code, once released, keeps its meaning for
ever. They start at 32: LangGraph's own serializer uses the codes from 0 up, and its bytes must
never be taken for ours.
"""

from __future__ import annotations

from typing import Final

TUPLE: Final = 32
SET: Final = 33
FROZENSET: Final = 34
DEQUE: Final = 35
PAIRS: Final = 36
"""A dict with a key that msgpack cannot hold exactly: key, value, key, value, …"""
RECORD: Final = 37
"""An instance of a registered type: its tag, then what its codec made of it."""
ERROR: Final = 38
"""An exception."""
SURROGATES: Final = 39
"""Text with half of a surrogate pair."""
BYTEARRAY: Final = 40
BIGINT: Final = 41
COMPLEX: Final = 42
DECIMAL: Final = 43
FRACTION: Final = 44
DATETIME: Final = 45
DATE: Final = 46
TIME: Final = 47
TIMEDELTA: Final = 48
TIMEZONE: Final = 49
ZONEINFO: Final = 50
UUID: Final = 51
PATH: Final = 52
IP: Final = 53
PATTERN: Final = 54
ORDERED_DICT: Final = 55
DEFAULT_DICT: Final = 56
COUNTER: Final = 57
RANGE: Final = 58
SLICE: Final = 59
SINGLETON: Final = 60
NDARRAY: Final = 64
NDSCALAR: Final = 65
DTYPE: Final = 66
ARROW: Final = 67
PANDAS_TIME: Final = 68

NESTED: Final = frozenset(
    {
        TUPLE, SET, FROZENSET, DEQUE, PAIRS, RECORD, ERROR, FRACTION, DATETIME, TIME, TIMEDELTA,
        TIMEZONE, PATH, IP, PATTERN, ORDERED_DICT, DEFAULT_DICT, COUNTER, RANGE, SLICE,
        NDARRAY, NDSCALAR, DTYPE, ARROW, PANDAS_TIME,
    }
)  # fmt: skip
"""Codes whose payload is msgpack and may nest further."""
