"""Paths into a value: which texts of it are embedded.

$               the whole value
a.b             a field of a field
a[0], a[-1]     one element of a list
a[*].b          a field of every element; each one is a text of its own
*               every field
{a,b.c}         these fields, or what paths from here lead to
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from milepost.store._core.json_view import has_word

_ELEMENT = r"\[(?:\*|-?\d+)\]"
_STEP = re.compile(rf"{_ELEMENT}|\{{[^}}]*\}}|(?:(?!{_ELEMENT})[^.])+")
"""Elements of a list, several fields, or a name: all up to a period or to elements."""


def tokenize_path(path: str) -> list[str]:
    """The steps of a path.

    Args:
        path: Such as `a.b[*].c`.

    Examples:
        >>> from milepost.store.base import tokenize_path
        >>> tokenize_path("a.b[*].c")
        ['a', 'b', '[*]', 'c']
    """
    return _STEP.findall(path) if path else []


def get_text_at_path(obj: Any, path: str | Sequence[str]) -> list[str]:
    """The texts at a path; none if it leads nowhere.

    Args:
        obj: The value of an item.
        path: A path, or its steps.

    Examples:
        >>> from milepost.store.base import get_text_at_path
        >>> get_text_at_path({"notes": [{"text": "a"}, {"text": "b"}]}, "notes[*].text")
        ['a', 'b']
    """
    tokens = tokenize_path(path) if isinstance(path, str) else path
    if not tokens or (len(tokens) == 1 and tokens[0] == "$"):
        return [_as_text(obj)]
    return [_as_text(found) for found in _walk(obj, tokens, 0) if found is not None]


def _walk(value: Any, tokens: Sequence[str], at: int) -> list[Any]:
    if at == len(tokens):
        return [value]
    token = tokens[at]
    steps: list[Any]
    if token.startswith("[") and token.endswith("]"):
        steps = _elements(value, token[1:-1])
    elif not isinstance(value, Mapping):
        steps = list(value) if token == "*" and isinstance(value, (list, tuple)) else []
    elif token == "*":
        steps = list(value.values())
    elif token.startswith("{") and token.endswith("}"):
        names = [name.strip() for name in token[1:-1].split(",")]
        steps = [found for name in names for found in _walk(value, tokenize_path(name), 0)]
    else:
        steps = [value[token]] if token in value else []
    return [found for step in steps for found in _walk(step, tokens, at + 1)]


def _elements(value: Any, which: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        return []
    if which == "*":
        return list(value)
    try:
        return [value[int(which)]]
    except IndexError:
        return []


def _as_text(value: Any) -> str:
    """Text as it is, anything else as JSON; what JSON does not have, by its `str`."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=_plain)
    except (TypeError, ValueError):  # names that have no order or are no texts, or long numbers
        return json.dumps(_spelled(value), ensure_ascii=False, sort_keys=True, default=_plain)


def _spelled(value: Any) -> Any:
    """The same with a text for each name, and for each number of thousands of digits."""
    if isinstance(value, Mapping):
        return {_word(name): _spelled(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(member) for member in value]
    return _word(value) if isinstance(value, int) and not has_word(value) else value


def _plain(value: Any) -> Any:
    """What JSON has in place of an object that it does not have."""
    return dict(value) if isinstance(value, Mapping) else _word(value)


def _word(value: Any) -> str:
    try:
        return str(value)
    except ValueError:
        return f"{type(value).__name__} of many digits"
