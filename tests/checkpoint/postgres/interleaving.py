"""Operations on PostgreSQL that stop between two statements, while another saver does something."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any

import psycopg

from graphs import PATIENCE, until

WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'"""


class Beside:
    """What another saver does meanwhile: it comes to its end, or waits for a lock."""

    def __init__(self, uri: str, act: Callable[[], Any]) -> None:
        self._uri = uri
        self._act = act
        self._thread: threading.Thread | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.waited = False

    def start(self) -> None:
        """Return when it is done, or stands before a lock that somebody else has."""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        with psycopg.connect(self._uri, autocommit=True) as connection:

            def is_at_rest() -> bool:
                [(count,)] = connection.execute(WAITING).fetchall()
                self.waited = self.waited or count > 0
                return count > 0 or not self._thread.is_alive()

            until(is_at_rest, "the other saver neither ends nor waits for a lock")

    def finish(self) -> None:
        """Let it come to its end."""
        assert self._thread is not None, "it was never started"
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it hangs"

    def _run(self) -> None:
        try:
            self.result = self._act()
        except BaseException as error:
            self.error = error


class Paused:
    """Calls `act` before one of the statements of the next operation that writes."""

    def __init__(self, saver: Any, at: int, act: Callable[[], Any]) -> None:
        self._saver = saver
        self._at = at
        self._act = act
        self.count = 0
        """Statements of that operation, its end included."""
        self.reached = False

    def __enter__(self) -> Paused:
        engine = self._saver.engine
        self._attempts = engine.attempts

        def attempts(work: Any, begin: Any, **options: Any) -> Any:
            if begin[0] != "BEGIN" or self.reached:
                return self._attempts(work, begin, **options)
            return self._attempts(lambda: self._stepped(work()), begin, **options)

        engine.attempts = attempts
        return self

    def __exit__(self, *exc: object) -> None:
        del self._saver.engine.attempts

    def _stepped(self, operation: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        answer = None
        for n in range(1_000):
            try:
                statement = operation.send(answer)
            except StopIteration as done:
                self._reach(n)
                return done.value
            self._reach(n)
            answer = yield statement
        raise AssertionError("an operation of a thousand statements")

    def _reach(self, n: int) -> None:
        self.count = max(self.count, n + 1)
        if n == self._at and not self.reached:
            self.reached = True
            self._act()
