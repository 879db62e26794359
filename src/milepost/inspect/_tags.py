"""Tags, written and listed; `_refs.py` says where they are stored."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from milepost.checkpoint._contract.records import Place, place_of
from milepost.inspect._errors import BadReferenceError, StateNotFoundError, told_plainly
from milepost.inspect._reading import load
from milepost.inspect._refs import TaggedAt, resolve, stored_tag, tags_in, thread_row

if TYPE_CHECKING:
    from milepost.inspect._database import Database
    from milepost.inspect._refs import Ref

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


class TagRow(NamedTuple):
    """A tag of a thread.

    Examples:
        >>> row = inspect.tag(db, Ref.parse("trip"), "booked")
        >>> row.name, row.exists
        ('booked', True)
    """

    name: str
    """The tag."""
    thread_id: str
    """The thread."""
    namespace: str
    """The graph: "" for the outermost."""
    checkpoint_id: str
    """The checkpoint."""
    exists: bool
    """Whether the checkpoint is still there."""


def tags(db: Database, thread_id: str) -> list[TagRow]:
    """The tags of a thread by name.

    Args:
        db: The database.
        thread_id: The thread.

    Examples:
        >>> _ = inspect.tag(db, Ref.parse("trip"), "booked")
        >>> [row.name for row in inspect.tags(db, "trip")]
        ['booked']
    """
    return [
        TagRow(
            name,
            thread_id,
            tag.namespace,
            tag.checkpoint_id,
            load(db, Place(thread_id, tag.namespace, tag.checkpoint_id)) is not None,
        )
        for name, tag in sorted(_known(db, thread_id).items())
    ]


def tag(db: Database, ref: Ref, name: str) -> TagRow:
    """Name a checkpoint; a tag of the same name moves there, and of two at once the later one is
    kept.

    Args:
        db: The database.
        ref: The checkpoint.
        name: The tag.

    Examples:
        >>> _ = inspect.tag(db, Ref.parse("trip@~1"), "before")
        >>> inspect.show(db, Ref.parse("trip@before")).next
        ('count',)
    """
    db.check_writable("tag")
    if not _NAME.fullmatch(name):
        raise BadReferenceError(
            f"'{name}' cannot be a tag: use letters, digits and . _ + -, at most 100, and not one "
            "of the signs at the beginning."
        )
    place = place_of(resolve(db, ref).config)
    at = TaggedAt(place.checkpoint_id or "", place.checkpoint_ns)
    _store(db, ref.thread_id, name, at)
    return TagRow(name, ref.thread_id, at.namespace, at.checkpoint_id, True)


def untag(db: Database, thread_id: str, name: str) -> None:
    """Remove a tag; the checkpoint stays.

    Args:
        db: The database.
        thread_id: The thread.
        name: The tag.

    Examples:
        >>> _ = inspect.tag(db, Ref.parse("trip"), "booked")
        >>> inspect.untag(db, "trip", "booked")
        >>> inspect.tags(db, "trip")
        []
    """
    db.check_writable("untag")
    known = _known(db, thread_id)
    if name not in known:
        there = f": it has {', '.join(sorted(known))}" if known else ""
        raise StateNotFoundError(f"Thread '{thread_id}' has no tag '{name}'{there}.")
    _store(db, thread_id, name, None)


def _known(db: Database, thread_id: str) -> dict[str, TaggedAt]:
    with told_plainly(f"thread '{thread_id}'"):
        return tags_in(thread_row(db, thread_id).metadata)


def _store(db: Database, thread_id: str, name: str, at: TaggedAt | None) -> None:
    with told_plainly(f"thread '{thread_id}'"):
        db.saver.create_thread(thread_id, stored_tag(name, at))  # type: ignore[attr-defined]
