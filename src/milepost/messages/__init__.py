"""Messages of a conversation: LangChain's classes where they are installed, otherwise our own.

    from milepost.messages import AIMessage, HumanMessage

With langchain-core installed, `HumanMessage` *is* LangChain's class, so programs that come from
there need no change. Without it, it is a light record with the same attributes. Which of the two
is decided when a name is first used, so that importing milepost imports nothing of LangChain.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from milepost.messages._kinds import is_message, is_removal, langchain_messages

if TYPE_CHECKING:
    from milepost.messages._coerce import convert_to_messages
    from milepost.messages._light import (
        AIMessage,
        AIMessageChunk,
        AnyMessage,
        BaseMessage,
        HumanMessage,
        RemoveMessage,
        SystemMessage,
        ToolMessage,
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


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # what the import system and inspection tools ask for
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "convert_to_messages":
        from milepost.messages._coerce import convert_to_messages

        globals()[name] = convert_to_messages
        return convert_to_messages
    installed = langchain_messages()
    source = import_module("milepost.messages._light") if installed is None else installed
    try:
        found = getattr(source, name)
    except AttributeError:
        hint = (
            ". LangChain's may have it: `pip install langchain-core`" if installed is None else ""
        )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}") from None
    globals()[name] = found
    return found
