"""Pydantic models as plain values. Pydantic is looked at only if the program has imported it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from milepost.checkpoint.serde.fields import complete

Given = str | list[str] | None
"""Which fields were given: None for all, names joined by commas, or a list of odd names."""
_REMEMBERED = 32

Codec = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def is_model(cls: type) -> bool:
    """Whether `cls` is a pydantic v2 model."""
    pydantic = sys.modules.get("pydantic")
    base = getattr(pydantic, "BaseModel", None)
    return base is not None and cls is not base and issubclass(cls, base)


def of_model(cls: Any) -> Codec:
    """What pydantic itself keeps of an instance, so that no validator needs to run again."""
    specs = cls.model_fields
    names = specs.keys()
    in_order = list(names)
    make = object.__new__
    # BaseModel.__setattr__ is for users: it validates, and refuses on frozen models.
    set_dict, set_given, set_extra, set_private = (
        _setter(name)
        for name in (
            "__dict__",
            "__pydantic_fields_set__",
            "__pydantic_extra__",
            "__pydantic_private__",
        )
    )

    def default(name: str) -> Any:
        spec = specs[name]
        if spec.is_required():
            raise KeyError(name)
        return spec.get_default(call_default_factory=True)

    given_before: list[tuple[set[str], Given]] = [(set(names), None)]
    last, listed = given_before[0]
    given_sets: dict[str, set[str]] = {}

    def encode(model: Any) -> Any:
        nonlocal last, listed
        given = model.__pydantic_fields_set__
        private = model.__pydantic_private__
        if given != last:
            last, listed = _remembered(given, given_before)
        return [
            model.__dict__,
            listed,
            model.__pydantic_extra__,
            private if private is None else _set_only(private),
        ]

    def decode(payload: Any) -> Any:
        stored, given, extra, private = payload
        if type(given) is str:
            known = (given_sets.get(given) or _parsed(given, given_sets)).copy()
        else:
            known = set(stored if given is None else given)
        if type(stored) is not dict or [*stored] != in_order:
            stored = (
                dict(stored) if stored.keys() == names else complete(cls, stored, names, default)
            )
            known &= names | (extra or {}).keys()  # a migration may have taken a field away
        model = make(cls)
        set_dict(model, stored)
        set_given(model, known)
        set_extra(model, extra)
        set_private(model, private)
        return model

    return encode, decode


def _remembered(given: set[str], before: list[tuple[set[str], Given]]) -> tuple[set[str], Given]:
    """What to store for them. Most instances are made in a few ways, so they repeat."""
    for entry in before:
        if entry[0] == given:
            return entry
    names = sorted(given)
    plain = names and all(name.isidentifier() for name in names)
    entry = (set(given), ",".join(names) if plain else names)
    if len(before) < _REMEMBERED:
        before.append(entry)
    return entry


def _parsed(given: str, sets: dict[str, set[str]]) -> set[str]:
    names = set(given.split(","))
    if len(sets) < _REMEMBERED:
        sets[given] = names
    return names


def _setter(name: str) -> Callable[[Any, Any], None]:
    """Sets one of the slots of pydantic's base class."""
    slot = vars(sys.modules["pydantic"].BaseModel)[name]
    setter: Callable[[Any, Any], None] = slot.__set__
    return setter


def _set_only(private: dict[str, Any]) -> dict[str, Any]:
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    return {name: value for name, value in private.items() if value is not undefined}


_NAMED = {
    cls.__name__: cls
    for cls in (bool, bytes, complex, dict, float, frozenset, int, list, object, set, str, tuple)
} | {"NoneType": type(None)}


def generic_parts(cls: Any) -> tuple[type, tuple[Any, ...]] | None:
    """The generic model and its arguments, for a parametrised model such as `Box[int]`."""
    parts = getattr(cls, "__pydantic_generic_metadata__", None)
    if not isinstance(parts, dict) or not parts.get("origin") or not parts.get("args"):
        return None
    return parts["origin"], parts["args"]


def resolve_name(name: str, known: Callable[[str], type | None]) -> Any:
    """The class that a stored name means, made only of registered models and built-in types."""
    if not name.endswith("]"):
        return _NAMED.get(name) or known(name)
    head, _, inside = name[:-1].partition("[")
    origin = resolve_name(head, known)
    arguments = [resolve_name(argument, known) for argument in _split(inside)]
    if origin is None or any(argument is None for argument in arguments):
        return None
    try:
        return origin[tuple(arguments) if len(arguments) > 1 else arguments[0]]
    except TypeError:
        return None


def _split(text: str) -> list[str]:
    """The arguments in `text`, cut at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for position, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]
