"""Public names that are imported when they are first used.

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
    from collections.abc import Callable, Mapping


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
