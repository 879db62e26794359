"""A service: processes that take turns on many threads, with many of them in flight at once.

Each process has a saver of its own and begins with threads that the saver has not seen. The threads
are shared out among the processes. After each phase they move on to the next process, so that no
thread is in two processes at once and every process meets threads that others have changed.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

from bench.graphs import on_thread, spoken_turn, talk, text
from bench.libraries import Library
from bench.measure import UNTRACED

AsyncOpener = Callable[[Library, Any], AbstractAsyncContextManager[Any]]

PATIENCE = 900
"""Seconds after which processes that wait for each other give up."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a service has to do."""

    threads: int
    in_flight: int
    turns: int
    processes: int = 1
    rate: float | None = None
    """Turns a second that arrive, at random moments; None if a turn arrives when another ends."""
    fill: bool = True
    """Whether the threads are begun first, each with one turn."""
    seed: int = 22

    def shared(self) -> Load:
        """The part of one process, in one of as many phases as there are processes."""
        parts = self.processes
        return replace(
            self,
            in_flight=max(1, self.in_flight // parts),
            turns=max(1, self.turns // parts**2),
            rate=None if self.rate is None else self.rate / parts,
        )


@dataclass(slots=True)
class Served:
    """What was done, by one process or by all."""

    start: float = 0
    end: float = 0
    cpu: float = 0
    latencies: list[float] = field(default_factory=list)
    """Seconds from the arrival of each turn to its end."""

    @property
    def wall(self) -> float:
        """Seconds from the first arrival to the last end."""
        return self.end - self.start

    def percentile(self, percent: int) -> float:
        """The latency that so many of a hundred turns do not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def serve(root: str, opener: AsyncOpener, where: Any, load: Load) -> Served:
    """Start the processes, let them work, and put together what they say."""
    spawn = get_context("spawn")
    barrier = spawn.Barrier(load.processes)
    pipes, workers = [], []
    for number in range(load.processes):
        receiver, sender = spawn.Pipe(duplex=False)
        arguments = (root, opener, where, load, number, barrier, sender)
        workers.append(spawn.Process(target=_work, args=arguments))
        workers[-1].start()
        sender.close()
        pipes.append(receiver)
    try:
        said = [_said(pipe) for pipe in pipes]
    finally:
        for worker in workers:
            worker.join(10)
            worker.kill()
    if errors := [one for one in said if isinstance(one, str)]:
        # The others only say that they have waited for the one that failed.
        raise RuntimeError(next((e for e in errors if "BrokenBarrierError" not in e), errors[0]))
    found = [one for one in said if isinstance(one, Served)]
    latencies = [latency for one in found for latency in one.latencies]
    start, end = min(one.start for one in found), max(one.end for one in found)
    return Served(start, end, sum(one.cpu for one in found), latencies)


def _said(pipe: Any) -> Served | str:
    """What a process has done, or what went wrong there."""
    if not pipe.poll(PATIENCE):
        return "a process of the service does not end"
    try:
        found: Served | str = pipe.recv()
    except EOFError:
        return "a process of the service has ended without a word"
    return found


def _work(
    root: str, opener: AsyncOpener, where: Any, load: Load, number: int, barrier: Any, sender: Any
) -> None:
    os.environ.update(UNTRACED)
    warnings.simplefilter("ignore")
    try:
        sender.send(asyncio.run(_serve(Library(root, root), opener, where, load, number, barrier)))
    except BaseException:
        barrier.abort()
        sender.send(traceback.format_exc())


async def _serve(
    library: Library, opener: AsyncOpener, where: Any, load: Load, number: int, barrier: Any
) -> Served:
    """The part of one process."""
    for known in range(40):
        text(known)  # made once, and not while the clock runs
    part = load.shared()
    if load.fill:
        if number == 0:
            async with opener(library, where):
                pass  # The tables are made: LangGraph cannot do that in several processes at once.
        await asyncio.to_thread(barrier.wait, PATIENCE)
        async with opener(library, where) as saver:
            await _fill(talk(library, saver, is_async=True), _own(load, number), part.in_flight)
    async with opener(library, where) as saver:
        graph = talk(library, saver, is_async=True)
        await graph.ainvoke(spoken_turn(0), on_thread(f"warm {number}"), durability="sync")
        desk = _Desk(graph, part, random.Random(load.seed + number))
        for phase in range(load.processes):
            desk.free = _own(load, number + phase)
            await asyncio.to_thread(barrier.wait, PATIENCE)
            await desk.work()
        return desk.served


def _own(load: Load, number: int) -> list[str]:
    """The threads of a process."""
    return [str(thread) for thread in range(number % load.processes, load.threads, load.processes)]


async def _fill(graph: Any, threads: list[str], at_once: int) -> None:
    places = asyncio.Semaphore(at_once)

    async def begin(thread: str) -> None:
        async with places:
            await graph.ainvoke(spoken_turn(0), on_thread(thread), durability="exit")

    await asyncio.gather(*map(begin, threads))


class _Desk:
    """Takes turns as they arrive; a thread has one at a time."""

    def __init__(self, graph: Any, load: Load, chance: random.Random) -> None:
        self.graph = graph
        self.load = load
        self.chance = chance
        self.free: list[str] = []
        self.served = Served()

    async def work(self) -> None:
        """One phase."""
        cpu, start = time.process_time(), time.perf_counter()
        await (self._crowd() if self.load.rate is None else self._arrivals(self.load.rate))
        self.served.cpu += time.process_time() - cpu
        self.served.start = self.served.start or start
        self.served.end = time.perf_counter()

    async def _crowd(self) -> None:
        """As many at once as may be: a turn arrives when another ends."""
        left = iter(range(self.load.turns))

        async def one_after_the_other() -> None:
            for _ in left:
                await self._turn(time.perf_counter())

        await asyncio.gather(*(one_after_the_other() for _ in range(self.load.in_flight)))

    async def _arrivals(self, rate: float) -> None:
        """At random moments; those that find all places taken wait, and that counts."""
        places = asyncio.Semaphore(self.load.in_flight)
        due = time.perf_counter()

        async def arrive(at: float) -> None:
            async with places:
                await self._turn(at)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(self.load.turns):
                due += self.chance.expovariate(rate)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                tasks.create_task(arrive(due))

    async def _turn(self, arrived: float) -> None:
        at = self.chance.randrange(len(self.free))
        self.free[at], self.free[-1] = self.free[-1], self.free[at]
        thread = self.free.pop()
        given = spoken_turn(self.chance.randrange(16))
        await self.graph.ainvoke(given, on_thread(thread), durability="sync")
        self.free.append(thread)
        self.served.latencies.append(time.perf_counter() - arrived)


POOL = 16
"""Connections of each process to Postgres."""

POSTGRES: AsyncOpener = partial(Library.async_postgres, size=POOL)
SQLITE: AsyncOpener = Library.async_sqlite
