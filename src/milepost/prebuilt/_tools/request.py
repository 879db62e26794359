"""One call of a tool, as it is given to functions that wrap calls."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from typing_extensions import TypedDict, Unpack

from milepost.prebuilt._tools.injection import ToolRuntime
from milepost.types import Command

ToolResult: TypeAlias = "ToolMessage | Command[Any]"
ToolOutput: TypeAlias = "ToolResult | list[ToolResult]"
"""The result of one call of a tool."""


class Overrides(TypedDict, total=False):
    """The fields that `ToolCallRequest.override` can change."""

    tool_call: ToolCall
    tool: BaseTool
    state: Any


@dataclass
class ToolCallRequest:
    """A tool call that is about to be made. `override` gives a changed copy.

    Examples:
        >>> from milepost.prebuilt import ToolNode
        >>> def weather(city: str) -> str:
        ...     '''The weather in a city.'''
        ...     return f"Rain in {city}"
        >>> def in_capitals(request, execute):
        ...     call = request.tool_call
        ...     changed = {**call, "args": {"city": call["args"]["city"].upper()}}
        ...     return execute(request.override(tool_call=changed))
        >>> call = {"name": "weather", "args": {"city": "Paris"}, "id": "1", "type": "tool_call"}
        >>> ToolNode([weather], wrap_tool_call=in_capitals).invoke([call])["messages"][0].content
        'Rain in PARIS'
    """

    tool_call: ToolCall
    """The name, arguments and id that the model gave."""
    tool: BaseTool | None
    """None if the node has no tool of that name."""
    state: Any
    """The state of the graph."""
    runtime: ToolRuntime[Any, Any]
    """What the tool gets of the run."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIELDS and name in vars(self):
            warnings.warn(
                f"Setting attribute '{name}' on ToolCallRequest is deprecated: other code may hold "
                "the same request. Use the override() method, which makes a copy.",
                DeprecationWarning,
                stacklevel=2,
            )
        object.__setattr__(self, name, value)

    def override(self, **overrides: Unpack[Overrides]) -> ToolCallRequest:
        """A copy with another call, tool or state.

        Args:
            **overrides: `tool_call`, `tool` or `state`.
        """
        return replace(self, **overrides)


_FIELDS = frozenset(each.name for each in fields(ToolCallRequest))

ToolCallWrapper: TypeAlias = Callable[
    [ToolCallRequest, Callable[[ToolCallRequest], ToolResult]], ToolResult
]
"""Is given a request and a function that makes the call; returns what the call is to come to.

The function may be called several times, with changed requests, or not at all.
"""

AsyncToolCallWrapper: TypeAlias = Callable[
    [ToolCallRequest, Callable[[ToolCallRequest], Awaitable[ToolResult]]], Awaitable[ToolResult]
]
"""ToolCallWrapper, for use on an event loop."""

WITH_CONTEXT = "tool_call_with_context"
"""The mark of a ToolCallWithContext."""

ToolCallWithContext = TypedDict(
    "ToolCallWithContext",
    {"tool_call": ToolCall, "__type": Literal["tool_call_with_context"], "state": Any},
)
"""A tool call and the state that it was made in, as the argument of a `Send` to a ToolNode."""
