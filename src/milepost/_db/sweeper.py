"""Removes expired items of a store and expired threads of a saver, at intervals."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from milepost._internal import fork_guard, log

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


def log_ended(owner: str) -> None:
    """Log that a sweep has ended."""
    log.debug(log.STORAGE, "A sweep of %s has ended.", owner)


def log_stopped(owner: str, error: BaseException) -> None:
    """Log that a sweeper has ended because of an error."""
    stopped = "The sweeper of %s has stopped: a sweep failed with %s."
    log.warning(log.STORAGE, stopped, owner, error)


class Sweeper:
    """A thread that removes what has expired, at intervals, until it is stopped or fails."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        """What the log says is swept: the class of a saver or a store."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._done: Future[None] | None = None
        self._lock = fork_guard.fresh_in_child(threading.Lock())
        fork_guard.renewed_in_child(self)

    def renew(self) -> None:
        """In a forked child: forget the parent's thread. The child may start its own sweeper."""
        self._stop, self._thread, self._done = threading.Event(), None, None

    def start(self, seconds: float, sweep: Callable[[], object]) -> Future[None]:
        """Start the thread, unless it runs already. The future ends when the sweeper does."""
        from concurrent.futures import Future  # most programs have no sweeper

        if not seconds > 0:
            raise ValueError(f"The interval of a sweeper must be positive, not {seconds} seconds.")
        with self._lock:
            done, is_alive = self._done, self._thread is not None and self._thread.is_alive()
            # A thread that is about to end may still be alive for a moment.
            if done is not None and is_alive and not (done.done() or self._stop.is_set()):
                return done
            self._stop = threading.Event()
            self._done = Future()
            self._thread = threading.Thread(
                target=self._run,
                args=(self._owner, seconds, sweep, self._stop, self._done),
                name="milepost-ttl-sweeper",
                daemon=True,
            )
            self._thread.start()
            return self._done

    def stop(self, timeout: float | None = None) -> bool:
        """Stop the thread; return whether it has ended within `timeout` seconds."""
        with self._lock:
            thread = self._thread
            self._stop.set()
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    @staticmethod
    def _run(
        owner: str,
        seconds: float,
        sweep: Callable[[], object],
        stop: threading.Event,
        done: Future[None],
    ) -> None:
        try:
            while not stop.wait(seconds):
                sweep()
                log_ended(owner)
        except BaseException as error:
            log_stopped(owner, error)
            done.set_exception(error)
        else:
            done.set_result(None)
