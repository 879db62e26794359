"""Libraries that may be missing, or lack the parts that are used: errors say what to install.

Of some of them parts are used that they do not document, in the versions that were tested:
pyproject.toml has the same ranges as extras, and a test compares. docs/decisions.md says which
parts, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

from milepost.errors import MissingDependencyError

if TYPE_CHECKING:
    from types import ModuleType

RANGES: Final = {
    "langchain": ("langchain-core>=1.4,<1.9", "langsmith>=0.3.45,<0.15"),
    "aiosqlite": ("aiosqlite>=0.20,<0.23",),
}
"""Extra of milepost → what it installs."""


@contextmanager
def required(message: str) -> Iterator[None]:
    """Around the imports from a library: if it is missing, the message says how to install it."""
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(message) from error


def needed(module: str, package: str = "milepost[langgraph]") -> ModuleType:
    """A module of an optional library; says how to install what is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"This needs the module {error.name}: run `pip install '{package}'`."
        ) from error


def unsupported(wanted_for: str, extra: str) -> MissingDependencyError:
    """The error where a library is installed in a version that lacks such a part."""
    [needed, *_] = RANGES[extra]
    package = needed.partition(">")[0]
    return MissingDependencyError(
        f"{wanted_for} needs {needed}, and {package} {_installed(package)} is installed: run "
        f"`pip install 'milepost[{extra}]'`."
    )


def _installed(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "of an unknown version"
