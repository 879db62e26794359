"""What models demand of a conversation."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage


def check_history(messages: Sequence[BaseMessage]) -> None:
    """Raise ValueError if a tool call has no answer: most models refuse such a conversation."""
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    unanswered = [
        call
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["id"] not in answered
    ]
    if unanswered:
        raise ValueError(
            "Found AIMessages with tool_calls that do not have a corresponding ToolMessage, which "
            f"models refuse. The first of them: {unanswered[:3]}. Let the tools run first, or "
            "add a ToolMessage with the id of each call."
        )
