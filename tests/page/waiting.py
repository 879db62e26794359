"""Waiting for a page, which has its own time."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], object], seconds: float = 20) -> None:
    """Asks until it holds. The page's policy lets no test put a condition into the page."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not come to hold"
        time.sleep(0.02)
