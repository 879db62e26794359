"""How the tool that runs here sends parts of its output before it has ended."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

Writer: TypeAlias = Callable[[Any], None]
"""Sends a part of the output of one tool call to the `tools` stream."""

current_writer: ContextVar[Writer | None] = ContextVar("milepost_tool_call_writer", default=None)
"""The writer of the call that this code is part of, while the `tools` stream has a consumer."""
