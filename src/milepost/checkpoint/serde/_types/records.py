"""A registered type: its name, its version, and how its instances become values and back.

Instances are rebuilt without calling `__init__`, `__post_init__` or validators: what was saved
had passed them, and running them twice could change it.
"""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ormsgpack
from ormsgpack import Ext

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._msgpack.shapes import ANY, FIELDS, TEXT, check
from milepost.checkpoint.serde._types import exceptions, fields, models
from milepost.checkpoint.serde._types.fields import Codec, Decode, Encode
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from milepost.checkpoint.serde._msgpack.codec import Level

Migration = Callable[[Any], Any]


class RecordType:
    """One registered class."""

    __slots__ = (
        "brief", "cls", "decode", "fielded", "migrations", "name", "tag", "version", "write"
    )  # fmt: skip

    def __init__(
        self,
        cls: type,
        name: str,
        version: int,
        encode: Encode,
        decode: Decode,
        *,
        fielded: bool,
        brief: models.ModelCodec | None = None,
    ) -> None:
        self.cls = cls
        self.name = name
        self.version = version
        self.tag = name if version == 1 else f"{name}@{version}"
        self.decode = decode
        self.fielded = fielded
        """Whether the payload is a dict of fields, or a list that begins with one."""
        self.migrations: dict[int, Migration] = {}
        """From a version to the next."""
        self.brief = brief
        """Writes and reads usual instances in a shorter form."""
        self.write = _writer(self, encode)

    def decoder(self, version: int, given: str | None = None) -> Decode:
        """Decodes what was stored at `version`, through every migration since.

        With `given`, for what was stored in the brief form.
        """
        if version > self.version:
            raise DeserializationError(
                f"{self.name} was stored at version {version}, and this program knows only"
                f" version {self.version}; read it with the newer program."
            )
        chain = []
        for step in range(version, self.version):
            if step not in self.migrations:
                raise DeserializationError(
                    f"{self.name} was stored at version {version} and is now at {self.version},"
                    f" with no migration from {step} to {step + 1};"
                    f" add one with register_migration({self.cls.__name__}, {step}, function)."
                )
            chain.append(self.migrations[step])
        decode = self.decode
        if given is not None:
            if self.brief is None:
                raise DeserializationError(f"{self.name} is stored in a form that it does not have")
            decode = self.brief.decoder(given)
        return self._migrating(chain, decode) if chain else decode

    def _migrating(self, chain: list[Migration], current: Decode) -> Decode:
        def decode(payload: Any) -> Any:
            beside: list[Any] = []
            if self.fielded and type(payload) is list:
                payload, *beside = payload
            if self.fielded:
                check([payload], FIELDS)
            for migrate in chain:
                payload = migrate(payload)
            if self.fielded:
                payload = fields.Migrated(payload)
            return current([payload, *beside] if beside else payload)

        return decode


def _writer(record: RecordType, encode: Encode) -> Callable[[Any, Level], Ext]:
    if issubclass(record.cls, BaseException):
        code, prefix = ext.ERROR, b"\x93" + ormsgpack.packb(record.tag) + b"\xc2"
    else:
        code, prefix = ext.RECORD, b"\x92" + ormsgpack.packb(record.tag)

    def write(obj: Any, level: Level) -> Ext:
        return Ext(code, prefix + level.pack(encode(obj)))

    def write_fields(obj: Any, level: Level) -> Ext:
        return Ext(code, prefix + level.pack_fields(encode(obj)))

    if record.brief is None:
        return write_fields if record.fielded else write
    parts, spared = record.brief.parts, record.brief.spared
    prefixes: dict[str, bytes] = {}
    begins = record.brief.form[2]

    def write_brief(obj: Any, level: Level) -> Ext:
        found = parts(obj)
        if found is None:
            return Ext(code, prefix + level.pack_fields(spared(encode(obj), level)))
        given, stored = found
        begin = prefixes.get(given)
        if begin is None:
            begin = b"\x92" + ormsgpack.packb(f"{record.tag}!{given}")
            if len(prefixes) < _REMEMBERED:
                prefixes[given] = begin
                begins.append((set(obj.__pydantic_fields_set__), begin))
        return Ext(code, begin + level.pack_fields(stored))

    return write_brief


_REMEMBERED = 100


def split_tag(tag: str) -> tuple[str, int, str | None]:
    """The name, the version and the given fields in a tag.

    A tag comes before a stored instance: `name`, `name@version`, either with `!given`.
    """
    named, brief, given = tag.partition("!")
    name, _, version = named.partition("@")
    return name, int(version) if version else 1, given if brief else None


def read_record(data: bytes, level: Level) -> Any:
    """Rebuild an instance of a registered type."""
    tag, payload = check(level.unpack(data), TEXT, ANY)
    registry = level.registry
    decode = registry.by_tag.get(tag) or registry.decoder(tag)
    return decode(payload)


def fields_of(payload: Any) -> Any:
    """What is stored of an instance, without its type: fields as a dict, as far as it has some."""
    if type(payload) is list and len(payload) in (3, 4, 6) and type(payload[0]) is dict:
        # Beside the fields of a model: which were given, what was added, and what is private.
        # Beside those of a dataclass, and last for a model: other attributes, and which fields
        # have no value.
        others = payload[1 if len(payload) == 3 else 2]
        if others is None or type(others) is dict:
            return {**payload[0], **(others or {})}
    return payload


READERS: dict[int, Callable[[bytes, Level], Any]] = {
    ext.RECORD: read_record,
    ext.ERROR: exceptions.read_error,
}


def name_of(cls: type) -> str:
    """The name a type is stored under unless it is given a stable one."""
    generic = models.generic_parts(cls)
    if generic is not None:
        origin, arguments = generic
        return f"{name_of(origin)}[{','.join(map(_argument_name, arguments))}]"
    return f"{cls.__module__}:{cls.__qualname__}"


def _argument_name(argument: Any) -> str:
    origin, arguments = typing.get_origin(argument), typing.get_args(argument)
    if isinstance(origin, type) and arguments:
        return f"{_argument_name(origin)}[{','.join(map(_argument_name, arguments))}]"
    if isinstance(argument, type):
        return argument.__name__ if argument.__module__ == "builtins" else name_of(argument)
    return str(argument)


def is_dataclass_or_attrs(cls: type) -> bool:
    """Whether the fields of a class are declared, by dataclasses or by attrs."""
    return dataclasses.is_dataclass(cls) or fields.is_attrs(cls)


def is_data_type(cls: type) -> bool:
    """Whether a class can be saved without encode and decode functions."""
    return (
        is_dataclass_or_attrs(cls)
        or issubclass(cls, (enum.Enum, BaseException))
        or fields.is_named_tuple(cls)
        or models.is_model(cls)
        or models.is_model_v1(cls)
    )


def make(
    cls: type,
    *,
    name: str | None = None,
    version: int = 1,
    encode: Encode | None = None,
    decode: Decode | None = None,
) -> RecordType:
    """The record of a class; TypeError if it needs encode and decode functions."""
    if (encode is None) != (decode is None):
        raise TypeError("Give both encode and decode, or neither.")
    if version < 1:
        raise ValueError("Versions count from 1.")
    name = name or name_of(cls)
    if "@" in name or "!" in name:
        raise ValueError(f"A stored name must not contain '@' or '!': {name!r}")
    if encode is not None and decode is not None:
        return RecordType(cls, name, version, encode, _checked(cls, decode), fielded=False)
    if models.is_model(cls):
        codec = models.ModelCodec(cls)
        return RecordType(cls, name, version, codec.encode, codec.decode, fielded=True, brief=codec)
    fielded = not issubclass(cls, (enum.Enum, BaseException))
    return RecordType(cls, name, version, *_codec_of(cls), fielded=fielded)


def _checked(cls: type, decode: Decode) -> Decode:
    """A decode function of the user's, with a check of what it returns."""

    def checked(payload: Any) -> Any:
        obj = decode(payload)
        if not isinstance(obj, cls):
            raise DeserializationError(
                f"the decode function of {cls.__qualname__} returned a {type(obj).__qualname__}"
            )
        return obj

    return checked


def _codec_of(cls: type) -> Codec:
    if models.is_model_v1(cls):
        return models.of_model_v1(cls)
    if issubclass(cls, enum.Enum):
        return fields.of_enum(cls)
    if issubclass(cls, BaseException):
        return exceptions.of_exception(cls)
    if is_dataclass_or_attrs(cls) and fields.is_plain_object(cls):
        return fields.of_attrs(cls) if fields.is_attrs(cls) else fields.of_dataclass(cls)
    if fields.is_named_tuple(cls):
        return fields.of_named_tuple(cls)
    raise TypeError(
        f"{cls.__qualname__} is not a dataclass, attrs class, enum, named tuple, pydantic model or"
        " exception:"
        " use register_type(cls, encode=..., decode=...), where encode returns a value that can"
        " be saved and decode makes the object from it."
    )
