"""Lets LangChain's tools return a Command.

LangChain turns the result of a tool into text, unless the result is a `ToolOutputMixin`. So Command
derives from a class of ours that gets `ToolOutputMixin` as a base once LangChain is loaded.
"""

from __future__ import annotations

import sys

from milepost.types import _ToolOutput

_MODULE = "langchain_core.messages.tool"


def let_tools_return_commands() -> None:
    """Make Command one of LangChain's tool outputs. A second call changes nothing."""
    theirs: type | None = getattr(sys.modules.get(_MODULE), "ToolOutputMixin", None)
    if theirs is not None and not issubclass(_ToolOutput, theirs):
        _ToolOutput.__bases__ = (*_ToolOutput.__bases__, theirs)
