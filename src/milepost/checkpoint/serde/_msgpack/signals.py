"""Exceptions that never leave this package: the exact path turns them into typed errors."""

from __future__ import annotations


class NotExact(Exception):
    """The fast path would lose something; the exact path must write this value."""


class TooDeep(Exception):
    """Nested deeper than the stack is sure to bear."""


class Refused(Exception):
    """A writer cannot write this object so that it could be read back; says why, and what to do."""
