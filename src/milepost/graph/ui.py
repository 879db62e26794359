"""Parts of a user interface in the state: a node pushes them, and a client shows them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from typing_extensions import TypedDict

from milepost._engine.context.task_context import current_context
from milepost._internal.ids import random_uuid
from milepost.graph.message import push

__all__ = [
    "AnyUIMessage",
    "RemoveUIMessage",
    "UIMessage",
    "delete_ui_message",
    "push_ui_message",
    "ui_message_reducer",
]


class UIMessage(TypedDict):
    """A part to show: the name of a component of the client, and its properties.

    Examples:
        >>> from milepost.graph.ui import UIMessage
        >>> part: UIMessage = {
        ...     "type": "ui", "id": "1", "name": "chart", "props": {"points": []}, "metadata": {}
        ... }
    """

    type: Literal["ui"]
    """Distinguishes it from a `RemoveUIMessage`."""
    id: str
    """A part with the same id takes its place."""
    name: str
    """The component of the client."""
    props: dict[str, Any]
    """The properties of the component."""
    metadata: dict[str, Any]
    """`message_id`, `run_id`, `tags`, `name`, and what the program adds."""


class RemoveUIMessage(TypedDict):
    """A part to take away.

    Examples:
        >>> from milepost.graph.ui import RemoveUIMessage
        >>> gone: RemoveUIMessage = {"type": "remove-ui", "id": "1"}
    """

    type: Literal["remove-ui"]
    """Distinguishes it from a `UIMessage`."""
    id: str
    """The part that is taken away."""


AnyUIMessage: TypeAlias = UIMessage | RemoveUIMessage


def push_ui_message(
    name: str,
    props: dict[str, Any],
    *,
    id: str | None = None,
    metadata: dict[str, Any] | None = None,
    message: Any = None,
    state_key: str | None = "ui",
    merge: bool = False,
) -> UIMessage:
    """Send a part to the `custom` stream now, and write it to the state when the node ends.

    Args:
        name: The component of the client.
        props: The properties of the component.
        id: A part with a known id takes the place of the one that has it; by default a new id.
        metadata: Added to what the part says about its run.
        message: The message that the part belongs to.
        state_key: The key that it is written to; with `None` it is only streamed.
        merge: Add the properties to those that are there.

    Returns:
        The part.

    Examples:
        >>> from typing import Annotated
        >>> from typing_extensions import TypedDict
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.graph.ui import push_ui_message, ui_message_reducer
        >>> class State(TypedDict):
        ...     ui: Annotated[list, ui_message_reducer]
        >>> def draw(state):
        ...     _ = push_ui_message("chart", {"points": [1, 2]})
        >>> graph = StateGraph(State).add_node("draw", draw).add_edge(START, "draw").compile()
        >>> [(part["name"], part["props"]) for part in graph.invoke({"ui": []})["ui"]]
        [('chart', {'points': [1, 2]})]
    """
    context = current_context("push_ui_message")
    config = context.config
    belongs_to = message.get("id") if isinstance(message, dict) else getattr(message, "id", None)
    part: UIMessage = {
        "type": "ui",
        "id": id or random_uuid(),
        "name": name,
        "props": props,
        "metadata": {
            "merge": merge,
            "run_id": config.get("run_id"),
            "tags": config.get("tags"),
            "name": config.get("run_name"),
            **(metadata or {}),
            **({"message_id": belongs_to} if belongs_to else {}),
        },
    }
    push(context, "push_ui_message", state_key, part)
    context.stream_writer(part)
    return part


def delete_ui_message(id: str, *, state_key: str = "ui") -> RemoveUIMessage:
    """Take a part away: now for those who read the `custom` stream, in the state at the end.

    Args:
        id: The part.
        state_key: The key that it is in.

    Examples:
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.graph.ui import delete_ui_message, ui_message_reducer
        >>> from typing import Annotated
        >>> from typing_extensions import TypedDict
        >>> class State(TypedDict):
        ...     ui: Annotated[list, ui_message_reducer]
        >>> def clear(state):
        ...     _ = delete_ui_message("1")
        >>> graph = StateGraph(State).add_node("clear", clear).add_edge(START, "clear").compile()
        >>> graph.invoke({"ui": [{"type": "ui", "id": "1", "name": "chart", "props": {}}]})
        {'ui': []}
    """
    context = current_context("delete_ui_message")
    removal: RemoveUIMessage = {"type": "remove-ui", "id": id}
    push(context, "delete_ui_message", state_key, removal)
    context.stream_writer(removal)
    return removal


def ui_message_reducer(
    left: list[AnyUIMessage] | AnyUIMessage, right: list[AnyUIMessage] | AnyUIMessage
) -> list[AnyUIMessage]:
    """The reducer of such a key: appends, replaces or merges by id, removes.

    Args:
        left: The parts that are there.
        right: What is added to them.

    Examples:
        >>> from milepost.graph.ui import ui_message_reducer
        >>> old = [{"type": "ui", "id": "1", "name": "chart", "props": {}, "metadata": {}}]
        >>> ui_message_reducer(old, {"type": "remove-ui", "id": "1"})
        []
    """
    parts: dict[str, Any] = {part["id"]: part for part in _listed(left)}
    removed: set[str] = set()
    for part in _listed(right):
        id = part["id"]
        known = parts.get(id)
        if part["type"] == "remove-ui":
            if known is None:
                raise ValueError(
                    f"There is no UI message with the id {id!r} to remove. There are: "
                    f"{', '.join(parts) or 'none'}."
                )
            removed.add(id)
            continue
        removed.discard(id)
        if known is not None and (part.get("metadata") or {}).get("merge"):
            part = {**part, "props": {**known["props"], **part["props"]}}
        parts[id] = part
    return [part for id, part in parts.items() if id not in removed]


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]
