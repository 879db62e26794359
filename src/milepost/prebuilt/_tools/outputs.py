"""From what tools return to what a ToolNode returns."""

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from langchain_core.messages import RemoveMessage, ToolCall, ToolMessage, convert_to_messages
from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES

from milepost.graph.message import REMOVE_ALL_MESSAGES
from milepost.prebuilt._tools.inputs import InputKind
from milepost.prebuilt._tools.request import ToolOutput, ToolResult
from milepost.types import Command, Send


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


def checked(response: Any, call: ToolCall, kind: InputKind, messages_key: str) -> ToolOutput:
    """What a tool gave for a call, if the state can take it."""
    name = call["name"]
    if isinstance(response, list) and all(
        isinstance(one, (Command, ToolMessage)) for one in response
    ):
        answers = sum(_answers(one, call, messages_key) for one in response)
        if answers != 1:
            raise ValueError(
                f"Tool {name} returned a list with {answers} messages bound to tool_call_id "
                f"{call['id']!r}: exactly one of its messages has to answer the call."
            )
        return [_checked_one(one, call, kind, messages_key, must_answer=False) for one in response]
    if isinstance(response, (Command, ToolMessage)):
        return _checked_one(response, call, kind, messages_key, must_answer=True)
    what = "a list with invalid element types" if isinstance(response, list) else f"{response!r}"
    raise TypeError(
        f"Tool {name} returned {what}: expected ToolMessage, Command or both in a list."
    )


def _checked_one(
    one: ToolResult, call: ToolCall, kind: InputKind, messages_key: str, *, must_answer: bool
) -> ToolResult:
    if isinstance(one, Command):
        return _checked_command(one, call, kind, messages_key, must_answer=must_answer)
    one.content = msg_content_output(one.content)  # type: ignore[assignment]
    return one


def _answers(one: ToolResult, call: ToolCall, messages_key: str) -> int:
    """How many messages of a result answer the call."""
    messages: Iterable[Any] = (one,)
    if isinstance(one, Command):
        messages = one.update.get(messages_key, ()) if isinstance(one.update, dict) else ()
    return sum(isinstance(m, ToolMessage) and m.tool_call_id == call["id"] for m in messages)


def _checked_command(
    command: Command[Any],
    call: ToolCall,
    kind: InputKind,
    messages_key: str,
    *,
    must_answer: bool,
) -> Command[Any]:
    """The command, with the messages in it named after the tool."""
    if not isinstance(command.update, (dict, list)):
        return command
    if isinstance(command.update, dict) is (kind is InputKind.MESSAGES):
        wanted = "a list of messages" if kind is InputKind.MESSAGES else f"a dict, '{messages_key}'"
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


def combined(outputs: Iterable[ToolOutput], kind: InputKind, messages_key: str) -> Any:
    """What the node returns for all calls."""
    results: list[ToolResult] = []
    for output in outputs:
        results.extend(output if isinstance(output, list) else (output,))

    def update(messages: list[ToolResult]) -> Any:
        return messages if kind is InputKind.MESSAGES else {messages_key: messages}

    if not any(isinstance(result, Command) for result in results):
        return update(results)
    updates: list[Any] = []
    sends: Command[Any] | None = None
    for result in results:
        if not isinstance(result, Command):
            updates.append(update([result]))
        elif not _sends_up(result):
            updates.append(result)
        elif sends is None:
            sends = Command(graph=Command.PARENT, goto=result.goto)
        else:
            # The graph around this one takes one command: several agents are handed to at once.
            sends = replace(sends, goto=[*sends.targets(), *result.targets()])
    return updates if sends is None else [*updates, sends]


def _sends_up(command: Command[Any]) -> bool:
    return (
        command.graph == Command.PARENT
        and isinstance(command.goto, list)
        and all(isinstance(target, Send) for target in command.goto)
    )
