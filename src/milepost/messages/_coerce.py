"""From what people write as a message to a message.

"hello"                                   a string: the user says it
("assistant", "hello")                    a role and a content
{"role": "tool", "content": "42", ...}    a dict, also as OpenAI's API has it
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from milepost.messages import _light as light
from milepost.messages._kinds import langchain_messages

_ROLES: dict[str, type[light.BaseMessage]] = {
    "human": light.HumanMessage,
    "user": light.HumanMessage,
    "ai": light.AIMessage,
    "assistant": light.AIMessage,
    "AIMessageChunk": light.AIMessage,
    "system": light.SystemMessage,
    "developer": light.SystemMessage,
    "tool": light.ToolMessage,
    "remove": light.RemoveMessage,
}


def convert_to_messages(given: Iterable[Any]) -> list[Any]:
    """A message for each item: of LangChain's classes if they are installed, else of ours.

    Pieces of messages become whole ones.

    Args:
        given: Messages, dicts, (role, content) tuples or strings.

    Examples:
        >>> from milepost.messages import convert_to_messages
        >>> [(message.type, message.content) for message in convert_to_messages(["Hi"])]
        [('human', 'Hi')]
    """
    installed = langchain_messages()
    if installed is None:
        return [_light(item) for item in given]
    return [item if type(item) in _complete else _langchain(item, installed) for item in given]


# -- with LangChain

_complete: set[type] = set()
"""LangChain's classes that need no conversion, added when they are first seen."""


def _langchain(item: Any, installed: Any) -> Any:
    if isinstance(item, installed.BaseMessage):
        if not isinstance(item, installed.BaseMessageChunk):
            _complete.add(type(item))
            return item
        return installed.message_chunk_to_message(item)
    if isinstance(item, light.BaseMessage):
        return _upgraded(item, installed)
    (message,) = installed.convert_to_messages([item])
    if isinstance(message, installed.BaseMessageChunk):
        return installed.message_chunk_to_message(message)
    return message


def _upgraded(message: light.BaseMessage, installed: Any) -> Any:
    """One of our records, saved before LangChain was installed, as LangChain's message."""
    whole = message.whole() if isinstance(message, light.AIMessageChunk) else message
    values = light.field_values(whole, type(whole))
    if isinstance(whole, light.RemoveMessage):
        del values["content"]
    return getattr(installed, type(whole).__name__)(**values)


# -- without it


def _light(item: Any) -> light.BaseMessage:
    if isinstance(item, light.AIMessageChunk):
        return item.whole()
    if isinstance(item, light.BaseMessage):
        return item
    if isinstance(item, str):
        return light.HumanMessage(item)
    if isinstance(item, dict):
        return _from_dict(item)
    if isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str):
        return _from_dict({"role": item[0], "content": item[1]})
    raise TypeError(
        f"{item!r} is no message. Give a message, a string, a (role, content) tuple, or a dict "
        "with 'role' and 'content'."
    )


def _from_dict(given: dict[str, Any]) -> light.BaseMessage:
    rest = dict(given)
    role = rest.pop("role", None) or rest.pop("type", None)
    rest.pop("type", None)
    kind = _ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        raise ValueError(
            f"A message dict needs a 'role' out of {', '.join(_ROLES)}; this one has {role!r}: "
            f"{given!r}."
        )
    if "content" not in rest and kind is not light.RemoveMessage and "tool_calls" not in rest:
        raise ValueError(f"A message dict needs 'content'; this one has none: {given!r}.")
    calls = rest.pop("tool_calls", None) or []
    known = {spec.name for spec in fields(kind)}
    values = {key: rest.pop(key) for key in list(rest) if key in known}
    values["content"] = "" if values.get("content") is None else values["content"]
    if role == "developer":
        rest["__openai_role__"] = role
    values["additional_kwargs"] = {**(values.get("additional_kwargs") or {}), **rest}
    message = kind(**values)
    if calls and isinstance(message, light.AIMessage):
        for call in calls:
            function = call.get("function", call)  # OpenAI wraps name and arguments
            arguments = function.get("args", function.get("arguments", {}))
            light.add_tool_call(message, function.get("name"), arguments, call.get("id"))
    return message
