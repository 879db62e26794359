"""Steps that are stored while the run goes on, under `async` durability."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

QUEUE_LIMIT = 256
"""Steps that may wait for a slow saver before the run waits too; a large step counts as several.

A program that waits for models needs a short queue. A program that never waits makes a hundred
steps before the interpreter switches to the writer; a short queue would stop it for each commit."""
LARGE_STEP = 250_000
"""Bytes for which a step counts as one more: this bounds the queued bytes as well."""


class WriteBehindQueue:
    """Prepared steps between the run that makes them and the worker that stores them.

    The queue itself uses neither threads nor loops, only a lock. Drivers, sync or async, register
    callbacks for the changes that they wait for.
    """

    def __init__(self, load: Callable[[Any], int]) -> None:
        self._lock = threading.Lock()
        self._load = load
        """The load of one step."""
        self._waiting: deque[Any] = deque()
        self._taken = 0
        self.unstored = 0
        """The load of steps that are not stored yet, those that the worker has taken included."""
        self._watchers: list[tuple[int, Callable[[], None]]] = []
        self._wake: Callable[[], None] | None = None
        self.closed = False
        self.abandoned = False
        """Whether the worker has ended early, because its event loop is closing."""
        self.loop: object = None
        """The event loop whose task stores the steps; None if a thread stores them."""
        self.error: BaseException | None = None
        """Why the worker gave up; later steps are not stored after a failed one."""

    def add(self, steps: Sequence[Any]) -> bool:
        """Queue steps and wake the worker; False, with nothing queued, if the worker has ended."""
        with self._lock:
            if self.abandoned:
                return False
            if self.error is None:
                self._waiting.extend(steps)
                self.unstored += sum(map(self._load, steps))
                self._wake_worker()
            return True

    def abandon(self) -> bool:
        """Mark the worker as ended; False if there are steps to store first."""
        with self._lock:
            # A queue that has failed is kept: another one would store steps after the failed one.
            self.abandoned = not self._waiting and self.error is None
            return not self._waiting

    def take(self, wake: Callable[[], None]) -> list[Any]:
        """Take all waiting steps. If there are none, the next `add` or `close` calls `wake`."""
        with self._lock:
            steps = list(self._waiting)
            self._waiting.clear()
            self._taken = self.unstored
            self._wake = None if steps else wake
            return steps

    def stored(self, error: BaseException | None = None) -> None:
        """The worker has stored what it took, or failed."""
        with self._lock:
            self.unstored -= self._taken
            if error is not None:
                self.error = error
                self._waiting.clear()
                self.unstored = 0
            ready = [tell for limit, tell in self._watchers if self.unstored <= limit]
            self._watchers = [w for w in self._watchers if self.unstored > w[0]]
        for tell in ready:
            tell()

    def is_above(self, limit: int, tell: Callable[[], None]) -> bool:
        """Whether the unstored load is above `limit`; if so, `tell` is called when it is not."""
        with self._lock:
            if self.unstored <= limit:
                return False
            self._watchers.append((limit, tell))
            self._wake_worker()  # Ctrl-C may have stopped `add` before it woke the worker
            return True

    def close(self) -> None:
        """Let the worker end after it has stored all steps."""
        with self._lock:
            self.closed = True
            self._wake_worker()

    def _wake_worker(self) -> None:
        if self._wake is not None:
            self._wake()
            self._wake = None

    def raise_error(self) -> None:
        """Raise the error that made the worker give up, if it did."""
        if self.error is not None:
            raise self.error
