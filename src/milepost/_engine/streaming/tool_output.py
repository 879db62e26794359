"""Parts of a tool's output, on their way to a stream.

While a tool call is listened to, the variable holds what its parts are given to.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

tool_output_writer: ContextVar[Callable[[Any], None] | None] = ContextVar(
    "milepost_tool_output_writer", default=None
)
