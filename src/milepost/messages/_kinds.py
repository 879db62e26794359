"""What is a message, and whose. Asking imports none of their classes."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

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
