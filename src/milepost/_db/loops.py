"""Calls of sync code to connections that belong to an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from milepost.errors import ColourError

R = TypeVar("R")


class LoopBlockedError(ColourError, asyncio.InvalidStateError):
    """A sync method was called on the event loop. LangGraph raises `InvalidStateError` for this."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def from_outside(
    loop: asyncio.AbstractEventLoop | None,
    call: Callable[[], Coroutine[Any, Any, R]],
    *,
    owner: str,
    instead: str,
) -> R:
    """Run a coroutine on its event loop, called from a thread without a running loop."""
    if running_loop() is not None:
        raise LoopBlockedError(
            f"A sync method of {owner} would block the event loop that runs in this thread. Use "
            "the async method."
        )
    if loop is None or not loop.is_running():
        raise ColourError(
            f"The connections of {owner} belong to an event loop, and none is running. Use the "
            f"async methods, or {instead} in sync programs."
        )
    return asyncio.run_coroutine_threadsafe(call(), loop).result()


def on_another_loop(owner: str) -> ColourError:
    """The error for use on a second event loop while the first one runs."""
    return ColourError(
        f"This {owner} is in use on another event loop, and its connections cannot be shared "
        "between loops. Make one for each loop."
    )
