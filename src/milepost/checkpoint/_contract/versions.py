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


class TextVersions:
    """Gives a saver its versions. A class inherits it before `BaseCheckpointSaver`."""

    _always_short = True
    """Whether all versions are in our short form. If not, only those after a short one are: the
    short form sorts after the form with 32 digits."""
    _last_version: tuple[str | None, int, bool] = (None, 0, False)
    """The version that was given last, its counter, and whether it is short."""

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """A counter that orders versions, and random digits that keep branches apart."""
        known, count, short = self._last_version
        if current is None or current is not known:  # mostly a run passes the version it got last
            count = counter_in(current)
            short = self._always_short or _is_short(current)
        count += 1
        if short:
            text = b2a_base64(getrandbits(48).to_bytes(6, "big"), newline=False).decode()
            version = f"{counter_text(count)}.{text}"
        else:
            version = "%032d.%016x" % (count, getrandbits(64))  # noqa: UP031 - half the time
        self._last_version = (version, count, short)
        return version


def _is_short(version: Any) -> bool:
    return version is not None and len(str(version).partition(".")[0]) < THEIR_DIGITS
