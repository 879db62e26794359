"""Doing something as soon as a program has imported a module, without importing it first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call `action` with a module: now if it is loaded, otherwise when it is."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
    else:
        sys.meta_path.insert(0, _Once(name, action))


class _Once:
    """A finder that finds nothing itself; it is gone when the module has been looked for."""

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
