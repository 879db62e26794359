"""How far a long operation has come: what it calls, and what people see of it.

An operation calls `progress(done, total)` as its work proceeds. `shown` makes a function that
shows this on standard error: a bar on a terminal, or a line now and then in a log or a pipe.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final, TextIO, TypeAlias

Progress: TypeAlias = Callable[[int, int | None], object]
"""Called with what is done, and with the total, or None if the total is not known."""


def report(progress: Progress | None, done: int, total: int | None) -> None:
    """Call `progress`, if there is one."""
    if progress is not None:
        progress(done, total)


LINES_EVERY: Final = 5.0
"""Seconds between lines in a log."""
BARS_EVERY: Final = 0.1
"""Seconds between pictures of a bar."""
_WIDTH: Final = 30
_CLEAR: Final = "\r\x1b[K"


@contextmanager
def shown(
    label: str, unit: str = "", *, quiet: bool = False, stream: TextIO | None = None
) -> Iterator[Progress]:
    """Show the progress of an operation on standard error, as long as the block lasts.

    `label` says what is done, `unit` what is counted. `quiet` shows nothing.
    """
    if quiet:
        yield _unseen
        return
    out = stream or sys.stderr
    display = (Bar if out.isatty() else Lines)(out, label, unit)
    try:
        yield display.tell
    finally:
        display.close()


def _unseen(_done: int, _total: int | None) -> None:
    return None


def amount(done: int, total: int | None, unit: str) -> str:
    """How much is done, in words."""
    text = f"{done}" if total is None else f"{done} of {total}"
    return f"{text} {unit}" if unit else text


class Display:
    """Shows how far something has come."""

    def __init__(
        self, stream: TextIO, label: str, unit: str, clock: Callable[[], float] = monotonic
    ) -> None:
        self._stream, self._label, self._unit, self._clock = stream, label, unit, clock
        self._last = clock()

    def tell(self, done: int, total: int | None) -> None:
        """Show this, unless something was shown just now."""

    def close(self) -> None:
        """The operation has ended, or has failed."""


class Lines(Display):
    """A line now and then, and one at the end."""

    _pending: str | None = None

    def tell(self, done: int, total: int | None) -> None:
        """Print a line if the last one is some time ago."""
        self._pending = f"{self._label}: {amount(done, total, self._unit)}"
        if self._clock() - self._last >= LINES_EVERY:
            self.close()

    def close(self) -> None:
        """Print what was not printed so far."""
        if self._pending is not None:
            print(self._pending, file=self._stream, flush=True)
            self._pending, self._last = None, self._clock()


class Bar(Display):
    """A bar of plain characters, which is gone at the end."""

    _drawn = False

    def tell(self, done: int, total: int | None) -> None:
        """Draw the bar, unless it was drawn just now."""
        now = self._clock()
        if self._drawn and now - self._last < BARS_EVERY and done != total:
            return
        self._drawn, self._last = True, now
        bar = ""
        if total:
            filled = _WIDTH * min(done, total) // total
            bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] "
        self._draw(f"{self._label} {bar}{amount(done, total, self._unit)}")

    def _draw(self, text: str) -> None:
        print(f"{_CLEAR}{text[:78]}", end="", file=self._stream, flush=True)

    def close(self) -> None:
        """Leave an empty line for what comes."""
        if self._drawn:
            self._draw("")
