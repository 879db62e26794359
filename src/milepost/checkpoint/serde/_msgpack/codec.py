"""The fast path: one call of ormsgpack for a whole value, with our types as extensions.

ormsgpack walks dicts, lists and scalars in native code and calls back for everything else. The
payload of an extension is packed by another call, one `Level` deeper. Levels are made once and
shared by all threads: they carry the depth, so that no call has to.

Two things ormsgpack does not report, and both would lose a type in silence: it writes bytearray
as bytes, and with non-string keys allowed it writes an enum key as its value. So keys other than
str are allowed only after a check of their types, and a payload in which a bytes header may occur
is searched for buffers. Whatever this path cannot write exactly, it leaves to `exact`, which
walks the value in Python, knows where it is, and has the last word.

Where the accelerator is there (`milepost._internal.native`), it comes first: it writes plain
values, without such doubts, and reads everything. Both write the same bytes.
"""

from __future__ import annotations

import os
from threading import local
from typing import TYPE_CHECKING, Any, Final

import ormsgpack

from milepost._internal import native
from milepost.checkpoint.serde._msgpack import depth
from milepost.checkpoint.serde._msgpack.failures import NotExact, Refused
from milepost.checkpoint.serde._msgpack.survey import holds_buffer, may_hold_bytes, only_native

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost._internal.native import Buffer
    from milepost.checkpoint.serde.registry import TypeRegistry, Writer

PASS_THROUGH: Final = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
OTHER_KEYS: Final = ormsgpack.OPT_NON_STR_KEYS

WRITTEN: Final = frozenset({type(None), bool, int, float, str, bytes, list, dict, tuple})
"""Types that need no writer."""
_OTHER_KEY: Final = ("Dict key must be str",)

_NUMBER: Final = os.urandom(8)
_MARK: Final = int.from_bytes(_NUMBER, "big", signed=True)
_AROUND: Final = (b"\x92", b"\xd3" + _NUMBER)
"""Read around stored bytes: a pair of the value and a mark that no writer could have stored.

`data.join(_AROUND)` puts them there in one call and one copy.
"""

packb = ormsgpack.packb
unpackb = ormsgpack.unpackb
native_pack = native.pack
native_unpack = native.unpack


def unpack_all(data: Buffer, hook: Callable[[int, bytes], Any] | None = None) -> Any:
    """The value in `data`, which ends with it; ValueError if it does not. In Python alone.

    ormsgpack ignores what follows a value. Read as the first of a pair whose second is known, one
    that is too short or too long does not go unnoticed.
    """
    value, mark = unpackb(bytes(data).join(_AROUND), ext_hook=hook, option=OTHER_KEYS)
    if mark != _MARK:
        raise ValueError("more bytes than those of one value")
    return value


class Level:
    """Packs and unpacks at one depth of nesting."""

    __slots__ = (
        "_deeper", "_hooks", "default", "depth", "guarded", "hook", "registry", "strict", "tuples"
    )  # fmt: skip

    exact = False
    """Whether it walks a value itself, and so sees all that is in it."""

    def __init__(self, registry: TypeRegistry, at: int = 0, *, strict: bool = False) -> None:
        self.registry = registry
        self.depth = at
        self.strict = strict
        """Whether subclasses of built-in types are refused that are not registered."""
        self.guarded = at == depth.GUARDED
        self.tuples = max(0, depth.GUARDED - 1 - at) if registry.plain_tuples else 0
        """How many levels further the accelerator may go by itself: not to the guarded one."""
        self._deeper: Level | None = None
        self._hooks: tuple[Callable[[int, bytes], Any], ...] = ()
        self.default = _writing(self)
        self.hook = _reading(self)

    @property
    def deeper(self) -> Level:
        level = self._deeper
        if level is None:
            if self.depth >= depth.MAX_OBJECTS:
                raise NotExact
            level = self._deeper = Level(self.registry, self.depth + 1, strict=self.strict)
        return level

    @property
    def hooks(self) -> tuple[Callable[[int, bytes], Any], ...]:
        """What reads extensions on this level, and on those of tuples and objects inside it."""
        if not self._hooks:
            self._hooks = (self.hook, *(self.deeper.hooks if self.tuples else ()))
        return self._hooks

    def find_writer(self, cls: type) -> Writer:
        """The writer of a class that the registry has none for yet; Refused if there is none."""
        if not self.strict and (found := self.registry.bases.get(cls)) is not None:
            return found
        try:
            return self.registry.find_writer(cls)
        except Refused:
            writer = None if self.strict else self.registry.base_writer(cls)
            if writer is None:
                raise
            return writer

    def why_refused(self, cls: type) -> str | None:
        """Why no value of this very type is written; None if values of it are."""
        if cls in WRITTEN or cls in self.registry.writers:
            return None
        try:
            Level.find_writer(self, cls)  # as it says it itself, without a place
        except Refused as refusal:
            return str(refusal)
        return None

    def pack(self, value: Any) -> bytes:
        """`value` as msgpack; any exception means that the exact path must try."""
        if native_pack is not None:
            plain = native_pack(value, self.tuples)
            if plain is not None:
                if self.guarded:
                    depth.check(plain)
                return plain
        try:
            data = packb(value, self.default, PASS_THROUGH)
        except TypeError as error:
            # Only this complaint, which is about this payload: a retry for what failed deeper
            # down would double the work at every level.
            if error.args != _OTHER_KEY or not only_native(value):
                raise
            data = packb(value, self.default, PASS_THROUGH | OTHER_KEYS)
        else:
            if may_hold_bytes(data) and holds_buffer(value):
                raise NotExact
        if self.guarded:
            depth.check(data)
        return data

    pack_fields = pack
    """For the payload of a type with fields. Only the exact path needs to know the difference."""

    def unpack(self, data: bytes) -> Any:
        """The value in `data`; any exception means that the exact path must explain."""
        if self.guarded:
            depth.check(data)
        if native_unpack is not None:
            return native_unpack(data, self.hooks, self.registry.by_tag)
        return unpack_all(data, self.hook)


def _writing(level: Level) -> Callable[[Any], object]:
    """What ormsgpack calls for an object that it must not write itself."""
    known = level.registry.writers.get
    find = level.find_writer
    deeper: Level | None = None

    def write(obj: Any) -> object:
        nonlocal deeper
        cls = type(obj)
        try:
            if deeper is None:
                deeper = level.deeper
            return (known(cls) or find(cls))(obj, deeper)
        except (KeyboardInterrupt, SystemExit) as interrupt:
            _interrupted.error = interrupt
            raise

    return write


def _reading(level: Level) -> Callable[[int, bytes], Any]:
    """What ormsgpack and the accelerator call for an extension."""
    readers = level.registry.readers

    def read(code: int, data: bytes) -> Any:
        try:
            return readers[code](data, level.deeper)
        except (KeyboardInterrupt, SystemExit) as interrupt:
            _interrupted.error = interrupt
            raise

    return read


_interrupted = local()


def take_interrupt() -> None:
    """Raise the interrupt that ormsgpack swallowed, if there was one.

    It reports whatever a callback raises as an error of its own; Ctrl-C must not become one.
    """
    error = getattr(_interrupted, "error", None)
    if error is not None:
        _interrupted.error = None
        raise error
