"""Values in their stored form: encoded, cut into parts, sealed for their place.

What is not sealed by a cipher gets a checksum, which covers its place as well: of a cell that was
damaged, or exchanged for another, no value is made. The thread is left out, so that a thread can
be copied row by row in the database.

Seal and checksum also cover the columns beside the cell that say what its bytes mean. `frame` is
the manifest of a checkpoint, and `led` its inline writes:

    frame      parent, complete
    metadata   type
    blob       base channel, base, level, type
    write      channel, path of the task, base, type
    led        parent
"""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from zlib import crc32

from milepost._internal import native
from milepost.checkpoint._delta.diff import Buffer, Parts
from milepost.checkpoint.serde._msgpack.codec import packb
from milepost.checkpoint.serde._msgpack.engine import (
    elements_kind,
    encode_elements,
    offers_elements,
    reads_elements,
)
from milepost.checkpoint.serde._msgpack.skim import elements_head
from milepost.checkpoint.serde._rotation import is_sealed, rotates
from milepost.checkpoint.serde.base import SerializerProtocol, dumps_at, is_two_step, loads_at
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import DamagedRowError, DecryptionError, SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from milepost.checkpoint._delta.copies import Copies

_SUM = 4
"""Bytes of a checksum."""
_LARGE = 65_536
"""Bytes from which on a memoryview is cheaper than a copy."""


Columns: TypeAlias = tuple[str | int | None, ...]
"""The columns beside a sealed cell, in the order given above."""
Typed: TypeAlias = tuple[str, bytes]
"""How a value is encoded, and its bytes in one piece."""


class Encoded(NamedTuple):
    """A value as bytes, before it is sealed."""

    kind: str
    parts: Parts
    size: int


Value: TypeAlias = Typed | Encoded
"""A scalar in one piece; what has parts, in parts."""


def in_parts(value: Value) -> Encoded:
    """An encoded value, in parts if it has any."""
    if isinstance(value, Encoded):
        return value
    kind, data = value
    return Encoded(kind, Parts(b"", [data]), len(data))


def size_of(value: Value) -> int:
    """How many bytes an encoded value takes."""
    return value.size if isinstance(value, Encoded) else len(value[1])


class Codec:
    """A serializer, and what it can do for a saver."""

    def __init__(self, serde: SerializerProtocol, copies: Copies | None = None) -> None:
        self.serde: Any = serde
        self.splices = is_two_step(serde)
        """Whether differences can be taken: a foreign serializer gets full rows."""
        self._elements = self.splices and offers_elements(serde)
        self._null: Typed | None = self.whole(None) if self._elements else None
        seal = getattr(serde, "seal", None)
        self.seals = self.splices and getattr(seal, "__func__", seal) is not JsonPlusSerializer.seal
        """Whether the serializer seals what it has encoded, mostly with a cipher."""
        self._pieces = getattr(serde, "decode_pieces", None) if self.splices else None
        self.reads_elements = self._pieces is not None
        """Whether the elements of a list can be decoded by themselves."""
        self._reads_plain: Callable[[bytes], bool] = getattr(serde, "reads_plain", lambda _: False)
        copying = self._elements and native.copies is not None and reads_elements(serde)
        self._copies = copies if copying else None

    def shares(self, value: Any) -> bool:
        """Whether `encode` makes use of the version before a value."""
        return self._elements and native.elements is not None and type(value) in (list, dict)

    def encode(self, value: Any, *place: str, after: Encoded | None = None) -> Encoded:
        """The bytes of a value; of a foreign serializer, those that are to be stored.

        `after` is the version before it, if that is at hand: what has not changed is shared.
        """
        if self._elements and type(value) in (list, dict):
            if native.elements is not None:
                base = copied = None
                level = self.serde.level
                registry = level.registry
                if after is not None:
                    base = after.parts.elements
                    if self._copies is not None and type(value) is list:
                        copied = self._copies.take(base, registry)
                copy = None if copied is None else copied.elements
                found = native.elements(value, level.tuples, base, registry.models, copy)
                if found is not None:
                    head, elements, size = found
                    if copy and copied is not None and self._copies is not None:
                        self._copies.keep(elements, size, copied)
                    return Encoded("msgpack", Parts(head, elements), size)
            shape = elements_kind(value)
            if shape is not None:
                try:
                    elements = encode_elements(value, self.serde.level)
                except SerializationError:
                    pass  # perhaps as a whole: with pickle, if the user allows it
                else:
                    parts = Parts(elements_head(shape, len(elements)), elements)
                    return Encoded("msgpack", parts, parts.size)
        return in_parts(self.whole(value, *place))

    def scalar(self, value: Any) -> Typed | None:
        """The bytes of a number or a text, or of None; None if it is anything else."""
        if not self._elements:
            return None
        if value is None:
            return self._null
        if type(value) in _SCALARS:
            try:  # a serializer's care for everything else would double the cost
                return "msgpack", packb(value)
            except Exception:
                return None  # which it explains better
        return None

    def whole(self, value: Any, *place: str) -> Typed:
        """`encode`, for a value that no later one is compared with."""
        kind: str
        data: bytes
        if self.splices:
            kind, data = self.serde.encode(value)
        else:
            kind, data = dumps_at(self.serde, value, "\0".join(place))
        return kind, data

    def decode(self, kind: str, pieces: Sequence[Buffer], *place: str) -> Any:
        """The value whose bytes, or pieces of them, `encode` has made."""
        if self._pieces is not None and (len(pieces) != 1 or len(pieces[0]) > _LARGE):
            return self._pieces(kind, pieces)
        data = bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
        if self.splices:
            return self.serde.decode(kind, data)
        return loads_at(self.serde, (kind, data), "\0".join(place))

    def decode_again(self, encoded: Encoded, place: tuple[str, ...]) -> Any:
        """The value that `encode` was given, which is read again now."""
        parts = encoded.parts
        return self.read_again(
            parts.elements,
            encoded.size,
            lambda: self.decode(encoded.kind, parts.pieces(), *place),
        )

    def read_again(self, owner: object, size: int, read: Callable[[], Any]) -> Any:
        """What `read` decodes of the `size` bytes of an owner, which are read again now."""
        if self._copies is None:
            return read()
        return self._copies.read(owner, size, self.serde.level, read)

    def decode_elements(self, count: int, pieces: Sequence[Buffer]) -> list[Any]:
        """Some elements of a list, from the bytes of these elements."""
        assert self._pieces is not None
        elements: list[Any] = self._pieces("msgpack", (elements_head("list", count), *pieces))
        return elements

    @property
    def rotates(self) -> bool:
        """Whether the serializer can tell if a value is sealed with its newest key."""
        return self.seals and rotates(self.serde)

    def is_current(self, data: bytes) -> bool:
        """Whether what is stored, or the beginning of it, is sealed with the newest key."""
        current: bool = self.serde.is_current(data)
        return current

    def reseal(self, data: bytes, place: tuple[str, ...], columns: Columns) -> bytes:
        """What is stored at `place`, sealed with the newest key."""
        return self.seal(bytes(self.unseal(data, place, columns)), place, columns)

    def seal(self, data: bytes, place: tuple[str, ...], columns: Columns) -> bytes:
        """What to store for encoded bytes or a difference."""
        if self.seals:
            sealed: bytes = self.serde.seal(data, _bound(place, columns))
            return sealed
        # The sum of its bytes, and of all that it is bound to but the thread.
        names = [place[0], *place[2:]]
        for column in columns:
            names.append("" if column is None else f"={column}")
        start = crc32("\0".join(names).encode("utf-8", "surrogatepass"))
        return data + crc32(data, start).to_bytes(_SUM, "big")

    def unseal(self, data: bytes, place: tuple[str, ...], columns: Columns) -> Buffer:
        """What was sealed for `place`; DamagedRowError if it is not that any more, and
        DecryptionError if there is no key for it."""
        try:
            if self.seals and not self._reads_plain(data):
                opened: bytes = self.serde.unseal(data, _bound(place, columns))
                return opened
            body = data[:-_SUM] if len(data) < _LARGE else memoryview(data)[:-_SUM]
            names = [place[0], *place[2:]]
            for column in columns:
                names.append("" if column is None else f"={column}")
            found = crc32(body, crc32("\0".join(names).encode("utf-8", "surrogatepass")))
            if found == int.from_bytes(data[-_SUM:], "big") and len(data) >= _SUM:
                return body
        except (AttributeError, TypeError) as error:
            if _has_its_types(data, place, columns):
                raise
            raise DamagedRowError(
                f"{_row(place)} is damaged: a cell has another type than was written. {RESTORE}"
            ) from error
        if is_sealed(data):
            raise DecryptionError(
                f"{_row(place)} is encrypted, and this saver has no key: pass "
                "serde=EncryptedSerializer(...) with the one that it was written with; the "
                "command line takes it from MILEPOST_AES_KEY."
            )
        raise DamagedRowError(f"{_row(place)} is damaged: it is not what was written. {RESTORE}")


RESTORE: Final = (
    "Restore the row from a backup, or go on from another checkpoint; `verify()` names all that is "
    "damaged."
)


def _has_its_types(data: object, place: Iterable[object], columns: Iterable[object]) -> bool:
    """Whether cells have the types that they were written with. SQLite takes any value anywhere,
    so that an edit of a row by hand may leave a text where bytes belong."""
    return (
        isinstance(data, (bytes, memoryview))
        and all(type(name) is str for name in place)
        and all(isinstance(column, (str, int, NoneType)) for column in columns)
    )


def _row(place: tuple[str, ...]) -> str:
    what, thread_id, ns, *key = place
    where = f"thread '{thread_id}'" + (f", graph '{ns}'" if ns else "")
    return f"The {_NAMES[what]} '{' '.join(map(str, key))}' in {where}"


_SCALARS = frozenset((int, str, bool, float))

_NAMES = {
    "frame": "manifest of checkpoint",
    "metadata": "metadata of checkpoint",
    "blob": "stored value",
    "write": "stored write",
    "led": "cell with inline writes of checkpoint",
}


def _bound(place: tuple[str, ...], columns: Columns) -> str:
    """What a cell is bound to, as one text; no name contains NUL."""
    names = [*place]
    for column in columns:
        names.append("" if column is None else f"={column}")
    return "\0".join(names)
