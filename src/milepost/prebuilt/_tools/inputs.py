"""What a ToolNode is called with: which tools to call, and in which state."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage, ToolCall
from langchain_core.runnables import RunnableConfig

from milepost._internal.dataclass_tools import record
from milepost.prebuilt._tools.request import WITH_CONTEXT

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext

READ_STATE = "__pregel_read"
"""The key of `configurable` under which code outside a run can give a function that reads the
state, as in LangGraph."""


class InputKind(Enum):
    """The form of the input, which the form of the output follows."""

    STATE = "dict"
    MESSAGES = "list"
    CALLS = "tool_calls"


@record
class ToolInput:
    """A parsed input."""

    kind: InputKind
    calls: Sequence[ToolCall]
    state: Any
    """What tools see as the state; None if that is to be read from the run."""


def parsed(input: Any, messages_key: str) -> ToolInput:
    """The calls in a state, in a list of messages, or in what a `Send` brings."""
    if isinstance(input, dict) and input.get("__type") == WITH_CONTEXT:
        return ToolInput(InputKind.CALLS, [input["tool_call"]], input["state"])
    if isinstance(input, list) and input and _is_call(input[-1]):
        return ToolInput(InputKind.CALLS, input, None)
    if isinstance(input, list):
        return ToolInput(InputKind.MESSAGES, _last_calls(input), input)
    if not (messages := _messages(input, messages_key)):
        raise ValueError(
            f"No message found in input: a ToolNode takes a state with '{messages_key}', a list of "
            f"messages or a list of tool calls, not {input!r}."
        )
    return ToolInput(InputKind.STATE, _last_calls(messages), input)


def _messages(state: Any, key: str) -> Sequence[Any] | None:
    """The messages of a state that is a dict or an object."""
    found: Sequence[Any] | None = state.get(key) if isinstance(state, dict) else None
    return found or getattr(state, key, None)


def _is_call(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "tool_call"


def _last_calls(messages: Sequence[Any]) -> list[ToolCall]:
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return list(message.tool_calls)
    raise ValueError("No AIMessage found in input: there is none that could call a tool.")


def state_of_run(context: TaskContext | None, config: RunnableConfig) -> Any:
    """The state of the graph around a ToolNode that was sent a call without it."""
    if context is None:
        read = (config.get("configurable") or {}).get(READ_STATE)
        return {} if read is None else read(list(read.args[1]), True)
    run, reader = context.run, context.task.node.reader
    if reader.channel is not None or reader.build is not None:
        return reader.read(run.channels, context.task.base[2], run.stop)
    state = dict(run.channels.values)
    shaped = reader.read(run.channels, context.task.base[2], run.stop)
    return {**state, **shaped}


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
    messages = state if isinstance(state, list) else _messages(state, messages_key)
    if not messages:
        raise ValueError(
            f"No messages found in input state to tool_edge: there is no '{messages_key}' in "
            f"{state!r}."
        )
    return "tools" if getattr(messages[-1], "tool_calls", None) else "__end__"
