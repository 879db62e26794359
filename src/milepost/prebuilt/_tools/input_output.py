"""The input of a ToolNode, and its output in the same form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES

from milepost._internal.dataclass_tools import record
from milepost.graph.message import REMOVE_ALL_MESSAGES
from milepost.prebuilt._tools.request import WITH_CONTEXT, ToolOutput, ToolResult
from milepost.types import Command, Send

if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext

READ_STATE = "__pregel_read"
"""The key of `configurable` under which code outside a run can give a function that reads the
state, as in LangGraph."""


@record
class ToolInput:
    """A parsed input."""

    calls: Sequence[ToolCall]
    state: Any
    """What tools see as the state; None if that is to be read from the run."""
    as_list: bool = False
    """Whether messages came in a list: then they are returned in a list, otherwise in a dict."""


def parsed(input: Any, messages_key: str) -> ToolInput:
    """The calls in a state, in a list of messages, or in what a `Send` brings."""
    if isinstance(input, dict) and input.get("__type") == WITH_CONTEXT:
        return ToolInput([input["tool_call"]], input["state"])
    if isinstance(input, list) and input and _is_call(input[-1]):
        return ToolInput(input, None)
    if isinstance(input, list):
        return ToolInput(_last_calls(input), input, as_list=True)
    if not (messages := _messages(input, messages_key)):
        raise ValueError(
            f"No message found in input: a ToolNode takes a state with '{messages_key}', a list of "
            f"messages or a list of tool calls, not {input!r}."
        )
    return ToolInput(_last_calls(messages), input)


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
    shaped = reader.read(run.channels, context.task.base[2], run.stop)
    if reader.channel is not None or reader.build is not None:
        return shaped
    return {**run.channels.values, **shaped}


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


# -- outputs


def msg_content_output(output: Any) -> str | list[dict[str, Any]]:
    """What a tool returned, as the content of a message: text, content blocks, or JSON.

    Args:
        output: What a tool returned.

    Examples:
        >>> from milepost.prebuilt.tool_node import msg_content_output
        >>> msg_content_output("Rain"), msg_content_output({"degrees": 7})
        ('Rain', '{"degrees": 7}')
    """
    if isinstance(output, str):
        return output
    if isinstance(output, list) and all(
        isinstance(block, dict) and block.get("type") in TOOL_MESSAGE_BLOCK_TYPES
        for block in output
    ):
        return output
    try:
        return json.dumps(output, ensure_ascii=False)
    except Exception:
        return str(output)


def checked(response: Any, call: ToolCall, as_list: bool, messages_key: str) -> ToolOutput:
    """The output of a tool, if the state can take it."""
    name, several = call["name"], isinstance(response, list)
    results: list[ToolResult] = list(response) if several else [response]
    if not all(isinstance(result, (Command, ToolMessage)) for result in results):
        what = "a list with invalid element types" if several else f"{response!r}"
        raise TypeError(
            f"Tool {name} returned {what}: expected ToolMessage, Command or both in a list."
        )
    if several and (answers := sum(_answers(one, call, messages_key) for one in results)) != 1:
        raise ValueError(
            f"Tool {name} returned a list with {answers} messages bound to tool_call_id "
            f"{call['id']!r}: exactly one of its messages has to answer the call."
        )
    for at, result in enumerate(results):
        if isinstance(result, Command):
            results[at] = _checked_command(
                result, call, as_list, messages_key, must_answer=not several
            )
        else:
            result.content = msg_content_output(result.content)  # type: ignore[assignment]
    return results if several else results[0]


def _answers(one: ToolResult, call: ToolCall, messages_key: str) -> int:
    """How many messages of a result answer the call."""
    messages: Iterable[Any] = (one,)
    if isinstance(one, Command):
        messages = one.update.get(messages_key, ()) if isinstance(one.update, dict) else ()
    return sum(isinstance(m, ToolMessage) and m.tool_call_id == call["id"] for m in messages)


def _checked_command(
    command: Command[Any],
    call: ToolCall,
    as_list: bool,
    messages_key: str,
    *,
    must_answer: bool,
) -> Command[Any]:
    """The command, with the messages in it named after the tool."""
    if not isinstance(command.update, (dict, list)):
        return command
    if isinstance(command.update, dict) is as_list:
        wanted = "a list of messages" if as_list else f"a dict, '{messages_key}'"
        raise ValueError(
            f"Tool '{call['name']}' returned a Command with the update {command.update!r}, but the "
            f"input of the ToolNode was {wanted}: the update must have the same form."
        )
    command = deepcopy(command)
    update: Any = command.update
    messages = convert_to_messages(
        update.get(messages_key, []) if isinstance(update, dict) else update
    )
    if messages == [RemoveMessage(id=REMOVE_ALL_MESSAGES)]:
        return command
    matching = [m for m in messages if isinstance(m, ToolMessage) and m.tool_call_id == call["id"]]
    for message in matching:
        message.name = call["name"]
    if must_answer and command.graph is None and not matching:
        example = 'ToolMessage("Success", tool_call_id=tool_call_id)'
        shape = f"[{example}]" if isinstance(update, list) else f'{{"{messages_key}": [{example}]}}'
        raise ValueError(
            "Expected to have a matching ToolMessage in Command.update "
            f"for tool '{call['name']}', got: {messages}. Models want every tool call answered. "
            f"Let the tool return `Command(update={shape}, ...)`."
        )
    return command


def combined(outputs: Iterable[ToolOutput], as_list: bool, messages_key: str) -> Any:
    """The output of the node for all calls."""
    results: list[ToolResult] = []
    for output in outputs:
        results.extend(output if isinstance(output, list) else (output,))

    def update(messages: list[ToolResult]) -> Any:
        return messages if as_list else {messages_key: messages}

    if not any(isinstance(result, Command) for result in results):
        return update(results)
    answers = {one.tool_call_id: one for one in results if isinstance(one, ToolMessage)}
    updates: list[Any] = []
    sends: list[Any] | None = None
    for result in results:
        if not isinstance(result, Command):
            updates.append(update([result]))
            continue
        command = _with_answers_beside(result, answers, messages_key)
        if command.update is not None or not _sends_to_parent(command):
            updates.append(command)
        else:
            # One command may hand over to several agents.
            sends = [*(sends or ()), *command.targets()]
    return updates if sends is None else [*updates, Command(graph=Command.PARENT, goto=sends)]


def _sends_to_parent(command: Command[Any]) -> bool:
    return (
        command.graph == Command.PARENT
        and isinstance(command.goto, list)
        and all(isinstance(target, Send) for target in command.goto)
    )


def _with_answers_beside(
    command: Command[Any], answers: Mapping[str, ToolMessage], messages_key: str
) -> Command[Any]:
    """A command to the outer graph, whose messages have the answers to the calls beside it.

    The graph of the node ends with such a command, and what the other calls wrote with it. A model
    that is given their message needs their answers.
    """
    update: Any = command.update
    messages = update.get(messages_key) if isinstance(update, dict) else None
    if command.graph != Command.PARENT or not isinstance(messages, list):
        return command
    answered = with_answers(messages, lambda call: answers.get(call["id"] or ""))
    return replace(command, update={**update, messages_key: answered})


def with_answers(
    messages: Sequence[BaseMessage], answer_to: Callable[[ToolCall], ToolMessage | None]
) -> list[BaseMessage]:
    """Messages, in which tool calls without an answer are followed by what `answer_to` gives."""
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    filled: list[BaseMessage] = []
    for message in messages:
        filled.append(message)
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            if call["id"] not in answered and (answer := answer_to(call)) is not None:
                filled.append(answer)
    return filled
