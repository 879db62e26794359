"""Readings: how they are taken, and what is said of several.

Machines are noisy, and noise drifts. So the contenders take turns, round after round, in an order
that rotates; a ratio is taken within each round, and the median of those is reported.
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

UNTRACED = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
"""For the environment of every process that measures: a trace would cost LangGraph its time."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one unit of work has cost in one round, in seconds."""

    wall: float
    cpu: float
    """Of all threads of this process; a database server's is not in it."""


@dataclass(slots=True)
class Watch:
    """Given to a contender's work, which says when it begins and ends."""

    readings: list[Reading] = field(default_factory=list)

    @contextmanager
    def over(self, units: int) -> Iterator[None]:
        """Measure a block that does so many units of work."""
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.readings.append(Reading(wall / units, cpu / units))


def mean(readings: Sequence[Reading]) -> Reading:
    """The average of several."""
    return Reading(statistics.fmean(walls(readings)), statistics.fmean(cpus(readings)))


Contender = Callable[[], Reading]
"""Does its work once, and says what that took."""


def alternate(contenders: Mapping[str, Contender], rounds: int) -> dict[str, list[Reading]]:
    """Let the contenders take turns; the readings of each, one a round."""
    taken: dict[str, list[Reading]] = {name: [] for name in contenders}
    for name in turns(list(contenders), rounds):
        taken[name].append(contenders[name]())
    return taken


def turns(all: Sequence[T], rounds: int) -> Iterator[T]:
    """Everybody once a round; who goes first rotates."""
    for number in range(rounds):
        start = number % len(all)
        yield from (*all[start:], *all[:start])


def in_process(
    *arguments: str, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """The two figures that a fresh interpreter prints. What it complains of is seen."""
    command = [sys.executable, *arguments]
    quiet = {**(os.environ if env is None else env), **UNTRACED}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=quiet)
    if done.returncode:
        raise RuntimeError(f"a process of its own ended with {done.returncode}")
    first, second = done.stdout.split()
    return float(first), float(second)


@dataclass(frozen=True, slots=True)
class Summary:
    """A figure over several rounds."""

    median: float
    low: float
    high: float
    rounds: tuple[float, ...]
    """What it was made of."""

    def scaled(self, factor: float) -> Summary:
        """The same in another unit."""
        return summary([figure * factor for figure in self.rounds])


def summary(figures: Sequence[float]) -> Summary:
    """The median, and the spread from the lowest to the highest."""
    return Summary(statistics.median(figures), min(figures), max(figures), tuple(figures))


def ratio(over: Sequence[float], under: Sequence[float]) -> Summary:
    """Round by round, how many times `under` goes into `over`."""
    pairs = zip(over, under, strict=True)
    return summary([a / b if b > 0 else float("inf") for a, b in pairs])


def walls(readings: Sequence[Reading]) -> list[float]:
    """The wall times of readings."""
    return [reading.wall for reading in readings]


def cpus(readings: Sequence[Reading]) -> list[float]:
    """The CPU times of readings."""
    return [reading.cpu for reading in readings]
