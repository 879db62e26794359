"""Light message records, for programs without LangChain.

Attributes have LangChain's names and meanings. The records do less: no validation, no providers'
formats. They are what the state, the stream and the checkpoints of a conversation need.

Below the records is the conversion of what people write as a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, ClassVar, TypeAlias

from milepost.messages import langchain_messages

Content: TypeAlias = str | list[str | dict[str, Any]]
"""Text, or blocks of text and other things."""


@dataclass(slots=True)
class BaseMessage:
    """What all messages have."""

    content: Content = ""
    _: KW_ONLY
    id: str | None = None
    """Unique in a conversation: `add_messages` replaces a message by one with the same id."""
    name: str | None = None
    """Who speaks, where a role is not enough."""
    additional_kwargs: dict[str, Any] = field(default_factory=dict)
    """What came with the message and has no attribute of its own."""
    response_metadata: dict[str, Any] = field(default_factory=dict)
    """What the model's provider said about its answer."""

    type: ClassVar[str] = "base"
    """The role."""

    @property
    def text(self) -> str:
        """The text in the content, without other blocks."""
        if isinstance(self.content, str):
            return self.content
        blocks = (block if isinstance(block, str) else block.get("text") for block in self.content)
        return "".join(text for text in blocks if isinstance(text, str))

    def pretty_repr(self) -> str:
        """The message under a title, for people."""
        title = f" {self.type.title()} Message ".center(80, "=")
        speaker = "" if self.name is None else f"Name: {self.name}\n"
        return f"{title}\n{speaker}\n{self.content}"

    def pretty_print(self) -> None:
        """Print `pretty_repr`."""
        print(self.pretty_repr())


@dataclass(slots=True)
class HumanMessage(BaseMessage):
    """What a person says."""

    type: ClassVar[str] = "human"


@dataclass(slots=True)
class SystemMessage(BaseMessage):
    """What the model is told beforehand."""

    type: ClassVar[str] = "system"


@dataclass(slots=True)
class AIMessage(BaseMessage):
    """What a model says, and the tools that it wants to have called."""

    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    """Each has `name`, `args` (a dict) and `id`."""
    invalid_tool_calls: list[dict[str, Any]] = field(default_factory=list)
    """Calls whose arguments could not be read: `args` is what the model wrote."""
    usage_metadata: dict[str, Any] | None = None
    """Tokens that were used."""

    type: ClassVar[str] = "ai"


@dataclass(slots=True)
class AIMessageChunk(AIMessage):
    """A piece of an AIMessage; pieces are joined with `+`."""

    tool_call_chunks: list[dict[str, Any]] = field(default_factory=list)
    """Pieces of tool calls; `args` is text, and `index` says which pieces belong together."""

    type: ClassVar[str] = "AIMessageChunk"

    def __add__(self, other: AIMessageChunk) -> AIMessageChunk:
        return AIMessageChunk(
            _joined(self.content, other.content),
            id=self.id or other.id,
            name=self.name or other.name,
            additional_kwargs={**self.additional_kwargs, **other.additional_kwargs},
            response_metadata={**self.response_metadata, **other.response_metadata},
            tool_calls=[*self.tool_calls, *other.tool_calls],
            invalid_tool_calls=[*self.invalid_tool_calls, *other.invalid_tool_calls],
            usage_metadata=other.usage_metadata or self.usage_metadata,
            tool_call_chunks=_joined_calls([*self.tool_call_chunks, *other.tool_call_chunks]),
        )

    def whole(self) -> AIMessage:
        """The message that the pieces make."""
        message = AIMessage(**field_values(self, AIMessage))
        message.tool_calls = list(self.tool_calls)
        message.invalid_tool_calls = list(self.invalid_tool_calls)
        for chunk in self.tool_call_chunks:
            add_tool_call(message, chunk.get("name"), chunk.get("args"), chunk.get("id"))
        return message


@dataclass(slots=True)
class ToolMessage(BaseMessage):
    """What a tool answered to a call."""

    tool_call_id: str = ""
    """The `id` of the call in the AIMessage."""
    artifact: Any = None
    """What the tool made for the program, not for the model."""
    status: str = "success"
    """Or "error"."""

    type: ClassVar[str] = "tool"

    def __post_init__(self) -> None:
        if not self.tool_call_id:
            raise ValueError(
                "A ToolMessage needs tool_call_id: the id of the tool call that it answers."
            )


@dataclass(slots=True)
class RemoveMessage(BaseMessage):
    """Tells `add_messages` to take the message with this id out of the conversation."""

    type: ClassVar[str] = "remove"

    def __post_init__(self) -> None:
        if self.id is None:
            raise ValueError("A RemoveMessage needs the id of the message to remove.")


AnyMessage: TypeAlias = (
    HumanMessage | AIMessage | AIMessageChunk | SystemMessage | ToolMessage | RemoveMessage
)
"""One of the messages."""


def field_values(message: BaseMessage, kind: type[BaseMessage]) -> dict[str, Any]:
    """What a message has in the fields of a class."""
    return {spec.name: getattr(message, spec.name) for spec in fields(kind)}


def add_tool_call(message: AIMessage, name: Any, args: Any, id: Any) -> None:
    """Add a call whose arguments may still be JSON text."""
    if isinstance(args, str):
        import json

        try:
            args = json.loads(args) if args else {}
        except ValueError as error:
            message.invalid_tool_calls.append(
                {"name": name, "args": args, "id": id, "error": str(error)}
                | {"type": "invalid_tool_call"}
            )
            return
    message.tool_calls.append({"name": name, "args": args, "id": id, "type": "tool_call"})


def _joined(first: Content, second: Content) -> Content:
    if isinstance(first, str) and isinstance(second, str):
        return first + second
    parts: list[str | dict[str, Any]] = []
    for content in (first, second):
        parts.extend(([content] if content else []) if isinstance(content, str) else content)
    return parts


def _joined_calls(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    joined: list[dict[str, Any]] = []
    at: dict[Any, int] = {}
    for chunk in chunks:
        index = chunk.get("index")
        if index is None or index not in at:
            at[index] = len(joined)
            joined.append(dict(chunk))
            continue
        known = joined[at[index]]
        for key in ("name", "args", "id"):
            if chunk.get(key):
                known[key] = (known.get(key) or "") + chunk[key]
    return joined


# -- from what people write as a message to a message
#
# "hello"                                   a string: the user says it
# ("assistant", "hello")                    a role and a content
# {"role": "tool", "content": "42", ...}    a dict, also as OpenAI's API has it

_ROLES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "user": HumanMessage,
    "ai": AIMessage,
    "assistant": AIMessage,
    "AIMessageChunk": AIMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
    "tool": ToolMessage,
    "remove": RemoveMessage,
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
    if isinstance(item, BaseMessage):
        return _upgraded(item, installed)
    (message,) = installed.convert_to_messages([item])
    if isinstance(message, installed.BaseMessageChunk):
        return installed.message_chunk_to_message(message)
    return message


def _upgraded(message: BaseMessage, installed: Any) -> Any:
    """One of our records, saved before LangChain was installed, as LangChain's message."""
    whole = message.whole() if isinstance(message, AIMessageChunk) else message
    values = field_values(whole, type(whole))
    if isinstance(whole, RemoveMessage):
        del values["content"]
    return getattr(installed, type(whole).__name__)(**values)


# -- without it


def _light(item: Any) -> BaseMessage:
    if isinstance(item, AIMessageChunk):
        return item.whole()
    if isinstance(item, BaseMessage):
        return item
    if isinstance(item, str):
        return HumanMessage(item)
    if isinstance(item, dict):
        return _from_dict(item)
    if isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str):
        return _from_dict({"role": item[0], "content": item[1]})
    raise TypeError(
        f"{item!r} is no message. Give a message, a string, a (role, content) tuple, or a dict "
        "with 'role' and 'content'."
    )


def _from_dict(given: dict[str, Any]) -> BaseMessage:
    rest = dict(given)
    role = rest.pop("role", None) or rest.pop("type", None)
    rest.pop("type", None)
    kind = _ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        raise ValueError(
            f"A message dict needs a 'role' out of {', '.join(_ROLES)}; this one has {role!r}: "
            f"{given!r}."
        )
    if "content" not in rest and kind is not RemoveMessage and "tool_calls" not in rest:
        raise ValueError(f"A message dict needs 'content'; this one has none: {given!r}.")
    calls = rest.pop("tool_calls", None) or []
    known = {spec.name for spec in fields(kind)}
    values = {key: rest.pop(key) for key in list(rest) if key in known}
    values["content"] = "" if values.get("content") is None else values["content"]
    if role == "developer":
        rest["__openai_role__"] = role
    values["additional_kwargs"] = {**(values.get("additional_kwargs") or {}), **rest}
    message = kind(**values)
    if calls and isinstance(message, AIMessage):
        for call in calls:
            function = call.get("function", call)  # OpenAI wraps name and arguments
            arguments = function.get("args", function.get("arguments", {}))
            add_tool_call(message, function.get("name"), arguments, call.get("id"))
    return message
