"""The shapes in which agent inboxes ask people and are answered."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

__all__ = ["ActionRequest", "HumanInterrupt", "HumanInterruptConfig", "HumanResponse"]


class HumanInterruptConfig(TypedDict):
    """Which answers a person may give.

    Examples:
        >>> from milepost.prebuilt.interrupt import HumanInterruptConfig
        >>> allowed: HumanInterruptConfig = {
        ...     "allow_ignore": False, "allow_respond": True, "allow_edit": True,
        ...     "allow_accept": True,
        ... }
    """

    allow_ignore: bool
    """To skip the step."""
    allow_respond: bool
    """To say something."""
    allow_edit: bool
    """To change what is going to be done."""
    allow_accept: bool
    """To let it be done."""


class ActionRequest(TypedDict):
    """What is going to be done.

    Examples:
        >>> from milepost.prebuilt.interrupt import ActionRequest
        >>> request: ActionRequest = {"action": "book", "args": {"room": 7}}
    """

    action: str
    """The name of the action, for example of a tool."""
    args: dict[str, Any]
    """The arguments of the action."""


class HumanInterrupt(TypedDict):
    """A question to a person, as the value of `interrupt`.

    Examples:
        >>> from milepost.prebuilt.interrupt import HumanInterrupt
        >>> question: HumanInterrupt = {
        ...     "action_request": {"action": "book", "args": {"room": 7}},
        ...     "config": {"allow_ignore": False, "allow_respond": False, "allow_edit": True,
        ...                "allow_accept": True},
        ...     "description": "Book room 7?",
        ... }
    """

    action_request: ActionRequest
    """What is going to be done."""
    config: HumanInterruptConfig
    """Which answers are possible."""
    description: str | None
    """Text for the person who decides."""


class HumanResponse(TypedDict):
    """The answer of a person.

    Examples:
        >>> from milepost.prebuilt.interrupt import HumanResponse
        >>> changed = {"action": "book", "args": {"room": 8}}
        >>> answer: HumanResponse = {"type": "edit", "args": changed}
    """

    type: Literal["accept", "ignore", "response", "edit"]
    """What the person decided."""
    args: None | str | ActionRequest
    """None to accept or ignore, a text to respond, the changed request to edit."""
