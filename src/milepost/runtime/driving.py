"""Where the faces of a graph get their drivers.

asyncio, with all that it imports, takes longer to load than the rest of milepost. A program that
never leaves sync code should not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.runtime.aio import AsyncDriver
    from milepost.runtime.stream import Feed


def async_driver(feed: Feed | None = None) -> AsyncDriver:
    """A driver for the running loop."""
    from milepost.runtime.aio import AsyncDriver

    return AsyncDriver(feed)
