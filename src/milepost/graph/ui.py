"""Parts of a user interface in the state: a node pushes them, and a client shows them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from typing_extensions import TypedDict

from milepost._internal.ids import random_uuid
from milepost.graph._pushing import Pushing

__all__ = [
    "AnyUIMessage",
    "RemoveUIMessage",
    "UIMessage",
    "delete_ui_message",
    "push_ui_message",
    "ui_message_reducer",
]


class UIMessage(TypedDict):
    """A part to show: the name of a component of the client, and its properties."""

    type: Literal["ui"]
    id: str
    name: str
    props: dict[str, Any]
    metadata: dict[str, Any]


class RemoveUIMessage(TypedDict):
    """A part to take away."""

    type: Literal["remove-ui"]
    id: str


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

    A part with a known `id` takes the place of the one that has it; with `merge` its properties
    are added to those that are there. `message` is the message that it belongs to. With
    `state_key=None` it is only streamed. Returns it.
    """
    pushing = Pushing("push_ui_message", state_key)
    config = pushing.context.config
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
    pushing.context.stream_writer(part)
    pushing.write(part)
    return part


def delete_ui_message(id: str, *, state_key: str = "ui") -> RemoveUIMessage:
    """Take a part away: now for those who read the `custom` stream, in the state at the end."""
    pushing = Pushing("delete_ui_message", state_key)
    removal: RemoveUIMessage = {"type": "remove-ui", "id": id}
    pushing.context.stream_writer(removal)
    pushing.write(removal)
    return removal


def ui_message_reducer(
    left: list[AnyUIMessage] | AnyUIMessage, right: list[AnyUIMessage] | AnyUIMessage
) -> list[AnyUIMessage]:
    """The reducer of such a key: appends, replaces or merges by id, removes."""
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
