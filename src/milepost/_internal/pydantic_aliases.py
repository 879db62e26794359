"""Fields of pydantic's models, and where a model looks for a field that has an alias."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value: one of an alias that is a name, several of an AliasPath."""
Aliases: TypeAlias = Mapping[str, tuple[Path, ...]]
"""Field → where else its value may be. Fields without an alias are not in it."""

_ABSENT: Final = object()


def fields_of(schema: Any) -> Mapping[str, Any]:
    """The fields of a model or of a pydantic dataclass, as pydantic describes them."""
    if not hasattr(schema, "__pydantic_validator__"):
        return {}
    found: Mapping[str, Any] = getattr(schema, "__pydantic_fields__", None) or getattr(
        schema, "model_fields", {}
    )
    return found


def aliases_of(schema: Any) -> Aliases:
    """The aliases of a model or of a pydantic dataclass; any other schema has none."""
    fields = fields_of(schema)
    if fields and hasattr(schema, "model_rebuild"):
        schema.model_rebuild(raise_errors=False)  # else those of a generator may be missing
        fields = fields_of(schema)
    paths = {name: tuple(_paths(field.validation_alias)) for name, field in fields.items()}
    return {name: found for name, found in paths.items() if any(p != (name,) for p in found)}


def _paths(alias: Any) -> Iterator[Path]:
    for one in getattr(alias, "choices", (alias,)):
        if one is not None:
            yield (one,) if isinstance(one, str) else tuple(one.path)


def by_name(given: Mapping[Any, Any], aliases: Aliases, names: Collection[str]) -> dict[Any, Any]:
    """An input by the names of its fields. What is the name of a field is no alias of another."""
    found: dict[Any, Any] = {}
    used: set[str | int] = set()
    for name, paths in aliases.items():
        for path in paths if name not in given else ():
            value = _ABSENT if path[0] in names else _value_at(given, path)
            if value is not _ABSENT:
                found[name] = value
                used.add(path[0])
                break
    return {key: value for key, value in given.items() if key not in used} | found


def _value_at(value: Any, path: Path) -> Any:
    for part in path:
        if isinstance(value, str):
            return _ABSENT
        try:
            value = value[part]
        except (LookupError, TypeError):
            return _ABSENT
    return value


def places_of(schema: Any, aliases: Aliases, names: Collection[str]) -> dict[str, Path]:
    """Field → where its value has to be when an instance is made, if that is not its name.

    A place is one where the model looks for this field and for no other. A field without such a
    place is not in the answer, nor is any of a model that takes fields by their names.
    """
    config = getattr(schema, "model_config", getattr(schema, "__pydantic_config__", {}))
    if config.get("populate_by_name") or config.get("validate_by_name"):
        return {}
    known = {name: aliases.get(name) or ((name,),) for name in names}
    places = {}
    for name, paths in aliases.items():
        others = [path for other in known if other != name for path in known[other]]
        free = (path for path in paths if not any(_overlap(path, other) for other in others))
        places[name] = next(free, (name,))
    return places


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def placed(values: Mapping[str, Any], places: Mapping[str, Path]) -> dict[Any, Any]:
    """Values by the names of their fields, each put where the model looks for it."""
    given: dict[Any, Any] = {}
    for name, value in values.items():
        *parents, last = places.get(name, (name,))
        inside = given
        for part in parents:
            inside = inside.setdefault(part, {})
        inside[last] = value
    return given
