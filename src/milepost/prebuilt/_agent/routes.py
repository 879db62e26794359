"""Where an agent goes next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolCall, ToolMessage

from milepost._internal.dataclass_tools import record
from milepost.constants import END
from milepost.prebuilt._agent.states import get
from milepost.types import Send

AGENT, TOOLS = "agent", "tools"
BEFORE, AFTER = "pre_model_hook", "post_model_hook"
STRUCTURE = "generate_structured_response"
"""The names of the nodes."""


@record
class Routes:
    """The edges of an agent."""

    entry: str
    """Where each round begins."""
    finish: str
    """Where an agent goes that calls no more tools, hooks apart."""
    has_after_hook: bool
    sends: bool
    """Whether each call gets a task of the tools node."""
    return_direct: Collection[str]
    """Tools after which the agent ends."""

    def should_continue(self, state: Any) -> str | list[Send]:
        """After the model."""
        if self.has_after_hook:
            return AFTER
        last = get(state, "messages")[-1]
        if not isinstance(last, AIMessage) or not last.tool_calls:
            return self.finish
        return _each(last.tool_calls) if self.sends else TOOLS

    def post_model_hook_router(self, state: Any) -> str | list[Send]:
        """After the hook that follows the model: to the calls that it left unanswered."""
        messages = get(state, "messages")
        answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
        last = next(m for m in reversed(messages) if isinstance(m, AIMessage))
        if pending := [call for call in last.tool_calls if call["id"] not in answered]:
            return _each(pending)
        return self.entry if isinstance(messages[-1], ToolMessage) else self.finish

    def route_tool_responses(self, state: Any) -> str:
        """After the tools, if some of them end the agent."""
        for message in reversed(get(state, "messages")):
            if isinstance(message, ToolMessage):
                if message.name in self.return_direct:
                    return END
                continue
            # Parallel calls are answered one by one: the one that ends the agent may come later.
            calls = message.tool_calls if isinstance(message, AIMessage) else ()
            return END if any(c["name"] in self.return_direct for c in calls) else self.entry
        return self.entry


def _each(calls: Sequence[ToolCall]) -> list[Send]:
    """A task for each call. The state is not sent along: the tools node reads it."""
    return [Send(TOOLS, [{**call, "type": "tool_call"}]) for call in calls]
