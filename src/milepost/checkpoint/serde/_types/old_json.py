"""LangGraph's format from before msgpack: JSON, with objects as the name of a class and arguments.

Reading calls what `find` gives for a name, and that only chooses among what is allowed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from milepost.errors import DeserializationError, InvalidModuleError

Find = Callable[[str, str], Callable[..., Any]]
"""From a module and a name to what builds such an object; raises if it is not allowed."""

Blocked = Callable[[dict[str, Any], InvalidModuleError], Any]
"""What a dict means whose class is not allowed; its members are revived already."""

Plain = Callable[[dict[str, Any]], Any]
"""What a dict that names no class means; its members are revived already."""


def read(body: bytes, find: Find, blocked: Blocked | None = None) -> Any:
    """The value; DeserializationError if these bytes are not one."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DeserializationError(f"the stored bytes are not JSON: {error}") from error
    return revived(parsed, find, blocked=blocked)


def revived(
    value: Any,
    find: Find,
    plain: Plain = lambda members: members,
    blocked: Blocked | None = None,
) -> Any:
    """The value that parsed JSON stands for; DeserializationError if it stands for none."""
    try:
        return _revived(value, find, plain, blocked)
    except DeserializationError:
        raise
    except Exception as error:
        raise DeserializationError(f"the stored JSON does not decode: {error!r}") from error


def _revived(value: Any, find: Find, plain: Plain, blocked: Blocked | None) -> Any:
    if isinstance(value, list):
        return [_revived(member, find, plain, blocked) for member in value]
    if not isinstance(value, dict):
        return value
    members = {key: _revived(member, find, plain, blocked) for key, member in value.items()}
    if value.get("lc") not in (1, 2) or value.get("type") != "constructor":
        return plain(members)
    *modules, name = _list(members["id"])
    arguments, named = _list(members.get("args") or []), members.get("kwargs") or {}
    method = members.get("method")
    if modules == ["builtins"] and name in ("bytes", "bytearray"):
        made = bytes.fromhex if method == "fromhex" else base64.b64decode
        return made(arguments[0]) if name == "bytes" else bytearray(made(arguments[0]))
    if isinstance(method, str):  # an alternative constructor, such as datetime.fromisoformat
        modules, name = [*modules, name], method
    try:
        build = find(".".join(modules), name)
    except InvalidModuleError as refusal:
        if blocked is None:
            raise
        return blocked(members, refusal)
    return build(*arguments, **named)


def _list(stored: Any) -> Any:
    if type(stored) is not list:
        raise TypeError(f"a {type(stored).__name__} where a list was stored")
    return stored
