"""Tags: names for checkpoints.

They are kept in the metadata of their thread, under one reserved key. So they are as durable as the
thread, are copied, dumped, erased and encrypted with it, and need no table of their own. What
replaces all metadata of a thread (`set_thread_metadata`) removes its tags as well; `create_thread`,
which adds to it, leaves them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

TAGS: Final = "milepost:tags"
"""The reserved key."""


class TaggedAt(NamedTuple):
    """What a tag means."""

    checkpoint_id: str
    namespace: str


def tags_in(metadata: Mapping[str, Any]) -> dict[str, TaggedAt]:
    """The tags in the metadata of a thread; what is no tag is left out."""
    stored = metadata.get(TAGS)
    if not isinstance(stored, dict):
        return {}
    return {
        name: TaggedAt(*place)
        for name, place in stored.items()
        if isinstance(place, list) and len(place) == 2 and all(isinstance(p, str) for p in place)
    }


def stored_tags(tags: Mapping[str, TaggedAt]) -> dict[str, Any]:
    """The metadata that holds these tags."""
    return {TAGS: {name: list(place) for name, place in tags.items()}}


def without_tags(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as the user has it."""
    return {key: value for key, value in metadata.items() if key != TAGS}
