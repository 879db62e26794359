"""Group commit: the next writer stores all steps that wait at that moment in one transaction."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from milepost._db.engine import FAILURES_OF_THE_DATABASE
from milepost._db.operations import Operation, Work
from milepost._internal.dataclass_tools import record
from milepost._internal.generators import drive

Step = TypeVar("Step")
Stored = TypeVar("Stored", contravariant=True)

Outcome: TypeAlias = list[Exception | None]
"""For each step None, or why it was not stored."""

SLOW = 1.0
"""Seconds after which a transaction is logged as slow."""

MOST = 256
"""Steps in one transaction."""


class GroupStorer(Protocol[Stored]):
    """Stores steps, and hears how that ended."""

    def steps(self, steps: Sequence[Stored], /) -> Operation[Outcome]:
        """Store steps in one transaction."""
        ...

    def settle(self, steps: Sequence[Stored], outcome: Outcome, /) -> None:
        """Note which of the steps were stored."""
        ...

    def log_slow(self, steps: Sequence[Stored], seconds: float, /) -> None:
        """Log that a transaction took longer than `SLOW`."""
        ...


@record(frozen=False)
class Waiting(Generic[Step]):
    """Steps that one caller wants stored."""

    steps: Sequence[Step]
    outcome: Outcome | None = None


class Committer(Generic[Step]):
    """The queue in front of one database."""

    def __init__(self, storer: GroupStorer[Step]) -> None:
        self._storer = storer
        self._queue: deque[Waiting[Step]] = deque()
        self._turn = threading.Lock()

    def add(self, steps: Sequence[Step]) -> Waiting[Step]:
        waiting = Waiting(steps)
        self._queue.append(waiting)
        return waiting

    def commit(self, waiting: Waiting[Step], run: Callable[[Work[Outcome]], Outcome]) -> Outcome:
        """Return when the steps are stored, by this caller or by another one."""
        try:
            with self._turn:
                while (outcome := waiting.outcome) is None:  # again: more than MOST came first
                    drive(self.transactions(), run)
            return outcome
        except BaseException:
            with self._turn:
                self.withdraw(waiting)
            raise

    def withdraw(self, waiting: Waiting[Step]) -> None:
        """Take back the steps of an interrupted caller: nothing may be stored after its error."""
        if waiting.outcome is None:
            with suppress(ValueError):
                self._queue.remove(waiting)
            waiting.outcome = [RuntimeError("the commit was broken off")] * len(waiting.steps)
            self._storer.settle(waiting.steps, waiting.outcome)

    def transactions(self) -> Generator[Work[Outcome], Any, None]:
        """Store the steps that wait at this moment: yields the work of one transaction at a time,
        is sent its result, or thrown its error.

        Steps stay in the queue until their outcome is known. So if this generator is interrupted,
        the next caller that waits stores the same steps again, which is safe.
        """
        queue = self._queue
        while queue and queue[0].outcome is not None:
            queue.popleft()  # `withdraw` gave these steps their outcome
        taken: list[Waiting[Step]] = []
        steps: list[Step] = []
        for waiting in queue.copy():  # other threads add to the queue meanwhile
            taken.append(waiting)
            steps += waiting.steps
            if len(steps) >= MOST:
                break
        start = time.monotonic()
        try:
            outcome: Outcome = yield partial(self._storer.steps, steps)
        except FAILURES_OF_THE_DATABASE as error:
            outcome = [error] * len(steps)
        except Exception as error:
            if len(taken) == 1:
                outcome = [error] * len(steps)
            else:
                outcome = yield from self._one_by_one(taken)
        if (seconds := time.monotonic() - start) > SLOW:
            self._storer.log_slow(steps, seconds)
        self._storer.settle(steps, outcome)
        at = 0
        for waiting in taken:
            waiting.outcome = outcome[at : at + len(waiting.steps)]
            at += len(waiting.steps)
            queue.popleft()

    def _one_by_one(self, taken: Sequence[Waiting[Step]]) -> Generator[Work[Outcome], Any, Outcome]:
        """Store the steps of each caller alone, so that a bad step fails no other caller."""
        outcome: Outcome = []
        for waiting in taken:
            try:
                outcome += yield partial(self._storer.steps, waiting.steps)
            except Exception as error:
                outcome += [error] * len(waiting.steps)
        return outcome
