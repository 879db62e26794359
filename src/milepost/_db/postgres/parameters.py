"""Encodes parameters of statements for PostgreSQL, by what is known of their Python types."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import psycopg
from psycopg.adapt import PyFormat

from milepost._db.operations import Raw

if TYPE_CHECKING:
    from collections.abc import Sequence

PrepareKey: TypeAlias = "tuple[str, tuple[int, ...]]"
"""A statement and the types of its parameters: what is prepared on the server."""
EncodedStatement: TypeAlias = "tuple[PrepareKey, list[bytes | None], list[int]]"
"""What is prepared, the parameters' values, and their formats."""

_BYTES, _INT8, _INT4 = 17, 20, 23
_UNKNOWN: Final = 0
"""The type of text and NULL: the server takes the one that the statement has in their place."""


def encoded(
    connection: Any, encoding: str, statement: tuple[str, Sequence[Any]]
) -> EncodedStatement:
    """A statement and its parameters in the form in which they are sent."""
    sql, parameters = statement
    texts, numbers, others, formats, types = _shape(tuple(map(type, parameters)))
    values: list[Any] = [*parameters]
    try:
        for at in texts:
            text = values[at]
            if "\0" in text:  # libpq would take what is before it for the whole
                raise psycopg.DataError("text cannot contain a NUL character")
            values[at] = text.encode(encoding)
    except UnicodeEncodeError as error:
        raise psycopg.DataError(
            f"text cannot be sent over a connection whose client_encoding is {encoding}: {error}"
        ) from error
    if numbers:
        types = [*types]
        for at in numbers:
            number = values[at]
            if -(2**63) <= number < 2**63:
                values[at] = b"%d" % number
                if not -(2**31) <= number < 2**31:
                    types[at] = _INT8
            else:
                others = [*others, at]
    if others:
        formats, types = [*formats], [*types]
        for at in others:
            values[at], formats[at], types[at] = _dumped(connection, values[at])
    return (sql, tuple(types)), values, formats


def array(values: Sequence[Any]) -> str:
    """Numbers, texts and NULLs as one parameter. The statement says of which type they are."""
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


class _Shape(NamedTuple):
    """What is known of parameters from their Python types."""

    texts: list[int]
    """The places of text."""
    numbers: list[int]
    """The places of integers."""
    others: list[int]
    """The places of what psycopg has to look at."""
    formats: list[int]
    types: list[int]


@lru_cache(1024)
def _shape(kinds: tuple[type, ...]) -> _Shape:
    return _Shape(
        [at for at, kind in enumerate(kinds) if kind is str],
        [at for at, kind in enumerate(kinds) if kind is int],
        [at for at, kind in enumerate(kinds) if kind not in (str, int, bytes, Raw, type(None))],
        [1 if kind in (bytes, Raw) else 0 for kind in kinds],
        [_BYTES if kind is bytes else _INT4 if kind is int else _UNKNOWN for kind in kinds],
    )


def _dumped(connection: Any, value: Any) -> tuple[bytes | None, int, int]:
    """A parameter as it is sent, its format and its type."""
    kind = type(value)
    dumper = connection.adapters.get_dumper(kind, PyFormat.AUTO)(kind, connection)
    if dumper.get_key(value, PyFormat.AUTO) is not kind:  # as a list, by its elements
        dumper = dumper.upgrade(value, PyFormat.AUTO)
    dumped = dumper.dump(value)
    return None if dumped is None else bytes(dumped), dumper.format, dumper.oid
