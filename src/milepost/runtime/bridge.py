"""The runtime's side of the bridge to LangChain.

A LangChain model or runnable that a node calls without a config takes the one of the run around
it: tags, metadata, callbacks. LangChain keeps that in a context variable of its own, which is set
here while a node runs, if the program has loaded LangChain at all.

The other side, `milepost.integrations.langchain`, is looked up by name and only where LangChain is
installed: the one place where the runtime reaches down a layer.
"""

from __future__ import annotations

import sys
from contextvars import Token
from importlib import import_module
from typing import TYPE_CHECKING, Any

from milepost.messages.coerce import langchain_messages

if TYPE_CHECKING:
    from milepost.runtime.scope import Scope
    from milepost.types import RunnableConfig

_HOME = "langchain_core.runnables.config"
_VARIABLE = "var_child_runnable_config"


def share_config(scope: Scope) -> Token[Any] | None:
    """Let LangChain find a node's config; give the result to `unshare` when the node is done."""
    variable = getattr(sys.modules.get(_HOME), _VARIABLE, None)
    return None if variable is None else variable.set(scope.config)


def unshare(token: Token[Any]) -> None:
    """Take back what `share_config` did."""
    token.var.reset(token)


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
