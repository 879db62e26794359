"""Known bugs, put back into a worker, to show that the checks find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Plant(NamedTuple):
    """A bug that was repaired."""

    put_back: Callable[[], None]
    places: tuple[str, ...]
    """Where it can be met."""
    workload: str = "threads"


PLANTS: dict[str, Plant] = {}
