"""The engine's side of the bridge to LangChain.

A LangChain model or runnable that a node calls without a config takes the config of the node:
tags, metadata, callbacks. LangChain finds that config in a context variable of its own. The
variable is set here while a node runs, if the program has loaded LangChain.

The other side, `milepost.integrations.langchain`, is imported by name, and only if LangChain is
installed: this is the one module of the engine that imports from a layer above.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import Context, ContextVar
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any

from milepost._internal import fork_guard
from milepost.errors import MissingDependencyError
from milepost.messages import langchain_messages
from milepost.types import _ToolOutput

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost._engine.observers import RunObserver
    from milepost._engine.run import GraphRun
    from milepost.types import RunnableConfig

LANGCHAIN = "langchain_core.runnables.config"
"""The module of LangChain that has the context variable."""
_VARIABLE = "var_child_runnable_config"
_TOOLS = "langchain_core.messages.tool"
_variable: ContextVar[Any] | None = None
"""LangChain's context variable; None until LangChain is loaded."""


class _ConfigOnDemand(dict[Any, Any]):
    """A node's config, made when it is first read: most nodes call nothing that reads it.

    Making a config takes a quarter of a small step without a saver, and a third under `exit`.
    LangChain expects a dict, so each method of dict is overridden, and works on the config that the
    node sees: a change on either side shows on the other. Python's own C code calls these methods
    too, because `__iter__` is overridden. Other C code that reads the storage of a dict directly
    finds what the config was at the last call of a method, or before the first a key that is not
    text.
    """

    __slots__ = ("_context",)

    _context: TaskContext

    def __init__(self, context: TaskContext) -> None:
        dict.__setitem__(self, _UNFILLED, None)  # not empty: json reads the bare size
        self._context = context

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def _copy(self, config: RunnableConfig) -> None:
        """Bring the storage up to date."""
        with _copying:
            for gone in [key for key in dict.keys(self) if key not in config]:
                dict.__delitem__(self, gone)
            dict.update(self, config)


class _Unfilled:
    """The key of a config that was not looked at: what cannot read the config fails at this key."""

    def __repr__(self) -> str:
        raise TypeError("LangChain's config of a node is not filled yet: pass dict(config) on")


_UNFILLED = _Unfilled()
_copying = fork_guard.fresh_in_child(Lock())
_NEVER_LOOK = (
    *("__class_getitem__", "__doc__", "__getattribute__", "__hash__", "__init__", "__new__"),
    "fromkeys",
)


def _on_the_config(name: str) -> Callable[..., Any]:
    usual = getattr(dict, name)

    def method(self: _ConfigOnDemand, *arguments: Any, **named: Any) -> Any:
        config = self._context.config
        try:
            return usual(config, *map(_plain, arguments), **named)
        finally:
            self._copy(config)

    return method


def _plain(argument: Any) -> Any:
    return argument._context.config if type(argument) is _ConfigOnDemand else argument


for _name in vars(dict).keys() - set(_NEVER_LOOK):
    setattr(_ConfigOnDemand, _name, _on_the_config(_name))


def _config_variable() -> ContextVar[Any] | None:
    global _variable
    if _variable is None:
        _variable = getattr(sys.modules.get(LANGCHAIN), _VARIABLE, None)
        if _variable is not None:
            let_tools_return_commands()
    return _variable


def share_config(variables: Context, context: TaskContext) -> None:
    """Let LangChain find a node's config in the context that the node runs in."""
    variable = _config_variable()
    if variable is not None:
        variables.run(variable.set, _ConfigOnDemand(context))


def config_around() -> RunnableConfig | None:
    """The config of the innermost LangChain runnable that this code runs in.

    None if a node of ours is further inside: its TaskContext says more.
    """
    variable = _config_variable()
    found = None if variable is None else variable.get()
    return None if found is None or type(found) is _ConfigOnDemand else found


def callbacks_around(context: TaskContext | None) -> Any:
    """The callbacks of a graph or task that is called here."""
    around = config_around()
    if around is not None and around.get("callbacks") is not None:
        return around["callbacks"]
    return None if context is None else context.callbacks


def is_langchain_runnable(target: Any) -> bool:
    """Whether the class of `target` derives from LangChain's Runnable."""
    base: Any = sys.modules.get("langchain_core.runnables.base")
    return base is not None and base.Runnable in type(target).__mro__


def steps_of(target: Any) -> Any:
    """What runs a node that is a runnable of LangChain's own; `target` for anything else."""
    # Not a compiled graph: it does not derive from Runnable, or it has `aget_state`.
    if not is_langchain_runnable(target) or hasattr(target, "aget_state"):
        return target
    return import_module("milepost.integrations._langchain.sequences").Steps(target)


# -- what tools return


def let_tools_return_commands() -> None:
    """Let LangChain's tools return a Command. A second call changes nothing.

    LangChain turns the result of a tool into text, unless the result is a `ToolOutputMixin`. So
    Command derives from a class of ours that gets `ToolOutputMixin` as a base once LangChain is
    loaded.
    """
    theirs: type | None = getattr(sys.modules.get(_TOOLS), "ToolOutputMixin", None)
    if theirs is not None and not issubclass(_ToolOutput, theirs):
        _ToolOutput.__bases__ = (*_ToolOutput.__bases__, theirs)


# -- who listens to a run

_TRACING = ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING_V2")
_OFF = ("", "0", "false", "False")
"""What LangChain takes for a switch that is off."""
_LISTENERS = ("langchain_core.tracers.context", "langsmith.run_helpers")
"""Modules that add handlers to runs without callbacks."""


def watch(run: GraphRun, input: Any) -> RunObserver | None:  # noqa: ARG001
    """An observer that calls LangChain's handlers, if some listen to this run."""
    callbacks = run.resources.config.get("callbacks")
    # A manager in the config of a node may have no handlers.
    if not getattr(callbacks, "handlers", callbacks) and not _may_listen(run):
        return None
    if langchain_messages() is None:
        return None
    module = import_module("milepost.integrations._langchain.callbacks")
    follows: RunObserver | None = module.follow(run)
    return follows


def _may_listen(run: GraphRun) -> bool:
    """Whether handlers may listen to a run without callbacks: LangChain is then asked."""
    modules = sys.modules
    if LANGCHAIN in modules:
        if not modules.keys().isdisjoint(_LISTENERS):
            return True
        if getattr(modules.get("langchain_core.globals"), "get_debug", bool)():
            return True
    # Only the outermost run reads the environment, which takes microseconds.
    given = os.environ
    return run.depth == 0 and any(n in given and given[n] not in _OFF for n in _TRACING)


def load() -> None:
    """Import LangChain's runnables if they are installed: the `messages` stream needs them."""
    if langchain_messages() is not None:
        import_module(LANGCHAIN)


def parallel(steps: dict[str, Any]) -> Any:
    """A LangChain runnable that calls each of several with the same input."""
    try:
        return import_module("langchain_core.runnables").RunnableParallel(steps)
    except ImportError as error:
        raise MissingDependencyError(
            "A dict as a node calls its values side by side, which LangChain does: "
            "pip install 'langchain-core'. Or give a function that returns a dict."
        ) from error


def with_callbacks(config: RunnableConfig, context: TaskContext) -> RunnableConfig:
    """A node's config with a manager of the callbacks of the caller and of the `messages` stream.

    Without either, it is a manager without handlers: LangChain's `dispatch_custom_event` needs one.
    """
    if langchain_messages() is None:
        return config
    listening: RunnableConfig = import_module("milepost.integrations.langchain").listening(
        config, context
    )
    return listening
