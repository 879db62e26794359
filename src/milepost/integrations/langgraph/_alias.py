"""Answers `import langgraph…` with milepost, and runs programs that were written for LangGraph.

Every module of LangGraph that milepost has a counterpart for is answered by an alias: a module
that looks its names up in the counterpart. The others, and names that we lack, fail when they are
imported, with a list of what there is. Packages that others have put below `langgraph`, such as
savers for other databases, are loaded from where they are installed, and what they import is
milepost's. LangGraph itself need not be installed.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from milepost._engine.context import task_context
from milepost._engine.context.runtime import GIVEN_RUNTIME

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost.channels.base import BaseChannel

_ROOT: Final = "langgraph"
_SHIMS: Final = "milepost.integrations.langgraph._shims"
_OURS_ALONE: Final = {"as_langgraph", "cli", "integrations", "messages", "native", "testing"}
"""Modules of milepost that have no counterpart in LangGraph."""

_PRIVATE: Final = {
    "_internal": _SHIMS,
    "_internal._config": f"{_SHIMS}.config",
    "_internal._constants": f"{_SHIMS}.constants",
    "_internal._runnable": f"{_SHIMS}.runnable",
    "_internal._typing": f"{_SHIMS}.constants",
    "pregel._tools": f"{_SHIMS}.constants",
    "stream._convert": "milepost.stream._types",
    "stream._mux": "milepost.stream._mux",
    "stream._types": "milepost.stream._types",
    "utils": _SHIMS,
    "utils.config": f"{_SHIMS}.config",
    "utils.runnable": f"{_SHIMS}.runnable",
}
"""LangGraph's private modules that others need (agents of langchain, deepagents, langgraph-prebuilt
and -supervisor, langmem, trustcall, copilotkit), and its `utils`, which passes those on."""

_SHARED: Final = {_ROOT, f"{_ROOT}.cache", f"{_ROOT}.checkpoint", f"{_ROOT}.store"}
"""Packages in which others than LangGraph put theirs: `langgraph.checkpoint.mongodb`."""

_ADVICE: Final = {
    "graph": "StateGraph is in langgraph.graph, and what it compiles to in langgraph.graph.state.",
    "checkpoint": "A saver for another database comes from a package of its own: install that.",
}
"""What to do without a module that milepost has no counterpart for, by the first part of its
name."""


def install(original: Sequence[str] = ()) -> None:
    """Make imports of `langgraph` give milepost, in this process. A second call does nothing.

    `original` names packages below `langgraph`, such as "prebuilt", that are to be LangGraph's own.
    They are loaded from where they are installed, and what they import is milepost's.
    """
    if is_installed():
        return
    loaded = sorted(n for n in sys.modules if n == _ROOT or n.startswith(f"{_ROOT}."))
    if loaded:
        raise ImportError(
            f"LangGraph itself is already imported here ({', '.join(loaded[:3])}, …), so milepost"
            " cannot answer for it any more. Install the hook before anything imports langgraph."
        )
    sys.meta_path.insert(0, _Finder(original))
    task_context.for_configs.append(langgraph_keys)


def is_installed() -> bool:
    """Whether `langgraph` means milepost in this process."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def offered() -> list[str]:
    """The modules of LangGraph that milepost answers for."""
    return [_ROOT, *sorted(name for name in _modules("milepost", _ROOT) if _counterpart(name))]


def _modules(package: str, alias: str) -> Iterator[str]:
    """The public modules below a package, under the names of LangGraph; none is imported."""
    spec = find_spec(package)
    for module in iter_modules(spec.submodule_search_locations if spec else None):
        if module.name.startswith("_") or f"{package}.{module.name}" == "milepost.__main__":
            continue
        yield f"{alias}.{module.name}"
        if module.ispkg and module.name not in _OURS_ALONE:
            yield from _modules(f"{package}.{module.name}", f"{alias}.{module.name}")


@cache
def _counterpart(module: str) -> str | None:
    """The module that answers for one of LangGraph's; None if there is none.

    A public module is answered by the one of the same name, a private one by that in `_PRIVATE`.
    """
    _, _, name = module.partition(".")
    if not name:
        return "milepost"
    if name.split(".")[0] in _OURS_ALONE:
        return None
    if any(part.startswith("_") or part == "utils" for part in name.split(".")):
        return _PRIVATE.get(name)
    ours = f"milepost.{name}"
    try:
        return ours if find_spec(ours) is not None else None
    except ImportError:  # a parent is no package, or needs something that is not installed
        return None


def _is_shared(module: str) -> bool:
    """Whether a module is at a place where others than LangGraph put theirs."""
    parent, _, name = module.rpartition(".")
    return parent in _SHARED and not name.startswith("_")


def _installed(module: str) -> ModuleSpec | None:
    """The package of this name that is installed; its parents are aliases."""
    parents = module.split(".")[:-1]
    return PathFinder.find_spec(module, [os.path.join(entry, *parents) for entry in sys.path])


def _lacking(module: str) -> ModuleNotFoundError:
    advice = _ADVICE.get(module.split(".")[1])
    return ModuleNotFoundError(
        f"milepost has nothing in place of {module}."
        + (f" {advice}" if advice else "")
        + f" It answers for these modules: {', '.join(offered())}",
        name=module,
    )


class _Finder(MetaPathFinder, Loader):
    """Finds and makes aliases. It is the first finder, so that an installed LangGraph is not
    found."""

    def __init__(self, original: Sequence[str] = ()) -> None:
        self._original = [f"{_ROOT}.{name}" for name in original]

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != _ROOT and not fullname.startswith(f"{_ROOT}."):
            return None
        if any(fullname.startswith(f"{name}.") for name in self._original):
            return PathFinder.find_spec(fullname, path, target)
        if fullname not in self._original:
            if (ours := _counterpart(fullname)) is not None:
                return ModuleSpec(fullname, self, loader_state=ours, is_package=True)
            if not _is_shared(fullname):
                raise _lacking(fullname)
        if (found := _installed(fullname)) is None:
            raise _lacking(fullname)
        self._original.append(fullname)
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Alias(spec.name, import_module(spec.loader_state))

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
            module = f"{self.__name__}.{name}"
            if name.startswith("_") or _counterpart(module):
                raise  # the import system looks for a submodule next
            if _is_shared(module) and _installed(module):
                raise
        if self.__name__ == _ROOT:  # which holds nothing but modules
            raise _lacking(module)
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
    declared: Sequence[str] | None = getattr(module, "__all__", None)
    if declared is not None:
        return sorted(declared)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", "milepost").partition(".")[0] == "milepost"
    )


# -- what LangGraph puts into a node's config, for programs that look for it there

READ: Final = "__pregel_read"
SEND: Final = "__pregel_send"


def langgraph_keys(context: TaskContext) -> dict[str, Any]:
    """What a node's config holds besides what milepost puts there.

    `deepagents` and `langgraph-prebuilt` read and write the state of the graph around them this
    way, and programs that have a config alone find the context and the store in the runtime.
    """
    channels = context.run.channels
    state = {name: channels.live[name] for name in channels.key_places}
    # Callers look for the channels in the arguments of the partial function.
    return {
        READ: partial(_read, context, state),
        SEND: partial(_send, context),
        GIVEN_RUNTIME: context.runtime,
    }


def _read(
    context: TaskContext,
    channels: Mapping[str, BaseChannel[Any, Any, Any]],
    select: str | Sequence[str],
    fresh: bool = False,
) -> Any:
    """Keys of the state; `fresh` with what the task has sent already."""
    state = context.run.channels
    values: Mapping[str, Any] = state.values
    if fresh and context.pushed:
        values = state.preview(context.pushed)
    if isinstance(select, str):
        return values.get(select)
    return {key: values[key] for key in select if key in values and key in channels}


def _send(context: TaskContext, writes: Sequence[tuple[str, Any]]) -> None:
    """Write to keys of the state when the task ends, before what it returns."""
    context.pushed = [*context.pushed, *writes]


# -- programs


def run_program(arguments: Sequence[str], original: Sequence[str] = ()) -> None:
    """Run `program.py …` or `-m module …` as Python would, with `langgraph` meaning milepost.

    `original` names packages below `langgraph` that are LangGraph's own.
    What the program raises, SystemExit included, comes out as it is.
    """
    install(original)
    first, *rest = arguments
    if first == "-m":
        module, *rest = rest
        sys.argv = [module, *rest]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    sys.argv = [first, *rest]
    sys.path.insert(0, os.path.dirname(os.path.abspath(first)))
    runpy.run_path(first, run_name="__main__")
