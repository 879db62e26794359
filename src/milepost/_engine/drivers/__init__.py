"""Drivers: what carries out the effects of a run, in sync code or on an event loop.

asyncio, with all that it imports, takes longer to load than the rest of milepost. A program that
never leaves sync code should not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost._engine.drivers.aio import AsyncDriver
    from milepost._engine.streaming.events import EventStream


def async_driver(events: EventStream | None = None) -> AsyncDriver:
    """A driver for the running loop."""
    from milepost._engine.drivers.aio import AsyncDriver

    return AsyncDriver(events)
