"""Versions of channels: a counter, a dot and random digits, as text that sorts as the counter does.

A counter has at least eight digits. A counter with more digits begins with a letter, which sorts
after every digit: `99999999`, `a100000000`, `b1000000000`. So each version sorts after all versions
with smaller counters, including LangGraph's, whose 32 digits begin with zeros.
"""

from __future__ import annotations

from typing import Any, Final

DIGITS: Final = 8
THEIR_DIGITS: Final = 32
"""Digits of a counter in LangGraph's savers, and in our saver in memory."""


_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def _more(letter: str) -> int:
    """How many digits beyond DIGITS a counter with this first letter has."""
    return _LETTERS.find(letter) + 1


def counter_of(version: Any) -> int | None:
    """The counter at the beginning of a version; None if there is none."""
    digits = str(version).partition(".")[0]
    if digits[:1].isalpha() and len(digits) - 1 == DIGITS + _more(digits[0]):
        digits = digits[1:]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def counter_in(version: Any) -> int:
    """The counter of a channel's current version; 0 for a channel without a version."""
    counter = 0 if version is None else counter_of(version)
    if counter is None:
        raise ValueError(
            f"{version!r} is no version of this saver's, so there is none after it: a version "
            "begins with a number. Give the saver checkpoints with versions of its own."
        )
    return counter


def counter_text(counter: int) -> str:
    """The text that a version with this counter begins with."""
    digits = f"{counter:0{DIGITS}}"
    more = len(digits) - DIGITS
    return f"{_LETTERS[more - 1]}{digits}" if more else digits


def is_short(version: Any) -> bool:
    """Whether a version is in our short form, which sorts after the form with 32 digits."""
    return version is not None and len(str(version).partition(".")[0]) < THEIR_DIGITS
