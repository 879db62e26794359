"""Lets LangChain's tools return a Command.

LangChain turns whatever a tool returns into text, unless it is of a class of LangChain's own. So
Command derives from a class that gets LangChain's as a base once LangChain is loaded.
"""

from __future__ import annotations

import sys

from milepost.types import _ToolOutput

_MODULE = "langchain_core.messages.tool"


def let_tools_return_commands() -> None:
    """From now on Command is one of LangChain's tool outputs. Twice is the same as once."""
    theirs: type | None = getattr(sys.modules.get(_MODULE), "ToolOutputMixin", None)
    if theirs is not None and not issubclass(_ToolOutput, theirs):
        _ToolOutput.__bases__ = (*_ToolOutput.__bases__, theirs)
