"""Classes and codes met for the first time: which module knows them, and what to say if none does.

The modules that know them are imported here, by fixed names, when they are needed: a core that is
imported in milliseconds does not load the fractions module, let alone numpy.
"""

from __future__ import annotations

import types
from importlib import import_module
from typing import TYPE_CHECKING, Final

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde._msgpack.failures import Refused
from milepost.checkpoint.serde._types import exceptions, listed, models, records
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.checkpoint.serde.registry import Reader, TypeRegistry, Writer

_PACKAGE: Final = "milepost.checkpoint.serde._types"
_STANDARD: Final = (
    "datetime", "decimal", "fractions", "ipaddress", "pathlib", "re", "uuid", "zoneinfo"
)  # fmt: skip
_BY_ROOT: Final = {
    "numpy": "arrays",
    **dict.fromkeys(("pandas", "polars", "pyarrow"), "tables"),
    **dict.fromkeys(_STANDARD, "stdlib"),
}
"""Which of our modules knows the classes of which package. It imports all of its packages."""
_BY_CODE: Final = {
    ext.NDARRAY: "arrays",
    ext.NDSCALAR: "arrays",
    ext.DTYPE: "arrays",
    ext.ARROW: "tables",
    ext.PANDAS_TIME: "pandas_times",
}


_LONGEST_NAME: Final = 500
_MOST_GENERICS: Final = 1_000
"""Classes such as `Box[int]` that are made because a stored name says so: each is kept for ever,
takes 20 KB, and there is no end of such names."""


class Readers(dict[int, "Reader"]):
    """Readers by code; those of modules that are not loaded yet are found when needed."""

    def __missing__(self, code: int) -> Reader:
        try:
            module = import_module(f"{_PACKAGE}.{_BY_CODE.get(code, 'stdlib')}")
        except ModuleNotFoundError as error:
            raise DeserializationError(
                f"the stored value is made of {error.name}; run `pip install {error.name}` to"
                " read it"
            ) from error
        known: dict[int, Reader] = module.READERS
        if code in known:
            self.update(known)
            return known[code]
        hint = ""
        if 0 <= code < ext.TUPLE:
            hint = (
                "; LangGraph writes such codes: import its threads instead of reading them directly"
            )
        raise ValueError(f"no type has the extension code {code}{hint}")


def writer_for(cls: type, registry: TypeRegistry) -> Writer | None:
    """The writer of a class that needs no registration; None if it is not one of those."""
    root = cls.__module__.partition(".")[0]
    if root in _BY_ROOT:
        known: Callable[[type], Writer | None] = import_module(
            f"{_PACKAGE}.{_BY_ROOT[root]}"
        ).writer_for
        return known(cls)
    writer = listed.writer_for(cls, root, registry)
    if writer is not None or root == "langchain_core":
        return writer
    if issubclass(cls, BaseException):
        return exceptions.writer_for(cls, registry)
    return _generic(cls, registry)


def _generic(cls: type, registry: TypeRegistry) -> Writer | None:
    """A parametrised pydantic model is allowed where the model itself is."""
    parts = models.generic_parts(cls)
    name = records.name_of(cls)
    if parts is None or models.resolve_name(name, registry.class_named) is not cls:
        return None
    registry.register(cls)
    return registry.writers[cls]


def allow_name(name: str, registry: TypeRegistry) -> None:
    """Register the type stored as `name` if it is one that needs no registration."""
    if name.partition(":")[0] in listed.PREFIXES:
        listed.allow_name(name, registry)
    elif name.endswith("]") and len(name) < _LONGEST_NAME and registry.generics < _MOST_GENERICS:
        cls = models.resolve_name(name, registry.class_named)
        if cls is not None and models.is_model(cls):
            registry.generics += 1
            registry.register(cls)


def allow_error(name: str, registry: TypeRegistry) -> None:
    """Register a built-in exception class, or one of ours, by its stored name."""
    cls = exceptions.fixed_class(name)
    if cls is not None and name not in registry.types:
        registry.register(cls)


_NOT_DATA = (
    types.BuiltinFunctionType,
    types.CoroutineType,
    types.FunctionType,
    types.GeneratorType,
    types.MethodType,
    types.ModuleType,
    type,
)


def refusal(cls: type) -> Refused:
    """Why an object of this class is not written, and what to do instead."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    if records.is_data_type(cls):
        advice = (
            "call register_type on it, or use it in the graph's schema, or define or import it in"
            " a module that has a node or a schema of the graph"
        )
    elif issubclass(cls, _NOT_DATA):
        return Refused(
            f"a {name} is not data and could not be read back; keep it out of the state, for"
            " example in the run's context"
        )
    elif cls.__module__ != "builtins" and cls.__mro__[-2].__module__ == "builtins":
        base = cls.__mro__[-2].__name__
        advice = (
            f"save it as a plain {base}, or call register_type on it with encode and decode"
            " functions"
        )
    else:
        advice = "call register_type on it with encode and decode functions"
    return Refused(f"the type {name} is not registered, so it could not be read back; {advice}")
