"""The `messages` stream: finds messages in the inputs and results of nodes.

A consumer of the stream gets every message once. A message that was streamed in pieces is not sent
again when the node returns it. A message that a node only passes on was sent before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from milepost.messages import is_message


def messages_of(state: Any) -> Iterator[Any]:
    """The messages at the top of a state, whatever its schema."""
    yield from messages_in(state)
    if isinstance(state, Mapping):
        values: Iterable[Any] = state.values()
    elif is_message(state):
        values = ()
    elif is_dataclass(state):
        values = [getattr(state, spec.name, None) for spec in fields(state)]
    else:
        values = getattr(state, "__dict__", {}).values()
    for value in values:
        yield from messages_in(value)


def messages_in(value: Any) -> Iterator[Any]:
    """The messages in one value of a state."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (one for one in value if is_message(one))
    elif is_message(value):
        yield value
