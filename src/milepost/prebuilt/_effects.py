"""Logic that is written once for sync and async: generators that yield what they want done.

`drive_sync` and `drive_async` carry it out and send the results in. An `EffectRunnable` is a
runnable of LangChain whose logic is such a generator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import StructuredTool, Tool

from milepost._engine.drivers.sync import wait_for
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
class CallFunction:
    """Call a function of the program, which is sync or async."""

    call: Callable[[], Any]


Effect: TypeAlias = Invoke | CallFunction
Effects: TypeAlias = Generator[Effect, Any, R]
"""Yields effects, is sent their results, and returns a result of its own."""


def drive_sync(program: Effects[R]) -> R:
    """Carry out effects in sync code."""
    return drive(program, _carry_out)


async def drive_async(program: Effects[R]) -> R:
    """Carry out effects on an event loop."""
    return await adrive(program, _acarry_out)


def _carry_out(effect: Effect) -> Any:
    if not isinstance(effect, Invoke):
        return effect.call()
    called = effect.runnable
    if _is_async_only(called):
        work = called.ainvoke(effect.input, effect.config)
        return wait_for(work, f"tool '{called.name}' is async")
    return called.invoke(effect.input, effect.config)


def _is_async_only(called: Runnable[Any, Any]) -> bool:
    """Whether it is a tool that sync code cannot call: LangChain's own `_run` needs a `func`."""
    return (
        isinstance(called, (StructuredTool, Tool))
        and called.func is None
        and type(called)._run in (StructuredTool._run, Tool._run)
    )


async def _acarry_out(effect: Effect) -> Any:
    if isinstance(effect, Invoke):
        return await effect.runnable.ainvoke(effect.input, effect.config)
    result = effect.call()
    return await result if inspect.isawaitable(result) else result


class EffectRunnable(Runnable[Any, Any]):
    """A runnable with chain events; its logic gets the input and the config of the chain."""

    def __init__(self, logic: Callable[[Any, RunnableConfig], Effects[Any]], name: str) -> None:
        self.name = name
        self._logic = logic

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the logic."""

        def run(input: Any, run_manager: Any, config: RunnableConfig) -> Any:  # noqa: ARG001
            return drive_sync(self._logic(input, config))

        return self._call_with_config(run, input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """`invoke`, on an event loop."""

        async def run(input: Any, run_manager: Any, config: RunnableConfig) -> Any:  # noqa: ARG001
            return await drive_async(self._logic(input, config))

        return await self._acall_with_config(run, input, config, **kwargs)
