"""Why stored bytes do not decode, and where: a slow reader that knows its path.

ormsgpack says only that something failed. This reads the same bytes again in Python, up to the
place that fails, and is bounded as the fast path is: by the size of the data and by its depth.
"""

from __future__ import annotations

from typing import Any

from milepost.checkpoint.serde._msgpack import depth, ext
from milepost.checkpoint.serde._msgpack.codec import Level, unpackb
from milepost.checkpoint.serde._msgpack.failures import NotExact, Path, TooDeep, path_text
from milepost.checkpoint.serde._msgpack.skim import ARRAY, EXT, MAP, head
from milepost.errors import DeserializationError

_DEEPEST = 1_000


def failure(level: Level, data: bytes) -> DeserializationError:
    """The error to raise for `data`, which did not decode."""
    reader = ExplainingLevel(level, level.depth, [], hidden=0)
    try:
        reader.unpack(data)
    except DeserializationError as error:
        error.path = error.path or path_text(reader.path)
        return error
    except (RecursionError, TooDeep, NotExact):
        return reader.failed("the stored value nests too deep")
    except MemoryError:
        return reader.failed("the stored value is too large")
    except Exception as error:
        made = reader.failed(f"the stored value does not decode: {_text_of(error)}")
        made.__cause__ = error
        return made
    return DeserializationError("the stored value is not in a form that this program writes")


def _text_of(error: Exception) -> str:
    text = str(error)
    if isinstance(error, KeyError):
        text = f"unknown name {text}"
    return text[:300] or type(error).__name__


class ExplainingLevel(Level):
    """A level that unpacks step by step."""

    __slots__ = ("hidden", "nested", "path")

    def __init__(self, level: Level, at: int, path: Path, hidden: int) -> None:
        super().__init__(level.registry, at, strict=level.strict)
        self.path = path
        self.hidden = hidden
        """How many lists, from the outside, are ours and not the user's."""
        self.nested: int = getattr(level, "nested", 0)

    def failed(self, reason: str) -> DeserializationError:
        """The error that says why, and where in the value."""
        return DeserializationError(reason, path=path_text(self.path))

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
        kind, size, body = head(data, position)
        if kind in (ARRAY, MAP):
            self.nested += 1
            if self.nested > _DEEPEST:
                raise TooDeep
            value: Any
            if kind == ARRAY:
                value, position = self._array(data, body, size, hidden)
            else:
                value, position = self._map(data, body, size)
            self.nested -= 1
            return value, position
        end = body + size + (kind == EXT)
        if end > len(data):
            raise ValueError("it ends too soon")
        if kind == EXT:
            return self._extension(data[body], data[body + 1 : end]), end
        return _scalar(data[position:end], body - position), end

    def _array(self, data: bytes, position: int, size: int, hidden: int) -> tuple[list[Any], int]:
        members = []
        for index in range(size):
            if not hidden:
                self.path.append(index)
            member, position = self._value(data, position, max(hidden - 1, 0))
            members.append(member)
            if not hidden:
                self.path.pop()
        return members, position

    def _map(self, data: bytes, position: int, size: int) -> tuple[dict[Any, Any], int]:
        members: dict[Any, Any] = {}
        for _ in range(size):
            key, position = self._value(data, position, 0)
            key = tuple(key) if type(key) is list else key
            self.path.append(key)
            members[key], position = self._value(data, position, 0)
            self.path.pop()
        return members, position

    def _extension(self, code: int, data: bytes) -> Any:
        signed = code - 256 if code > 127 else code
        reader = self.registry.readers[signed]
        if self.depth >= depth.MAX_OBJECTS:
            raise TooDeep
        hidden = 2 if code in _NAMED else 0
        inner = ExplainingLevel(self, self.depth + 1, self.path, hidden)
        inner.nested += 1
        return reader(data, inner)


_NAMED = frozenset({ext.RECORD, ext.ERROR})


def _scalar(data: bytes, body: int) -> Any:
    """What is neither a container nor an extension; its body begins at `body`."""
    first = data[0]
    if first == 0xC1:
        raise ValueError("0xc1 begins no value")
    if 0xA0 <= first < 0xC0 or 0xD9 <= first <= 0xDB:
        return data[body:].decode()  # for its error, which says where the text is not UTF-8
    return unpackb(data)
