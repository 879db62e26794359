"""LangChain's messages and documents, which programs keep in their state.

They are pydantic models and stored as such, under names of our own. The list is fixed: a stored
name chooses among these classes and no others, so reading may import langchain_core for them.

`message.text` is a `TextAccessor`, which is text that can be called as a method was in older
versions. It is stored as the text that it is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from milepost.checkpoint.serde._msgpack.codec import Level
    from milepost.checkpoint.serde.registry import TypeRegistry, Writer

_MESSAGES: Final = ("AI", "Chat", "Function", "Human", "System", "Tool")
HOMES: Final = {
    **{f"{name}Message": "langchain_core.messages" for name in _MESSAGES},
    **{f"{name}MessageChunk": "langchain_core.messages" for name in _MESSAGES},
    "RemoveMessage": "langchain_core.messages",
    "Document": "langchain_core.documents",
}
"""Class names, and the public modules that have them."""


_TEXT: Final = "TextAccessor"


def _write_text(value: str, _: Level) -> str:
    return str.__str__(value)


def writer_for(cls: type, registry: TypeRegistry) -> Writer | None:
    """The writer of one of the classes in the list; None for any other class."""
    if cls.__name__ == _TEXT and issubclass(cls, str):
        return _write_text
    home = HOMES.get(cls.__name__)
    if home is None or getattr(sys.modules.get(home), cls.__name__, None) is not cls:
        return None
    registry.register(cls, name=f"langchain_core:{cls.__name__}")
    return registry.writers[cls]


def allow_name(name: str, registry: TypeRegistry) -> None:
    """Register the class that is stored as `name`, if it is in the list."""
    short = name.partition(":")[2]
    home = HOMES.get(short)
    if home is None:
        return
    try:
        cls: Any = getattr(import_module(home), short)
    except ImportError as error:
        raise DeserializationError(
            f"the stored value is a LangChain {short}; run `pip install langchain-core` to read it"
        ) from error
    registry.register(cls, name=name)
