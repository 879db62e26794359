"""Needed by langgraph-prebuilt: where a tool finds the stream for what it says while it runs."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

_tool_call_writer: ContextVar[Callable[[Any], None] | None] = ContextVar(
    "milepost_tool_call_writer", default=None
)

__all__ = ["_tool_call_writer"]
