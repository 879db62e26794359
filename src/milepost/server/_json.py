"""JSON in and out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from milepost.server._errors import HttpError, refused

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
        return msgspec.json.encode(_without_surrogates(msgspec.to_builtins(value)))


def encode_each(values: Iterable[object], limit: int) -> list[bytes]:
    """Values as JSON, one by one; a refusal as soon as they take more bytes than the limit."""
    parts: list[bytes] = []
    size = 0
    for value in values:
        parts.append(encode(value))
        size += len(parts[-1])
        if size > limit:
            raise refused(
                f"The answer takes more than {limit:,} bytes. Ask for fewer with limit, or for "
                "some fields with select."
            )
    return parts


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


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(one) for one in value]
    return value
