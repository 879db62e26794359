"""Conversations in the state: MessagesState, its reducer, and messages sent from inside a node."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, overload

from typing_extensions import TypedDict

import milepost.messages as classes
from milepost._internal.ids import random_uuid
from milepost._internal.lazy_imports import on_demand
from milepost._internal.warn import warn_of
from milepost.channels.binop import PURE_REDUCERS
from milepost.errors import InvalidUpdateError, MissingDependencyError
from milepost.graph.state import StateGraph
from milepost.messages import is_removal, langchain_messages
from milepost.warnings import LangGraphDeprecatedSinceV10

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AnyMessage",
    "MessageGraph",
    "MessagesState",
    "add_messages",
    "push_message",
]


if TYPE_CHECKING:
    from milepost._engine.context.task_context import TaskContext
    from milepost.messages import AnyMessage

    Message: TypeAlias = Any
else:
    __getattr__, __dir__ = on_demand(__name__, {"AnyMessage": "milepost.messages"})

    class Message:
        """Any message; in JSON schemas LangChain's messages, where they are installed."""

        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            installed = langchain_messages()
            return handler(Any if installed is None else installed.AnyMessage)


REMOVE_ALL_MESSAGES = "__remove_all__"
"""As the id of a RemoveMessage: forget everything that came before it."""

Format: TypeAlias = Literal["langchain-openai"]
Messages: TypeAlias = Any
"""A message or a list of them; anything that `convert_to_messages` understands is one."""


@overload
def add_messages(left: Messages, right: Messages, *, format: Format | None = ...) -> list[Any]: ...
@overload
def add_messages(*, format: Format | None = ...) -> partial[list[Any]]: ...


def add_messages(
    left: Messages | None = None, right: Messages | None = None, *, format: Format | None = None
) -> list[Any] | partial[list[Any]]:
    """The reducer of conversations: appends, replaces by id, removes.

    A message whose id is known takes the place of the one that has it. A RemoveMessage takes one
    out, or with the id REMOVE_ALL_MESSAGES everything before it. Messages without an id get one.
    Dicts, (role, content) tuples and strings are made messages.

    Args:
        left: The conversation.
        right: What is added to it. Without messages a reducer is returned:
            `Annotated[list, add_messages(format="langchain-openai")]`.
        format: "langchain-openai" brings contents into the shape of OpenAI's API.

    Examples:
        >>> from milepost.graph import add_messages
        >>> talk = add_messages([], [{"role": "user", "content": "Hi", "id": "1"}])
        >>> talk = add_messages(talk, {"role": "user", "content": "Hello", "id": "1"})
        >>> [message.content for message in talk]
        ['Hello']
    """
    if format not in (None, "langchain-openai"):
        raise ValueError(f"Unknown format {format!r}. Use 'langchain-openai', or leave it out.")
    if left is None and right is None:
        return partial(add_messages, format=format)
    if left is None or right is None:
        missing = "left" if left is None else "right"
        raise ValueError(f"add_messages needs two conversations, and '{missing}' is None.")
    merged = _merge(_conversation(left), _conversation(right))
    return merged if format is None else _in_openai_format(merged)


PURE_REDUCERS.append(add_messages)


def _conversation(given: Messages) -> list[Any]:
    is_pair = isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)
    many = isinstance(given, (list, tuple)) and not is_pair
    messages = classes.convert_to_messages(given if many else [given])
    for message in messages:
        if message.id is None:
            message.id = random_uuid()
    return messages


def _merge(left: list[Any], right: list[Any]) -> list[Any]:
    for at in range(len(right) - 1, -1, -1):
        if right[at].id == REMOVE_ALL_MESSAGES and is_removal(right[at]):
            left, right = [], right[at + 1 :]
            break
    merged = left
    places = {message.id: at for at, message in enumerate(left)}
    removed: set[str] = set()
    for message in right:
        at_place = places.get(message.id)
        if is_removal(message):
            if at_place is None:
                raise ValueError(
                    f"There is no message with the id {message.id!r} to remove. The conversation "
                    f"has: {', '.join(str(known) for known in places) or 'no messages'}."
                )
            removed.add(message.id)
        elif at_place is None:
            places[message.id] = len(merged)
            merged.append(message)
        else:
            removed.discard(message.id)
            merged[at_place] = message
    return [message for message in merged if message.id not in removed] if removed else merged


def _in_openai_format(messages: Sequence[Any]) -> list[Any]:
    installed: Any = langchain_messages()
    if installed is None:
        raise MissingDependencyError(
            "format='langchain-openai' is done by LangChain: run `pip install langchain-core`, "
            "or leave the format out."
        )
    formatted: list[Any] = []
    for message in messages:
        parts = installed.convert_to_messages(installed.convert_to_openai_messages([message]))
        # A message may fall apart, and each part needs an id that stays: otherwise the next merge
        # takes the same messages for new ones.
        for at, part in enumerate(parts):
            part.id = message.id if at == 0 else f"{message.id}-{at}"
        formatted.extend(parts)
    return formatted


class MessageGraph(StateGraph[Any, Any, Any, Any]):
    """A graph whose state is a conversation: nodes get the list and return messages to add.

    Deprecated: use StateGraph with MessagesState, whose key `messages` is the conversation.

    Examples:
        >>> import warnings
        >>> from milepost.graph import START, MessageGraph
        >>> with warnings.catch_warnings(action="ignore"):
        ...     builder = MessageGraph()
        >>> builder = builder.add_node("answer", lambda talk: ("ai", "Hello"))
        >>> builder = builder.add_edge(START, "answer")
        >>> [message.content for message in builder.compile().invoke([("user", "Hi")])]
        ['Hi', 'Hello']
    """

    def __init__(self) -> None:
        warn_of(
            "MessageGraph is deprecated: use StateGraph(MessagesState)",
            category=LangGraphDeprecatedSinceV10,
        )
        super().__init__(Annotated[list[Any], add_messages])  # type: ignore[arg-type]


class MessagesState(TypedDict):
    """A state that is a conversation. Inherit from it to add keys.

    Examples:
        >>> from milepost.graph import START, MessagesState, StateGraph
        >>> class State(MessagesState):
        ...     language: str
        >>> builder = StateGraph(State).add_edge(START, "answer")
        >>> builder = builder.add_node("answer", lambda state: {"messages": [("ai", "Hello")]})
        >>> result = builder.compile().invoke({"messages": [("user", "Hi")], "language": "en"})
        >>> [message.content for message in result["messages"]]
        ['Hi', 'Hello']
    """

    messages: Annotated[list[Message], add_messages]
    """The conversation: what nodes write is added by `add_messages`."""


def push_message(message: Any, *, state_key: str | None = "messages") -> Any:
    """Send a message to the `messages` stream now, and write it to the state when the node ends.

    Args:
        message: It needs an id, so that the state has it once however often it is sent.
        state_key: The key that it is written to. With `None`, and inside a task or an entrypoint,
            which have no such key, it is only streamed.

    Returns:
        The message.

    Raises:
        ValueError: The message has no id.

    Examples:
        >>> from milepost.graph import START, MessagesState, StateGraph
        >>> from milepost.graph.message import push_message
        >>> def work(state):
        ...     _ = push_message({"role": "ai", "content": "Looking", "id": "1"})
        >>> builder = StateGraph(MessagesState).add_node("work", work).add_edge(START, "work")
        >>> [message.content for message in builder.compile().invoke({"messages": []})["messages"]]
        ['Looking']
    """
    from milepost._engine.context.task_context import current_context

    context = current_context("push_message")
    (pushed,) = classes.convert_to_messages([message])
    if pushed.id is None:
        raise ValueError("push_message needs a message with an id: AIMessage(..., id='...').")
    push(context, "push_message", state_key, pushed)
    context.run.events.message(pushed, dict(context.config.get("metadata") or {}), once=False)
    return pushed


def push(context: TaskContext, function: str, key: str | None, value: Any) -> None:
    """Write to a key of the state when the running node ends, before what the node returns.

    Nothing is written with the key None, and inside a task or an entrypoint, which have no keys.
    """
    keys = context.run.program.keys
    if key is None or not keys or context.task.called:
        return
    if key not in keys:
        raise InvalidUpdateError(
            f"{function} wrote to {key!r}, which is not in the state. It has: "
            f"{', '.join(keys)}. Pass state_key=None to only stream the message."
        )
    context.pushed = [*context.pushed, (key, value)]
