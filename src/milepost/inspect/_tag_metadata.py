"""Tags: names for checkpoints.

They are stored in the metadata of their thread, each under a reserved key of its own. So they are
as durable as the thread, are copied, dumped, erased and encrypted with it, and need no table of
their own. Metadata is added key by key (`create_thread`): tags that are set at the same time do not
disturb each other, and of two with one name the later one is the tag. A tag that was removed leaves
its key, with nothing in it. What replaces all metadata of a thread (`set_thread_metadata`) removes
its tags as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

PREFIX: Final = "milepost:tag:"
"""How the reserved keys begin."""
_OLDER: Final = "milepost:tags"
"""The key under which version 0.2.0 kept all tags of a thread."""


TagsById = Mapping[tuple[str, str], Sequence[str]]
"""Namespace and checkpoint → the tags there."""


class TaggedAt(NamedTuple):
    """The checkpoint that a tag names."""

    checkpoint_id: str
    namespace: str


def tags_in(metadata: Mapping[str, Any]) -> dict[str, TaggedAt]:
    """The tags in the metadata of a thread; what is no tag is left out."""
    older = metadata.get(_OLDER)
    stored = dict(older) if isinstance(older, dict) else {}
    for key, place in metadata.items():
        if key.startswith(PREFIX):
            stored[key.removeprefix(PREFIX)] = place
    return {name: TaggedAt(*place) for name, place in stored.items() if _is_place(place)}


def _is_place(place: Any) -> bool:
    return (
        isinstance(place, list) and len(place) == 2 and all(isinstance(part, str) for part in place)
    )


def tags_by_id(metadata: Mapping[str, Any]) -> TagsById:
    """The names of tags by their checkpoints."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, tag in sorted(tags_in(metadata).items()):
        found.setdefault((tag.namespace, tag.checkpoint_id), []).append(name)
    return found


def stored_tag(name: str, at: TaggedAt | None) -> dict[str, Any]:
    """The metadata that sets a tag, or removes it."""
    return {f"{PREFIX}{name}": None if at is None else list(at)}


def without_tags(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as the user has it.

    Args:
        metadata: What the registry has of a thread.

    Examples:
        >>> from milepost.inspect.parts import without_tags
        >>> without_tags({"owner": "ada"})
        {'owner': 'ada'}
    """
    return {
        key: value
        for key, value in metadata.items()
        if not key.startswith(PREFIX) and key != _OLDER
    }
