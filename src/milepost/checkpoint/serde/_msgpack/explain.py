"""Why stored bytes do not decode, and where: a slow reader that knows its path.

ormsgpack says only that something failed. This reads the same bytes again in Python, up to the
place that fails, and is bounded as the fast path is: by the size of the data and by its depth.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.serde._msgpack import depth, ext
from milepost.checkpoint.serde._msgpack.codec import Level
from milepost.checkpoint.serde._msgpack.failures import NotExact, TooDeep, Trail
from milepost.checkpoint.serde._msgpack.skim import ARRAY, EXT, MAP, head
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Callable

_DEEPEST = 1_000


def failure(level: Level, data: bytes) -> DeserializationError:
    """The error to raise for `data`, which did not decode."""
    reader = ExplainingLevel(level, level.depth, Trail(), hidden=0)
    try:
        reader.unpack(data)
    except DeserializationError as error:
        error.path = error.path or str(reader.trail)
        return error
    except (RecursionError, TooDeep, NotExact):
        return DeserializationError("the stored value nests too deep", path=str(reader.trail))
    except MemoryError:
        return DeserializationError("the stored value is too large", path=str(reader.trail))
    except Exception as error:
        made = DeserializationError(f"the stored value does not decode: {_said(error)}")
        made.path = str(reader.trail)
        made.__cause__ = error
        return made
    return DeserializationError("the stored value is not in a form that this program writes")


def _said(error: Exception) -> str:
    text = str(error)
    if isinstance(error, KeyError):
        text = f"unknown name {text}"
    return text[:300] or type(error).__name__


class ExplainingLevel(Level):
    """A level that unpacks step by step."""

    __slots__ = ("hidden", "nested", "trail")

    def __init__(self, level: Level, at: int, trail: Trail, hidden: int) -> None:
        super().__init__(level.registry, at, strict=level.strict)
        self.trail = trail
        self.hidden = hidden
        """How many lists, from the outside, are ours and not the user's."""
        self.nested: int = getattr(level, "nested", 0)

    def unpack(self, data: bytes) -> Any:
        if self.guarded:
            depth.check(data)
        value, position = self._value(data, 0, self.hidden)
        if position != len(data):
            raise ValueError(f"{len(data) - position} bytes follow the value")
        return value

    def _value(self, data: bytes, position: int, hidden: int) -> tuple[Any, int]:
        if position >= len(data):
            raise ValueError("it ends too soon")
        first = data[position]
        kind, size, body = head(data, position)
        if kind in (ARRAY, MAP):
            self.nested += 1
            if self.nested > _DEEPEST:
                raise TooDeep
            read = self._array if kind == ARRAY else self._map
            value, position = read(data, body, size, hidden)
            self.nested -= 1
            return value, position
        end = body + size + (kind == EXT)
        if end > len(data):
            raise ValueError("it ends too soon")
        if kind == EXT:
            return self._extension(data[body], data[body + 1 : end]), end
        return _scalar(first, data[body:end]), end

    def _array(self, data: bytes, position: int, size: int, hidden: int) -> tuple[list[Any], int]:
        members = []
        steps = self.trail.steps
        for index in range(size):
            if not hidden:
                steps.append(index)
            member, position = self._value(data, position, max(hidden - 1, 0))
            members.append(member)
            if not hidden:
                steps.pop()
        return members, position

    def _map(
        self, data: bytes, position: int, size: int, hidden: int
    ) -> tuple[dict[Any, Any], int]:
        del hidden
        members: dict[Any, Any] = {}
        steps = self.trail.steps
        for _ in range(size):
            key, position = self._value(data, position, 0)
            key = tuple(key) if type(key) is list else key
            steps.append(key)
            members[key], position = self._value(data, position, 0)
            steps.pop()
        return members, position

    def _extension(self, code: int, data: bytes) -> Any:
        signed = code - 256 if code > 127 else code
        reader = self.registry.readers[signed]
        if self.depth >= depth.MAX_OBJECTS:
            raise TooDeep
        hidden = 2 if code in _NAMED else 0
        inner = ExplainingLevel(self, self.depth + 1, self.trail, hidden)
        inner.nested += 1
        return reader(data, inner)


_NAMED = frozenset({ext.RECORD, ext.ERROR})

_NUMBERS: dict[int, Callable[[bytes], Any]] = {
    0xCA: lambda body: struct.unpack(">f", body)[0],
    0xCB: lambda body: struct.unpack(">d", body)[0],
    **dict.fromkeys(range(0xCC, 0xD0), lambda body: int.from_bytes(body, "big")),
    **dict.fromkeys(range(0xD0, 0xD4), lambda body: int.from_bytes(body, "big", signed=True)),
    **dict.fromkeys(range(0xC4, 0xC7), bytes),
    0xC0: lambda _: None,
    0xC2: lambda _: False,
    0xC3: lambda _: True,
}


def _scalar(first: int, body: bytes) -> Any:
    if first < 0x80:
        return first
    if first >= 0xE0:
        return first - 256
    if first == 0xC1:
        raise ValueError("0xc1 begins no value")
    read = _NUMBERS.get(first)
    return body.decode() if read is None else read(body)
