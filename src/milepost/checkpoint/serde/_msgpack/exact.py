"""The exact path: the same bytes as the fast path, written in Python, one value at a time.

It is taken for what ormsgpack would write wrongly or not at all: dict keys that msgpack has no
type for, bytearrays, text that is not UTF-8, and everything that must be refused. It knows where in
the value it is, so a refusal can say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import ormsgpack
from ormsgpack import Ext

from milepost._internal.texts import is_utf8
from milepost.checkpoint.serde._msgpack import depth, ext
from milepost.checkpoint.serde._msgpack.codec import OTHER_KEYS, PASS_THROUGH, Level
from milepost.checkpoint.serde._msgpack.failures import Path, Refused, TooDeep, path_text
from milepost.checkpoint.serde._msgpack.skim import elements_head
from milepost.checkpoint.serde._msgpack.survey import NATIVE_KEYS
from milepost.checkpoint.serde._types.standard import check_keys
from milepost.errors import SerializationError
from milepost.warnings import MilepostWarning

if TYPE_CHECKING:
    from milepost.checkpoint.serde.registry import Writer

_ATOMS = frozenset({type(None), bool, float, bytes})
_TOO_DEEP = (
    f"the value nests too deep to be read back safely (more than {depth.MAX_OBJECTS} objects"
    f" or {depth.MAX_LISTS} lists inside each other)"
)


def pack(level: Level, value: Any, path: Path | None = None) -> bytes:
    """`value` as msgpack; SerializationError with the path if it cannot be written exactly."""
    exact = ExactLevel(level, level.depth, [] if path is None else path, set())
    try:
        return exact.pack(value)
    except RecursionError:
        exact.refuse(_TOO_DEEP)


class ExactLevel(Level):
    """A level that packs with `lower` instead of ormsgpack's own walk."""

    __slots__ = ("_open", "path")

    exact = True

    def __init__(self, level: Level, at: int, path: Path, open: set[int]) -> None:
        super().__init__(level.registry, at, strict=level.strict)
        self.path = path
        self._open = open

    def pack(self, value: Any) -> bytes:
        data = ormsgpack.packb(self._lower(value, 0), option=PASS_THROUGH | OTHER_KEYS)
        if self.guarded:
            try:
                depth.check(data)
            except TooDeep:
                self.refuse(_TOO_DEEP)
        return data

    def pack_fields(self, payload: Any) -> bytes:
        if type(payload) is not list:
            return self.pack(payload)
        # The fields and what goes beside them: the user never saw this list, so no index.
        parts = [self.pack(part) for part in payload]
        return elements_head("list", len(parts)) + b"".join(parts)

    def _lower(self, value: Any, lists: int) -> Any:
        """`value` with everything that ormsgpack must not see replaced by extensions."""
        cls = type(value)
        if cls in _ATOMS:
            return value
        if cls is str:
            if is_utf8(value):
                return value
            # It has half of a surrogate pair, which UTF-8 has no bytes for.
            return Ext(ext.SURROGATES, value.encode("utf-8", "surrogatepass"))
        if cls is int and -(1 << 63) <= value < 1 << 64:
            return value
        if id(value) in self._open:
            self.refuse("the value contains itself")
        self._open.add(id(value))
        try:
            if cls is not list and cls is not dict:
                return self._object(value, cls, lists)
            if lists >= depth.MAX_LISTS:
                self.refuse(_TOO_DEEP)
            return self._list(value, lists + 1) if cls is list else self._dict(value, lists + 1)
        finally:
            self._open.discard(id(value))

    def _list(self, value: list[Any], lists: int) -> list[Any]:
        members = []
        for index, member in enumerate(value):
            self.path.append(index)
            members.append(self._lower(member, lists))
            self.path.pop()
        return members

    def _dict(self, value: dict[Any, Any], lists: int) -> Any:
        if not NATIVE_KEYS.issuperset(map(type, value)):
            value = self._plain_keys(value)
        if all(map(_is_native, value)):
            members = {}
            for key, member in value.items():
                self.path.append(key)
                members[self._lower(key, lists)] = self._lower(member, lists)
                self.path.pop()
            return members
        try:
            check_keys(value, self)
        except Refused as refusal:
            self.refuse(str(refusal))
        inner = self._inner()
        packed = []
        for key, member in value.items():
            self.path.append(key)
            packed += [inner.pack(key), inner.pack(member)]
            self.path.pop()
        return Ext(ext.PAIRS, elements_head("list", len(packed)) + b"".join(packed))

    def _plain_keys(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """The dict with the keys that are read back: of a built-in type instead of a subclass."""
        plain = {self._plain_key(key): member for key, member in value.items()}
        if len(plain) != len(value):
            self.refuse(
                "two keys of the dict are the same as plain values, so one would be lost; call"
                " register_type on their type"
            )
        return plain

    def _plain_key(self, key: Any) -> Any:
        cls = type(key)
        if cls in NATIVE_KEYS or cls in self.registry.writers:
            return key
        writer = self.find_writer(cls)
        if writer is not self.registry.bases.get(cls):
            return key
        written = writer(key, self)
        return key if type(written) is Ext else written

    def find_writer(self, cls: type) -> Writer:
        try:
            return super().find_writer(cls)
        except (Refused, MilepostWarning) as refusal:  # a warning, where it is made an error
            self.refuse(str(refusal))

    def _object(self, value: Any, cls: type, lists: int) -> Any:
        if cls is memoryview and self.strict:
            self.refuse("a memoryview would come back as bytes; save bytes(value) instead")
        try:
            writer = self.registry.writers.get(cls) or self.find_writer(cls)
            written = writer(value, self._inner())
            return written if type(written) is Ext else self._lower(written, lists)
        except Refused as refusal:
            self.refuse(str(refusal))
        except (SerializationError, RecursionError):
            raise
        except Exception as error:
            name = f"{cls.__module__}.{cls.__qualname__}"
            raise SerializationError(
                f"writing a {name} failed: {error!r}", path=path_text(self.path)
            ) from error

    def _inner(self) -> ExactLevel:
        if self.depth >= depth.MAX_OBJECTS:
            self.refuse(_TOO_DEEP)
        return ExactLevel(self, self.depth + 1, self.path, self._open)

    def refuse(self, reason: str) -> NoReturn:
        """Say what cannot be written, and where in the value it is."""
        raise SerializationError(reason, path=path_text(self.path)) from None


def _is_native(key: Any) -> bool:
    """Whether msgpack holds this dict key as it is."""
    cls = type(key)
    if cls is str:
        return is_utf8(key)
    return cls in NATIVE_KEYS and (cls is not int or -(1 << 63) <= key < 1 << 64)
