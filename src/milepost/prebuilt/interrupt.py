"""The shapes in which agent inboxes ask people and are answered."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

__all__ = ["ActionRequest", "HumanInterrupt", "HumanInterruptConfig", "HumanResponse"]


class HumanInterruptConfig(TypedDict):
    """Which answers a person may give."""

    allow_ignore: bool
    """To skip the step."""
    allow_respond: bool
    """To say something."""
    allow_edit: bool
    """To change what is going to be done."""
    allow_accept: bool
    """To let it be done."""


class ActionRequest(TypedDict):
    """What is going to be done."""

    action: str
    """The name of the action, for example of a tool."""
    args: dict[str, Any]


class HumanInterrupt(TypedDict):
    """A question to a person, as the value of `interrupt`."""

    action_request: ActionRequest
    config: HumanInterruptConfig
    description: str | None
    """Text for the person who decides."""


class HumanResponse(TypedDict):
    """The answer of a person."""

    type: Literal["accept", "ignore", "response", "edit"]
    args: None | str | ActionRequest
    """None to accept or ignore, a text to respond, the changed request to edit."""
