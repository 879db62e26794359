"""What is public in a package: its modules, their names, the methods of classes, the parameters.

Every public thing gets a path: `types`, `types.Send`, `types.Send.node`, `types.Send(timeout=)`,
`graph.state.StateGraph.compile(cache=)`. What starts with an underscore is not public. A module's
names are those of its `__all__`; without one, those that its own source defines.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar


@dataclass(frozen=True)
class Gap:
    """Something public of the one package that the other does not have, or has otherwise."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


def modules(package: str, distributions: tuple[str, ...]) -> list[str]:
    """The public modules of a package that some distributions bring, without its name."""
    found = set()
    for distribution in distributions:
        for file in metadata.files(distribution) or ():
            if file.suffix == ".py" and file.parts[0] == package:
                parts = file.with_suffix("").parts[1:]
                parts = parts[:-1] if parts[-1] == "__init__" else parts
                if parts and not any(part.startswith("_") for part in parts):
                    found.add(".".join(parts))
    return sorted(found)


def names(module: ModuleType) -> list[str]:
    """The public names of a module."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(name for name in listed if not name.startswith("_") or name == "__version__")
    source = Path(module.__file__ or "").read_text("utf-8")
    return sorted(
        name
        for name in set(_defined(ast.parse(source).body))
        if not name.startswith("_")
        and not isinstance(getattr(module, name, None), logging.Logger | TypeVar)
    )


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def members(cls: type, packages: tuple[str, ...]) -> list[str]:
    """Public attributes of a class that classes of `packages` in its line define."""
    found: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] in packages:
            found |= {name for name in vars(base) if not name.startswith("_")}
            if isinstance(base, type) and not issubclass(base, enum.Enum):
                found |= {n for n in inspect.get_annotations(base) if n[0] != "_"}
    return sorted(found)


def gaps(theirs: str, distributions: tuple[str, ...], ours: str) -> Iterator[Gap]:
    """What `theirs` offers and `ours` does not."""
    for path in modules(theirs, distributions):
        module = importlib.import_module(f"{theirs}.{path}")
        try:
            counterpart = importlib.import_module(f"{ours}.{path}")
        except ModuleNotFoundError:
            yield Gap(path, "no such module")
            continue
        for name in names(module):
            if not hasattr(counterpart, name):
                yield Gap(f"{path}.{name}", "no such name")
            else:
                thing, other = getattr(module, name), getattr(counterpart, name)
                yield from _differences(f"{path}.{name}", thing, other, theirs)


def _differences(path: str, thing: Any, other: Any, theirs: str) -> Iterator[Gap]:
    if inspect.isclass(thing):
        if not str(getattr(thing, "__module__", "")).startswith(theirs):
            return
        if not inspect.isclass(other):
            yield Gap(path, "not a class")
            return
        yield from _parameters(path, thing, other)
        for name in members(thing, (theirs, "langchain_core")):
            if not _has(other, name):
                yield Gap(f"{path}.{name}", "no such member")
            else:
                mine, their = getattr(other, name, None), getattr(thing, name, None)
                if inspect.isroutine(their):
                    yield from _parameters(f"{path}.{name}", their, mine)
    elif inspect.isroutine(thing):
        yield from _parameters(path, thing, other)


def _has(cls: type, name: str) -> bool:
    """Whether a class or its instances have an attribute of this name."""
    if hasattr(cls, name):
        return True
    if any(name in inspect.get_annotations(base) for base in cls.__mro__):
        return True
    # Attributes that a constructor sets are seen in its code.
    return any(
        name in base.__init__.__code__.co_names
        for base in cls.__mro__
        if inspect.isfunction(vars(base).get("__init__"))
    )


def _parameters(path: str, thing: Any, other: Any) -> Iterator[Gap]:
    if not callable(other):
        yield Gap(path, "cannot be called")
        return
    try:
        wanted, taken = inspect.signature(thing), inspect.signature(other)
    except (TypeError, ValueError):
        return
    places = [p.name for p in taken.parameters.values() if p.kind in _BY_PLACE]
    any_name, any_place = _catch_all(other, taken)
    asked = 0
    for name, parameter in wanted.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        mine = taken.parameters.get(name)
        if mine is None and name not in any_name and "*" not in any_name:
            if parameter.kind is parameter.POSITIONAL_ONLY and (asked < len(places) or any_place):
                asked += 1
                continue
            yield Gap(f"{path}({name}=)", "no such parameter")
            continue
        if parameter.kind in _BY_PLACE:
            if not any_place and places[asked : asked + 1] != [name]:
                yield Gap(f"{path}({name}=)", f"not at place {asked}")
            asked += 1
        if mine and mine.default is mine.empty and parameter.default is not parameter.empty:
            yield Gap(f"{path}({name}=)", "has no default")


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _catch_all(function: Any, signature: inspect.Signature) -> tuple[set[str], bool]:
    """The names that `**options` takes ("*" for any), and whether `*args` takes any place."""
    named: set[str] = set()
    place = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            place = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            options = re.match(r"Unpack\[(\w+)", str(parameter.annotation))
            if options is None:
                named.add("*")
            else:
                named |= _options(options[1], function)
    return named, place


def _options(name: str, function: Any) -> set[str]:
    """The keys of a record that functions take as `**options: Unpack[...]`."""
    package = (getattr(function, "__module__", None) or "").partition(".")[0]
    root = Path(importlib.import_module(package).__file__ or "").parent
    # Often it is imported for type checkers alone, so it is looked for in the sources.
    for file in sorted(root.rglob("*.py")):
        if f"class {name}(" in file.read_text("utf-8"):
            parts = file.relative_to(root.parent).with_suffix("").parts
            record = getattr(importlib.import_module(".".join(parts)), name)
            return set().union(*(inspect.get_annotations(c) for c in record.__mro__))
    raise LookupError(f"Where is {name}?")
