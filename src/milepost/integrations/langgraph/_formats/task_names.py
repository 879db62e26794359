"""Names that `@task` functions may have, read off a program's source. Nothing of it is run."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator

from milepost.errors import MilepostError


def names_in(paths: Iterable[str]) -> list[str]:
    """The names of all functions and classes in these files and folders, and what `name=` says."""
    found: dict[str, None] = {}
    for path in paths:
        for file in _files(path):
            for node in ast.walk(_parsed(file)):
                found.update(dict.fromkeys(_names_of(node)))
    return list(found)


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, _, files in os.walk(path):
        yield from (os.path.join(folder, file) for file in sorted(files) if file.endswith(".py"))


def _parsed(file: str) -> ast.Module:
    try:
        with open(file, "rb") as source:
            return ast.parse(source.read(), file)
    except (OSError, SyntaxError, ValueError) as error:
        raise MilepostError(f"The program '{file}' cannot be read: {error}") from error


def _names_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.keyword(arg="name", value=ast.Constant(value=str(name))):
            yield name
