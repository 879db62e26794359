"""Values as plain data: what JSON can hold, and nothing of a program's own classes.

{"$type": "shop.models.Order", …fields}    an instance of a class
{"$type": "set", "items": […]}             a container that JSON does not have
{"$bytes": 5, "head": "aGVsbG8="}          bytes: how many, and the first of them
{"$more": 48211, "path": […]}              left out because of its size: ask for this path
{"type": "human", "content": …}            a message
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from milepost.inspect._errors import StateNotFoundError
from milepost.inspect._records import Path
from milepost.inspect._stored import StoredObject
from milepost.types import Interrupt, Overwrite, Send

_HEAD: Final = 48
"""How many bytes of a bytes value are shown."""
_DEEPEST: Final = 60
_MOST_MEMBERS: Final = 200
"""A container that is too large is shown if it has at most so many members."""
_MAX_INT: Final = 1 << 53
"""Larger integers are not exact in JavaScript."""

ROLES: Final = {
    f"{kind}Message{part}": kind.lower()
    for kind in ("Human", "AI", "System", "Tool", "Function", "Chat", "Remove")
    for part in ("", "Chunk")
}
"""The roles of messages by the names of their classes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unreadable:
    """In place of a stored value that cannot be read."""

    reason: str


def as_data(value: Any, *, limit: int | None = None, path: Path = ()) -> Any:
    """A value as data that `json.dumps` takes.

    Args:
        value: The value.
        limit: A part of it whose data takes more than so many characters is replaced by its size
            and path.
        path: Where the value itself is.

    Examples:
        >>> inspect.as_data({"cities": ["Paris"], "sizes": {7}})
        {'cities': ['Paris'], 'sizes': {'$type': 'set', 'items': [7]}}
    """
    data = _data(value, 0)
    return data if limit is None else limited(data, limit, path)[0]


def part_of(value: Any, path: Path) -> Any:
    """The part of a value at a path.

    Args:
        value: The value.
        path: Keys and numbers.

    Raises:
        StateNotFoundError: There is nothing at the path; it says up to where there is something.

    Examples:
        >>> inspect.part_of({"cities": ["Paris", "Rome"]}, ("cities", 1))
        'Rome'
    """
    for depth, step in enumerate(path):
        value = _member(value, step, path[: depth + 1])
    return value


def _member(value: Any, step: str | int, path: Path) -> Any:
    children = members(value)
    if children is not None:
        if step in children:
            return children[step]
        position = _position(step)
        if position is not None and position in children:
            return children[position]
        if position is not None and position < 0 and len(children) + position in children:
            return children[len(children) + position]
        for key, child in children.items():  # keys that are numbers, dates and the like
            if str(key) == str(step):
                return child
    wrapped = _wrapped(value, step)
    if wrapped is not None:
        return wrapped
    where = ".".join(map(str, path))
    there = "" if children is None else _listed(children)
    raise StateNotFoundError(f"There is nothing at '{where}'{there}.")


def _position(step: str | int) -> int | None:
    if isinstance(step, int):
        return step
    return int(step) if step.removeprefix("-").isdecimal() and len(step) < 12 else None


def _wrapped(value: Any, step: str | int) -> list[Any] | None:
    """The members of what `as_data` shows with a key of its own around them."""
    if step == "items" and isinstance(value, (set, frozenset)):
        return sorted(value, key=lambda member: repr(as_data(member)))
    if step == "items" and isinstance(value, (tuple, deque)):
        return list(value)
    if step == "pairs" and isinstance(value, Mapping):
        return [list(pair) for pair in value.items()]
    return None


def _listed(children: Mapping[Any, Any]) -> str:
    if not children:
        return ": it is empty there"
    names = [str(key) for key in list(children)[:8]]
    return f"; there is {', '.join(names)}{', …' if len(children) > 8 else ''}"


def members(value: Any) -> dict[Any, Any] | None:
    """The parts of a value by key, field or position; None if it has none."""
    if isinstance(value, StoredObject):
        return {"value": value.payload} if value.fields is None else value.fields
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple, deque)):
        names = getattr(value, "_fields", None)
        return dict(zip(names or range(len(value)), value, strict=True))
    if isinstance(value, (str, bytes, enum.Enum, type)) or value is None:
        return None
    return fields_of(value)


def type_name(value: Any) -> str:
    """What a value is called: `module.Class`, or the bare name of a built-in type."""
    if isinstance(value, StoredObject):
        return value.name.replace(":", ".")
    cls = type(value)
    if cls.__module__ in ("builtins", "milepost.types"):
        return cls.__qualname__.lstrip("_")
    return f"{cls.__module__}.{cls.__qualname__}"


def _data(value: Any, depth: int) -> Any:
    if value is None or value is True or value is False:
        return value
    cls = type(value)
    if cls is str:
        return value if value.isascii() else _text(value)
    if cls is int:
        return value if -_MAX_INT <= value <= _MAX_INT else {"$type": "int", "value": str(value)}
    if cls is float:
        return value if math.isfinite(value) else {"$type": "float", "value": str(value)}
    if depth > _DEEPEST:
        return {"$type": type_name(value), "$deep": True}
    if cls is list:
        return [_data(member, depth + 1) for member in value]
    if cls is dict:
        return _mapping(value, depth)
    if cls in (bytes, bytearray, memoryview):
        whole = bytes(value)
        return {"$bytes": len(whole), "head": base64.b64encode(whole[:_HEAD]).decode()}
    if isinstance(value, StoredObject):
        return _object(value, depth)
    return _other(value, depth)


def _text(value: str) -> str:
    # Half of a surrogate pair is no text for JSON's readers.
    return value.encode("utf-8", "backslashreplace").decode()


def _mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    plain = all(type(key) is str for key in value)
    if plain and not any(key.startswith("$") for key in value):
        return _named(value, depth)
    pairs = [[_data(key, depth + 1), _data(member, depth + 1)] for key, member in value.items()]
    return {"$type": "dict", "pairs": pairs}


def _object(value: StoredObject, depth: int) -> Any:
    module, _, short = value.name.rpartition(":")
    fields = value.fields
    if fields is not None and short in ROLES and module in ("langchain_core", "milepost"):
        return _message(short, fields, depth)
    name = type_name(value)
    if fields is None:
        return {"$type": name, "value": _data(value.payload, depth + 1)}
    return {"$type": name, **_named(fields, depth)}


def _named(fields: Mapping[str, Any], depth: int) -> dict[str, Any]:
    return {_text(key): _data(member, depth + 1) for key, member in fields.items()}


_MOSTLY_EMPTY: Final = frozenset(
    {"additional_kwargs", "response_metadata", "invalid_tool_calls", "tool_calls", "example"}
)


def _message(short: str, fields: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """A message: its role first, and without what is empty in nearly all of them."""
    role = fields.get("type") if isinstance(fields.get("type"), str) else None
    shown = {"type": role or ROLES.get(short, short), "content": fields.get("content")}
    for key, member in fields.items():
        if key not in shown and member is not None and (member or key not in _MOSTLY_EMPTY):
            shown[key] = member
    return _named(shown, depth)


def _other(value: Any, depth: int) -> Any:
    if isinstance(value, Unreadable):
        return {"$error": value.reason}
    shown = _known(value, depth)
    if shown is None:
        fields = fields_of(value)
        if type(value).__name__ in ROLES and fields is not None and "content" in fields:
            role = getattr(value, "type", None)
            return _message(type(value).__name__, {"type": role, **fields}, depth)
        shown = _unknown(value, depth) if fields is None else _named(fields, depth)
    return {"$type": type_name(value), **shown}


def _known(value: Any, depth: int) -> dict[str, Any] | None:
    """Values of types that are shown in a way of their own; None for all others."""
    if isinstance(value, enum.Enum):
        return {"name": value.name}
    if isinstance(value, Interrupt):
        return {"id": value.id, "value": _data(value.value, depth + 1)}
    if isinstance(value, Send):
        return {"node": value.node, "arg": _data(value.arg, depth + 1)}
    if isinstance(value, Overwrite):
        return {"value": _data(value.value, depth + 1)}
    if isinstance(value, BaseException):
        return {"message": _text(str(value))}
    if isinstance(value, (datetime, date, time)):
        return {"value": value.isoformat()}
    if isinstance(value, (timedelta, Decimal, complex)):
        return {"value": str(value)}
    if isinstance(value, (set, frozenset)):
        return {"items": sorted((_data(member, depth + 1) for member in value), key=repr)}
    return None


def _unknown(value: Any, depth: int) -> dict[str, Any]:
    """Values of a program's own classes that have no fields, and tuples."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _named(members(value) or {}, depth)
    if isinstance(value, (tuple, deque)):
        return {"items": [_data(one, depth + 1) for one in value]}
    if isinstance(value, Mapping):
        return {"value": _mapping(dict(value), depth)}
    for base in (str, int, float):
        if isinstance(value, base):
            return {"value": _data(base(value), 0)}
    return {"value": _repr(value)}


def _repr(value: Any) -> str:
    try:
        return _text(repr(value)[:2_000])
    except Exception as error:
        return f"<{type(error).__name__} in its repr>"


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass, an attrs class or a model; None of anything else.

    Args:
        value: The value.

    Examples:
        >>> from milepost.inspect.parts import fields_of
        >>> fields_of(inspect.StoredObject("shop:Order", {"price": 120}))
        {'name': 'shop:Order', 'payload': {'price': 120}}
    """
    cls = type(value)
    if dataclasses.is_dataclass(cls):
        names: Sequence[str] = [field.name for field in dataclasses.fields(cls)]
    elif isinstance(getattr(cls, "model_fields", None), Mapping):
        extra = getattr(value, "__pydantic_extra__", None) or {}
        names = [*cls.model_fields, *extra]
    elif (attrs := getattr(cls, "__attrs_attrs__", None)) is not None:
        names = [attribute.name for attribute in attrs]
    else:
        return None
    return {name: getattr(value, name, None) for name in names}


def limited(data: Any, limit: int, path: Path) -> tuple[Any, int]:
    """Data whose large parts are left out, and about how many characters it had.

    Args:
        data: What `as_data` gave.
        limit: How many characters a part may have.
        path: Where the data is.

    Examples:
        >>> from milepost.inspect.parts import limited
        >>> limited({"city": "Paris"}, 100, ())[0]
        {'city': 'Paris'}
    """
    if isinstance(data, str):
        size = len(data) + 2
        return ({"$more": size, "path": list(path)} if size > limit and path else data), size
    if isinstance(data, list):
        members = [limited(member, limit, (*path, at)) for at, member in enumerate(data)]
        size = 2 + sum(length + 1 for _, length in members)
        return _bounded([kept for kept, _ in members], size, limit, path)
    if isinstance(data, dict):
        pairs = {key: limited(member, limit, (*path, key)) for key, member in data.items()}
        size = 2 + sum(len(key) + length + 4 for key, (_, length) in pairs.items())
        return _bounded({key: kept for key, (kept, _) in pairs.items()}, size, limit, path)
    return data, len(str(data))


def _bounded(kept: Any, size: int, limit: int, path: Path) -> tuple[Any, int]:
    """A container whose parts are bounded; left out itself if there are still too many parts."""
    if size <= limit or not path:
        return kept, size
    left = sum(_length(member) for member in (kept if isinstance(kept, list) else kept.values()))
    if left > limit or len(kept) > _MOST_MEMBERS:
        return {"$more": size, "path": list(path), "members": len(kept)}, size
    return kept, size


def _length(data: Any) -> int:
    if isinstance(data, (list, dict)):
        return len(str(data))
    return len(data) + 2 if isinstance(data, str) else 8
