"""The `messages` stream: tokens as models say them, and messages that nodes return.

A consumer gets every message once. What was streamed in pieces does not come again as a whole
when the node returns it, and what a node merely passes on was heard before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from milepost.ids import random_uuid
from milepost.messages.kinds import is_message, is_removal
from milepost.runtime.stream import Part, ns_parts, visible

if TYPE_CHECKING:
    from milepost.runtime.offering import Offering
    from milepost.runtime.plan import Task


def tell(session: Offering, message: Any, metadata: Mapping[str, Any], *, once: bool) -> None:
    """Stream a message or a piece of one; `once`: only to those who have not heard it."""
    part = Part(ns_parts(session.ns), "messages", (message, dict(metadata)))
    session.feed.push_message(part, message.id, once=once)


def tell_returned(session: Offering, task: Task) -> None:
    """Stream the messages in what an ended task has written."""
    if not visible(task):
        return  # the caller knows what the input was
    metadata: Mapping[str, Any] | None = None
    for _key, value in task.writes:
        for message in _messages_in(value):
            if is_removal(message):
                continue
            if message.id is None:
                message.id = random_uuid()  # the state will have it under the same one
            if metadata is None:
                metadata = session.config_for(task).get("metadata") or {}
            tell(session, message, metadata, once=True)


def know_inputs(session: Offering, tasks: Iterable[Task]) -> None:
    """What tasks are given needs no telling when they pass it on."""
    session.feed.know_messages(
        message.id for task in tasks if visible(task) for message in _messages_of(task.input)
    )


def _messages_of(state: Any) -> Iterator[Any]:
    """The messages at the top of a state, whatever its schema."""
    yield from _messages_in(state)
    if isinstance(state, Mapping):
        values: Iterable[Any] = state.values()
    elif is_message(state):
        values = ()
    elif is_dataclass(state):
        values = [getattr(state, spec.name, None) for spec in fields(state)]
    else:
        values = getattr(state, "__dict__", {}).values()
    for value in values:
        yield from _messages_in(value)


def _messages_in(value: Any) -> Iterator[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (one for one in value if is_message(one))
    elif is_message(value):
        yield value
