"""Libraries that are optional: what to install where one is missing, or in a wrong version.

Of some, parts are used that they do not document. `RANGES` says in which versions those are tested;
pyproject.toml has the same ranges as extras, and a test compares. docs/decisions.md says which
parts are used, and why.
"""

from __future__ import annotations

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
