"""Ids for messages that are written to delta channels.

A `DeltaChannel` is rebuilt from what was written, on every read. A message that is written without
an id would have none afterwards, or another one after each read if the reducer gives it one, and
nothing could replace or remove it. So it gets its id before it is stored.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost._internal.ids import random_uuid
from milepost.channels.binop import overwrite_of
from milepost.messages import is_message
from milepost.types import MISSING

if TYPE_CHECKING:
    from milepost._engine.superstep.program import Write

_WORDS = {
    "role": frozenset({"user", "human", "assistant", "ai", "tool", "system", "function"}),
    "type": frozenset({"human", "ai", "tool", "system", "function", "remove"}),
}
"""The dict of a message has one of these words under one of these keys."""


def with_message_ids(
    writes_of: Callable[[Any], list[Write]], delta: Collection[str]
) -> Callable[[Any], list[Write]]:
    """`writes_of`, whose messages for the channels in `delta` all have ids."""
    return partial(_writes_with_ids, writes_of, delta)


def _writes_with_ids(
    writes_of: Callable[[Any], list[Write]], delta: Collection[str], output: Any
) -> list[Write]:
    return identified(writes_of(output), delta)


def identified(writes: Sequence[Write], delta: Collection[str]) -> list[Write]:
    """The writes, with ids for the messages for the channels in `delta`."""
    return [(key, _with_ids(value)) if key in delta else (key, value) for key, value in writes]


def _with_ids(value: Any) -> Any:
    """A write with ids. Message objects get theirs in place; lists and dicts stay as they are."""
    replacement = overwrite_of(value)
    if replacement is not MISSING:
        if isinstance(replacement, (list, tuple)):
            for item in replacement:
                _give_id(item)
        return value
    if isinstance(value, list):
        items = [_item(item) for item in value]
        return value if all(map(operator.is_, items, value)) else items
    if _is_message_dict(value) and not value.get("id"):
        return {**value, "id": random_uuid()}
    _give_id(value)
    return value


def _item(item: Any) -> Any:
    """An item of a list: one that is the dict of a message becomes that message."""
    if _is_message_dict(item):
        from milepost.messages import convert_to_messages

        [item] = convert_to_messages([item])
    _give_id(item)
    return item


def _give_id(item: Any) -> None:
    if is_message(item) and not item.id:
        item.id = random_uuid()


def _is_message_dict(item: Any) -> bool:
    return isinstance(item, dict) and any(
        isinstance(word := item.get(key), str) and word in words for key, words in _WORDS.items()
    )
