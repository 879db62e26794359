"""Steps that are stored while the run goes on, under `async` durability."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

QUEUE_LIMIT = 256
"""Steps that may wait for a slow saver before the run waits too; a large one counts as several.

Few of them would do for a program that waits for models. One that does not makes a hundred before
the interpreter lets the writer have its turn, and each time that it waits, it waits for a disk."""
LARGE_STEP = 250_000
"""Bytes for which a step counts as one more: so the bytes that wait are bounded as well."""


class WriteBehindQueue:
    """Prepared steps between the run that makes them and the worker that stores them.

    Knows nothing of threads or loops beyond a lock: a driver, sync or async, registers a callback
    for the moment when what they wait for has come true.
    """

    def __init__(self, load: Callable[[Any], int]) -> None:
        self._lock = threading.Lock()
        self._load = load
        """What a step counts for."""
        self._waiting: deque[Any] = deque()
        self._taken = 0
        self.unstored = 0
        """The load of steps that are not stored yet, those that the worker has taken included."""
        self._watchers: list[tuple[int, Callable[[], None]]] = []
        self._wake: Callable[[], None] | None = None
        self.closed = False
        self.abandoned = False
        """Whether the worker has gone before its time: its loop was ended."""
        self.loop: object = None
        """The event loop that stores them, if that is not a thread's work."""
        self.error: BaseException | None = None
        """Why the worker gave up; later steps are not stored after a failed one."""

    def add(self, steps: Sequence[Any]) -> bool:
        """Queue steps, and wake the worker; False if it has gone, and nothing was queued."""
        with self._lock:
            if self.abandoned:
                return False
            if self.error is None:
                self._waiting.extend(steps)
                self.unstored += sum(map(self._load, steps))
                self._wake_worker()
            return True

    def abandon(self) -> bool:
        """The worker has to go; False if there is something to store first."""
        with self._lock:
            self.abandoned = not self._waiting
            return self.abandoned

    def take(self, wake: Callable[[], None]) -> list[Any]:
        """Everything that waits; if nothing does, `wake` is called when that changes."""
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
        """Whether more than `limit` is not stored; if so, `tell` is called later."""
        with self._lock:
            if self.unstored <= limit:
                return False
            self._watchers.append((limit, tell))
            self._wake_worker()  # the caller that added steps may have been interrupted before
            return True

    def close(self) -> None:
        """Let the worker go, when it has stored what there is."""
        with self._lock:
            self.closed = True
            self._wake_worker()

    def _wake_worker(self) -> None:
        if self._wake is not None:
            self._wake()
            self._wake = None

    def raise_error(self) -> None:
        """Raise what made the worker give up, if it did."""
        if self.error is not None:
            raise self.error
