"""Answers `import langgraph…` with milepost.

Every module of LangGraph that milepost has a counterpart for is answered by an alias: a module
that looks its names up in the counterpart. The others, and names that we lack, fail when they are
imported, with a list of what there is. LangGraph itself need not be installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

_ROOT: Final = "langgraph"

_SAME_NAME: Final = (
    "cache",
    "cache.base",
    "cache.memory",
    "cache.redis",
    "cache.sqlite",
    "channels",
    "channels.any_value",
    "channels.base",
    "channels.binop",
    "channels.delta",
    "channels.ephemeral_value",
    "channels.last_value",
    "channels.named_barrier_value",
    "channels.topic",
    "channels.untracked_value",
    "checkpoint",
    "checkpoint.base",
    "checkpoint.base.id",
    "checkpoint.memory",
    "checkpoint.postgres",
    "checkpoint.postgres.aio",
    "checkpoint.postgres.base",
    "checkpoint.postgres.shallow",
    "checkpoint.serde",
    "checkpoint.serde.base",
    "checkpoint.serde.encrypted",
    "checkpoint.serde.jsonplus",
    "checkpoint.serde.types",
    "checkpoint.sqlite",
    "checkpoint.sqlite.aio",
    "config",
    "constants",
    "errors",
    "func",
    "graph",
    "graph.message",
    "graph.state",
    "graph.ui",
    "managed",
    "managed.base",
    "managed.is_last_step",
    "pregel",
    "pregel.remote",
    "runtime",
    "store",
    "store.base",
    "store.base.batch",
    "store.base.embed",
    "store.memory",
    "store.postgres",
    "store.postgres.aio",
    "store.postgres.base",
    "store.sqlite",
    "store.sqlite.aio",
    "store.sqlite.base",
    "types",
    "typing",
    "version",
    "warnings",
)
_COUNTERPARTS: Final = {
    _ROOT: "milepost",
    **{f"{_ROOT}.{name}": f"milepost.{name}" for name in _SAME_NAME},
}

_ADVICE: Final = {
    "prebuilt": "Its agents and tool nodes are a loop of a few lines in a graph:"
    " examples/from_langgraph/tool_agent.py has it.",
    "pregel": "Compiled graphs are in langgraph.graph.state, and StateSnapshot and its like in"
    " langgraph.types.",
    "graph": "StateGraph is in langgraph.graph, and what it compiles to in langgraph.graph.state.",
    "utils": "It is not public in LangGraph, either.",
    "checkpoint": "A saver for another database needs LangGraph itself: pass it to milepost's"
    " graphs with milepost.integrations.langgraph.from_langgraph.",
}
"""What to do without a module that milepost has no counterpart for, by the first part of its
name."""


def install() -> None:
    """From now on, in this process, `langgraph` means milepost. Twice is the same as once."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    loaded = sorted(n for n in sys.modules if n == _ROOT or n.startswith(f"{_ROOT}."))
    if loaded:
        raise ImportError(
            f"LangGraph itself is already imported here ({', '.join(loaded[:3])}, …), so milepost"
            " cannot answer for it any more. Install the hook before anything imports langgraph."
        )
    sys.meta_path.insert(0, _Finder())


def is_installed() -> bool:
    """Whether `langgraph` means milepost in this process."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def offered() -> list[str]:
    """The modules of LangGraph that milepost answers for."""
    return sorted(name for name, ours in _COUNTERPARTS.items() if _exists(ours))


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # a parent needs something that is not installed
        return False


def _lacking(module: str) -> ModuleNotFoundError:
    advice = _ADVICE.get(module.split(".")[1])
    return ModuleNotFoundError(
        f"milepost has nothing in place of {module}."
        + (f" {advice}" if advice else "")
        + f" It answers for these modules: {', '.join(offered())}",
        name=module,
    )


class _Finder(MetaPathFinder):
    """Finds aliases. It is the first finder, so that an installed LangGraph is not found."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != _ROOT and not fullname.startswith(f"{_ROOT}."):
            return None
        ours = _COUNTERPARTS.get(fullname)
        if ours is None:
            raise _lacking(fullname)
        return ModuleSpec(fullname, _Aliasing(ours), is_package=True)


class _Aliasing(Loader):
    def __init__(self, ours: str) -> None:
        self._ours = ours

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Alias(spec.name, import_module(self._ours))

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute: the counterpart has been imported."""


class _Alias(ModuleType):
    """A module of LangGraph's name that holds what its counterpart holds."""

    def __init__(self, name: str, ours: ModuleType) -> None:
        super().__init__(name, ours.__doc__)
        self.__dict__["_ours"] = ours
        self.__all__ = _public(ours)

    def __getattr__(self, name: str) -> Any:
        ours: ModuleType = self.__dict__["_ours"]
        try:
            return getattr(ours, name)
        except AttributeError:
            if name.startswith("_") or f"{self.__name__}.{name}" in _COUNTERPARTS:
                raise  # the import system looks for a submodule next
        if self.__name__ == _ROOT:  # which holds nothing but modules
            raise _lacking(f"{_ROOT}.{name}")
        # ImportError, since `from x import y` would replace an AttributeError by its own words.
        raise ImportError(
            f"milepost has no {self.__name__}.{name}. Of {self.__name__} it has: "
            + ", ".join(self.__all__),
            name=self.__name__,
        )

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(self.__dict__["_ours"])})


def _public(module: ModuleType) -> list[str]:
    """The names that a module offers: what it says, or what it defines."""
    said: Sequence[str] | None = getattr(module, "__all__", None)
    if said is not None:
        return sorted(said)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", "milepost").partition(".")[0] == "milepost"
    )
