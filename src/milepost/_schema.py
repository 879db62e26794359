"""Reads a schema — a TypedDict, a dataclass, a pydantic model, or a bare type — into channels."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from types import FunctionType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
)

from typing_extensions import Format, ReadOnly, get_annotations, is_typeddict

from milepost._internal.dataclass_tools import record
from milepost._internal.pydantic_aliases import (
    Aliases,
    Path,
    aliases_of,
    placed,
    places_of,
)
from milepost.channels import BaseChannel, BinaryOperatorAggregate, LastValue
from milepost.constants import ROOT
from milepost.errors import GraphBuildError
from milepost.managed.base import ManagedValueSpec, is_managed_value

Channel = BaseChannel[Any, Any, Any]
_QUALIFIERS = (Required, NotRequired, ReadOnly)


@record
class Schema:
    """A schema as channels."""

    channels: Mapping[str, Channel]
    managed: Mapping[str, ManagedValueSpec]
    build: Callable[[dict[str, Any]], Any] | None
    """Makes an instance out of values; None if nodes get a plain dict."""
    aliases: Aliases = dataclasses.field(default_factory=dict)
    """What else a caller may call a key."""
    passed_over: tuple[str, ...] = ()
    """Keys with a reducer inside a union, where it does not count."""

    @property
    def is_root(self) -> bool:
        """Whether the state is one value without keys."""
        return is_one_value(self.channels)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order of their definition, without managed values."""
        return tuple(self.channels)


def is_one_value(keys: Collection[str]) -> bool:
    """Whether a state with these keys has none: beside others, ROOT is a key as they are."""
    return len(keys) == 1 and ROOT in keys


def schema_of(schema: Any) -> Schema:
    """Read a schema. Raises GraphBuildError if it cannot serve as one."""
    try:
        return _read(schema)
    except TypeError as error:
        if "unhashable" in str(error):
            return _read.__wrapped__(schema)
        raise


@lru_cache(maxsize=512)
def _read(schema: Any) -> Schema:
    if isinstance(schema, FunctionType):
        keys = {name: hint for name, hint in _hints(schema).items() if name != "return"}
        return Schema({name: _channel(name, hint) for name, hint in keys.items()}, {}, None)
    if not has_fields(schema):
        return Schema({ROOT: _channel(ROOT, schema)}, {}, None)
    channels: dict[str, Channel] = {}
    managed: dict[str, ManagedValueSpec] = {}
    # What pydantic keeps beside the fields of an instance: no instance is made with it.
    private = getattr(schema, "__private_attributes__", ())
    for name, hint in _hints(schema).items():
        if hint is ClassVar or get_origin(hint) is ClassVar:
            continue
        if name == "__slots__" or name in private:
            continue
        hint = _unqualified(hint)
        manager = _manager(hint)
        if manager is not None:
            managed[name] = manager
        else:
            channels[name] = _channel(name, hint)
    plain = get_origin(schema) or schema
    passed_over = tuple(name for name, channel in channels.items() if _is_passed_over(channel))
    if not (dataclasses.is_dataclass(plain) or is_pydantic(plain)):
        return Schema(channels, managed, None, passed_over=passed_over)
    aliases = aliases_of(plain)
    build = _maker(schema, plain, places_of(plain, aliases, (*channels, *managed)))
    return Schema(channels, managed, build, aliases, passed_over)


def _maker(schema: Any, plain: Any, places: Mapping[str, Path]) -> Callable[[dict[str, Any]], Any]:
    """What makes an instance out of values by the names of their fields."""
    fields = dataclasses.fields(plain) if dataclasses.is_dataclass(plain) else ()
    later = frozenset(field.name for field in fields if not field.init)
    make = partial(_made_of_places, schema, places) if places else partial(_made, schema)
    return partial(_made_and_set, make, later) if later else make


# Functions of the module, and not of `_maker`: a graph can be pickled.


def _made(schema: Any, values: dict[str, Any]) -> Any:
    return schema(**values)


def _made_of_places(schema: Any, places: Mapping[str, Path], values: dict[str, Any]) -> Any:
    return schema(**placed(values, places))


def _made_and_set(
    make: Callable[[dict[str, Any]], Any], later: frozenset[str], values: dict[str, Any]
) -> Any:
    """An instance whose fields with `init=False` are set when it is made, as it may be frozen."""
    made = make({key: value for key, value in values.items() if key not in later})
    for key in later & values.keys():
        object.__setattr__(made, key, values[key])
    return made


def _is_passed_over(channel: Channel) -> bool:
    """Whether the type of a plain key is a union with a reducer inside."""
    typ = channel.typ if type(channel) is LastValue else None
    parts = get_args(typ) if get_origin(typ) in (Union, UnionType) else ()
    for part in parts:
        for extra in getattr(part, "__metadata__", ()):
            # A function for something else, such as a validator, is refused as a reducer.
            with suppress(GraphBuildError, TypeError):
                if _from_annotation(channel.key, get_args(part)[0], extra) is not None:
                    return True
    return False


def is_pydantic(schema: Any) -> bool:
    """Whether a class is a pydantic model; pydantic is not imported to find out."""
    pydantic = sys.modules.get("pydantic")
    return (
        pydantic is not None and inspect.isclass(schema) and issubclass(schema, pydantic.BaseModel)
    )


def annotated_keys(cls: type) -> set[str]:
    """The names that a class and its bases annotate; pydantic and dataclasses have their own."""
    return {n for base in cls.__mro__ for n in get_annotations(base, format=Format.FORWARDREF)}


def has_fields(schema: Any) -> bool:
    """Whether a type hint is a class that can serve as a schema with keys."""
    plain = get_origin(schema) or schema
    return inspect.isclass(plain) and (
        is_typeddict(plain)
        or dataclasses.is_dataclass(plain)
        or is_pydantic(plain)
        or (plain.__module__ != "builtins" and bool(getattr(plain, "__annotations__", None)))
    )


def _hints(schema: Any) -> dict[str, Any]:
    plain = get_origin(schema) or schema
    try:
        return typing.get_type_hints(plain, include_extras=True)
    except NameError as error:
        raise GraphBuildError(
            f"The annotations of {plain.__name__} cannot be resolved: {error}. Define the types "
            "that it uses at the top of its module, or drop `from __future__ import annotations` "
            "there."
        ) from error


def _unqualified(hint: Any) -> Any:
    while get_origin(hint) in _QUALIFIERS:
        hint = get_args(hint)[0]
    return hint


def _manager(hint: Any) -> ManagedValueSpec | None:
    if get_origin(hint) is Annotated:
        for extra in hint.__metadata__:
            if is_managed_value(extra):
                return extra
    return None


def _channel(name: str, hint: Any) -> Channel:
    """The channel of a key: as annotated, or one that keeps the last value."""
    channel: Channel | None = None
    typ = hint
    if get_origin(hint) is Annotated:
        typ = _unqualified(get_args(hint)[0])
        # The last annotation that says something: `Annotated[list, Field(...), add]` is common.
        for extra in reversed(hint.__metadata__):
            channel = _from_annotation(name, typ, extra)
            if channel is not None:
                break
    if channel is None:
        channel = LastValue(typ)
    channel.key = name
    return channel


def _from_annotation(name: str, typ: Any, extra: Any) -> Channel | None:
    if isinstance(extra, BaseChannel):
        channel = extra.copy()
        if channel.typ is list and typ is not list:
            channel.typ = typ
            channel = channel.from_checkpoint(channel.checkpoint())
        return channel
    if inspect.isclass(extra):
        return extra(typ) if issubclass(extra, BaseChannel) else None
    if callable(extra):
        _check_reducer(name, extra)
        return BinaryOperatorAggregate(typ, extra)
    if callable(invoke := getattr(extra, "invoke", None)):
        # A runnable as a reducer takes both values as one pair.
        return BinaryOperatorAggregate(typ, lambda old, new: invoke((old, new)))
    return None


def _check_reducer(name: str, reducer: Callable[..., Any]) -> None:
    try:
        parameters = inspect.signature(reducer).parameters.values()
    except (TypeError, ValueError):
        return  # a builtin that does not tell
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(required) > 2 or (len(positional) < 2 and not takes_any):
        raise GraphBuildError(
            f"The reducer of '{name}' must take two arguments, the value so far and the write: "
            f"(old, new) -> value. {reducer!r} takes {len(required)}."
        )
