"""Reads a schema — a TypedDict, a dataclass, a pydantic model, or a bare type — into channels."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache, partial
from types import FunctionType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
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
    fields_of,
    placed,
    places_of,
)
from milepost.channels import BaseChannel, BinaryOperatorAggregate, LastValue
from milepost.constants import ROOT
from milepost.errors import GraphBuildError
from milepost.managed.base import ManagedValueSpec, is_managed_value
from milepost.types import MISSING

Channel = BaseChannel[Any, Any, Any]
_QUALIFIERS = (Required, NotRequired, ReadOnly)


class Mistake(NamedTuple):
    """What is wrong with a key, and what is done instead."""

    key: str
    message: str
    instead: str


@record
class Schema:
    """A schema as channels."""

    channels: Mapping[str, Channel]
    managed: Mapping[str, ManagedValueSpec]
    build: Callable[[dict[str, Any]], Any] | None
    """Makes an instance out of values; None if nodes get a plain dict."""
    aliases: Aliases = dataclasses.field(default_factory=dict)
    """What else a caller may call a key."""
    mistakes: tuple[Mistake, ...] = ()
    """What most likely does not do what it was written for."""

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
    mistakes = tuple(_mistakes(channels))
    if not (dataclasses.is_dataclass(plain) or is_pydantic(plain)):
        return Schema(channels, managed, None, mistakes=mistakes)
    aliases = aliases_of(plain)
    build = _maker(schema, plain, places_of(plain, aliases, (*channels, *managed)))
    return Schema(channels, managed, build, aliases, mistakes)


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


def _mistakes(channels: Mapping[str, Channel]) -> Iterator[Mistake]:
    for key, channel in channels.items():
        if type(channel) is LastValue and _has_reducer_inside(key, channel.typ):
            yield Mistake(
                key,
                f"The reducer of '{key}' is inside a union, where it does not count: put the "
                "Annotated outside, `Annotated[list | None, reducer]`.",
                "A write replaces the value.",
            )


def _has_reducer_inside(key: str, typ: Any) -> bool:
    parts = get_args(typ) if get_origin(typ) in (Union, UnionType) else ()
    for part in parts:
        for extra in getattr(part, "__metadata__", ()):
            try:
                if _from_annotation(key, get_args(part)[0], extra) is not None:
                    return True
            except (GraphBuildError, TypeError):
                pass  # a function for something else, such as a validator
    return False


def default_of(schema: Any, key: str) -> Any:
    """The default of a field of a dataclass or a model; MISSING if there is none."""
    try:
        if field := fields_of(schema).get(key):
            return MISSING if field.is_required() else field.get_default(call_default_factory=True)
        for field in dataclasses.fields(schema) if dataclasses.is_dataclass(schema) else ():
            if field.name == key and field.default is not dataclasses.MISSING:
                return field.default
            if field.name == key and field.default_factory is not dataclasses.MISSING:
                return field.default_factory()
    except Exception:
        pass  # of the program's factory
    return MISSING


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
