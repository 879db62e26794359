"""Types that pydantic can describe: before Python 3.12 it refuses those with `typing.TypedDict`."""

from __future__ import annotations

import sys
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from typing_extensions import TypedDict, is_typeddict

_SAME: Final = (
    "__doc__",
    "__module__",
    "__qualname__",
    "__required_keys__",
    "__optional_keys__",
    "__pydantic_config__",
)
"""What a replacement has from its class. Keys say themselves where they differ from the class."""


def described(hint: Any, known: dict[Any, Any] | None = None) -> Any:
    """A type with each class of `typing.TypedDict` replaced by one of typing_extensions.

    `known` has the replacements so far: types of one model share them.
    """
    if sys.version_info >= (3, 12):
        return hint
    return _described(hint, {} if known is None else known)


def _described(hint: Any, known: dict[Any, Any]) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    plain = origin or hint
    if is_typeddict(plain) and type(plain).__module__ == "typing":
        return known.get(plain) or _copy(plain, known)
    parts = tuple(_described(arg, known) for arg in args)
    if all(part is arg for part, arg in zip(parts, args, strict=True)):
        return hint
    form: Any = Union if origin is UnionType else origin
    return form[parts if len(parts) > 1 else parts[0]]


def _copy(plain: Any, known: dict[Any, Any]) -> Any:
    make: Any = TypedDict
    made = known[plain] = make(plain.__name__, {})  # before its keys, which may mention it
    for name in _SAME:
        if hasattr(plain, name):
            setattr(made, name, getattr(plain, name))
    hints = get_type_hints(plain, include_extras=True)
    made.__annotations__ = {key: _described(hint, known) for key, hint in hints.items()}
    return made
