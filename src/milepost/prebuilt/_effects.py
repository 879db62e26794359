"""Logic that is written once for sync and async: generators that yield what they want done.

`drive_sync` and `drive_async` carry it out and send the results in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig

from milepost._internal.dataclass_tools import record
from milepost._internal.generators import adrive, drive

R = TypeVar("R")


@record
class Invoke:
    """Call a model, a tool or another runnable of LangChain."""

    runnable: Runnable[Any, Any]
    input: Any
    config: RunnableConfig


@record
class Ask:
    """Call a function of the program, which is sync or async."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


Effect: TypeAlias = Invoke | Ask
Effects: TypeAlias = Generator[Effect, Any, R]
"""Yields effects, is sent their results, and returns a result of its own."""


def drive_sync(program: Effects[R]) -> R:
    """Carry out effects in sync code."""
    return drive(program, _carry_out)


async def drive_async(program: Effects[R]) -> R:
    """Carry out effects on an event loop."""
    return await adrive(program, _acarry_out)


def _carry_out(effect: Effect) -> Any:
    if isinstance(effect, Invoke):
        return effect.runnable.invoke(effect.input, effect.config)
    return effect.function(*effect.arguments)


async def _acarry_out(effect: Effect) -> Any:
    if isinstance(effect, Invoke):
        return await effect.runnable.ainvoke(effect.input, effect.config)
    result = effect.function(*effect.arguments)
    return await result if inspect.isawaitable(result) else result
