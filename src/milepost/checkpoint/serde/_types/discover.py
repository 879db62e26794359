"""Finds the data types that a program's modules and schemas show.

A schema is walked when a graph is compiled. A module is only noted then, and scanned when
a type is first missing, so that compiling stays cheap however large the module is.
"""

from __future__ import annotations

import sys
import typing
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakSet

from typing_extensions import Format, get_annotations

from milepost.checkpoint.serde._types.records import is_data_type

if typing.TYPE_CHECKING:
    from collections.abc import Callable


_MOST_STEPS = 10_000
_OURS = __name__.partition(".")[0]


class Discovery:
    """What may be allowed without being registered by hand."""

    def __init__(self, allow: Callable[[type], None]) -> None:
        self.modules: dict[str, ModuleType] = {}
        """Modules of nodes and schemas."""
        self._allow = allow
        self._scanned: dict[str, int] = {}
        self._walked: WeakSet[type] = WeakSet()
        self._named: WeakSet[type] = WeakSet()
        """Types that schemas mention."""
        self._homes: set[str] = set()
        """Modules of which a program's modules show something: a data type, a function, all."""
        self._packages: set[str] = set()
        """Packages that have a module of the program in them."""

    def find_class(self, cls: type) -> None:
        """Allow `cls` if a noted module shows it, or a data type that it extends."""
        self._scan()
        if _look_up(cls.__module__, cls.__qualname__) is cls and self._is_shown(cls):
            self._walk_data_type(cls)

    def find_name(self, name: str) -> None:
        """Allow the type stored as `name` in the same way. Imports nothing."""
        self._scan()
        module, _, qualname = name.partition(":")
        cls = _look_up(module, qualname)
        if cls is not None and self._is_shown(cls):
            self._walk_data_type(cls)

    def _is_shown(self, cls: type) -> bool:
        module = cls.__module__
        if module in self._homes or module.partition(".")[0] in self._packages:
            return True
        # A key of the type `Shape` may hold any kind of shape that the process has loaded.
        return any(base in self._named and _is_data(base) for base in cls.__mro__[1:])

    def walk(self, annotation: Any) -> None:
        """Allow every data type that the annotation of a schema mentions."""
        self._named.update(self._walk(annotation))

    def _walk(self, annotation: Any) -> list[type]:
        """Allow every data type that `annotation` mentions; returns all types in it."""
        met: list[type] = []
        stack = [annotation]
        for _ in range(_MOST_STEPS):  # an annotation may refer to itself
            if not stack:
                break
            current = stack.pop()
            origin = typing.get_origin(current)
            if origin is None and isinstance(current, type):
                if current.__module__ == "builtins":
                    continue
                met.append(current)
                if current not in self._walked:
                    self._walked.add(current)
                    if _is_data(current):
                        self._homes.add(current.__module__)
                        self._allow(current)
                    stack.extend(_hints(current))
            elif current is not None:
                stack.extend(_inside(current))
                if origin is not None:
                    stack.append(origin)
        return met

    def _scan(self) -> None:
        for name, module in list(self.modules.items()):
            names = vars(module)
            if self._scanned.get(name) == len(names):
                continue
            self._scanned[name] = len(names)
            self._homes.add(name)
            package, dot, _ = name.partition(".")
            if dot and package != _OURS:
                self._packages.add(package)
            for value in list(names.values()):
                if isinstance(value, type):
                    if value not in self._walked:
                        self._walk_data_type(value)
                elif isinstance(value, ModuleType):
                    self._homes.add(value.__name__)
                elif isinstance(value, FunctionType) and value.__module__ is not None:
                    self._homes.add(value.__module__)

    def _walk_data_type(self, cls: type) -> None:
        if _is_data(cls):
            self._walk(cls)


def _is_data(cls: type) -> bool:
    try:
        return is_data_type(cls)
    except Exception:  # a metaclass may do anything
        return False


def _look_up(module: str, qualname: str) -> type | None:
    """The class of this name in a module that is imported already; attributes are not run."""
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    if isinstance(found, type) and (found.__module__, found.__qualname__) == (module, qualname):
        return found
    return None


def _hints(cls: type) -> list[Any]:
    annotations = [get_annotations(base, format=Format.FORWARDREF) for base in cls.__mro__]
    if not any(annotations):
        return []
    try:
        return list(typing.get_type_hints(cls, include_extras=True).values())
    except Exception:
        # One name that does not resolve must not hide the others.
        return [a for own in annotations for a in own.values() if not isinstance(a, str)]


def _inside(annotation: Any) -> list[Any]:
    """What an annotation is made of: arguments, the members of a union, an alias's value."""
    try:
        parts = [a for a in typing.get_args(annotation) if not isinstance(a, (str, int))]
        for arguments in [a for a in parts if isinstance(a, list)]:
            parts.extend(arguments)
        for name in ("__value__", "__supertype__", "__bound__"):
            part = getattr(annotation, name, None)
            if part is not None:
                parts.append(part)
    except Exception:
        return []
    return parts
