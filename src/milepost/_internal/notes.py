"""Notes on exceptions that programs have raised."""

from __future__ import annotations

from contextlib import suppress


def add_note(error: BaseException, text: str) -> None:
    """Say where an exception comes from, if its class lets it: a frozen one takes no notes."""
    with suppress(Exception):
        error.add_note(text)
