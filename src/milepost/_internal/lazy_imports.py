"""Imports that wait: for the first use of a public name, or for a program to import a module.

Programs import a package for one or two of its names, and the modules of the other names should not
cost them anything. In the package's `__init__.py` those are imported for type checkers alone, and

    __getattr__, __dir__ = on_demand(__name__, {"Topic": "milepost.channels.topic"})

says where they are.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def on_demand(
    module: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module with names that live in other modules."""
    names = vars(sys.modules[module])

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = names[name] = getattr(import_module(homes[name]), name)
        return found

    def listing() -> list[str]:
        return sorted({*names, *homes})

    return get, listing


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call `action` with a module: now if it is loaded, otherwise when it is."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
    else:
        sys.meta_path.insert(0, _Once(name, action))


class _Once:
    """A finder on the meta path that removes itself once its module is found."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The module as other finders find it, with the action at the end of its execution."""
        if name != self._name:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        loader = None if spec is None else spec.loader
        if spec is None or loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute, action = loader.exec_module, self._action

        def exec_module(module: ModuleType) -> None:
            execute(module)
            action(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
