"""What sync and async clients of a database do alike, written once as a generator of calls.

The methods of a sync and of an async client have the same names and parameters: what a call returns
is awaited if the client is async, and that is the only difference. An error, a cancellation too, is
thrown into the generator, so that `finally` and `except` in it may make calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from operator import call
from typing import Any, TypeAlias, TypeVar

from milepost._internal.generators import adrive, drive

R = TypeVar("R")


@dataclass(frozen=True)
class Pause:
    """Wait a little: the one call that is not a client's."""

    seconds: float

    def __call__(self) -> None:
        time.sleep(self.seconds)


Call: TypeAlias = Callable[[], Any]
Steps: TypeAlias = Generator[Call, Any, R]


def make_calls(steps: Steps[R]) -> R:
    """Make the calls of a sync client."""
    return drive(steps, call, thrown=BaseException)


async def amake_calls(steps: Steps[R]) -> R:
    """Make the calls of an async client."""
    return await adrive(steps, _amake, thrown=BaseException)


def _amake(asked: Call) -> Awaitable[Any]:
    answer = asyncio.sleep(asked.seconds) if isinstance(asked, Pause) else asked()
    return answer if isinstance(answer, Awaitable) else _known(answer)


async def _known(answer: Any) -> Any:
    return answer


def entering(manager: Any) -> Call:
    """The call that begins a `with` or `async with`, whichever a manager is for."""
    begin: Call = getattr(manager, "__aenter__", None) or manager.__enter__
    return begin


def leaving(manager: Any) -> Callable[..., Any]:
    """The call that ends it; given an error, as an error ends it."""
    end = getattr(manager, "__aexit__", None) or manager.__exit__

    def leave(error: BaseException | None = None) -> Any:
        return (
            end(None, None, None) if error is None else end(type(error), error, error.__traceback__)
        )

    return leave
