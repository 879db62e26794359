"""The runtime's side of the bridge to LangChain.

A LangChain model or runnable that a node calls without a config takes the one of the run around
it: tags, metadata, callbacks. LangChain keeps that in a context variable of its own, which is set
here while a node runs, if the program has loaded LangChain at all.

The other side, `milepost.integrations.langchain`, is looked up by name and only where LangChain is
installed: the one place where the runtime reaches down a layer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import Context, ContextVar
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any

from milepost._engine.context.tool_commands import let_tools_return_commands
from milepost._internal import fork_guard
from milepost.messages._kinds import langchain_messages

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost.types import RunnableConfig

LANGCHAIN = "langchain_core.runnables.config"
"""The module that is asked for, once a program has loaded it."""
_VARIABLE = "var_child_runnable_config"
_variable: ContextVar[Any] | None = None
"""The context variable of that name, once LangChain is loaded."""


class _ConfigOnDemand(dict[Any, Any]):
    """A node's config, made when it is first read: most nodes call nothing that reads it.

    Making it takes a quarter of a small step without a saver, and a third of one under `exit`. It
    must be a dict, since LangChain expects one, and each method of dict fills it first. Python's
    own C code asks these methods as well, because `__iter__` is not that of dict; code that does
    not, and takes the items from where a dict keeps them, finds a key that is no text.
    """

    __slots__ = ("_context",)

    _context: TaskContext | None

    def __init__(self, context: TaskContext) -> None:
        dict.__setitem__(self, _UNFILLED, None)  # not empty, as json asks for the bare size
        self._context = context

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def _fill(self) -> None:
        context = self._context
        if context is None:
            return
        config = context.config
        with _filling:
            if self._context is not None:  # otherwise another thread has filled it
                dict.clear(self)
                dict.update(self, config)
                self._context = None


_UNFILLED = object()
_filling = fork_guard.fresh_in_child(Lock())
_NEVER_LOOK = (
    *("__class_getitem__", "__doc__", "__getattribute__", "__hash__", "__init__", "__new__"),
    "fromkeys",
)


def _after_filling(name: str) -> Callable[..., Any]:
    usual = getattr(dict, name)

    def method(self: _ConfigOnDemand, *arguments: Any, **named: Any) -> Any:
        self._fill()
        for one in arguments:
            if isinstance(one, _ConfigOnDemand):
                one._fill()
        return usual(self, *arguments, **named)

    return method


for _name in vars(dict).keys() - set(_NEVER_LOOK):
    setattr(_ConfigOnDemand, _name, _after_filling(_name))


def share_config(variables: Context, context: TaskContext) -> None:
    """Let LangChain find a node's config in the context that the node runs in."""
    global _variable
    if _variable is None:
        _variable = getattr(sys.modules.get(LANGCHAIN), _VARIABLE, None)
        if _variable is None:
            return
        let_tools_return_commands()
    variables.run(_variable.set, _ConfigOnDemand(context))


def load() -> None:
    """Import LangChain's runnables if they are installed: the `messages` stream needs them."""
    if langchain_messages() is not None:
        import_module(LANGCHAIN)


def with_callbacks(config: RunnableConfig, context: TaskContext) -> RunnableConfig:
    """A node's config with the callbacks of the caller and of the `messages` stream."""
    if langchain_messages() is None:
        return config
    listening: RunnableConfig = import_module("milepost.integrations.langchain").listening(
        config, context
    )
    return listening
