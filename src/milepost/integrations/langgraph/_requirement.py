"""LangGraph is optional: only the adapters and the moving of databases need it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from milepost.errors import MissingDependencyError

if TYPE_CHECKING:
    from types import ModuleType


def needed(module: str, package: str = "milepost[langgraph]") -> ModuleType:
    """A module of LangGraph or of one of its savers; says how to install what is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"This needs the module {error.name}: run `pip install '{package}'`."
        ) from error
