"""Names as texts and nothing else, and texts that can be written."""

from __future__ import annotations

from typing import TypeVar, cast

T = TypeVar("T")


def plain(name: T) -> T:
    """A text of a class of its own, such as a member of an enum, as a `str`.

    Names are stored, and are parts of other names: the class would get there with them.
    """
    if type(name) is str or not isinstance(name, str):
        return name
    return cast("T", str.__str__(name))


def is_utf8(text: str) -> bool:
    """Whether a text can be encoded: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
