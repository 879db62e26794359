"""Lets a running tool stream parts of its output."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

Writer: TypeAlias = Callable[[Any], None]
"""Sends a part of the output of one tool call to the `tools` stream."""

current_writer: ContextVar[Writer | None] = ContextVar("milepost_tool_call_writer", default=None)
"""The writer of the present tool call; None if the `tools` stream has no consumer."""
