"""JSON in and out, and values as an Agent Server sends them."""

from __future__ import annotations

import base64
import enum
import json
import math
from collections import deque
from collections.abc import Mapping, Set
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from milepost.inspect import StoredObject
from milepost.inspect._data import ROLES
from milepost.inspect.parts import fields_of
from milepost.server._errors import HttpError, refused
from milepost.types import Interrupt as OurInterrupt

T = TypeVar("T", bound=msgspec.Struct)


def decode(data: bytes) -> Any:
    """What a client sent; raises for what is no JSON, or nested too deeply to be read."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise refused("The body is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        status = 422 if isinstance(error, msgspec.ValidationError) else 400
        raise HttpError(status, f"The body is no JSON: {error}.") from None


def encode(value: object) -> bytes:
    """A value as JSON, on one line."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # Half of a surrogate pair is text in Python, and in no encoding of it.
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
        return text.encode(errors="replace")


def convert(given: dict[str, Any], kind: type[T], what: str, *, strict: bool = True) -> T:
    """The record that a client sent.

    A field that the record lacks is ignored if it says nothing: clients send the defaults of
    fields that a newer server knows.
    """
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    for name, value in given.items():
        if name not in known and not _says_nothing(value):
            raise refused(f"Unknown {what} '{name}'. Known are: {', '.join(sorted(known))}.")
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise refused(f"{error}.") from None


def _says_nothing(value: object) -> bool:
    return value is None or value is False or value in ("", [], {})


# -- values: plain JSON that a client can send back
#
# A message is the dictionary of its fields with a flat `type`; so is every other record. What the
# page is shown (`milepost.inspect.as_data`) says more about types, and is not meant to be sent
# back.

_DEEPEST: Final = 200
"""Deeper than any state that was meant; the encoder of JSON has a limit as well."""


def wire(value: Any, depth: int = 0) -> Any:
    """A value as JSON; `depth` is how deep it is inside of another one."""
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, enum.Enum):
        return wire(value.value, depth + 1)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, StoredObject):
        return _stored(value, depth)
    if isinstance(value, OurInterrupt):
        return {"value": wire(value.value, depth + 1), "id": value.id}
    if isinstance(value, Mapping):
        return {str(key): wire(member, depth + 1) for key, member in value.items()}
    if isinstance(value, (list, tuple, deque)):
        if (names := getattr(value, "_fields", None)) is not None:
            return {name: wire(one, depth + 1) for name, one in zip(names, value, strict=True)}
        return [wire(member, depth + 1) for member in value]
    if isinstance(value, Set):
        return sorted((wire(member, depth + 1) for member in value), key=repr)
    return _other(value, depth)


def _other(value: Any, depth: int) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (Decimal, UUID, complex)):
        return str(value)
    if isinstance(value, BaseException):
        return repr(value)
    fields = fields_of(value)
    if fields is None:
        return repr(value)
    role = getattr(value, "type", None)
    if isinstance(role, str) and "content" in fields:
        fields = {**fields, "type": role}
    return {str(name): wire(member, depth + 1) for name, member in fields.items()}


def _stored(value: StoredObject, depth: int) -> Any:
    """An instance of a class that is not loaded here."""
    fields = value.fields
    if fields is None:
        return wire(value.payload, depth + 1)
    name = ROLES.get(value.name.rpartition(":")[2])
    role = {"type": name} if name is not None and "content" in fields else {}
    return {**role, **{str(key): wire(one, depth + 1) for key, one in fields.items()}}
