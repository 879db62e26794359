"""Ids and names that come from outside: anything but a query in disguise is stored literally."""

from __future__ import annotations

from typing import Any, Final

from milepost.checkpoint.records import Place
from milepost.sql.failures import InvalidIdError

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
