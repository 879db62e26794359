"""The routes, by part of the API. A further part is a module with `routes`, named in `ALL`."""

from __future__ import annotations

from typing import Final

from milepost.server._routes import (
    assistants,
    inspector,
    overview,
    runs,
    state,
    store,
    system,
    threads,
)

ALL: Final = (
    system.routes,
    assistants.routes,
    threads.routes,
    state.routes,
    store.routes,
    overview.routes,
    inspector.routes,
    runs.routes,
)
"""In the order in which they are tried: a fixed path comes before one with a parameter."""
