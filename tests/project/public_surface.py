"""What the generated reference shows: the classes, functions and methods that are public."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import textwrap
import typing
import warnings
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import typing_extensions

import milepost
import milepost.errors


@functools.cache
def public_modules() -> tuple[str, ...]:
    """Modules without an underscore in their names; the command line is a program."""
    root = Path(milepost.__file__).parent
    files = (file.relative_to(root.parent).with_suffix("") for file in root.rglob("*.py"))
    paths = [file.parent if file.name == "__init__" else file for file in files]
    found = [path for path in paths if not any(part[0] == "_" for part in path.parts)]
    names = {".".join(path.parts) for path in found} - {"milepost"}
    return tuple(sorted(name for name in names if not name.startswith("milepost.cli")))


class Member(NamedTuple):
    """A public class, function or method, and the class that it is a method of."""

    name: str
    """The shortest path by which it can be imported."""
    object: Any
    """The class, or the function behind whatever wraps it."""
    owner: type | None = None

    @property
    def module(self) -> str:
        return max((one for one in public_modules() if self.name.startswith(f"{one}.")), key=len)

    @property
    def last_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def is_class(self) -> bool:
        return isinstance(self.object, type)

    @property
    def doc(self) -> Sections:
        return Sections.of(self.object.__doc__)


class Sections(NamedTuple):
    """A docstring in the Google style, as the reference reads it."""

    text: str
    sections: dict[str, str]

    @classmethod
    @functools.cache
    def of(cls, doc: str | None) -> Sections:
        text: list[str] = []
        sections: dict[str, list[str]] = {}
        at = text
        for line in inspect.cleandoc(doc or "").splitlines():
            if line in {f"{name}:" for name in SECTIONS}:
                at = sections.setdefault(line[:-1], [])
            else:
                if line and not line[0].isspace():
                    at = text
                at.append(line)
        joined = {name: textwrap.dedent("\n".join(lines)) for name, lines in sections.items()}
        return cls("\n".join(text), joined)

    def names(self, section: str) -> set[str]:
        """What a section explains: each of its entries is a line `name: …`."""
        lines = self.sections.get(section, "").splitlines()
        heads = (line.partition(":")[0] for line in lines if line and not line[0].isspace())
        return {head.partition(" ")[0].lstrip("*") for head in heads}


SECTIONS = ("Args", "Attributes", "Examples", "Raises", "Returns", "Yields")


def is_ours(value: Any) -> bool:
    """Whether a class or function is defined by this library."""
    return _module_of(value).split(".")[0] == "milepost"


def _module_of(value: Any) -> str:
    return str(getattr(value, "__module__", ""))


BY_CALL = "ToolCallWithContext"
"""Made by a call, because a key begins with underscores: the text below it is its docstring."""


@functools.cache
def members() -> tuple[Member, ...]:
    """Every public class and function once, each followed by its methods."""
    found: dict[Any, Member] = {}
    for module in sorted(public_modules(), key=lambda name: (name.count("."), name)):
        if module == "milepost.as_langgraph":
            continue  # it has no names: importing it changes what `langgraph` means
        room = importlib.import_module(module)
        for name in public_names(room):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of names at old places
                value = inspect.unwrap(getattr(room, name))
            if is_ours(value) and isinstance(value, (type, FunctionType)) and name != BY_CALL:
                found.setdefault(value, Member(f"{module}.{name}", value))
    for member in [one for one in found.values() if one.is_class]:
        for method in methods(member):
            found.setdefault(method.object, method)
    return tuple(found.values())


def public_names(room: ModuleType) -> list[str]:
    """`__all__`, or what a module without it defines."""
    if hasattr(room, "__all__"):
        return [name for name in room.__all__ if name[0] != "_"]
    defined = (name for name, value in vars(room).items() if _module_of(value) == room.__name__)
    return [name for name in defined if name[0] != "_"]


def methods(member: Member) -> Iterator[Member]:
    """The public methods that a class defines, or a private base that gives them to it."""
    for cls in member.object.__mro__:
        if not is_ours(cls) or (cls is not member.object and not is_private(cls)):
            continue
        for name in list(vars(cls)):
            getattr(cls, name, None)  # some methods are put there when they are first asked for
            value = vars(cls)[name]
            function = inspect.unwrap(getattr(value, "__func__", value))
            if name[0] != "_" and isinstance(function, FunctionType) and is_ours(function):
                yield Member(f"{member.name}.{name}", function, cls)


def is_private(cls: type) -> bool:
    """Whether the reference shows a class only as a part of those that are made from it."""
    return cls.__name__.startswith("_") or any(
        part.startswith("_") for part in cls.__module__.split(".")
    )


def is_record(value: Any) -> bool:
    """Whether it is a class that is its fields: a dataclass, a NamedTuple or a TypedDict."""
    return isinstance(value, type) and (
        dataclasses.is_dataclass(value)
        or hasattr(value, "_fields")
        or typing.is_typeddict(value)
        or typing_extensions.is_typeddict(value)
    )


def fields(record: type) -> set[str]:
    """The public fields that a record defines itself."""
    return {name for name, _ in _fields(record) if name[0] != "_"}


def described_fields(record: type) -> set[str]:
    """Fields with a docstring of their own, which is the text below them."""
    return {
        name
        for name, below in _fields(record)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


def _fields(record: type) -> Iterator[tuple[str, ast.stmt | None]]:
    """The names of fields, each with the statement that follows it."""
    [cls] = [node for node in syntax(record).body if isinstance(node, ast.ClassDef)]
    for field, below in zip_longest(cls.body, cls.body[1:]):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if "ClassVar" not in ast.unparse(field.annotation):
            yield field.target.id, below


def parameters(function: Any) -> set[str]:
    """The arguments that a caller passes; none if a function hands on whatever it gets."""
    names = [name for name in inspect.signature(function).parameters if name[0] != "_"]
    found = set(names) - {"self", "cls"}
    return set() if found == {"args", "kwargs"} else found


@functools.cache
def syntax(value: Any) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(value)))


def raised(function: Any) -> set[str]:
    """The exceptions of ours that the text of a function raises."""
    names = vars(milepost.errors)
    nodes = (node for node in ast.walk(syntax(function)) if isinstance(node, ast.Raise))
    called = (node.exc.func if isinstance(node.exc, ast.Call) else node.exc for node in nodes)
    return {
        node.id
        for node in called
        if isinstance(node, ast.Name)
        and isinstance(cls := names.get(node.id), type)
        and is_ours(cls)
    }
