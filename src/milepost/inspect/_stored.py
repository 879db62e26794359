"""Reads stored values as data: classes of programs are neither imported nor needed.

A serializer with this registry reads the standard library's types and milepost's own records as
themselves. Everything else (dataclasses, models, LangChain's messages, arrays) becomes a
`StoredObject`: the name that it was stored under, and what was stored.
"""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._types import exceptions, families, listed, records, standard
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.inspect._errors import CannotOpenError

if TYPE_CHECKING:
    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.checkpoint.serde._types.fields import Decode
    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.checkpoint.serde.registry import Reader

_FOREIGN: Final = {
    ext.NDARRAY: "numpy:ndarray",
    ext.NDSCALAR: "numpy:scalar",
    ext.DTYPE: "numpy:dtype",
    ext.ARROW: "pyarrow:table",
    ext.PANDAS_TIME: "pandas:time",
}
"""Codes whose readers would import a package."""


@dataclass(eq=True, slots=True)
class StoredObject:
    """An instance of a class that is not looked up.

    Examples:
        >>> inspect.StoredObject("shop:Order", {"price": 120}).payload["price"]
        120
    """

    name: str
    """`module:Class`, as it was stored."""
    payload: Any
    """The stored content of the object: mostly a dict of its fields."""

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def fields(self) -> dict[str, Any] | None:
        payload = self.payload
        if isinstance(payload, list) and len(payload) == 4 and isinstance(payload[0], dict):
            # An unusual pydantic model: fields, names of those that were given, extra, private.
            is_extra = payload[2] is None or isinstance(payload[2], dict)
            return {**payload[0], **(payload[2] or {})} if is_extra else None
        if isinstance(payload, dict) and all(isinstance(key, str) for key in payload):
            return payload
        return None


class _DataReaders(families.Readers):
    """Readers by code. What needs a package is read as data."""

    def __missing__(self, code: int) -> Reader:
        if code in _FOREIGN:
            return lambda data, level: StoredObject(_FOREIGN[code], level.unpack(data))
        try:
            return super().__missing__(code)
        except ValueError:
            return lambda data, _level: StoredObject(f"extension:{code}", bytes(data))


class DataRegistry(TypeRegistry):
    """Knows milepost's own records, and takes everything else for data."""

    def __init__(self) -> None:
        super().__init__()
        self.readers = _DataReaders({**standard.READERS, **records.READERS})
        self._own = {record.name for record in listed.own_records()}

    def decoder(self, tag: str) -> Decode:
        """The decoder of a record of ours, or one that keeps what is stored."""
        name, version, _ = records.split_tag(tag)
        if name in self._own and version == 1:
            return super().decoder(tag)
        return lambda payload: StoredObject(name, payload)

    def error_decoder(self, tag: str) -> Decode | None:
        """The decoder of a built-in exception or one of ours; others are shown by name."""
        name = records.split_tag(tag)[0]
        if exceptions.fixed_class(name) is None:
            return None
        families.allow_error(name, self)
        return super().decoder(tag)


def data_serde(serde: Any) -> Any:
    """A serializer that reads what `serde` wrote as data; `serde` itself if it is no one of ours.

    One of the user's own knows best how to read what it wrote.
    """
    if isinstance(serde, EncryptedSerializer):
        inner = data_serde(serde.serde)
        if inner is serde.serde:
            return serde
        twin = copy(serde)
        twin.serde = inner
        return twin
    if type(serde) is JsonPlusSerializer:
        return JsonPlusSerializer(registry=DataRegistry(), pickle_fallback=False)
    return serde


def data_saver(saver: BaseCheckpointSaver[Any]) -> BaseCheckpointSaver[Any]:
    """A saver on the same storage that reads values as data."""
    serde = data_serde(saver.serde)
    return saver if serde is saver.serde else saver.with_serde(serde)


def serde_for(serde: SerializerProtocol | None) -> SerializerProtocol | None:
    """The serializer to read with: the given one, or one with the key in MILEPOST_AES_KEY.

    With a key, what is stored in clear is read too: the key may be meant for another database.
    """
    if serde is not None or not os.environ.get("MILEPOST_AES_KEY"):
        return serde
    try:
        return EncryptedSerializer.from_pycryptodome_aes(allow_plaintext=True)
    except ValueError as error:
        raise CannotOpenError(str(error)) from error
