"""Opens a saver for a clause and runs the clause on it, in sync code or on an event loop.

A factory gives a saver, or something that leads to one: a coroutine, a sync or async context
manager, a generator that yields one. What is async is opened on an event loop in a thread of its
own, which runs until the end; so the sync methods of a saver that lives on a loop can be tested
from outside of it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any, Literal, TypeAlias

from milepost._internal.asyncio_tools import in_thread
from milepost._internal.generators import adrive, drive
from milepost._internal.threads import LoopThread
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.testing._kit.clauses import (
    CallMethod,
    ClauseFailed,
    Effect,
    KitEffects,
    Misplaced,
    Together,
)

Api: TypeAlias = Literal["sync", "async"]
"""The methods that a clause is run with: `put` or `aput`."""
Factory: TypeAlias = Callable[..., Any]

AT_ONCE = 10.0
"""Seconds after which a call that should answer at once is said to hang."""


class Runner:
    """A saver, open in one API."""

    def __init__(self, factory: Factory, api: Api) -> None:
        if inspect.isasyncgenfunction(factory):
            factory = asynccontextmanager(factory)
        elif inspect.isgeneratorfunction(factory):
            factory = contextmanager(factory)
        self._factory = factory
        self._api = api
        self._loop = LoopThread()
        self._opened = ExitStack()
        self._aopened = AsyncExitStack()
        self.saver: BaseCheckpointSaver[Any]

    def __enter__(self) -> Runner:
        try:
            self._open()
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._close()
        finally:
            self._loop.close()

    def perform(self, program: KitEffects[Any]) -> Any:
        """Run a program to its end, in this runner's API."""
        if self._api == "sync":
            return drive(program, self._carry_out)
        return self._loop.run(adrive(program, self._acarry_out))

    # -- opening and closing

    def _open(self) -> None:
        if self._api == "sync":
            made = self._factory()
            if inspect.isawaitable(made) or not hasattr(type(made), "__enter__"):
                made = self._loop.run(self._enter(made))
            else:
                made = self._opened.enter_context(made)
        else:
            made = self._loop.run(self._make())
        if not isinstance(made, BaseCheckpointSaver):
            raise TypeError(
                f"The factory must lead to a BaseCheckpointSaver, not to a {type(made).__name__}. "
                "It may return one, be async, or be a context manager that gives one."
            )
        self.saver = made

    async def _make(self) -> Any:
        return await self._enter(self._factory())

    async def _enter(self, made: Any) -> Any:
        if inspect.isawaitable(made):
            made = await made
        if hasattr(type(made), "__aenter__"):
            return await self._aopened.enter_async_context(made)
        if hasattr(type(made), "__enter__"):
            return self._aopened.enter_context(made)
        return made

    def _close(self) -> None:
        try:
            self._opened.close()
        finally:
            self._loop.run(self._aopened.aclose())

    def _reopen(self) -> BaseCheckpointSaver[Any]:
        self._close()
        self._open()
        return self.saver

    # -- effects

    def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, CallMethod):
            return call_sync(effect)
        if isinstance(effect, Together):
            ended = [in_own_thread(drive, program, self._carry_out) for program in effect.programs]
            return [each.result() for each in ended]
        if isinstance(effect, Misplaced):

            async def on_the_loop() -> Any:
                return call_sync(effect.call)

            return answer(in_own_thread(self._loop.run, on_the_loop()), AT_ONCE)
        return self._reopen()

    async def _acarry_out(self, effect: Effect) -> Any:
        if isinstance(effect, CallMethod):
            return await call_async(effect)
        if isinstance(effect, Together):
            return await asyncio.gather(
                *(adrive(program, self._acarry_out) for program in effect.programs)
            )
        if isinstance(effect, Misplaced):
            elsewhere = in_own_thread(asyncio.run, call_async(effect.call))
            return await in_thread(answer, elsewhere, AT_ONCE)
        return await in_thread(self._reopen)


def call_sync(effect: CallMethod) -> Any:
    """Call a method in sync code."""
    result = getattr(effect.target, effect.method)(*effect.arguments, **effect.keywords)
    return list(result) if isinstance(result, Iterator) else result


async def call_async(effect: CallMethod) -> Any:
    """Call a method on the running loop."""
    result = getattr(effect.target, f"a{effect.method}")(*effect.arguments, **effect.keywords)
    if hasattr(result, "__aiter__"):
        return [item async for item in result]
    return await result


def in_own_thread(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Call a function in a thread of its own, which does not keep the process alive."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="milepost-testing", daemon=True).start()
    return future


def answer(future: Future[Any], seconds: float) -> Any:
    """What the function returned or raised; fails if it takes longer than that."""
    if not wait([future], seconds).done:
        raise ClauseFailed(f"The saver did not answer within {seconds:g} seconds.")
    return future.result()
