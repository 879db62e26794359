"""Code for sync and async clients of a database, written once as a generator of calls.

The methods of a sync and of an async client have the same names and parameters. The only difference
is that the result of an async client's call is awaited. An error or a cancellation is thrown into
the generator, so that its `finally` and `except` blocks can make calls too.

The connections of an async client belong to an event loop: sync code calls them from outside.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from operator import call
from typing import Any, TypeAlias, TypeVar

from milepost._internal.generators import adrive, drive
from milepost.errors import ColourError

R = TypeVar("R")


@dataclass(frozen=True)
class Pause:
    """Wait for some seconds. All other calls are methods of a client."""

    seconds: float

    def __call__(self) -> None:
        time.sleep(self.seconds)


Call: TypeAlias = Callable[[], Any]
Calls: TypeAlias = Generator[Call, Any, R]
"""A generator of calls, which is sent their results."""


def make_calls(calls: Calls[R]) -> R:
    """Make the calls of a sync client."""
    return drive(calls, call, thrown=BaseException)


async def amake_calls(calls: Calls[R]) -> R:
    """Make the calls of an async client."""
    return await adrive(calls, _amake, thrown=BaseException)


def _amake(asked: Call) -> Awaitable[Any]:
    answer = asyncio.sleep(asked.seconds) if isinstance(asked, Pause) else asked()
    return answer if isinstance(answer, Awaitable) else _known(answer)


async def _known(answer: Any) -> Any:
    return answer


def entering(manager: Any) -> Call:
    """The call that enters a context manager, async or sync."""
    begin: Call = getattr(manager, "__aenter__", None) or manager.__enter__
    return begin


def leaving(manager: Any) -> Callable[..., Any]:
    """The call that leaves a context manager; pass the error that ended the block, if any."""
    end = getattr(manager, "__aexit__", None) or manager.__exit__

    def leave(error: BaseException | None = None) -> Any:
        return (
            end(None, None, None) if error is None else end(type(error), error, error.__traceback__)
        )

    return leave


# -- calls of sync code to connections that belong to an event loop


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
