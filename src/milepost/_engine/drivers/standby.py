"""Stores tasks that end while the consumer of a stream handles an event.

A driver that has given an event to the consumer goes on when the consumer asks for the next one.
Until then the run does not hear of tasks that end. If the process dies meanwhile, these tasks must
not run again. Most consumers are back at once, and the run stores such a task itself, mostly in the
row of the next checkpoint. After some milliseconds the standby stores it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from milepost._internal import threads
from milepost._internal.generators import drive

if TYPE_CHECKING:
    from milepost._engine.drivers.effects import Effect, Keep
    from milepost._engine.superstep.plan import Task

PATIENCE: Final = 0.01
"""Seconds that the consumer has before a task that has ended is stored without the run."""
_POLL: Final = 0.0005
"""Seconds between two looks of a driver that is back while something is being stored."""


class Standby:
    """Of a sync driver. While the consumer has an event, the standby acts for the run."""

    def __init__(self, ended: Collection[Task], carry_out: Callable[[Effect[Any]], Any]) -> None:
        self.keep: Keep | None = None
        """Stores a task; None where the run does not store tasks while others run."""
        self.is_away = False
        """Whether the consumer has an event."""
        self._ended = ended
        """The tasks that have ended, and that the run has not received."""
        self._carry_out = carry_out
        self._context = copy_context()
        self._lock = threading.Lock()
        """Held by the thread of the standby that stores; the driver does not take it."""
        self._is_waiting = self._is_storing = False

    def leave(self) -> None:
        """The consumer gets an event."""
        self.is_away = True
        if self._ended:
            self.look()

    def come_back(self) -> None:
        """The consumer wants the next event: the driver goes on when nothing is being stored.

        Ctrl-C may come at any point in here, and the driver then calls it again. So there is no
        lock, which could be left taken: each side says first what it is about to do, and looks at
        what the other has said then.
        """
        self.is_away = False
        while self._is_storing:
            time.sleep(_POLL)

    def look(self) -> None:
        """A task has ended."""
        if self.is_away and self.keep is not None and not self._is_waiting:
            self._is_waiting = True
            with suppress(RuntimeError):  # no thread can be started: perhaps Python exits
                threads.submit(partial(self._context.copy().run, self._store_soon))

    def _store_soon(self) -> None:
        time.sleep(PATIENCE)
        tried: set[Task] = set()
        while True:
            self._is_waiting = False  # before looking: `leave` and `look` start another
            waiting = [task for task in tuple(self._ended) if task not in tried]
            if not waiting or not self._store(waiting[0]):
                return
            tried.add(waiting[0])

    def _store(self, task: Task) -> bool:
        """Store a task; False if the driver is back."""
        if not self._lock.acquire(blocking=False):
            return False  # another thread of the standby does
        try:
            self._is_storing = True
            if not self.is_away:
                return False
            assert self.keep is not None
            # The run stores what could not be stored here, and hears of the error then.
            with suppress(BaseException):
                drive(self.keep(task), self._carry_out)
            return True
        finally:
            self._is_storing = False
            self._lock.release()
