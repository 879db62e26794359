"""Versions of channels: a counter, a dot and random digits, as text that sorts as the counter does.

A counter has at least eight digits. A counter with more digits begins with a letter, which sorts
after every digit: `99999999`, `a100000000`, `b1000000000`. So each version sorts after all versions
with smaller counters, including LangGraph's, whose 32 digits begin with zeros.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any, Final

from milepost._internal.ids import getrandbits

DIGITS: Final = 8
_LETTERED: Final = 10**DIGITS
"""The first counter that begins with a letter."""
THEIR_DIGITS: Final = 32
"""Digits of a counter in LangGraph's savers."""

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
"""The first letter of a counter says how many digits beyond DIGITS the counter has."""


def counter_of(version: Any) -> int | None:
    """The counter at the beginning of a version; None if there is none."""
    digits = str(version).partition(".")[0]
    if digits[:1].isalpha() and len(digits) - 2 == DIGITS + _LETTERS.find(digits[0]):
        digits = digits[1:]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def counter_text(counter: int) -> str:
    """The text that a version with this counter begins with."""
    digits = f"{counter:0{DIGITS}}"
    more = len(digits) - DIGITS
    return f"{_LETTERS[more - 1]}{digits}" if more else digits


class TextVersions:
    """Gives a saver its versions. A class inherits it before `BaseCheckpointSaver`."""

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """A counter that orders versions, and random digits that keep branches apart."""
        count = 0 if current is None else counter_of(current)
        if count is None:
            raise ValueError(
                f"{current!r} is no version of this saver's, so there is none after it: a version "
                "begins with a number. Give the saver checkpoints with versions of its own."
            )
        digits = b2a_base64(getrandbits(48).to_bytes(6, "big"), newline=False).decode()
        # Nearly always without a letter, and without a call for that.
        if count + 1 < _LETTERED:
            return "%08d.%s" % (count + 1, digits)  # noqa: UP031 - faster
        return f"{counter_text(count + 1)}.{digits}"
