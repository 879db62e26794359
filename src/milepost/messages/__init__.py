"""Messages of a conversation: LangChain's classes where they are installed, otherwise our own.

    from milepost.messages import AIMessage, HumanMessage

With langchain-core installed, `HumanMessage` *is* LangChain's class, so programs that come from
there need no change. Without it, it is a light record with the same attributes. Which of the two
is decided when a name is first used, so that importing milepost imports nothing of LangChain.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from milepost.messages._light import (
        AIMessage,
        AIMessageChunk,
        AnyMessage,
        BaseMessage,
        HumanMessage,
        RemoveMessage,
        SystemMessage,
        ToolMessage,
        convert_to_messages,
    )

__all__ = [
    "AIMessage",
    "AIMessageChunk",
    "AnyMessage",
    "BaseMessage",
    "HumanMessage",
    "RemoveMessage",
    "SystemMessage",
    "ToolMessage",
    "convert_to_messages",
    "is_message",
    "is_removal",
]

_LANGCHAIN = "langchain_core.messages"
_LIGHT = "milepost.messages._light"


@cache
def langchain_messages() -> ModuleType | None:
    """LangChain's module of messages, imported now; None if it is not installed."""
    from importlib.util import find_spec

    try:
        loaded = sys.modules.get("langchain_core") is not None
        found = loaded or find_spec("langchain_core") is not None
    except (ImportError, ValueError):
        found = False
    return import_module(_LANGCHAIN) if found else None


def is_message(value: object) -> bool:
    """Whether something is a message, of LangChain's or ours. Imports nothing.

    Args:
        value: Anything.

    Examples:
        >>> from milepost.messages import convert_to_messages, is_message
        >>> [message] = convert_to_messages(["Hi"])
        >>> is_message(message), is_message("Hi")
        (True, False)
    """
    for name in (_LIGHT, _LANGCHAIN):
        module = sys.modules.get(name)  # a class that is not imported has no instances
        if module is not None and isinstance(value, module.BaseMessage):
            return True
    return False


def is_removal(message: Any) -> bool:
    """Whether a message removes another one.

    Args:
        message: A message.

    Examples:
        >>> from milepost.messages import convert_to_messages, is_removal
        >>> [message] = convert_to_messages(["Hi"])
        >>> is_removal(message)
        False
    """
    return getattr(message, "type", None) == "remove"


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # what the import system and inspection tools ask for
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    installed = None if name == "convert_to_messages" else langchain_messages()
    source = import_module(_LIGHT) if installed is None else installed
    try:
        found = getattr(source, name)
    except AttributeError:
        hint = (
            ". LangChain's may have it: `pip install langchain-core`" if installed is None else ""
        )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}") from None
    globals()[name] = found
    return found
