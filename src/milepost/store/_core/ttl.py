"""Time: stamps that always grow, and items that expire."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from milepost._internal import fork_guard
from milepost.store._core.records import TTLConfig

Clock: TypeAlias = Callable[[], float]
"""Seconds since 1970."""

_SWEEP_MINUTES: Final = 5.0
_MINUTE: Final = 60_000_000


class Stamps:
    """Microseconds since 1970, each stamp larger than the one before.

    Stamps order items and are their versions. Two puts within a tick of the clock, or a clock that
    is set back, must not give two items the same one.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or time.time
        self._last = 0
        self._lock = fork_guard.fresh_in_child(threading.Lock())

    def now(self) -> int:
        return int(self._clock() * 1_000_000)

    def next(self, count: int = 1) -> int:
        """A stamp of its own: the first of `count`, which follow one another."""
        with self._lock:
            first = max(int(self._clock() * 1_000_000), self._last + 1)
            self._last = first + count - 1
        return first


def sweep_minutes(config: TTLConfig | None) -> float:
    """How often to sweep; ValueError if there is something wrong with the settings."""
    given: dict[str, Any] = dict(config or {})
    known = {"refresh_on_read", "default_ttl", "sweep_interval_minutes", "omit_expired"}
    if unknown := set(given) - known:
        raise ValueError(
            f"ttl has unknown settings: {sorted(unknown)}. There are refresh_on_read, "
            "default_ttl and sweep_interval_minutes."
        )
    to_micros(given.get("default_ttl"))
    return float(given.get("sweep_interval_minutes") or _SWEEP_MINUTES)


def to_micros(minutes: float | None) -> int | None:
    """A `ttl` in microseconds."""
    if minutes is None:
        return None
    if not isinstance(minutes, (int, float)) or isinstance(minutes, bool) or not minutes > 0:
        raise ValueError(f"ttl is a positive number of minutes, not {minutes!r}.")
    # More than a century is as good as for ever, and the sum must fit into a database's integer.
    return int(min(minutes, 60_000_000.0) * _MINUTE)
