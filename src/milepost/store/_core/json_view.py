"""The view of a value that filters see: its JSON.

Values are stored exactly, as the serializer's bytes. Filters work on a second form that every
database understands. What JSON has no word for (a datetime, bytes, a text with NUL, a number
of thousands of digits) is replaced by a digest of its exact form, so that it can be tested for
equality and existence, not for order.
A large float is written as the integer that it is: its usual form, such as 1e+30, is another number
in decimals, which PostgreSQL compares.

An encrypted store shows only the fields that its user has declared clear.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from milepost.checkpoint.serde.base import SerializerProtocol, is_two_step
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.store._core.namespaces import is_plain

OPAQUE: Final = "$opaque"
_COMPACT: Final[Any] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}

_WHOLE: Final = 1e16
"""From here on a float is written with an exponent, which leaves out some of its digits."""

as_json: Final = json.JSONEncoder(**_COMPACT).encode
"""Writes a value of JSON's own types as views have it."""


def has_word(number: float) -> bool:
    """Whether JSON has a word for a number: not for infinity and NaN, nor for one with more digits
    than the interpreter reads and writes."""
    try:
        as_json(number)
    except ValueError:
        return False
    return True


def largest_with_word() -> int:
    """The largest number that JSON has a word for."""
    largest: int = 10 ** (sys.get_int_max_str_digits() or 4300) - 1
    return largest


class Viewer:
    """Makes views. `clear` are the paths that may be seen; None if all may."""

    def __init__(self, serde: SerializerProtocol, clear: Sequence[Sequence[str]] | None) -> None:
        self.clear = clear
        # Not `dumps_typed`: a cipher gives other bytes every time; equal values must stay equal.
        self._exact = serde.encode if is_two_step(serde) else JsonPlusSerializer().encode
        # What is circular the serializer has refused.
        self._encode = json.JSONEncoder(
            **_COMPACT, check_circular=False, default=self._opaque
        ).encode

    def text(self, value: Mapping[str, Any]) -> str:
        """The view of an item's value."""
        return self.operand(value if self.clear is None else _clear_part(value, self.clear))

    def comparable(self, value: Any) -> Any:
        """The operand of a filter, in the form that a view would have it."""
        return json.loads(self.operand(value))

    def operand(self, value: Any) -> str:
        """The view of anything."""
        try:
            text = self._encode(value)
        except (ValueError, TypeError, RecursionError):
            return self._encode(self._plain(value))
        if "\\u0000" in text or "e+" in text or not is_plain(text):
            return self._encode(self._plain(value))
        return text

    def _plain(self, value: Any) -> Any:
        """The value step by step, for what the fast way does not take."""
        if isinstance(value, Mapping):
            return {self.name(key): self._plain(member) for key, member in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._plain(member) for member in value]
        if isinstance(value, str):
            return value if is_plain(value) else self._opaque(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)) and has_word(value):
            is_large = isinstance(value, float) and abs(value) >= _WHOLE
            return int(value) if is_large else value
        return self._opaque(value)

    def name(self, key: Any) -> str:
        """The name of a field, as every database can hold it."""
        if isinstance(key, str) and is_plain(key):
            return key
        if key is None or isinstance(key, bool):
            return as_json(key)
        if isinstance(key, float) or (isinstance(key, int) and has_word(key)):
            return str(key)
        return f"{OPAQUE}:{self._digest(key)}"

    def _opaque(self, value: Any) -> dict[str, str]:
        return {OPAQUE: self._digest(value)}

    def _digest(self, value: Any) -> str:
        kind, data = self._exact(value)
        return blake2b(kind.encode() + b"\0" + data, digest_size=16).hexdigest()


def _clear_part(value: Mapping[str, Any], fields: Sequence[Sequence[str]]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for path in fields:
        source: Any = value
        target = shown
        for step in path[:-1]:
            if not isinstance(source, Mapping) or step not in source:
                break
            source = source[step]
            target = target.setdefault(step, {})
        else:
            if isinstance(source, Mapping) and path[-1] in source:
                target[path[-1]] = source[path[-1]]
    return shown
