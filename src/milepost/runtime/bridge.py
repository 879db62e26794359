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
from typing import TYPE_CHECKING, Any

from milepost.messages.kinds import langchain_messages

if TYPE_CHECKING:
    from milepost.runtime.scope import Scope
    from milepost.types import RunnableConfig

_HOME = "langchain_core.runnables.config"
_VARIABLE = "var_child_runnable_config"
_variable: ContextVar[Any] | None = None
"""The context variable of that name, once LangChain is loaded."""


class _ConfigOnDemand(dict[str, Any]):
    """A node's config, made when LangChain looks into it: most nodes call nothing that does.

    Making it costs a third of a small step. It must be a dict, since LangChain expects one.
    """

    __slots__ = ("_scope",)

    _scope: Scope | None

    def _fill(self) -> None:
        scope = self._scope
        if scope is not None:
            dict.update(self, scope.config)
            self._scope = None


def _after_filling(name: str) -> Callable[..., Any]:
    read = getattr(dict, name)

    def method(self: _ConfigOnDemand, *arguments: Any) -> Any:
        self._fill()
        return read(self, *arguments)

    return method


for _name in (
    *("__contains__", "__eq__", "__getitem__", "__iter__", "__len__", "__or__", "__repr__"),
    *("__ror__", "copy", "get", "items", "keys", "values"),
):
    setattr(_ConfigOnDemand, _name, _after_filling(_name))


def share_config(context: Context, scope: Scope) -> None:
    """Let LangChain find a node's config in the context that the node runs in."""
    global _variable
    if _variable is None:
        _variable = getattr(sys.modules.get(_HOME), _VARIABLE, None)
        if _variable is None:
            return
    config = _ConfigOnDemand()
    config._scope = scope
    context.run(_variable.set, config)


def load() -> None:
    """Import LangChain's runnables if they are installed: somebody wants the tokens of models."""
    if langchain_messages() is not None:
        import_module(_HOME)


def with_callbacks(config: RunnableConfig, scope: Scope) -> RunnableConfig:
    """A node's config with what the caller and the `messages` stream want to hear of models."""
    if langchain_messages() is None:
        return config
    listening: RunnableConfig = import_module("milepost.integrations.langchain").listening(
        config, scope
    )
    return listening
