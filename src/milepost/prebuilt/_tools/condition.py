"""Where to go after a model has answered."""

from __future__ import annotations

from typing import Any, Literal


def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """For a conditional edge: "tools" if the last message calls tools, otherwise END.

    Args:
        state: A list of messages, or a dict or an object that has one.
        messages_key: Where it has them.

    Raises:
        ValueError: There is no message.

    Examples:
        >>> from langchain_core.messages import AIMessage
        >>> from milepost.prebuilt import tools_condition
        >>> call = {"name": "weather", "args": {"city": "Paris"}, "id": "1"}
        >>> tools_condition({"messages": [AIMessage("", tool_calls=[call])]})
        'tools'
    """
    messages = state if isinstance(state, list) else None
    if isinstance(state, dict):
        messages = state.get(messages_key)
    messages = messages or getattr(state, messages_key, None)
    if not messages:
        raise ValueError(
            f"No messages found in input state to tool_edge: there is no '{messages_key}' in "
            f"{state!r}."
        )
    return "tools" if getattr(messages[-1], "tool_calls", None) else "__end__"
