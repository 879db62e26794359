"""Events on the console, for debugging: `print_mode=` and `debug=True`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost._engine.streaming.events import Event, EventStream

if TYPE_CHECKING:
    from milepost.types import StreamMode

DEBUG_MODES: frozenset[StreamMode] = frozenset(("updates", "values"))
"""What `debug=True` prints."""


class PrintingStream(EventStream):
    """Prints the events of some modes as they come, and delivers those of others."""

    def __init__(
        self,
        delivered: frozenset[StreamMode],
        printed: frozenset[StreamMode],
        subgraphs: bool = False,
        *,
        eager: bool = False,
    ) -> None:
        super().__init__(delivered | printed, subgraphs, eager=eager)
        self._delivered = delivered
        self._printed = printed

    def deliver(self, event: Event) -> None:
        """Print an event, hand it to the consumer, or both."""
        if event.mode in self._printed:
            print(line_of(event))
        if event.mode in self._delivered:
            super().deliver(event)


def line_of(event: Event) -> str:
    """An event as it is printed: its mode, its inner graph if any, its payload."""
    parts = [bold(f"[{event.mode}]"), repr(event.payload)]
    if event.ns:
        parts.insert(1, f"\033[1;33m[graph={event.ns}]\033[0m")
    return " ".join(parts)


def bold(text: str) -> str:
    r"""Text that a terminal shows in bold.

    Args:
        text: What is shown.

    Examples:
        >>> from milepost.pregel.debug import get_bolded_text
        >>> get_bolded_text("step 1").endswith("\x1b[0m")
        True
    """
    return f"\033[1m{text}\033[0m"
