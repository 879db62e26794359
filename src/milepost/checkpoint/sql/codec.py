"""Values in their stored form: encoded, cut into parts, sealed for their place."""

from __future__ import annotations

from typing import Any, NamedTuple

from milepost.checkpoint.serde.base import SerializerProtocol, dumps_at, is_two_step, loads_at
from milepost.checkpoint.serde.elements import elements_kind, encode_elements, offers_elements
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.standard import array_head, map_head
from milepost.errors import SerializationError
from milepost.sql.splice import Parts


class Encoded(NamedTuple):
    """A value as bytes, before it is sealed."""

    kind: str
    parts: Parts
    size: int


class Codec:
    """A serializer, with the questions answered that a saver has about it."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde: Any = serde
        self.splices = is_two_step(serde)
        """Whether differences can be taken: a foreign serializer gets full rows."""
        self._elements = self.splices and offers_elements(serde)
        self.seals = self.splices and (
            getattr(type(serde), "seal", None) is not JsonPlusSerializer.seal
        )
        """Whether what is stored is not what was encoded."""

    def encode(self, value: Any, *place: str) -> Encoded:
        """The bytes of a value; of a foreign serializer, those that are to be stored."""
        if self._elements and type(value) in (list, dict):
            shape = elements_kind(value)
            if shape is not None:
                try:
                    elements = encode_elements(value, self.serde)
                except SerializationError:
                    pass  # perhaps as a whole: with pickle, if the user allows it
                else:
                    head = (array_head if shape == "list" else map_head)(len(elements))
                    parts = Parts(head, elements)
                    return Encoded("msgpack", parts, parts.size)
        if self.splices:
            kind, data = self.serde.encode(value)
        else:
            kind, data = dumps_at(self.serde, value, "\0".join(place))
        return Encoded(kind, Parts(b"", [data]), len(data))

    def decode(self, kind: str, data: bytes, *place: str) -> Any:
        """The value that `encode` was given."""
        if self.splices:
            return self.serde.decode(kind, data)
        return loads_at(self.serde, (kind, data), "\0".join(place))

    def seal(self, data: bytes, *place: str) -> bytes:
        """What to store for encoded bytes or a difference."""
        if not self.seals:
            return data
        sealed: bytes = self.serde.seal(data, "\0".join(place))
        return sealed

    def unseal(self, data: bytes, *place: str) -> bytes:
        """What was sealed for `place`."""
        if not self.seals:
            return data
        opened: bytes = self.serde.unseal(data, "\0".join(place))
        return opened
