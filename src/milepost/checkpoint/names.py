"""Ids and names that come from outside: anything but a query in disguise is stored literally."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final

from milepost.sql.failures import InvalidIdError

if TYPE_CHECKING:
    from milepost.checkpoint.records import Place

LONGEST: Final = 1024
"""Characters. Longer keys do not fit into a PostgreSQL index, and help nobody."""


def check_name(what: str, name: Any) -> str:
    """`name`, if every database can hold it."""
    if not isinstance(name, str):
        raise InvalidIdError(f"{what} must be text, not {type(name).__name__}: {_shown(name)}.")
    if len(name) > LONGEST:
        raise InvalidIdError(
            f"{what} has {len(name)} characters; at most {LONGEST} can be stored: {_shown(name)}."
        )
    if name.isascii():
        if "\0" not in name:
            return name
        raise InvalidIdError(f"{what} contains a NUL character: {_shown(name)}.")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidIdError(
            f"{what} contains half of a surrogate pair, which is no text: {_shown(name)}."
        ) from error
    if "\0" in name:
        raise InvalidIdError(f"{what} contains a NUL character: {_shown(name)}.")
    return name


_TO_UNIX: Final = 0x01B21DD213814000
"""100 ns intervals between the start of the Gregorian calendar and 1970."""


def time_of(checkpoint_id: str) -> float:
    """When an id was made, in seconds since 1970; never, for an id of another make."""
    if len(checkpoint_id) == 36 and checkpoint_id[14] == "6":
        with suppress(ValueError):
            ticks = int(checkpoint_id[:8] + checkpoint_id[9:13] + checkpoint_id[15:18], 16)
            return (ticks - _TO_UNIX) / 10_000_000
    return inf


def check_place(place: Place) -> Place:
    """`place`, if every part of it can be stored."""
    check_name("thread_id", place.thread_id)
    check_name("checkpoint_ns", place.checkpoint_ns)
    if place.checkpoint_id is not None:
        check_name("checkpoint_id", place.checkpoint_id)
    return place


def _shown(name: Any) -> str:
    text = repr(name)
    return text if len(text) <= 60 else f"{text[:60]}…"
