"""What a check returns when something does not hold."""

from __future__ import annotations

from typing import NamedTuple

from attack.history import Event


class Violation(NamedTuple):
    """A promise that was broken."""

    promise: str
    """The sentence that does not hold."""
    what: str
    """What was seen instead, with names and ids."""
    events: tuple[Event, ...] = ()
    """The events that show it."""
