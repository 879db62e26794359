"""What an operation is, and how it is carried out in either colour.

An operation is a generator. It yields an `Ask` for each call of the library and is sent what comes
back, or thrown what is raised, so that it is written once for threads and for the event loop:

    def look(context):
        thread_id = context.some_thread()
        with context.recorder.call("get_state", thread=thread_id) as call:
            state = yield Ask(context.graph, "get_state", context.config(thread_id))
            call.result = ...
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

from attack.history import Recorder


class Ask(NamedTuple):
    """A call of a method of the library: of `name` in a thread, of `aname` on a loop."""

    target: Any
    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    kind: str = "call"
    """`call`: the result; `listing`: all items of an iterator, as a list; `plain`: a method that
    has no async twin, and may wait; `leave`: like a listing, but left after `most` items; `slow`: like a listing,
    with a wait after each of the first `most` items; `cancel`: a call that is cancelled after
    `after` seconds where that can be done, on a loop."""
    most: int = 0
    after: float = 0.0
    """Seconds of a wait."""
    until: Callable[[], bool] | None = None
    """What is waited for instead, before a stream is left or read on, unless that takes long."""

    def waits(self) -> Iterator[float]:
        """The seconds to sleep, one sleep after the other."""
        if self.until is None:
            yield self.after
            return
        end = time.monotonic() + LONG
        while not self.until() and time.monotonic() < end:
            yield 0.001


LONG = 10.0
"""Seconds after which a wait is given up."""


def ask(target: Any, name: str, *arguments: Any, **options: Any) -> Ask:
    return Ask(target, name, arguments, options)


def listing(target: Any, name: str, *arguments: Any, **options: Any) -> Ask:
    return Ask(target, name, arguments, options, "listing")


def plain(target: Any, name: str, *arguments: Any, **options: Any) -> Ask:
    return Ask(target, name, arguments, options, "plain")


Steps = Generator[Ask, Any, Any]


class Operation(NamedTuple):
    """One thing that workers do."""

    name: str
    run: Callable[[Context], Steps]
    covers: tuple[str, ...]
    """`saver.prune`, `graph.update_state`, `store.put`: methods that it exercises. The async twin
    is covered by the same name."""
    weight: float = 1.0
    places: tuple[str, ...] = ()
    """Where it can be done; everywhere if empty."""


class Context:
    """What an operation has at hand. One for each thread or task of a worker."""

    def __init__(
        self,
        *,
        recorder: Recorder,
        random: random.Random,
        graph: Any,
        saver: Any,
        store: Any,
        threads: list[str],
        place: Any,
        is_async: bool,
        shared: dict[str, Any],
    ) -> None:
        self.recorder = recorder
        self.random = random
        self.graph = graph
        self.saver = saver
        self.store = store
        self.threads = threads
        """Ids of threads, few, so that operations meet."""
        self.place = place
        """A `places.Place`: opens more savers and stores on the same database."""
        self.is_async = is_async
        self.shared = shared
        """For whatever the operations of a worker want to remember; guarded by nothing."""

    def some_thread(self) -> str:
        """Mostly the first one: the more meet, the better."""
        return self.threads[0] if self.random.random() < 0.3 else self.random.choice(self.threads)

    def token(self) -> str:
        """A text that is nowhere else."""
        self._tokens = getattr(self, "_tokens", 0) + 1
        return f"{self.recorder.worker}-{self.recorder.thread}-{self._tokens}"


def drive(steps: Steps) -> Any:
    """Carry out an operation in this thread."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            asked = steps.throw(error) if error is not None else steps.send(answer)
        except StopIteration as done:
            return done.value
        answer, error = None, None
        try:
            answer = _answer(asked)
        except BaseException as raised:
            error = raised


def _answer(asked: Ask) -> Any:
    result = getattr(asked.target, asked.name)(*asked.arguments, **asked.options)
    if asked.kind == "listing":
        return list(result)
    if asked.kind == "slow":
        found = []
        for item in result:
            found.append(item)
            if len(found) <= asked.most:
                for seconds in asked.waits():
                    time.sleep(seconds)
        return found
    if asked.kind == "leave":
        found = []
        try:
            for item in result:
                found.append(item)
                if len(found) >= asked.most:
                    break
            for seconds in asked.waits():
                time.sleep(seconds)
        finally:
            result.close()
        return found
    return result


async def adrive(steps: Steps) -> Any:
    """Carry out an operation on the running loop."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            asked = steps.throw(error) if error is not None else steps.send(answer)
        except StopIteration as done:
            return done.value
        answer, error = None, None
        try:
            answer = await _aanswer(asked)
        except BaseException as raised:
            error = raised


async def _aanswer(asked: Ask) -> Any:
    if asked.kind == "plain":
        method = getattr(asked.target, asked.name)
        if asyncio.iscoroutinefunction(method):
            return await method(*asked.arguments, **asked.options)
        # Not on the loop: what it waits for may be a lock that a transaction of this loop holds.
        return await asyncio.to_thread(method, *asked.arguments, **asked.options)
    result = getattr(asked.target, f"a{asked.name}")(*asked.arguments, **asked.options)
    if asked.kind == "listing":
        return [item async for item in result]
    if asked.kind == "slow":
        found = []
        async for item in result:
            found.append(item)
            if len(found) <= asked.most:
                for seconds in asked.waits():
                    await asyncio.sleep(seconds)
        return found
    if asked.kind == "leave":
        found = []
        try:
            async for item in result:
                found.append(item)
                if len(found) >= asked.most:
                    break
            for seconds in asked.waits():
                await asyncio.sleep(seconds)
        finally:
            await result.aclose()
        return found
    if asked.kind == "cancel":
        return await _cancelled(result, asked.after)
    return await result


async def _cancelled(result: Any, after: float) -> Any:
    """The result if it comes in time. A call that is cancelled ends with CancelledError."""
    task = asyncio.ensure_future(result)
    done, _ = await asyncio.wait([task], timeout=after)
    if not done:
        task.cancel()
    return await task


def pause(seconds: float) -> Ask:
    """Wait a little, in either colour."""
    return Ask(_Pause, "sleep", (seconds,), {})


class _Pause:
    @staticmethod
    def sleep(seconds: float) -> None:
        time.sleep(seconds)

    @staticmethod
    async def asleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
